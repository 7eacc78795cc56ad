//! Gradients of kernels whose derivative with respect to a feature is a product of two numbers: a
//! factor, which depends on the pair of points, and a slope, which depends on the two values of
//! that feature only.
//!
//! ```text
//! k(x, z) = g(Σ_c M(x_c, z_c))        ∂k/∂x_c = g'(Σ M) · ∂M/∂x(x_c, z_c)        factor · slope
//! ```
//!
//! Here M is the [term](super::terms) of a feature and g the profile. A gradient therefore needs a
//! block of factors, which is computed like a block of kernel values, and for each feature c a sum
//! over the points z. Slopes are computed for each pair from the original values: two separate
//! sums, of the values x and of the values z, would cancel for close points.

use super::panel::TILE_ROWS;
use super::points::{AlignedVec, Frame, fill_column, index_chunks, row_slice};
use crate::{Real, vectorised};
use faer::{MatMut, MatRef};

/// Number of rows of z whose factors with [`TILE_ROWS`] rows of x are computed at once. These
/// factors take 600 kB in `f64`.
const GRADIENT_TILE_COLUMNS: usize = 256;
/// Number of rows of x in a strip. Its factors with [`STRIP_COLUMNS`] rows of z stay in the
/// first-level cache during the loop over features: 24 kB in `f64`.
const GRADIENT_STRIP_ROWS: usize = 96;
/// Number of rows of z in a strip.
const GRADIENT_STRIP_COLUMNS: usize = 32;

#[derive(Debug, Clone, Copy)]
pub(super) struct WeightedPairs<'a, T> {
    pub(super) x: MatRef<'a, T>,
    pub(super) z: MatRef<'a, T>,
    pub(super) weights: MatRef<'a, T>,
}

impl<'a, T: Real> WeightedPairs<'a, T> {
    /// Panics unless x is b x d, z is m x d, weights is b x m and out is b x d.
    #[track_caller]
    pub(super) fn new(x: MatRef<'a, T>, z: MatRef<'a, T>, weights: MatRef<'a, T>, out: &MatMut<'_, T>) -> Self {
        assert_eq!(x.ncols(), z.ncols(), "x has {} features, z has {}", x.ncols(), z.ncols());
        assert_eq!(weights.shape(), (x.nrows(), z.nrows()), "weights must have a row for each x, a column for each z");
        assert_eq!(out.shape(), x.shape(), "out must have the shape of x");
        Self { x, z, weights }
    }

    /// Returns tiles, each of some rows of x with all rows of z, and the index of the first row of
    /// x in each tile.
    pub(super) fn row_tiles(self) -> impl Iterator<Item = (usize, Self)> {
        index_chunks(self.x.nrows(), TILE_ROWS).map(move |(i, rows)| {
            (i, Self { x: self.x.subrows(i, rows), weights: self.weights.subrows(i, rows), ..self })
        })
    }

    /// Returns tiles, each of some rows of z with all rows of x, and the index of the first row of
    /// z in each tile.
    pub(super) fn column_tiles(self) -> impl Iterator<Item = (usize, Self)> {
        index_chunks(self.z.nrows(), GRADIENT_TILE_COLUMNS).map(move |(j, columns)| {
            (j, Self { z: self.z.subrows(j, columns), weights: self.weights.subcols(j, columns), ..self })
        })
    }
}

/// Replaces each argument of g in a block by its weighted factor, the weight times g'(argument),
/// where `derivative` is g'.
pub(super) fn weigh_factors<T: Real>(
    derivative: impl Fn(T) -> T + Copy,
    weights: MatRef<'_, T>,
    arguments: MatMut<'_, T>,
) {
    let (mut row_buffer, mut weights_spare) = (Vec::new(), Vec::new());
    for (j, column) in arguments.col_iter_mut().enumerate() {
        let weights = row_slice(weights.transpose(), j, &mut weights_spare);
        fill_column(column, &mut row_buffer, |column| {
            vectorised!({
                for (value, &weight) in column.iter_mut().zip(weights) {
                    *value = (weight * derivative(*value).saturate()).saturate();
                }
            });
        });
    }
}

/// Computes `out[i, k] += scale_sum(k, Σ_j weights[i, j] factor(x_i, z_j) slope(x_ik, z_jk))`. For
/// a tile of pairs, `factors(pairs, block)` writes the weights times the factors to the block.
/// `slope(x_ik, z_jk)` and `scale_sum(k, sum)` are
/// [`Argument::slope`](super::profile::Argument::slope) and
/// [`Argument::scale_slope_sum`](super::profile::Argument::scale_slope_sum).
///
/// Each row of x has a vector lane of its own, so its bits do not depend on the other rows.
pub(super) fn add_gradient<T: Real>(
    pairs: WeightedPairs<'_, T>,
    mut out: MatMut<'_, T>,
    factors: &dyn Fn(WeightedPairs<'_, T>, MatMut<'_, T>),
    slope: impl Fn(T, T) -> T + Copy,
    scale_sum: &dyn Fn(usize, T) -> T,
) {
    let (d, mut tile, mut sums) = (pairs.x.ncols(), Tile::default(), Vec::new());
    let frame = Frame::identity(d);
    for (i, row_tile) in pairs.row_tiles() {
        let row_count = row_tile.x.nrows();
        frame.pack_panels(row_tile.x, row_count, &mut tile.x);
        // a second, guarded pass over the columns is needed only if a sum of the first pass
        // overflowed
        for is_guarded in [false, true] {
            sums.clear();
            sums.resize(row_count * d, T::ZERO);
            for (_, pairs) in row_tile.column_tiles() {
                tile.fill(pairs, &frame, factors);
                if is_guarded { tile.add_guarded(slope, &mut sums) } else { tile.add(slope, &mut sums) }
            }
            if sums.iter().all(|sum| sum.magnitude() <= T::LARGEST) {
                break;
            }
        }
        for (k, sums) in sums.chunks_exact(row_count).enumerate() {
            for (r, &sum) in sums.iter().enumerate() {
                let value = &mut out[(i + r, k)];
                *value = (*value + scale_sum(k, sum)).saturate();
            }
        }
    }
}

/// Points, feature by feature, and the weighted factors of their pairs, column by column.
#[derive(Default)]
struct Tile<T> {
    x: AlignedVec<T>,
    z: AlignedVec<T>,
    factors: AlignedVec<T>,
    row_count: usize,
    column_count: usize,
}

impl<T: Real> Tile<T> {
    /// Stores the points z of the pairs, and the weights times the factors, which `factors` writes.
    fn fill(
        &mut self,
        pairs: WeightedPairs<'_, T>,
        frame: &Frame<T>,
        factors: &dyn Fn(WeightedPairs<'_, T>, MatMut<'_, T>),
    ) {
        (self.row_count, self.column_count) = (pairs.x.nrows(), pairs.z.nrows());
        frame.pack_panels(pairs.z, self.column_count, &mut self.z);
        let values = self.factors.resize_zeroed(self.row_count * self.column_count);
        factors(pairs, MatMut::from_column_major_slice_mut(values, self.row_count, self.column_count));
    }

    /// Adds factor times slope for every pair and feature k to the sums, `sums[k rows + i]`.
    fn add(&self, slope: impl Fn(T, T) -> T + Copy, sums: &mut [T]) {
        self.accumulate_terms(inlined!(|sum, factor, x, z| slope(x, z).mul_plus(factor, sum)), sums);
    }

    /// Like [`add`](Self::add), but keeps the sums finite. A pair whose factor is 0 adds nothing,
    /// even if its slope is infinite.
    fn add_guarded(&self, slope: impl Fn(T, T) -> T + Copy, sums: &mut [T]) {
        self.accumulate_terms(
            inlined!(|sum, factor, x, z| {
                let new_sum = slope(x, z).saturate().mul_plus(factor, sum).saturate();
                if factor == T::ZERO { sum } else { new_sum }
            }),
            sums,
        );
    }

    /// Computes `sums[k rows + i] = term(sums[k rows + i], factor(i, j), x_ik, z_jk)` for all j in
    /// order, where `term` returns the sum plus the term of a pair. Each sum is loaded once for
    /// four j. Uses iterators instead of indices: the bounds checks of indices would prevent
    /// vectorisation and make the loop seven times slower.
    fn accumulate_terms(&self, term: impl Fn(T, T, T, T) -> T + Copy, sums: &mut [T]) {
        let (row_count, column_count) = (self.row_count, self.column_count);
        vectorised!({
            for i in (0..row_count).step_by(GRADIENT_STRIP_ROWS) {
                let height = GRADIENT_STRIP_ROWS.min(row_count - i);
                for j in (0..column_count).step_by(GRADIENT_STRIP_COLUMNS) {
                    let width = GRADIENT_STRIP_COLUMNS.min(column_count - j);
                    let features = sums.chunks_exact_mut(row_count).zip(self.x.chunks_exact(row_count));
                    for ((sums, x), z) in features.zip(self.z.chunks_exact(column_count)) {
                        let (sums, x, z) = (&mut sums[i..][..height], &x[i..][..height], &z[j..][..width]);
                        let column = |j: usize| &self.factors[j * row_count + i..][..height];
                        let (z_groups, remaining_points) = z.as_chunks::<4>();
                        for (j, z) in (j..).step_by(4).zip(z_groups) {
                            let later_columns = column(j + 1).iter().zip(column(j + 2)).zip(column(j + 3));
                            let factors = column(j).iter().zip(later_columns);
                            for ((sum, &x), (&f0, ((&f1, &f2), &f3))) in sums.iter_mut().zip(x).zip(factors) {
                                let partial_sum = term(term(*sum, f0, x, z[0]), f1, x, z[1]);
                                *sum = term(term(partial_sum, f2, x, z[2]), f3, x, z[3]);
                            }
                        }
                        for (j, &z) in (j + width - remaining_points.len()..).zip(remaining_points) {
                            for ((sum, &x), &factor) in sums.iter_mut().zip(x).zip(column(j)) {
                                *sum = term(*sum, factor, x, z);
                            }
                        }
                    }
                }
            }
        });
    }
}
