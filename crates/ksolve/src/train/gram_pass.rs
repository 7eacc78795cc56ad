//! The pass that fills the Gram matrices of all folds and certifies every rank.

use super::bins::{Bins, Mapped, Targets};
use crate::certificate::CertificateState;
use crate::folds::Folds;
use crate::gram::{GramScratch, GramState};
use crate::{Error, Result};
use kapprox::{FeatureMap, Real};
use kstore::{Fold, Merge, RowBlock, Workers};

/// The fold of ridge regression: rows to Gram matrices and residual sums.
///
/// A row costs p² flops for its features, p² for the Gram matrix (the lower triangle), and 5p for the certificate.
#[derive(Debug)]
pub(super) struct GramFold<'a, T: Real> {
    pub(super) map: &'a dyn FeatureMap<T>,
    pub(super) folds: &'a Folds,
    pub(super) targets: Targets<'a>,
    /// Rows mapped at once.
    pub(super) bin: usize,
}

/// What the pass knows about the rows so far.
#[derive(Debug)]
pub(super) struct GramSums {
    pub(super) gram: GramState,
    /// `None` for maps that are no projection.
    pub(super) certificate: Option<CertificateState>,
}

impl Merge for GramSums {
    fn merge(&mut self, later: &Self) {
        self.gram.merge(&later.gram);
        if let (Some(mine), Some(theirs)) = (&mut self.certificate, &later.certificate) {
            mine.merge(theirs);
        }
    }
}

/// Buffers of a lane.
#[derive(Debug)]
pub(super) struct GramPassScratch<T: Real> {
    bins: Bins<T>,
    rest: Rest<T>,
}

#[derive(Debug)]
struct Rest<T> {
    gram: GramScratch<T>,
    diag: Vec<f64>,
    partial: Vec<f64>,
}

impl<T: Real> GramFold<'_, T> {
    fn take(&self, state: &mut GramSums, rest: &mut Rest<T>, rows: &Mapped<'_, T>, workers: &Workers) -> Result<()> {
        state.gram.update(rows.fold, rows.phi, rows.y, &mut rest.gram, workers)?;
        rest.diag.resize(rows.x.nrows(), 0.0);
        match (&mut state.certificate, self.map.kernel_diag(rows.x, &mut rest.diag)) {
            (Some(certificate), Some(())) => {
                certificate.update(rows.phi, &rest.diag, &mut rest.partial, workers);
            }
            (certificate, _) => *certificate = None,
        }
        Ok(())
    }
}

impl<T: Real> Fold<T> for GramFold<'_, T> {
    type State = GramSums;
    type Scratch = GramPassScratch<T>;
    type Error = Error;

    fn init(&self) -> GramSums {
        let p = self.map.dims().1;
        let gram = GramState::new(p, self.targets.count(), self.folds.count());
        GramSums { gram, certificate: Some(CertificateState::new(p)) }
    }

    fn scratch(&self) -> GramPassScratch<T> {
        GramPassScratch {
            bins: Bins::new(self.folds.count(), self.bin, self.map, self.targets.count()),
            rest: Rest { gram: GramScratch::default(), diag: Vec::new(), partial: Vec::new() },
        }
    }

    fn step(
        &self,
        state: &mut GramSums,
        scratch: &mut GramPassScratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let GramPassScratch { bins, rest } = scratch;
        bins.push(block, self.folds, self.targets, self.map, workers, &mut |rows| {
            self.take(state, rest, &rows, workers)
        })
    }

    fn flush(&self, state: &mut GramSums, scratch: &mut GramPassScratch<T>, workers: &Workers) -> Result<()> {
        let GramPassScratch { bins, rest } = scratch;
        bins.flush(self.map, workers, &mut |rows| self.take(state, rest, &rows, workers))
    }
}
