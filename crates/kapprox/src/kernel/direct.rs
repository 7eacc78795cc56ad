//! Blocks of kernels of distances that have no product form: a tiled loop over differences.
//!
//! 32 rows of x and 4 rows of z share a sweep over the features; their 128 sums stay in registers.

use super::points::{Frame, TILE_ROWS, fill_column};
use super::{Kernel, Profile, check_shapes};
use crate::Real;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// Rows of x that a sweep over the features serves: 2 registers of AVX-512 in `f32`, 4 in `f64`.
const LANES: usize = 32;
/// Rows of z that a sweep serves.
const COLUMNS: usize = 4;

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
    let (mut panels, mut z_packed, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    for i in (0..x.nrows()).step_by(TILE_ROWS) {
        let rows = TILE_ROWS.min(x.nrows() - i);
        panels.resize_with(rows.div_ceil(LANES), Vec::new);
        for (p, panel) in panels.iter_mut().enumerate() {
            let first = i + p * LANES;
            frame.pack_columns(x.subrows(first, LANES.min(i + rows - first)), LANES, panel);
        }
        for j in (0..z.nrows()).step_by(COLUMNS) {
            let columns = COLUMNS.min(z.nrows() - j);
            frame.pack_columns(z.subrows(j, columns), COLUMNS, &mut z_packed);
            for (p, panel) in panels.iter().enumerate() {
                let first = i + p * LANES;
                let rows = LANES.min(i + rows - first);
                let values = sweep::<T, D>(panel, &z_packed, profile);
                for (c, values) in values.iter().enumerate().take(columns) {
                    let column = out.rb_mut().subrows_mut(first, rows).col_mut(j + c);
                    fill_column(column, &mut spare, |column| column.copy_from_slice(&values[..rows]));
                }
            }
        }
    }
}

/// The kernel between the 32 points of a panel and 4 others, both packed feature by feature.
fn sweep<T: Real, D: Distance>(panel: &[T], z: &[T], profile: impl Fn(T) -> T + Copy) -> [[T; LANES]; COLUMNS] {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut sums = [[T::ZERO; LANES]; COLUMNS];
            for (x, z) in panel.as_chunks::<LANES>().0.iter().zip(z.as_chunks::<COLUMNS>().0) {
                for c in 0..COLUMNS {
                    for lane in 0..LANES {
                        sums[c][lane] = D::add(sums[c][lane], x[lane] - z[c]);
                    }
                }
            }
            for column in &mut sums {
                for value in column.iter_mut() {
                    *value = profile(*value);
                }
            }
            sums
        },
    )
}
