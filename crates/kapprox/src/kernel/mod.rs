//! Kernels; positive definite unless documented otherwise.
//!
//! A kernel is written as an expression, `gaussian(sigma=3) + 0.5*linear()`. [`Kernel::parse`]
//! reads it and [`Kernel::build`] builds the kernel. [`registry()`] lists the available kernels. To
//! add a kernel, write a file with a `Profile` and add a line to the registry.
//!
//! ```
//! use faer::{Mat, MatRef};
//! use kapprox::kernel::Kernel;
//!
//! let kernel = Kernel::parse("gaussian(sigma=2)")?.build()?.typed::<f64>();
//! let points = [0.0, 0.0, 3.0, 4.0];
//! let x = MatRef::from_row_major_slice(&points, 2, 2);
//! let mut out = Mat::zeros(2, 1);
//! kernel.block(x, x.subrows(0, 1), out.as_mut());
//! assert_eq!(out[(0, 0)], 1.0);
//! assert!((out[(1, 0)] - (-25.0f64 / 8.0).exp()).abs() < 1e-15);
//! # Ok::<(), kapprox::Error>(())
//! ```

mod algebra;
mod column_choice;
mod column_products;
mod direct;
mod distance_argument;
mod embedded;
mod family;
mod few_rows;
mod fixed_kernel;
mod gradient;
mod input_scale;
mod length_scales;
mod median;
mod node;
mod panel;
mod parse;
mod points;
mod pointwise;
mod profile;
mod registry;
mod sparse;
mod sparse_argument;
mod spec;
mod spectrum;
mod sweep;
mod terms;
mod tokens;
mod transform;

pub mod additive;
pub mod anova;
mod cancelling;
pub mod cauchy;
pub mod chi_squared;
pub mod constant;
mod cosine;
pub mod delta;
pub mod distance;
mod expression;
#[doc(hidden)]
pub mod feature_space;
pub mod gaussian;
pub mod jaccard;
pub mod laplacian;
pub mod linear;
pub mod matern;
pub mod matern_product;
pub mod periodic;
pub mod polynomial;
pub mod rational_quadratic;
pub mod sigmoid;
pub mod skewed_chi_squared;
pub mod ssim;
pub mod subset;

#[doc(hidden)]
pub use column_products::{ColumnProduct, Separation};
#[doc(hidden)]
pub use expression::Expression;
pub use family::{
    BuildFn, BuildListFn, Distance, Domain, KernelFamily, KernelProperties, NumericParameter, ParameterRange, Value,
};
#[doc(hidden)]
pub use family::{ExplicitForm, Homogeneous};
pub(crate) use fixed_kernel::FixedKernel;
#[doc(hidden)]
pub use fixed_kernel::{LandmarkSections, MAX_FEW_ROWS, PreparedPoints};
pub(crate) use panel::{PanelColumn, accumulate, height, read_column, write_column};
pub(crate) use points::{AlignedVec, fill_column, index_chunks, row_slice};
#[cfg(test)]
pub(crate) use pointwise::gaussian as defined_gaussian;
pub use pointwise::pointwise;
pub(crate) use profile::Profile;
pub use registry::{by_name, register, registry};
pub use spec::Kernel;
pub use spectrum::{FrequencyDistribution, Sampler, Spectrum};
pub(crate) use terms::Products;

use crate::{PrecisionPair, Real};
use faer::{MatMut, MatRef};
use std::{fmt::Debug, sync::Arc};

/// A kernel k(x, z) on points with d features.
///
/// Implementations are sequential: the caller splits the work into strips of rows and distributes
/// the strips over threads. The bits of a block therefore do not depend on the number of threads.
///
/// Finite points give finite values, never NaN: a value that overflows becomes the largest finite
/// number.
pub trait KernelFunction<T: Real>: Debug + Send + Sync {
    /// Returns the kernel as an expression that parses back to it: `gaussian(sigma=1.5)`.
    fn spec(&self) -> String;
    /// Returns whether k is positive definite: no kernel matrix has a negative eigenvalue.
    fn is_positive_definite(&self) -> bool {
        true
    }
    /// Returns the distribution of the frequencies of a shift-invariant kernel, or `None` if random
    /// Fourier features do not exist or are not known.
    fn spectrum(&self) -> Option<Spectrum> {
        None
    }
    /// Computes `out[i, j] = k(x_i, z_j)`.
    ///
    /// `x` is b x d and `z` is m x d, both row-major (column stride 1); `out` is b x m,
    /// column-major (row stride 1, any column stride: `out` may be a strip of a taller block).
    /// Other strides give correct results but are slow. Costs about 2 b m d flops. Allocates a few
    /// hundred kilobytes of scratch, and memory for a copy of 288 rows of `x`.
    ///
    /// # Panics
    /// If the three shapes disagree.
    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>);
    /// Prepares the points `z` (m x d, row-major), so that their kernel values with a few rows at a
    /// time are computed quickly. Returns `None` if only [`block`](Self::block) is available, which
    /// is correct but slow for a few rows.
    fn prepare_points(&self, _z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        None
    }
    /// Returns whether the points that [`prepare_points`](Self::prepare_points) prepares also
    /// make blocks of many rows faster.
    fn speeds_up_blocks(&self) -> bool {
        false
    }
    /// Returns the kernel on sparse points, in the layout of [`kpass::sparse`]. Returns `None` if
    /// sparse points are not supported.
    fn sparse_kernel(self: Arc<Self>) -> Option<Arc<dyn AnyKernel>> {
        None
    }
    /// Returns whether [`gradient`](Self::gradient) is implemented.
    fn is_differentiable(&self) -> bool {
        false
    }
    /// Computes `out[i] += Σ_j weights[i, j] ∇k(x_i, z_j)`, where ∇ is the gradient with respect to
    /// the first argument of k. Returns the value of
    /// [`is_differentiable`](Self::is_differentiable); if the value is false, `out` is unchanged.
    ///
    /// `x` is b x d and `z` is m x d, both row-major; `weights` is b x m and `out` is b x d, both
    /// with any strides; column-major `weights` are fastest. At a cusp of the kernel, the
    /// derivative is the mean of the derivatives from both sides. Therefore, if k is a function of
    /// the distance itself, a pair with x = z adds nothing. The bits of a row do not depend on the
    /// other rows. Finite points and weights give finite sums. Costs about 5 b m d flops. A product
    /// of kernels has an additional cost: it computes the block of each of its kernels, and
    /// multiplies the block into the weights of every other kernel.
    ///
    /// # Panics
    /// If the four shapes disagree.
    fn gradient(&self, _x: MatRef<'_, T>, _z: MatRef<'_, T>, _weights: MatRef<'_, T>, _out: MatMut<'_, T>) -> bool {
        false
    }
    /// Computes `out[i] = k(x_i, x_i)`, in `f64` because the certificate (the relative trace-norm
    /// error) sums these values over all rows. Costs at most b d flops.
    ///
    /// # Panics
    /// If the length of `out` is not the number of rows of `x`.
    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]);
}

/// A kernel whose element type is chosen later, with `typed`.
pub trait AnyKernel: KernelFunction<f32> + KernelFunction<f64> {}

impl<K: KernelFunction<f32> + KernelFunction<f64>> AnyKernel for K {}

impl dyn AnyKernel {
    /// Returns the kernel on points of `T`.
    pub fn typed<T: Real>(self: &Arc<Self>) -> Arc<dyn KernelFunction<T>> {
        T::pick(self.clone())
    }
}

impl PrecisionPair for Arc<dyn AnyKernel> {
    type For<T: Real> = Arc<dyn KernelFunction<T>>;
    fn single(self) -> Arc<dyn KernelFunction<f32>> {
        self
    }
    fn double(self) -> Arc<dyn KernelFunction<f64>> {
        self
    }
}

/// Panics unless x is b x d, z is m x d and out is b x m.
#[track_caller]
pub(crate) fn assert_shapes<T>(x: MatRef<'_, T>, z: MatRef<'_, T>, out: &MatMut<'_, T>) {
    assert_eq!(x.ncols(), z.ncols(), "x has {} features, z has {}", x.ncols(), z.ncols());
    assert_eq!(
        (out.nrows(), out.ncols()),
        (x.nrows(), z.nrows()),
        "out must have a row for each x and a column for each z"
    );
}

/// Rejects a kernel that is not positive definite; `what` names the computation that needs a
/// positive definite kernel.
///
/// # Errors
/// [`crate::Error::NotPositiveDefinite`].
pub fn require_positive_definite<T: Real>(kernel: &dyn KernelFunction<T>, what: &'static str) -> crate::Result<()> {
    if kernel.is_positive_definite() {
        return Ok(());
    }
    Err(crate::Error::NotPositiveDefinite { kernel: kernel.spec(), what })
}

/// Rejects kernel values k(x, x) that are not finite in `T`. Since |k(x, z)| is at most the larger
/// of k(x, x) and k(z, z), every value is finite if the diagonal is.
///
/// # Errors
/// [`crate::Error::NotFinite`].
pub fn check_finite<T: crate::Real>(kernel: &str, diag: &[f64]) -> crate::Result<()> {
    if diag.iter().all(|value| T::from_f64(*value).is_finite()) {
        return Ok(());
    }
    let precision = T::NAME;
    let wider = if precision == "f32" { ", or use `precision` f64" } else { "" };
    Err(crate::Error::NotFinite {
        what: format!("the kernel {kernel} of a row with itself, in {precision},"),
        remedy: format!("scale the features (`scale` standard), lower the kernel's degree or gamma{wider}"),
    })
}
