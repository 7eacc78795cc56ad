//! A kernel between a few rows and fixed points, such as the landmarks of a model.
//!
//! At every call, [`KernelFunction::block`] prepares the rows and the points, and pads the rows to
//! whole panels. In a block of hundreds of rows this work is negligible, but for a single row it
//! takes most of the time. This module prepares the points once, vectorises over the points instead
//! of the few rows, and allocates nothing per call. The values are bit-identical to the values in a
//! block.

use super::KernelFunction;
use crate::Real;
use faer::{MatMut, MatRef, prelude::ReborrowMut};
use std::{fmt, sync::Arc};

/// Maximum number of rows per call of [`PreparedPoints::compute_rows`].
pub const MAX_FEW_ROWS: usize = 8;

/// Points prepared for a kernel; see [`KernelFunction::prepare_points`].
pub trait PreparedPoints<T: Real>: Send + Sync {
    /// Returns the length of the scratch buffer for [`compute_rows`](Self::compute_rows).
    fn scratch_len(&self) -> usize;
    /// Returns the size of the prepared points in bytes.
    fn bytes(&self) -> usize;
    /// Computes `out[i m + j] = k(x_i, z_j)`, bit-identical to [`KernelFunction::block`], for at
    /// most [`MAX_FEW_ROWS`] rows and the m prepared points `z`; `scratch` is at least as long as
    /// [`scratch_len`](Self::scratch_len).
    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]);
    /// If the prepared points make blocks faster ([`KernelFunction::speeds_up_blocks`]), computes
    /// the block for any number of rows and returns true. Otherwise writes nothing and returns
    /// false.
    fn block(&self, _x: MatRef<'_, T>, _z: MatRef<'_, T>, _out: MatMut<'_, T>) -> bool {
        false
    }
}

/// A kernel and the points prepared for it. If the kernel cannot prepare points, it computes
/// blocks.
pub(crate) struct FixedKernel<T: Real> {
    kernel: Arc<dyn KernelFunction<T>>,
    prepared_points: Option<Box<dyn PreparedPoints<T>>>,
}

impl<T: Real> fmt::Debug for FixedKernel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

impl<T: Real> FixedKernel<T> {
    pub(crate) fn new(kernel: Arc<dyn KernelFunction<T>>, z: MatRef<'_, T>) -> Self {
        let prepared_points = kernel.prepare_points(z);
        Self { kernel, prepared_points }
    }

    /// Creates a fixed kernel for blocks only. It prepares the points only if this makes blocks
    /// faster.
    pub(crate) fn for_blocks(kernel: Arc<dyn KernelFunction<T>>, z: MatRef<'_, T>) -> Self {
        let prepared_points = if kernel.speeds_up_blocks() { kernel.prepare_points(z) } else { None };
        Self { kernel, prepared_points }
    }

    pub(crate) fn kernel(&self) -> &dyn KernelFunction<T> {
        &*self.kernel
    }

    /// Computes [`KernelFunction::block`] of rows and the points.
    pub(crate) fn fill_block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        if !self.prepared_points.as_ref().is_some_and(|columns| columns.block(x, z, out.rb_mut())) {
            self.kernel.block(x, z, out);
        }
    }
}

impl<T: Real> PreparedPoints<T> for FixedKernel<T> {
    fn scratch_len(&self) -> usize {
        self.prepared_points.as_ref().map_or(0, |columns| columns.scratch_len())
    }

    fn bytes(&self) -> usize {
        self.prepared_points.as_ref().map_or(0, |columns| columns.bytes())
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        match &self.prepared_points {
            Some(columns) => columns.compute_rows(x, z, out, scratch),
            None => self.kernel.block(x, z, MatMut::from_row_major_slice_mut(out, x.nrows(), z.nrows())),
        }
    }
}

/// The kernel sections of fixed points, for a few rows at a time.
#[derive(Clone, Copy, Debug)]
pub struct LandmarkSections<'a, T: Real> {
    fixed_kernel: &'a FixedKernel<T>,
    z: MatRef<'a, T>,
}

impl<'a, T: Real> LandmarkSections<'a, T> {
    pub(crate) fn new(fixed_kernel: &'a FixedKernel<T>, z: MatRef<'a, T>) -> Self {
        Self { fixed_kernel, z }
    }

    /// Returns the length of the scratch buffer for [`fill`](Self::fill).
    pub fn scratch_len(&self) -> usize {
        self.fixed_kernel.scratch_len()
    }

    /// Computes `out[i m + j] = k(x_i, z_j)` for at most [`MAX_FEW_ROWS`] rows of `x` (b x d,
    /// row-major), bit-identical to a block of many rows. Costs about 2 b m d flops, and allocates
    /// nothing for dense rows with the kernels of the registry.
    ///
    /// # Panics
    /// If there are more than [`MAX_FEW_ROWS`] rows, the shapes disagree, or `scratch` is shorter
    /// than [`scratch_len`](Self::scratch_len).
    pub fn fill(&self, x: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        assert!(x.nrows() <= MAX_FEW_ROWS, "too many rows: {}", x.nrows());
        assert_eq!(x.ncols(), self.z.ncols(), "x has {} features, z has {}", x.ncols(), self.z.ncols());
        assert_eq!(out.len(), x.nrows() * self.z.nrows(), "out must have a value for each row and point");
        self.fixed_kernel.compute_rows(x, self.z, out, scratch);
    }
}
