//! The residuals of a projection, one for each row: r_i = k(x_i, x_i) − ‖phi(x_i)‖².

use crate::{Real, vectorised};
use faer::MatRef;

/// Subtracts the squares of the columns of `phi` (b x p, column-major) from `residual`, in f64, column after column.
///
/// Cost 2bp flops.
pub fn subtract_columns<T: Real>(phi: MatRef<'_, T>, residual: &mut [f64]) {
    for j in 0..phi.ncols() {
        let column = phi.col(j).try_as_col_major().expect("features are column-major").as_slice();
        vectorised(
            #[inline(always)]
            || {
                for (r, value) in residual.iter_mut().zip(column) {
                    let value = kstore::Real::to_f64(*value);
                    *r -= value * value;
                }
            },
        );
    }
}
