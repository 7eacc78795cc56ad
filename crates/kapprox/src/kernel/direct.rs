//! Blocks of kernels of distances that have no product form: a tiled loop over differences.
//!
//! A column of 288 sums stays in the L1 cache while features pass over it, four at a time.

use super::points::{Aligned, Frame, TILE_COLUMNS, TILE_ROWS, fill_column};
use super::{Kernel, Profile, check_shapes};
use crate::Real;
use crate::real::vectorised;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// One feature's contribution to a distance.
pub(crate) trait Distance {
    /// `sum` with the contribution of this difference.
    fn add<T: Real>(sum: T, difference: T) -> T;
}

/// Σ |x − z|.
pub(crate) struct Magnitudes;

impl Distance for Magnitudes {
    #[inline(always)]
    fn add<T: Real>(sum: T, difference: T) -> T {
        sum + difference.magnitude()
    }
}

/// Σ (x − z)².
pub(crate) struct Squares;

impl Distance for Squares {
    #[inline(always)]
    fn add<T: Real>(sum: T, difference: T) -> T {
        difference.mul_plus(difference, sum)
    }
}

/// A kernel of ‖x − z‖₁ / `length`.
#[derive(Debug)]
struct Direct<P> {
    text: String,
    length: f64,
    profile: P,
}

/// The kernel `profile(‖x − z‖₁ / length)`, written `text`.
pub(crate) fn l1<P: Profile>(text: String, length: f64, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Direct { text, length, profile })
}

impl<T: Real, P: Profile> Kernel<T> for Direct<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        block::<T, Magnitudes>(&Frame::new(z, self.length), x, z, out, self.profile.function());
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(self.profile.function::<f64>()(0.0));
    }
}

/// `out[i, j] = profile(Σ_k D(x_ik − z_jk))` of the points in their frame. Centring costs a rounding of each coordinate
/// and nothing of its own: equal points stay equal.
pub(crate) fn block<T: Real, D: Distance>(
    frame: &Frame<T>,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    mut out: MatMut<'_, T>,
    profile: impl Fn(T) -> T + Copy,
) {
    let (mut x_packed, mut z_packed, mut spare) = (Aligned::new(), Aligned::new(), Vec::new());
    let d = x.ncols();
    for i in (0..x.nrows()).step_by(TILE_ROWS) {
        let rows = TILE_ROWS.min(x.nrows() - i);
        frame.pack_columns(x.subrows(i, rows), rows, &mut x_packed);
        for j in (0..z.nrows()).step_by(TILE_COLUMNS) {
            let columns = TILE_COLUMNS.min(z.nrows() - j);
            frame.pack_rows(z.subrows(j, columns), T::ONE, &mut z_packed);
            for c in 0..columns {
                let column = out.rb_mut().subrows_mut(i, rows).col_mut(j + c);
                fill_column(column, &mut spare, |column| {
                    sweep::<T, D>(column, &x_packed, &z_packed[c * d..(c + 1) * d], profile);
                });
            }
        }
    }
}

/// The kernel between the points of a tile, packed feature by feature, and one other.
fn sweep<T: Real, D: Distance>(column: &mut [T], x: &[T], z: &[T], profile: impl Fn(T) -> T + Copy) {
    let rows = column.len();
    vectorised(
        #[inline(always)]
        || {
            column.fill(T::ZERO);
            let ((fours, rest), mut features) = (z.as_chunks::<4>(), x.chunks_exact(rows));
            for z in fours {
                // as many columns as z has features
                let mut feature = || features.next().unwrap_or_default();
                let (x0, x1, x2, x3) = (feature(), feature(), feature(), feature());
                for ((((sum, &x0), &x1), &x2), &x3) in column.iter_mut().zip(x0).zip(x1).zip(x2).zip(x3) {
                    let first = D::add(D::add(*sum, x0 - z[0]), x1 - z[1]);
                    *sum = D::add(D::add(first, x2 - z[2]), x3 - z[3]);
                }
            }
            for (&z, x) in rest.iter().zip(features) {
                for (sum, &x) in column.iter_mut().zip(x) {
                    *sum = D::add(*sum, x - z);
                }
            }
            for value in column.iter_mut() {
                *value = profile(*value);
            }
        },
    );
}
