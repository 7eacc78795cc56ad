//! Kernels that combine a function of each feature's difference by something else than a sum of simple terms.
//!
//! The rows of a tile lie feature by feature; a column of values stays in the first-level cache while the features pass
//! over it.

use super::points::{Aligned, Frame, Lengths, fill_column};
use super::{Kernel, check_shapes};
use crate::Real;
use crate::vectorised;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::fmt::Debug;
use std::sync::Arc;

/// Rows of a tile.
const TILE_ROWS: usize = 288;

/// How the features' differences make a value.
pub(crate) trait Features: Debug + Send + Sync + 'static {
    /// The value before the first feature.
    const START: f64;
    /// From the value so far and the difference of the next feature, in units of its length, to the next value. Return a
    /// closure marked `#[inline(always)]`.
    fn next<T: Real>(&self) -> impl Fn(T, T) -> T + Copy;
    /// From the value after the last feature to the kernel's.
    fn last<T: Real>(&self) -> impl Fn(T) -> T + Copy;
}

/// A kernel of the features' differences in units of `length`.
#[derive(Debug)]
struct Swept<F> {
    text: String,
    length: f64,
    features: F,
}

/// The kernel that `features` describes, of (x − z) / `length`, written `text`.
pub(crate) fn swept<F: Features>(text: String, length: f64, features: F) -> Arc<dyn super::AnyKernel> {
    Arc::new(Swept { text, length, features })
}

impl<T: Real, F: Features> Kernel<T> for Swept<F> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        let (d, frame) = (x.ncols(), Frame::new(z, &Lengths::Same(self.length)));
        let (mut x_packed, mut z_packed, mut spare) = (Aligned::new(), Aligned::new(), Vec::new());
        frame.pack_rows(z, z.nrows(), &mut z_packed);
        for i in (0..x.nrows()).step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(x.nrows() - i);
            frame.pack_panels(x.subrows(i, rows), rows, &mut x_packed);
            for j in 0..z.nrows() {
                let z = &z_packed[j * d..(j + 1) * d];
                fill_column(out.rb_mut().subrows_mut(i, rows).col_mut(j), &mut spare, |column| {
                    self.column(column, &x_packed, z);
                });
            }
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let (next, last) = (self.features.next::<f64>(), self.features.last::<f64>());
        let value = (0..x.ncols()).fold(F::START, |value, _| next(value, 0.0));
        out.fill(last(value).saturate());
    }
}

impl<F: Features> Swept<F> {
    /// The kernel between the rows of a tile and one other point.
    fn column<T: Real>(&self, column: &mut [T], x: &[T], z: &[T]) {
        let (next, last, rows) = (self.features.next::<T>(), self.features.last::<T>(), column.len());
        vectorised(
            #[inline(always)]
            || {
                column.fill(T::from_f64(F::START));
                for (&z, x) in z.iter().zip(x.chunks_exact(rows)) {
                    for (value, &x) in column.iter_mut().zip(x) {
                        *value = next(*value, x - z);
                    }
                }
                for value in column.iter_mut() {
                    *value = last(*value).saturate();
                }
            },
        );
    }
}
