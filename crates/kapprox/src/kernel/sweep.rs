//! Kernels that combine a function of each feature's difference by something else than a sum of simple terms.
//!
//! The rows of a tile lie feature by feature; a column of values stays in the first-level cache while the features pass
//! over it.

use super::few::in_panels;
use super::fixed::{FEW, KernelColumns};
use super::gradient::{self, Weighted, argument, weigh};
use super::points::{Aligned, Frame, Lengths, fill_column, row};
use super::{Kernel, check_shapes};
use crate::Real;
use crate::vectorised;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::fmt::Debug;
use std::sync::Arc;

/// Rows of a tile.
const TILE_ROWS: usize = 288;

/// The function that makes a kernel value of the differences of all features.
pub(crate) trait Features: Debug + Send + Sync + 'static {
    /// The value before the first feature.
    const START: f64;
    /// The function of the value so far and the difference of the next feature, in units of its length. Return a
    /// closure marked `#[inline(always)]`.
    fn next<T: Real>(&self) -> impl Fn(T, T) -> T + Copy;
    /// The function that turns the value after the last feature into the kernel value.
    fn last<T: Real>(&self) -> impl Fn(T) -> T + Copy;
    /// The function that turns the value after the last feature into the factor of the derivatives by all differences.
    fn factor<T: Real>(&self) -> impl Fn(T) -> T + Copy;
    /// The function of a difference that times the factor is the derivative by it; 0 at a cusp.
    fn slope<T: Real>(&self) -> impl Fn(T) -> T + Copy;
}

/// A kernel of the features' differences in units of `length`.
#[derive(Debug)]
struct Swept<F> {
    text: String,
    length: f64,
    features: Arc<F>,
}

/// The kernel that `features` describes, of (x − z) / `length`, written `text`.
pub(crate) fn swept<F: Features>(text: String, length: f64, features: F) -> Arc<dyn super::AnyKernel> {
    Arc::new(Swept { text, length, features: Arc::new(features) })
}

impl<F: Features> Swept<F> {
    /// `out[i, j]` = what `last` makes of the value after the last feature, in the units of `frame`.
    fn fill<T: Real>(
        &self,
        frame: &Frame<T>,
        last: impl Fn(T) -> T + Copy,
        x: MatRef<'_, T>,
        z: MatRef<'_, T>,
        mut out: MatMut<'_, T>,
    ) {
        let (d, next) = (x.ncols(), self.features.next());
        let (mut x_packed, mut z_packed, mut spare) = (Aligned::new(), Aligned::new(), Vec::new());
        frame.pack_rows(z, z.nrows(), &mut z_packed);
        for i in (0..x.nrows()).step_by(TILE_ROWS) {
            let rows = TILE_ROWS.min(x.nrows() - i);
            frame.pack_panels(x.subrows(i, rows), rows, &mut x_packed);
            for j in 0..z.nrows() {
                let z = &z_packed[j * d..(j + 1) * d];
                fill_column(out.rb_mut().subrows_mut(i, rows).col_mut(j), &mut spare, |column| {
                    column_of(
                        T::from_f64(F::START),
                        (next, last),
                        column,
                        &x_packed,
                        z,
                        #[inline(always)]
                        |x, z| x - z,
                    );
                });
            }
        }
    }
}

impl<T: Real, F: Features> Kernel<T> for Swept<F> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        self.fill(&Frame::new(z, &Lengths::Same(self.length)), self.features.last(), x, z, out);
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        let (m, frame) = (z.nrows(), Frame::new(z, &Lengths::Same(self.length)));
        let (mut rows, mut columns) = (Aligned::new(), Aligned::new());
        frame.pack_rows(z, m, &mut rows);
        in_panels(&rows, frame.width(), m, &mut columns);
        Some(Box::new(SweptColumns { frame, columns, features: self.features.clone() }))
    }

    fn differentiable(&self) -> bool {
        true
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let (factor, slope) = (self.features.factor(), self.features.slope());
        let (frame, scale) = (Frame::new(z, &Lengths::Same(self.length)), T::from_f64(1.0 / self.length).saturate());
        let factors = |pairs: Weighted<'_, T>, mut out: MatMut<'_, T>| {
            self.fill(&frame, factor, pairs.x, pairs.z, out.rb_mut());
            weigh(argument, pairs.weights, out);
        };
        gradient::add(
            pairs,
            out,
            &factors,
            #[inline(always)]
            |x, z| slope((x - z) * scale),
            &|_, sum| sum * scale,
        );
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let (next, last) = (self.features.next::<f64>(), self.features.last::<f64>());
        let value = (0..x.ncols()).fold(F::START, |value, _| next(value, 0.0));
        out.fill(last(value).saturate());
    }
}

/// Fixed points, feature by feature.
#[derive(Debug)]
struct SweptColumns<T, F> {
    frame: Frame<T>,
    columns: Aligned<T>,
    features: Arc<F>,
}

impl<T: Real, F: Features> KernelColumns<T> for SweptColumns<T, F> {
    fn scratch(&self) -> usize {
        FEW * self.frame.width()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * self.columns.len()
    }

    fn rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (d, mut spare) = (x.ncols(), Vec::new());
        let (next, last) = (self.features.next(), self.features.last());
        for (i, values) in out.chunks_exact_mut(z.nrows().max(1)).enumerate() {
            let scaled = &mut scratch[..d];
            self.frame.pack_row(row(x, i, &mut spare), scaled);
            column_of(
                T::from_f64(F::START),
                (next, last),
                values,
                &self.columns,
                scaled,
                #[inline(always)]
                |z, x| x - z,
            );
        }
    }
}

/// The values of points that lie feature by feature in `tall` with one other point; `difference` takes a feature of the
/// former first.
fn column_of<T: Real>(
    start: T,
    (next, last): (impl Fn(T, T) -> T + Copy, impl Fn(T) -> T + Copy),
    column: &mut [T],
    tall: &[T],
    narrow: &[T],
    difference: impl Fn(T, T) -> T + Copy,
) {
    let rows = column.len();
    vectorised(
        #[inline(always)]
        || {
            column.fill(start);
            for (&narrow, tall) in narrow.iter().zip(tall.chunks_exact(rows)) {
                for (value, &tall) in column.iter_mut().zip(tall) {
                    *value = next(*value, difference(tall, narrow));
                }
            }
            for value in column.iter_mut() {
                *value = last(*value).saturate();
            }
        },
    );
}
