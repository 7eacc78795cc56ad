//! Ensemble Nyström: the mean of several small approximations, K̂ = (1/e) Σ K̂_j.
//!
//! Reference: Kumar, Mohri, Talwalkar, "Sampling methods for the Nyström method", JMLR 13, 2012,
//! with equal weights.

use super::family::{Built, MakingPair, MapFamily, MapRequest, MapShape, OnLandmarks};
use super::{Expansion, FeatureMap, NystromMap, nystrom};
use crate::kernel::{KernelParameter, Range};
use crate::{Error, Real, Result, rows::LandmarkSet};
use faer::{Mat, MatMut, MatRef, prelude::*};
use kpass::{Footprint, Workers};

pub(super) const FAMILY: MapFamily = MapFamily {
    name: "ensemble",
    about: "the mean of several Nyström approximations, each on a subset of the landmarks",
    parameters: &[KernelParameter::number(
        "parts",
        4.0,
        Range::Whole { from: 1, to: 1000 },
        "the landmarks are divided among this many maps",
    )],
    nested: false,
    sparse: true,
    passes: 0,
    shape: |spec, ask| {
        let parts = (spec.value("parts") as usize).clamp(1, ask.rank);
        let part = (nystrom::FAMILY.shape)(spec, MapRequest { rank: ask.rank.div_ceil(parts), ..ask });
        let (fixed, making) = (parts * part.footprint.fixed, parts * part.making);
        MapShape { p: ask.rank, landmarks: Some(ask.rank), footprint: Footprint { fixed, per_row: 0 }, making }
    },
    making: MakingPair::on_landmarks(build, build),
};

/// Deals landmark i to part i mod e, so that every part gets early and late landmarks.
pub(super) fn build<T: Real>(given: OnLandmarks<'_, T>) -> Built<T> {
    let OnLandmarks { spec, kernel, landmarks, workers, .. } = given;
    let count = (spec.value("parts") as usize).clamp(1, landmarks.len().max(1));
    let part = |first: usize| {
        let dealt: Vec<usize> = (first..landmarks.len()).step_by(count).collect();
        NystromMap::new(kernel, landmarks.keep(&dealt), workers)
    };
    Ok(Box::new(Ensemble::new((0..count).map(part).collect::<Result<_>>()?)?))
}

/// The features of e maps in consecutive columns, each divided by √e: phi(x)·phi(z) is the mean of
/// their kernels.
///
/// K̂ ≼ K, as for each part, so the certificate holds. The cost is the sum of the costs of the
/// parts; a part with p/e landmarks has a triangular solve that is e² times cheaper.
#[derive(Debug)]
pub struct Ensemble<T: Real> {
    parts: Vec<NystromMap<T>>,
}

impl<T: Real> Ensemble<T> {
    /// Returns the map whose kernel is the mean of the kernels of `parts`.
    ///
    /// # Errors
    /// [`Error::NoLandmarks`] if `parts` is empty.
    ///
    /// # Panics
    /// If the maps have different numbers of inputs.
    pub fn new(parts: Vec<NystromMap<T>>) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::NoLandmarks { why: "an ensemble needs at least one map".to_string() });
        };
        let d = first.dims().0;
        assert!(
            parts.iter().all(|part| part.dims().0 == d),
            "the maps of an ensemble must have the same number of inputs"
        );
        Ok(Self { parts })
    }
}

impl<T: Real> FeatureMap<T> for Ensemble<T> {
    fn dims(&self) -> (usize, usize) {
        let p = self.parts.iter().map(NystromMap::rank).sum();
        (self.parts.first().map_or(0, |part| part.dims().0), p)
    }

    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, workers: &Workers) {
        let share = T::from_f64((self.parts.len() as f64).sqrt().recip());
        let mut first = 0;
        for part in &self.parts {
            let mut own = out.rb_mut().subcols_mut(first, part.rank());
            part.apply(x, own.rb_mut(), workers);
            own *= faer::Scale(share);
            first += part.rank();
        }
    }

    fn widen(&mut self) -> bool {
        self.parts.iter_mut().fold(false, |any, part| part.widen() | any)
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.parts.first()?.kernel_diag(x, out)
    }

    /// Returns the dual coefficients α = L_j⁻ᵀ w_j / √e of each part, on the landmarks of all
    /// parts.
    fn expand(&self, weights: MatRef<'_, f64>, workers: &Workers) -> Expansion<T> {
        let (share, t) = ((self.parts.len() as f64).sqrt().recip(), weights.ncols());
        let (d, p) = FeatureMap::<T>::dims(self);
        let mut landmarks = LandmarkSet { points: Vec::new(), rows: Vec::new(), d, passes: 0, evaluations: 0 };
        let (mut coefficients, mut wide, mut first) = (Mat::zeros(p, t), false, 0);
        for part in &self.parts {
            let dual = part.dual(weights.subrows(first, part.rank()));
            coefficients.as_mut().subrows_mut(first, part.rank()).copy_from(&dual * faer::Scale(share));
            wide |= part.needs_wide(part.rank(), workers);
            landmarks = landmarks.followed_by(part.landmarks().clone());
            first += part.rank();
        }
        Expansion::Landmarks { landmarks, coefficients, wide }
    }

    fn footprint(&self) -> Footprint {
        self.parts.iter().fold(Footprint::default(), |sum, part| sum + part.footprint())
    }
}
