//! Kernel matrices that fit in memory.

use super::strips::row_strips;
use faer::{Mat, MatRef};
use kapprox::KernelFunction;
use kstore::Workers;

/// Number of rows of the matrix that a worker computes at a time.
const MATRIX_STRIP_ROWS: usize = 256;

/// Returns the kernel matrix between the rows of x and the rows of z. Each task computes a strip of
/// rows.
pub fn kernel_matrix(
    kernel: &dyn KernelFunction<f64>,
    x: MatRef<'_, f64>,
    z: MatRef<'_, f64>,
    workers: &Workers,
) -> Mat<f64> {
    let mut k = Mat::zeros(x.nrows(), z.nrows());
    workers.for_each(row_strips(k.as_mut(), MATRIX_STRIP_ROWS), |(first_row, out)| {
        kernel.block(x.subrows(first_row, out.nrows()), z, out);
    });
    k
}
