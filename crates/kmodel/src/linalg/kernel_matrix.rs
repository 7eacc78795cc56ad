//! Kernel matrices that are small enough to be held.

use super::strips::row_strips;
use faer::{Mat, MatRef};
use kapprox::KernelFunction;
use kstore::Workers;

/// Rows of x that a worker takes at a time.
const STRIP: usize = 256;

/// The kernel between the rows of x and those of z. Strips of x go to the workers.
pub fn kernel_matrix(
    kernel: &dyn KernelFunction<f64>,
    x: MatRef<'_, f64>,
    z: MatRef<'_, f64>,
    workers: &Workers,
) -> Mat<f64> {
    let mut k = Mat::zeros(x.nrows(), z.nrows());
    workers.each(row_strips(k.as_mut(), STRIP), |(first, out)| {
        kernel.block(x.subrows(first, out.nrows()), z, out);
    });
    k
}
