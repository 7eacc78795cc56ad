//! The map that stands where a solver needs none.

use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// The map of a solver that combines kernel functions itself.
#[derive(Debug)]
pub(super) struct NoFeatures {
    /// Number of features of a row.
    pub(super) d: usize,
}

impl<T: Real> FeatureMap<T> for NoFeatures {
    fn dims(&self) -> (usize, usize) {
        (self.d, 0)
    }
    fn apply(&self, _: MatRef<'_, T>, _: MatMut<'_, T>, _: &Workers) {}
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
