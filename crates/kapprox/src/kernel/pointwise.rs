//! A kernel from any function of two points, for kernels that need not be fast.

use super::{AnyKernel, KernelFunction, assert_shapes};
use crate::Real;
use faer::{MatMut, MatRef};
use std::{fmt, sync::Arc};

/// Returns the kernel `function`, written `text`. Computes each value by one call of `function`, in
/// f64 for every element type.
///
/// The function must be symmetric and positive definite.
///
/// ```
/// use kapprox::kernel::{self, KernelFamily, Kernel};
///
/// static TENT: KernelFamily = KernelFamily::new("tent", "max(0, 1 - |x-z|)", "tent()", |text, _| {
///     kernel::pointwise(text, |x, z| (1.0 - (x[0] - z[0]).abs()).max(0.0))
/// });
/// kernel::register(&TENT)?;
/// let kernel = Kernel::parse("0.5*tent() + linear()")?.build()?;
/// # Ok::<(), kapprox::Error>(())
/// ```
pub fn pointwise(text: String, function: impl Fn(&[f64], &[f64]) -> f64 + Send + Sync + 'static) -> Arc<dyn AnyKernel> {
    Arc::new(Pointwise { text, function })
}

/// Returns the Gaussian kernel, computed from its definition. Tests use it because a test that
/// parses the name of a kernel makes the compiler generate code for every kernel of the registry.
#[cfg(test)]
pub(crate) fn gaussian(sigma: f64) -> Arc<dyn AnyKernel> {
    pointwise(format!("gaussian(sigma={sigma})"), move |x, z| {
        let squared: f64 = x.iter().zip(z).map(|(x, z)| (x - z) * (x - z)).sum();
        (-squared / (2.0 * sigma * sigma)).exp()
    })
}

struct Pointwise<F> {
    text: String,
    function: F,
}

impl<F> fmt::Debug for Pointwise<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn to_f64_rows<T: Real>(points: MatRef<'_, T>) -> Vec<Vec<f64>> {
    points.row_iter().map(|row| row.iter().map(|value| value.to_f64()).collect()).collect()
}

impl<T: Real, F: Fn(&[f64], &[f64]) -> f64 + Send + Sync> KernelFunction<T> for Pointwise<F> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        let (x, z) = (to_f64_rows(x), to_f64_rows(z));
        for (j, z) in z.iter().enumerate() {
            for (i, x) in x.iter().enumerate() {
                out[(i, j)] = T::from_f64((self.function)(x, z));
            }
        }
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.iter_mut().zip(to_f64_rows(x)).for_each(|(value, x)| *value = (self.function)(&x, &x));
    }
}
