//! Functions learned on features, in the form in which they are evaluated.

use crate::landmark::LandmarkSet;
use faer::Mat;

/// t functions wᵀphi(x), in the form that costs least to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion<T> {
    /// f(x) = Σ_j α_j k(x, z_j): features in the span of landmarks need the kernel values, and no factor.
    Landmarks {
        /// The landmarks z, m x d.
        landmarks: LandmarkSet<T>,
        /// α, m x t.
        coefficients: Mat<f64>,
        /// True where kernel values in `T` are too coarse for coefficients that cancel.
        wide: bool,
    },
    /// f(x) = wᵀphi(x): features that look at no rows and can be made again from the map's options.
    Features {
        /// w, r x t.
        coefficients: Mat<f64>,
    },
}

impl<T> Expansion<T> {
    /// True where predictions need kernel values in f64.
    pub fn is_wide(&self) -> bool {
        matches!(self, Self::Landmarks { wide: true, .. })
    }
}
