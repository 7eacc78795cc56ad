//! The map whose features are the kernel sections of some points: `phi_j(x) = k(x, z_j)`.

use super::FeatureMap;
use super::nystrom::strips;
use crate::Real;
use crate::kernel::{AnyKernel, FixedKernel, LandmarkSections, PreparedPoints};
use crate::landmark_set::LandmarkSet;
use faer::{MatMut, MatRef};
use kpass::{Footprint, Workers};
use std::sync::Arc;

/// A map whose features are columns of the kernel matrix. A function Σ_j α_j k(x, z_j) is computed
/// from them.
///
/// phi(x)·phi(x') does not approximate the kernel; learning uses [`super::NystromMap`], which
/// orthogonalises these columns. Costs 2nmd flops for n rows of d inputs and m points. Stores the
/// points twice: unchanged for blocks, and prepared for a few rows at a time.
#[derive(Debug)]
pub struct KernelSections<T: Real> {
    kernel: FixedKernel<T>,
    landmarks: LandmarkSet<T>,
}

impl<T: Real> KernelSections<T> {
    /// Returns the map to the kernel sections of `landmarks`.
    pub fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>) -> Self {
        Self { kernel: FixedKernel::new(kernel.typed::<T>(), landmarks.as_mat()), landmarks }
    }
}

impl<T: Real> FeatureMap<T> for KernelSections<T> {
    fn dims(&self) -> (usize, usize) {
        (self.landmarks.d, self.landmarks.len())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let z = self.landmarks.as_mat();
        workers.for_each(strips(x, out), |(x, out)| self.kernel.fill_block(x, z, out));
    }

    fn landmark_sections(&self) -> Option<LandmarkSections<'_, T>> {
        Some(LandmarkSections::new(&self.kernel, self.landmarks.as_mat()))
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: self.landmarks.points.len() * size_of::<T>() + self.kernel.bytes(), per_row: 0 }
    }
}
