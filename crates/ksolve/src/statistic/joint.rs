//! Two maps of the same rows side by side.

use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// The features of the first map, followed by those of the second. They are of no single kernel, so there is no
/// certificate.
#[derive(Debug)]
pub(super) struct Joint<T: Real> {
    pub(super) first: Box<dyn FeatureMap<T>>,
    pub(super) second: Box<dyn FeatureMap<T>>,
}

impl<T: Real> FeatureMap<T> for Joint<T> {
    fn dims(&self) -> (usize, usize) {
        let (first, second) = (self.first.dims(), self.second.dims());
        (first.0, first.1 + second.1)
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let (first, second) = out.split_at_col_mut(self.first.dims().1);
        self.first.apply(x, first, workers);
        self.second.apply(x, second, workers);
    }

    fn kernel_diag(&self, _: MatRef<'_, T>, _: &mut [f64]) -> Option<()> {
        None
    }

    fn footprint(&self) -> Footprint {
        self.first.footprint() + self.second.footprint()
    }
}
