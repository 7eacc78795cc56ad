//! The kernel functions of some points, as they are: `phi_j(x) = k(x, z_j)`.

use super::FeatureMap;
use super::nystrom::strips;
use crate::Real;
use crate::kernel::{AnyKernel, Kernel};
use crate::landmark::LandmarkSet;
use faer::{MatMut, MatRef};
use kstore::{Footprint, Workers};
use std::sync::Arc;

/// Columns of the kernel matrix: what a function Σ_j α_j k(x, z_j) is evaluated on.
///
/// phi(x)·phi(x') is no approximation of the kernel; learning goes through [`super::Nystrom`], which orthogonalises these
/// columns. Costs 2nmd flops for n rows.
#[derive(Debug)]
pub struct Columns<T: Real> {
    kernel: Arc<dyn Kernel<T>>,
    landmarks: LandmarkSet<T>,
}

impl<T: Real> Columns<T> {
    /// The kernel functions of `landmarks`.
    pub fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>) -> Self {
        Self { kernel: T::kernel(kernel.clone()), landmarks }
    }
}

impl<T: Real> FeatureMap<T> for Columns<T> {
    fn dims(&self) -> (usize, usize) {
        (self.landmarks.d, self.landmarks.len())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let z = self.landmarks.as_mat();
        workers.each(strips(x, out), |(x, out)| self.kernel.block(x, z, out));
    }

    fn kernel_diag(&self, _: MatRef<'_, T>, _: &mut [f64]) -> Option<()> {
        None
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: self.landmarks.points.len() * size_of::<T>(), per_row: 0 }
    }
}
