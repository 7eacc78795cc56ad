//! Blocks of kernels of the Euclidean distance: a matrix product, and a profile while the tile is in cache.
//!
//! ‖x − z‖² = ‖x‖² + ‖z‖² − 2 x·z costs one fused multiply-add per feature instead of two operations, but it cancels:
//! its error is a few roundings of ‖x‖² + ‖z‖², however small the distance. So points are centred first, negative
//! values cannot occur, and pairs whose distance is not well above that error are computed again from differences.

use super::points::{Frame, TILE_COLUMNS, TILE_ROWS, column_norms, fill_column, row, squared_distance};
use super::{Kernel, Profile, check_shapes, direct};
use crate::Real;
use faer::linalg::matmul::matmul;
use faer::prelude::*;
use faer::{Accum, MatMut, MatRef, Par};
use std::sync::Arc;

/// Up to this many features differences are both exact and as fast as the product.
const FEW_FEATURES: usize = 4;

/// Below how many roundings of ‖x‖² + ‖z‖² a squared distance is computed again, for profiles smooth in it.
///
/// The largest error seen was 2.3 roundings (test `the_product_errs_by_a_few_roundings`: d up to 784, both types); 16
/// leaves room, and keeps recomputed pairs rare.
const SMOOTH: f64 = 16.0;
/// The same for profiles with a square root at 0, which turn an error δ of r² into δ / 2r: at 2^-10 of the norms, 16 δ.
/// As a share of ‖x‖² + ‖z‖², not in roundings.
const ROUGH: f64 = 1.0 / 1024.0;

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
            by_product(&frame, self.at_zero.near(), x, z, out, self.profile.function());
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(self.profile.function::<f64>()(0.0));
    }
}

/// Buffers of one call.
struct Scratch<T> {
    x: Vec<T>,
    x_norms: Vec<T>,
    z: Vec<T>,
    z_norms: Vec<T>,
    products: Vec<T>,
    column: Vec<T>,
}

fn by_product<T: Real>(
    frame: &Frame<T>,
    near: T,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    mut out: MatMut<'_, T>,
    profile: impl Fn(T) -> T + Copy,
) {
    let d = x.ncols();
    let mut s = Scratch { x: vec![], x_norms: vec![], z: vec![], z_norms: vec![], products: vec![], column: vec![] };
    for i in (0..x.nrows()).step_by(TILE_ROWS) {
        let rows = TILE_ROWS.min(x.nrows() - i);
        let x = x.subrows(i, rows);
        frame.pack_columns(x, rows, &mut s.x);
        column_norms(&s.x, rows, &mut s.x_norms);
        for j in (0..z.nrows()).step_by(TILE_COLUMNS) {
            let columns = TILE_COLUMNS.min(z.nrows() - j);
            let z = z.subrows(j, columns);
            frame.pack_rows(z, &mut s.z, &mut s.z_norms);
            s.products.resize(rows * columns, T::ZERO);
            matmul(
                MatMut::from_column_major_slice_mut(&mut s.products, rows, columns),
                Accum::Replace,
                MatRef::from_column_major_slice(&s.x, rows, d),
                MatRef::from_row_major_slice(&s.z[..columns * d], columns, d).transpose(),
                T::ONE,
                Par::Seq,
            );
            let mut tile = out.rb_mut().submatrix_mut(i, j, rows, columns);
            for (c, products) in s.products.chunks_exact(rows).enumerate() {
                let z_norm = s.z_norms[c];
                fill_column(tile.rb_mut().col_mut(c), &mut s.column, |column| {
                    if finish(column, products, &s.x_norms, z_norm, near, profile) {
                        repair(column, products, &s.x_norms, z_norm, near, profile, x, z.subrows(c, 1), frame.scale);
                    }
                });
            }
        }
    }
}

/// `out = profile(max(‖x‖² + ‖z‖² + product, 0))`, and whether any pair is too near for that.
#[inline(always)]
fn finish<T: Real>(
    out: &mut [T],
    products: &[T],
    x_norms: &[T],
    z_norm: T,
    near: T,
    profile: impl Fn(T) -> T + Copy,
) -> bool {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut any = false;
            for ((out, &product), &x_norm) in out.iter_mut().zip(products).zip(x_norms) {
                let norms = x_norm + z_norm;
                let squared = norms + product;
                any |= is_near(squared, norms, near);
                *out = profile(squared.larger(T::ZERO));
            }
            any
        },
    )
}

/// Whether a squared distance may be rounding error only; also where norms overflowed (then `squared` is no number).
#[inline(always)]
fn is_near<T: Real>(squared: T, norms: T, near: T) -> bool {
    !(squared > near * norms)
}

/// Computes the near pairs of a column again, from differences.
#[cold]
#[expect(clippy::too_many_arguments, reason = "the same numbers as `finish`, and where the points came from")]
fn repair<T: Real>(
    out: &mut [T],
    products: &[T],
    x_norms: &[T],
    z_norm: T,
    near: T,
    profile: impl Fn(T) -> T + Copy,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    scale: T,
) {
    let (mut x_spare, mut z_spare) = (Vec::new(), Vec::new());
    let z = row(z, 0, &mut z_spare);
    for (i, (out, (&product, &x_norm))) in out.iter_mut().zip(products.iter().zip(x_norms)).enumerate() {
        let norms = x_norm + z_norm;
        if is_near(norms + product, norms, near) {
            let x = row(x, i, &mut x_spare);
            *out = pulp::Arch::new().dispatch(
                #[inline(always)]
                || profile(squared_distance(x, z, scale)),
            );
        }
    }
}
