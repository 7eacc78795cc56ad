//! The rank that a tolerance asks for: the smallest whose features leave at most that share of the trace on all rows.

use super::landmarks::Mapped;
use super::options::{Resources, TrainOptions};
use super::plan::PassShape;
use crate::certificate::CertificateState;
use crate::{Error, Result};
use faer::prelude::*;
use faer::{Mat, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Fold, RowBlock, RowSource, Workers};

/// Landmarks are chosen until they leave this share of the tolerance of the candidates' trace: candidates are a sample, and all rows
/// may leave a little more.
pub(super) const AIM: f64 = 0.9;

/// Cuts the map down to the smallest rank within the tolerance, where there is one, in one pass over all rows; warns where no rank
/// of the map is.
///
/// *Flops*: those of the map. *Bytes*: a tile of features.
pub(super) fn cut<T: Real>(
    mapped: &mut Mapped<T>,
    source: &dyn RowSource<T>,
    options: &TrainOptions,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<()> {
    let Some(tolerance) = options.tolerance else { return Ok(()) };
    let (range, name) = (source.range(), "rank within the tolerance");
    let observer = resources.stages.stage(name, Some(range.end - range.start));
    let fold = Residuals { map: &*mapped.map, tile: cut.tile };
    let (state, _) = cut.pass(1, resources, &*observer).resume(name, source, &fold)?;
    drop(observer);
    mapped.passes += 1;
    let there = mapped.map.dims().1;
    match state.rank_within(tolerance) {
        Some(rank) if rank < there => {
            mapped.map.truncate(rank);
        }
        Some(_) => {}
        None => {
            let error = state.certificate(there).trace_error;
            let remedy = match there < options.rank {
                true => "raise `candidates`, or take `precision` f64",
                false => "raise `rank`",
            };
            resources.stages.warn(format!(
                "the tolerance was not reached: the relative trace error at rank {there} is {error:.3e}; {remedy}"
            ));
        }
    }
    Ok(())
}

/// The fold that finds the certificate of every rank.
pub(crate) struct Residuals<'a, T: Real> {
    pub(crate) map: &'a dyn FeatureMap<T>,
    pub(crate) tile: usize,
}

impl<T: Real> Residuals<'_, T> {
    /// False for a map that is no projection, which has no certificate.
    pub(crate) fn exist(&self) -> bool {
        self.map.is_projection()
    }
}

pub(crate) struct Scratch<T: Real> {
    phi: Mat<T>,
    diag: Vec<f64>,
    partial: Vec<f64>,
}

impl<T: Real> Fold<T> for Residuals<'_, T> {
    type State = CertificateState;
    type Scratch = Scratch<T>;
    type Error = Error;

    fn init(&self) -> CertificateState {
        CertificateState::new(self.map.dims().1)
    }

    fn scratch(&self) -> Scratch<T> {
        Scratch { phi: Mat::zeros(self.tile, self.map.dims().1), diag: Vec::new(), partial: Vec::new() }
    }

    fn step(
        &self,
        state: &mut CertificateState,
        Scratch { phi, diag, partial }: &mut Scratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let b = block.len();
        let x = MatRef::from_row_major_slice(block.x, b, block.d);
        let mut phi = phi.as_mut().subrows_mut(0, b);
        self.map.apply(x, phi.rb_mut(), workers);
        diag.resize(b, 0.0);
        if self.map.kernel_diag(x, diag).is_some() {
            state.update(phi.as_ref(), diag, partial, workers);
        }
        Ok(())
    }
}
