//! Kernels of a number that is computed from the differences x − z feature by feature, but is not a
//! sum of simple [terms](super::terms), for example a product.
//!
//! The rows of x in a tile are stored feature by feature. For each row of z, the values of one
//! column of the block stay in the first-level cache during the loop over the features.

use super::few_rows::rows_to_panels;
use super::fixed_kernel::{MAX_FEW_ROWS, PreparedPoints};
use super::panel::{TILE_ROWS, ValueBlock};
use super::points::{AlignedVec, Frame, fill_column, index_chunks, row_slice};
use crate::{Real, vectorised};
use faer::{MatRef, prelude::*};
use std::{fmt::Debug, sync::Arc};

/// The function that computes one number from the differences of all features.
pub(crate) trait DifferenceAccumulator: Debug + Send + Sync + 'static {
    /// Value before the first feature.
    const START: f64;
    /// Returns the function that computes the next value from the value so far and from the signed
    /// difference of the next feature, in units of its length scale. Return a closure marked
    /// `#[inline(always)]`.
    fn step<T: Real>(&self) -> impl Fn(T, T) -> T + Copy;
    /// Returns the slope as a function of a difference. The slope times the derivative of the
    /// profile is the derivative of the kernel with respect to the difference. At a cusp the slope
    /// is 0.
    fn slope<T: Real>(&self) -> impl Fn(T) -> T + Copy;
}

/// Fills the block with `profile` of the numbers that `accumulator` computes from the differences.
pub(super) fn fill_block<T: Real, F: DifferenceAccumulator>(
    block: ValueBlock<'_, T>,
    accumulator: &F,
    profile: impl Fn(T) -> T + Copy,
) {
    let ValueBlock { frame, x, z, mut out } = block;
    let (d, step) = (x.ncols(), accumulator.step());
    let (mut x_packed, mut z_packed, mut row_buffer) = (AlignedVec::default(), AlignedVec::default(), Vec::new());
    frame.pack_rows(z, z.nrows(), &mut z_packed);
    for (i, rows) in index_chunks(x.nrows(), TILE_ROWS) {
        frame.pack_panels(x.subrows(i, rows), rows, &mut x_packed);
        for j in 0..z.nrows() {
            let z = &z_packed[j * d..(j + 1) * d];
            fill_column(out.rb_mut().subrows_mut(i, rows).col_mut(j), &mut row_buffer, |column| {
                sweep_column(T::from_f64(F::START), step, profile, column, &x_packed, z);
            });
        }
    }
}

/// Prepares the points `z` in `frame` for the kernel that [`fill_block`] computes.
pub(super) fn prepare_points<T: Real, F: DifferenceAccumulator>(
    frame: Frame<T>,
    accumulator: &Arc<F>,
    profile: impl Fn(T) -> T + Copy + Send + Sync + 'static,
    z: MatRef<'_, T>,
) -> Box<dyn PreparedPoints<T>> {
    let (mut rows, mut columns) = (AlignedVec::default(), AlignedVec::default());
    frame.pack_rows(z, z.nrows(), &mut rows);
    rows_to_panels(&rows, frame.feature_count(), z.nrows(), &mut columns);
    Box::new(DifferenceColumns { frame, packed_points: columns, accumulator: accumulator.clone(), profile })
}

struct DifferenceColumns<T, F, G> {
    frame: Frame<T>,
    packed_points: AlignedVec<T>,
    accumulator: Arc<F>,
    profile: G,
}

impl<T: Real, F: DifferenceAccumulator, G: Fn(T) -> T + Copy + Send + Sync> PreparedPoints<T>
    for DifferenceColumns<T, F, G>
{
    fn scratch_len(&self) -> usize {
        MAX_FEW_ROWS * self.frame.feature_count()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * self.packed_points.len()
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (d, mut row_buffer) = (x.ncols(), Vec::new());
        let step = self.accumulator.step();
        for (i, values) in out.chunks_exact_mut(z.nrows().max(1)).enumerate() {
            let scaled = &mut scratch[..d];
            self.frame.pack_row(row_slice(x, i, &mut row_buffer), scaled);
            sweep_column(T::from_f64(F::START), step, self.profile, values, &self.packed_points, scaled);
        }
    }
}

/// Computes the kernel values `profile(f)` of points that are stored feature by feature with the
/// point `point`. f starts at `start`, and `step` adds a feature ([`DifferenceAccumulator::step`]).
fn sweep_column<T: Real>(
    start: T,
    step: impl Fn(T, T) -> T + Copy,
    profile: impl Fn(T) -> T + Copy,
    column: &mut [T],
    points: &[T],
    point: &[T],
) {
    let row_count = column.len();
    vectorised!({
        column.fill(start);
        for (&coordinate, coordinates) in point.iter().zip(points.chunks_exact(row_count)) {
            for (value, &other_coordinate) in column.iter_mut().zip(coordinates) {
                *value = step(*value, other_coordinate - coordinate);
            }
        }
        for value in column.iter_mut() {
            *value = profile(*value).saturate();
        }
    });
}
