//! Ensemble Nyström: the mean of e small Nyström approximations K̂_j, K̂ = (1/e) Σ_j K̂_j.
//!
//! Reference: Kumar, Mohri, Talwalkar, "Sampling methods for the Nyström method", JMLR 13, 2012,
//! with equal weights.

use super::family::{LandmarkMapArgs, MapConstructorPair, MapFamily, MapRequest, MapResult, MapShape};
use super::{Expansion, FeatureMap, NystromMap, nystrom};
use crate::kernel::{NumericParameter, ParameterRange};
use crate::{Error, Real, Result, landmark_set::LandmarkSet};
use faer::{Mat, MatMut, MatRef, prelude::*};
use kpass::{Footprint, Workers};

pub(super) const FAMILY: MapFamily = MapFamily {
    name: "ensemble",
    summary: "the mean of several Nyström approximations, each on a subset of the landmarks",
    parameters: &[NumericParameter::number(
        "parts",
        4.0,
        ParameterRange::Integer { min: 1, max: 1000 },
        "the landmarks are divided among this many maps",
    )],
    is_nested: false,
    supports_sparse: true,
    build_passes: 0,
    shape: |spec, request| {
        let part_count = (spec.value("parts") as usize).clamp(1, request.rank);
        let part_shape =
            (nystrom::FAMILY.shape)(spec, MapRequest { rank: request.rank.div_ceil(part_count), ..request });
        let (fixed, build_bytes) = (part_count * part_shape.footprint.fixed, part_count * part_shape.build_bytes);
        MapShape {
            p: request.rank,
            landmark_count: Some(request.rank),
            footprint: Footprint { fixed, per_row: 0 },
            build_bytes,
        }
    },
    constructor: MapConstructorPair::from_landmarks(build, build),
};

/// Assigns landmark i to part i mod e, so that every part has landmarks from the start and from the
/// end of the selection.
pub(super) fn build<T: Real>(args: LandmarkMapArgs<'_, T>) -> MapResult<T> {
    let LandmarkMapArgs { spec, kernel, landmarks, workers, .. } = args;
    let part_count = (spec.value("parts") as usize).clamp(1, landmarks.len().max(1));
    let build_part = |first: usize| {
        let positions: Vec<usize> = (first..landmarks.len()).step_by(part_count).collect();
        NystromMap::new(kernel, landmarks.subset(&positions), workers)
    };
    Ok(Box::new(Ensemble::new((0..part_count).map(build_part).collect::<Result<_>>()?)?))
}

/// The features of e maps in consecutive columns, all divided by √e, so that phi(x)·phi(z) is the
/// mean of the kernels of the maps.
///
/// K̂ ≼ K holds for each part and therefore for the mean, so the certificate holds. The cost is the
/// sum of the costs of the parts. With p landmarks in total, a part has p/e landmarks, and its
/// triangular solve is e² times cheaper than the solve of a single map with p landmarks.
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
        let Some(first_part) = parts.first() else {
            return Err(Error::NoLandmarks { why: "an ensemble needs at least one map".to_string() });
        };
        let d = first_part.dims().0;
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
        let scale = T::from_f64((self.parts.len() as f64).sqrt().recip());
        let mut first_feature = 0;
        for part in &self.parts {
            let mut part_features = out.rb_mut().subcols_mut(first_feature, part.rank());
            part.apply(x, part_features.rb_mut(), workers);
            part_features *= faer::Scale(scale);
            first_feature += part.rank();
        }
    }

    fn raise_precision(&mut self) -> bool {
        self.parts.iter_mut().fold(false, |is_raised, part| part.raise_precision() | is_raised)
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.parts.first()?.kernel_diag(x, out)
    }

    /// Returns the dual coefficients on the landmarks of all parts. For part j with the factor L_j
    /// and the weights w_j, they are L_j⁻ᵀ w_j / √e.
    fn expand(&self, weights: MatRef<'_, f64>, workers: &Workers) -> Expansion<T> {
        let (scale, t) = ((self.parts.len() as f64).sqrt().recip(), weights.ncols());
        let (d, p) = FeatureMap::<T>::dims(self);
        let mut landmarks = LandmarkSet { points: Vec::new(), row_numbers: Vec::new(), d, passes: 0, evaluations: 0 };
        let (mut coefficients, mut needs_f64, mut first_feature) = (Mat::zeros(p, t), false, 0);
        for part in &self.parts {
            let dual_coefficients = part.dual_coefficients(weights.subrows(first_feature, part.rank()));
            coefficients
                .as_mut()
                .subrows_mut(first_feature, part.rank())
                .copy_from(&dual_coefficients * faer::Scale(scale));
            needs_f64 |= part.needs_f64(part.rank(), workers);
            landmarks = landmarks.concat(part.landmarks().clone());
            first_feature += part.rank();
        }
        Expansion::Landmarks { landmarks, dual_coefficients: coefficients, needs_f64 }
    }

    fn footprint(&self) -> Footprint {
        self.parts.iter().fold(Footprint::default(), |sum, part| sum + part.footprint())
    }
}
