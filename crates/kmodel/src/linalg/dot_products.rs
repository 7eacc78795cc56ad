//! Dot products of columns in f64. The order of summation depends only on the length of the
//! columns.

use faer::{Mat, MatRef};
use kapprox::Real;
use kapprox::map::{column_slice, column_slice_mut};

/// Number of partial sums of a dot product: two AVX-512 registers of f64.
const DOT_PARTIAL_SUMS: usize = 16;

/// Computes `out` = phiᵀ·right in f64, column-major: `out[j + width·k]` = Σ_i phi_ij right_ik,
/// where `width` is the number of columns of phi.
pub fn dot_products<T: Real>(phi: MatRef<'_, T>, right: MatRef<'_, f64>, out: &mut [f64]) {
    let width = phi.ncols();
    kapprox::vectorised!({
        for k in 0..right.ncols() {
            let right_column = column_slice(right.col(k));
            for j in 0..width {
                out[j + width * k] = dot(column_slice(phi.col(j)), right_column);
            }
        }
    });
}

/// Returns Σ x_i y_i in f64. The order of summation depends only on the length.
#[inline(always)]
pub fn dot<T: Real>(x: &[T], y: &[f64]) -> f64 {
    let mut sums = [0.0; DOT_PARTIAL_SUMS];
    let (x_whole, y_whole) = (x.chunks_exact(DOT_PARTIAL_SUMS), y.chunks_exact(DOT_PARTIAL_SUMS));
    let tail: f64 = x_whole.remainder().iter().zip(y_whole.remainder()).map(|(x, y)| x.to_f64() * y).sum();
    for (x, y) in x_whole.zip(y_whole) {
        for i in 0..DOT_PARTIAL_SUMS {
            sums[i] += x[i].to_f64() * y[i];
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Converts a matrix to f64 and writes it to `to`, column-major.
pub fn copy_as_f64<T: Real>(from: MatRef<'_, T>, to: &mut [f64]) {
    let row_count = from.nrows();
    for (j, to) in to.chunks_exact_mut(row_count.max(1)).enumerate().take(from.ncols()) {
        match from.col(j).try_as_col_major() {
            Some(column) => to.iter_mut().zip(column.as_slice()).for_each(|(to, from)| *to = from.to_f64()),
            None => to.iter_mut().zip(from.col(j).iter()).for_each(|(to, from)| *to = from.to_f64()),
        }
    }
}

/// Returns a copy of the matrix in f64.
pub fn to_f64_matrix<T: Real>(from: MatRef<'_, T>) -> Mat<f64> {
    let mut matrix = Mat::zeros(from.nrows(), from.ncols());
    for (j, column) in matrix.col_iter_mut().enumerate() {
        copy_as_f64(from.subcols(j, 1), column_slice_mut(column));
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "blocks are column-major")]
    fn strided_columns_panic() {
        let rows = MatRef::from_row_major_slice(&[1.0, 2.0, 3.0, 4.0], 2, 2);
        dot_products(rows, Mat::identity(2, 1).as_ref(), &mut [0.0; 2]);
    }
}
