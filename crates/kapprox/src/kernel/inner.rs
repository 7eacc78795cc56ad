//! Blocks of kernels of the inner product: a matrix product, and a profile while the tile is in cache.

use super::points::{Aligned, Frame, TILE_COLUMNS, TILE_ROWS, fill_column, row, squared_norm};
use super::{Kernel, Profile, check_shapes};
use crate::Real;
use crate::real::vectorised;
use faer::linalg::matmul::matmul;
use faer::prelude::*;
use faer::{Accum, MatMut, MatRef, Par};
use std::sync::Arc;

/// A kernel of x·z.
#[derive(Debug)]
struct Inner<P> {
    text: String,
    profile: P,
}

/// The kernel `profile(x·z)`, written `text`.
pub(crate) fn product<P: Profile>(text: String, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Inner { text, profile })
}

impl<T: Real, P: Profile> Kernel<T> for Inner<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        let d = x.ncols();
        let frame = Frame::identity(d);
        let (mut packed, mut spare) = (Aligned::new(), Vec::new());
        for i in (0..x.nrows()).step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(x.nrows() - i);
            let x = x.subrows(i, rows);
            frame.pack_columns(x, rows, &mut packed);
            for j in (0..z.nrows()).step_by(TILE_COLUMNS) {
                let columns = TILE_COLUMNS.min(z.nrows() - j);
                let z = z.subrows(j, columns);
                let mut tile = out.rb_mut().submatrix_mut(i, j, rows, columns);
                matmul(
                    tile.rb_mut(),
                    Accum::Replace,
                    MatRef::from_column_major_slice(&packed, rows, d),
                    z.transpose(),
                    T::ONE,
                    Par::Seq,
                );
                for c in 0..columns {
                    fill_column(tile.rb_mut().col_mut(c), &mut spare, |column| {
                        if finish(column, self.profile.function()) {
                            repair(column, self.profile.function(), x, z.subrows(c, 1));
                        }
                    });
                }
            }
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let profile = self.profile.function::<f64>();
        let mut spare = Vec::new();
        for (i, out) in out.iter_mut().enumerate() {
            let x = row(x, i, &mut spare);
            *out = vectorised(
                #[inline(always)]
                || profile(squared_norm(x)).saturate(),
            );
        }
    }
}

/// From x·z to `profile(x·z)`, kept finite, in place; NaN where the product overflowed. Returns whether any did.
fn finish<T: Real>(column: &mut [T], profile: impl Fn(T) -> T + Copy) -> bool {
    let mark = T::from_f64(f64::NAN);
    vectorised(
        #[inline(always)]
        || {
            let mut any = false;
            for value in column {
                // not so if infinite, nor if infinities of both signs met
                let in_range = value.magnitude() <= T::LARGEST;
                any |= !in_range;
                let k = profile(*value).saturate();
                *value = if in_range { k } else { mark };
            }
            any
        },
    )
}

/// Computes the marked values of a column from points scaled to at most 1.
#[cold]
fn repair<T: Real>(column: &mut [T], profile: impl Fn(T) -> T + Copy, x: MatRef<'_, T>, z: MatRef<'_, T>) {
    let (mut x_spare, mut z_spare) = (Vec::new(), Vec::new());
    let z = row(z, 0, &mut z_spare);
    for (i, value) in column.iter_mut().enumerate() {
        if !value.is_number() {
            let product = scaled_product(row(x, i, &mut x_spare), z).saturate();
            *value = profile(T::from_f64(product).saturate()).saturate();
        }
    }
}

/// x·z = (Σ (x/‖x‖∞)(z/‖z‖∞)) ‖x‖∞ ‖z‖∞ in `f64`: only the last product can overflow.
fn scaled_product<T: Real>(x: &[T], z: &[T]) -> f64 {
    let largest = |v: &[T]| v.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.to_f64().abs()));
    let (x_largest, z_largest) = (largest(x), largest(z));
    let sum: f64 = x.iter().zip(z).map(|(x, z)| x.to_f64() / x_largest * (z.to_f64() / z_largest)).sum();
    sum * x_largest * z_largest
}
