//! Several maps of the same rows side by side.

use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// The features of the first map, followed by those of the others. They are of no single kernel, so there is no
/// certificate.
#[derive(Debug)]
pub(super) struct Joint<T: Real>(pub(super) Vec<Box<dyn FeatureMap<T>>>);

impl<T: Real> FeatureMap<T> for Joint<T> {
    fn dims(&self) -> (usize, usize) {
        let d = self.0.first().map_or(0, |map| map.dims().0);
        (d, self.0.iter().map(|map| map.dims().1).sum())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let mut rest = out;
        for map in &self.0 {
            let (own, others) = rest.split_at_col_mut(map.dims().1);
            map.apply(x, own, workers);
            rest = others;
        }
    }

    fn kernel_diag(&self, _: MatRef<'_, T>, _: &mut [f64]) -> Option<()> {
        None
    }

    fn footprint(&self) -> Footprint {
        self.0.iter().fold(Footprint::default(), |sum, map| sum + map.footprint())
    }
}
