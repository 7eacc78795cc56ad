//! Positive-definite kernels.

use crate::Real;
use faer::{MatMut, MatRef};
use std::fmt::Debug;

/// A kernel k(x, z) on points of d numbers.
///
/// Implementations are sequential: whoever calls cuts the work into strips and gives them to threads, so that the
/// bits of a block do not depend on how many there are.
pub trait Kernel<T: Real>: Debug + Send + Sync {
    /// The kernel as an expression that parses back to it: `gaussian(sigma=1.5)`.
    fn spec(&self) -> String;
    /// `out[i, j] = k(x_i, z_j)`.
    ///
    /// `x` is b x d and `z` is m x d, both row-major (column stride 1); `out` is b x m, column-major (row stride 1).
    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>);
    /// `out[i] = k(x_i, x_i)`, in `f64`: the certificate sums it over all rows.
    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]);
}
