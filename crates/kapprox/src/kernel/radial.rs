//! Blocks of kernels of the Euclidean distance: a matrix product, and a profile while the tile is in cache.
//!
//! ‖x − z‖² = ‖x‖² + ‖z‖² − 2 x·z costs one fused multiply-add per feature instead of two operations, but it cancels:
//! its error is a few roundings of ‖x‖² + ‖z‖², however small the distance. So points are centred first, negative
//! values cannot occur, and pairs whose distance is not well above that error are computed again from differences.

use super::points::{
    Aligned, Frame, TILE_COLUMNS, TILE_ROWS, column_norms, fill_column, row, row_norms, scratch, squared_distance,
};
use super::{Kernel, Profile, check_shapes, direct};
use crate::Real;
use crate::real::vectorised;
use faer::linalg::matmul::matmul;
use faer::prelude::*;
use faer::{Accum, MatMut, MatRef, Par};
use std::sync::Arc;

/// Up to this many features distances are summed from differences, which do not cancel. A guess: not yet measured.
const FEW_FEATURES: usize = 4;

/// Below how many roundings of ‖x‖² + ‖z‖² a squared distance is computed again, for profiles smooth in it.
///
/// The largest error seen was 6.8 roundings in `f32` and 16.4 in `f64` (there with the rounding of the reference; test
/// `the_product_errs_by_a_few_roundings`, d up to 784); 64 leaves room, and keeps recomputed pairs rare.
const SMOOTH: f64 = 64.0;
/// The same for profiles with a square root at 0, which turn an error δ of r² into δ / 2r: at 2^-10 of the norms, 16 δ.
/// As a share of ‖x‖² + ‖z‖², not in roundings.
const ROUGH: f64 = 1.0 / 1024.0;
/// How many pairs of a suspect column are looked at together.
const CHUNK: usize = 64;

/// How a profile behaves where the distance vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtZero {
    /// Differentiable in the squared distance.
    Smooth,
    /// A function of the distance itself, with a cusp at 0.
    Cusp,
}

impl AtZero {
    /// The share of ‖x‖² + ‖z‖² below which a squared distance is computed from differences.
    fn near<T: Real>(self) -> T {
        T::from_f64(match self {
            Self::Smooth => SMOOTH * T::EPSILON,
            Self::Cusp => ROUGH,
        })
    }
}

/// A kernel of (‖x − z‖₂ / `length`)².
#[derive(Debug)]
struct Radial<P> {
    text: String,
    length: f64,
    at_zero: AtZero,
    profile: P,
}

/// The kernel `profile((‖x − z‖₂ / length)²)`, written `text`.
pub(crate) fn l2<P: Profile>(text: String, length: f64, at_zero: AtZero, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Radial { text, length, at_zero, profile })
}

impl<T: Real, P: Profile> Kernel<T> for Radial<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        let frame = Frame::new(z, self.length);
        if x.ncols() <= FEW_FEATURES {
            direct::block::<T, direct::Squares>(&frame, x, z, out, self.profile.function());
        } else {
            let plan = Plan { frame: &frame, near: self.at_zero.near(), profile: self.profile.function() };
            by_product(plan, x, z, out);
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(self.profile.function::<f64>()(0.0));
    }
}

/// Everything about a call but the points.
#[derive(Clone, Copy)]
struct Plan<'a, T, F> {
    frame: &'a Frame<T>,
    near: T,
    profile: F,
}

fn by_product<T: Real, F: Fn(T) -> T + Copy>(
    plan: Plan<'_, T, F>,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    mut out: MatMut<'_, T>,
) {
    let d = x.ncols();
    let minus_two = T::ZERO - T::ONE - T::ONE;
    let (mut x_packed, mut z_packed) = (Aligned::new(), Aligned::new());
    let (mut x_norms, mut z_norms, mut spare) = (vec![], vec![], vec![]);
    let mut suspects = Vec::new();
    let mut products = scratch(x.nrows(), z.nrows());
    for i in (0..x.nrows()).step_by(TILE_ROWS) {
        let rows = TILE_ROWS.min(x.nrows() - i);
        let x = x.subrows(i, rows);
        plan.frame.pack_columns(x, rows, &mut x_packed);
        column_norms(&x_packed, rows, &mut x_norms);
        for j in (0..z.nrows()).step_by(TILE_COLUMNS) {
            let columns = TILE_COLUMNS.min(z.nrows() - j);
            let z = z.subrows(j, columns);
            plan.frame.pack_rows(z, minus_two, &mut z_packed);
            row_norms(&z_packed, columns, &mut z_norms);
            let mut products = products.as_mut().submatrix_mut(0, 0, rows, columns);
            matmul(
                products.rb_mut(),
                Accum::Replace,
                MatRef::from_column_major_slice(&x_packed, rows, d),
                MatRef::from_row_major_slice(&z_packed, columns, d).transpose(),
                T::ONE,
                Par::Seq,
            );
            let tile = out.rb_mut().submatrix_mut(i, j, rows, columns);
            let pairs = Pairs { products: products.rb(), x_norms: &x_norms, z_norms: &z_norms };
            finish(plan, pairs, tile, &mut suspects);
            for c in suspects.drain(..) {
                let column = out.rb_mut().subrows_mut(i, rows).col_mut(j + c);
                fill_column(column, &mut spare, |column| repair(plan, pairs, c, column, x, z));
            }
        }
    }
}

/// What the product tells of the pairs of a tile: −2 x·z and the squared norms.
#[derive(Clone, Copy)]
struct Pairs<'a, T> {
    products: MatRef<'a, T>,
    x_norms: &'a [T],
    z_norms: &'a [T],
}

/// k(x, z) = `profile(‖x‖² + ‖z‖² − 2 x·z)`, and into `suspects` the columns that may hold a pair too near for that. A
/// bound for the largest norm of the tile costs one instruction, where each pair's own would cost three. Where norms
/// overflowed, so does the bound, and the column is suspect.
fn finish<T: Real, F: Fn(T) -> T + Copy>(
    plan: Plan<'_, T, F>,
    pairs: Pairs<'_, T>,
    mut tile: MatMut<'_, T>,
    suspects: &mut Vec<usize>,
) {
    let (near, profile, x_norms) = (plan.near, plan.profile, pairs.x_norms);
    let largest = x_norms.iter().fold(T::ZERO, |largest, &norm| norm.larger(largest));
    let mut spare = Vec::new();
    vectorised(
        #[inline(always)]
        || {
            for (c, &z_norm) in pairs.z_norms.iter().enumerate() {
                let Some(products) = pairs.products.col(c).try_as_col_major() else { continue };
                let (bound, mut all) = (near * (largest + z_norm), true);
                fill_column(
                    tile.rb_mut().col_mut(c),
                    &mut spare,
                    #[inline(always)]
                    |column| {
                        for ((value, &product), &x_norm) in column.iter_mut().zip(products.as_slice()).zip(x_norms) {
                            let squared = x_norm + z_norm + product;
                            all &= squared > bound;
                            *value = profile(squared);
                        }
                    },
                );
                if !all {
                    suspects.push(c);
                }
            }
        },
    );
}

/// Whether a pair is far enough apart for its product; not so where norms overflowed.
#[inline(always)]
fn far<T: Real>(near: T, norms: T, squared: T) -> bool {
    squared > near * norms
}

/// Computes the near pairs of column `c` from differences.
fn repair<T: Real, F: Fn(T) -> T + Copy>(
    plan: Plan<'_, T, F>,
    pairs: Pairs<'_, T>,
    c: usize,
    column: &mut [T],
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
) {
    let (mut x_spare, mut z_spare) = (Vec::new(), Vec::new());
    let (z, z_norm) = (row(z, c, &mut z_spare), pairs.z_norms[c]);
    let Some(products) = pairs.products.col(c).try_as_col_major() else { return };
    vectorised(
        #[inline(always)]
        || {
            let chunks =
                column.chunks_mut(CHUNK).zip(products.as_slice().chunks(CHUNK)).zip(pairs.x_norms.chunks(CHUNK));
            for (start, ((values, products), x_norms)) in (0..).step_by(CHUNK).zip(chunks) {
                let is_far = |product: T, x_norm: T| far(plan.near, x_norm + z_norm, x_norm + z_norm + product);
                let all = |all, (&product, &x_norm)| all & is_far(product, x_norm);
                if products.iter().zip(x_norms).fold(true, all) {
                    continue;
                }
                for (i, ((value, &product), &x_norm)) in values.iter_mut().zip(products).zip(x_norms).enumerate() {
                    if !is_far(product, x_norm) {
                        let x = row(x, start + i, &mut x_spare);
                        *value = (plan.profile)(squared_distance(x, z, plan.frame.scale));
                    }
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error of a squared distance by product, in roundings of ‖x‖² + ‖z‖².
    fn roundings<T: Real>(d: usize) -> f64 {
        let (b, m) = (256, 256);
        let mut state = d as u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        };
        let x: Vec<T> = (0..b * d).map(|_| next()).collect();
        // half of the rows are nearly those of x: there the products are largest
        let z: Vec<T> =
            x.iter().enumerate().map(|(i, &x)| if (i / d).is_multiple_of(2) { next() } else { x }).collect();
        let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
        let frame = Frame::new(z, 1.0);
        // never near: the profile sees what the product gives
        let mut got = faer::Mat::zeros(b, m);
        let identity = |squared: T| squared;
        let plan = Plan { frame: &frame, near: T::ZERO - T::ONE, profile: identity };
        by_product(plan, x, z, got.as_mut());
        let (mut x_packed, mut z_packed) = (Aligned::new(), Aligned::new());
        frame.pack_rows(x, T::ONE, &mut x_packed);
        frame.pack_rows(z, T::ONE, &mut z_packed);
        let mut worst = 0.0f64;
        for (i, x) in x_packed.chunks(d).enumerate() {
            for (j, z) in z_packed.chunks(d).enumerate() {
                let pairs = || x.iter().zip(z).map(|(x, z)| (x.to_f64(), z.to_f64()));
                let exact: f64 = pairs().map(|(x, z)| (x - z) * (x - z)).sum();
                let norms: f64 = pairs().map(|(x, z)| x * x + z * z).sum();
                worst = worst.max((got[(i, j)].to_f64() - exact).abs() / (norms * T::EPSILON));
            }
        }
        worst
    }

    #[test]
    fn the_product_errs_by_a_few_roundings() {
        for d in [5, 8, 32, 90, 300, 784] {
            let (single, double) = (roundings::<f32>(d), roundings::<f64>(d));
            println!("d={d}: {single:.2} {double:.2}");
            assert!(single < SMOOTH / 2.0 && double < SMOOTH / 2.0, "d={d}: {single} and {double} roundings");
            assert!(single > 0.05, "measures nothing");
        }
    }
}
