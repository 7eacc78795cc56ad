//! Distances that are computed as sums of terms of opposite signs. The terms cancel if the points
//! are close.
//!
//! ```text
//! ‖x − z‖²  =  ‖x‖² + ‖z‖² − 2 Σ x z                 ‖x − z‖₁  =  2 Σ max(x, z) − Σ x − Σ z
//! ```
//!
//! Each formula has a sum over the features of x and z together, which the [panels](super::panel)
//! compute cheaply, and a term of each single point, its *offset*. The rounding error of the
//! distance is a few machine epsilons times the points' *sizes*, the sums of the magnitudes of
//! their terms, however small the distance is. Therefore points are centred first, and if the
//! distance of a pair is not well above the rounding error, it is recomputed from the differences
//! x − z.

use super::panel::{Epilogue, PointStats, PointStatsTable};
use super::points::{sum_panels, sum_row};
use super::{sparse_argument::SparseArgument, terms::Term};
use crate::{Real, vectorised};
use std::fmt::Debug;

/// A distance in two forms: as a sum with an offset for each point, and as a sum over the
/// differences x − z.
pub(super) trait SplitDistance: Debug + Send + Sync + 'static {
    /// Term of the sum for points with few features. The sum of these terms is the distance itself,
    /// so no offsets are needed.
    type FewFeatures: Term;
    /// Term of the sum over pairs for points with many features.
    type ManyFeatures: Term;
    /// Returns the distance of sparse points as an argument, in units of `length`.
    fn sparse_argument(length: f64) -> SparseArgument;
    /// Unit of the distance that is computed from offsets, as a multiple of the length scale.
    const UNIT: f64;
    /// Factor of a row of x in the sums over pairs.
    const ROW_FACTOR: f64;
    /// Factor that turns a sum of [`offset`](Self::offset) into a point's offset.
    const OFFSET_FACTOR: f64;
    /// Factor that turns a sum of [`size`](Self::size) into a point's size; `None` if the size
    /// equals the offset.
    const SIZE_FACTOR: Option<f64>;
    /// Returns the sum plus a feature's contribution to the offset. Must be marked
    /// `#[inline(always)]`, like every function here that takes the values of features.
    fn offset(sum: f64, value: f64) -> f64;
    /// Returns the sum plus a feature's contribution to the size.
    fn size(sum: f64, value: f64) -> f64 {
        Self::offset(sum, value)
    }
    /// Computes the offsets and sizes of packed rows of z with `d` features.
    fn offsets_and_sizes<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>);
    /// Returns the distance by differences: without cancellation, and exactly 0 for equal points.
    fn direct_distance<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T;
    /// Returns a sum of slopes of [`FewFeatures`](Self::FewFeatures) times their factor; `scale` is
    /// one over the length scale.
    fn scale_slope_sum<T: Real>(scale: T, sum: T) -> T;
}

/// k(x, z) = `profile(offset(x) + offset(z) + sum)`.
pub(crate) struct OffsetEpilogue<T, S, F> {
    scale: Vec<T>,
    /// A distance below this fraction of the sum of both points' sizes is computed from
    /// differences.
    recompute_fraction: T,
    profile: F,
    distance: std::marker::PhantomData<S>,
}

impl<T: Real, S: SplitDistance, F: Fn(T) -> T + Copy> OffsetEpilogue<T, S, F> {
    pub(crate) fn new(scale: &[T], recompute_fraction: T, profile: F) -> Self {
        Self { scale: scale.to_vec(), recompute_fraction, profile, distance: std::marker::PhantomData }
    }
}

impl<T: Real, S: SplitDistance, F: Fn(T) -> T + Copy> Epilogue<T> for OffsetEpilogue<T, S, F> {
    const STATS_PER_POINT: usize = 2;

    fn panel_stats(&self, panels: &mut [T], height: usize, d: usize, stats: &mut PointStatsTable<T>) {
        sum_panels(panels, height, d, S::offset, S::OFFSET_FACTOR, &mut stats.offsets);
        match S::SIZE_FACTOR {
            Some(factor) => sum_panels(panels, height, d, S::size, factor, &mut stats.sizes),
            None => stats.sizes.clone_from(&stats.offsets),
        }
        multiply_by(panels, S::ROW_FACTOR);
        stats.max_size = largest_size(&stats.sizes);
    }

    fn point_stats(&self, x: &mut [T]) -> PointStats<T> {
        let offset = sum_row(x, S::offset, S::OFFSET_FACTOR);
        let size = S::SIZE_FACTOR.map_or(offset, |factor| sum_row(x, S::size, factor));
        multiply_by(x, S::ROW_FACTOR);
        PointStats { offset, size }
    }

    fn row_stats(&self, rows: &[T], d: usize, stats: &mut PointStatsTable<T>) {
        S::offsets_and_sizes(rows, d, &mut stats.offsets, &mut stats.sizes);
        stats.max_size = largest_size(&stats.sizes);
    }

    /// Compares the distances with a bound from the largest size among the other points, which
    /// costs one operation per pair; a bound from the sizes of each pair would cost three. If sizes
    /// overflow, the bound overflows too, and the values are suspect.
    #[inline(always)]
    fn values(&self, point: PointStats<T>, other_offsets: &[T], max_size: T, sums: &[T], values: &mut [T]) -> bool {
        let (bound, mut all_far) = (self.recompute_fraction * (max_size + point.size), true);
        for ((value, &sum), &other_offset) in values.iter_mut().zip(sums).zip(other_offsets) {
            let distance = other_offset + point.offset + sum;
            all_far &= distance > bound;
            *value = (self.profile)(distance);
        }
        !all_far
    }

    fn recompute(&self, point: PointStats<T>, other_point: PointStats<T>, sum: T, x: &[T], z: &[T]) -> Option<T> {
        let is_far =
            other_point.offset + point.offset + sum > self.recompute_fraction * (other_point.size + point.size);
        // `is_far` is false if sizes overflowed
        (!is_far).then(|| vectorised!((self.profile)(S::direct_distance(x, z, &self.scale))))
    }
}

fn multiply_by<T: Real>(x: &mut [T], factor: f64) {
    let factor = T::from_f64(factor);
    x.iter_mut().for_each(|value| *value *= factor);
}

fn largest_size<T: Real>(sizes: &[T]) -> T {
    sizes.iter().fold(T::ZERO, |largest, &size| size.larger(largest))
}
