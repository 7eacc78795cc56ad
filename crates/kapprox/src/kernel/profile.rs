//! Kernels of the form `profile(argument)`: the argument is one number computed from two points (a
//! distance, an inner product or another sum over features), and the profile is a scalar function.

use super::fixed_kernel::PreparedPoints;
use super::gradient::{self, WeightedPairs, weigh_factors};
use super::panel::{Epilogue, ValueBlock};
use super::points::{Frame, row_slice};
use super::sweep::{self, DifferenceAccumulator};
use super::{
    AnyKernel, FrequencyDistribution, KernelFunction, Spectrum, assert_shapes, few_rows, sparse::SparseKernel,
    sparse_argument::SparseArgument, terms::Term,
};
use crate::Real;
use faer::{MatMut, MatRef, prelude::*};
use std::{fmt::Debug, sync::Arc};

/// The scalar function that converts an [`Argument`] to a kernel value.
///
/// A new kernel supplies only this function, and the engines compute the blocks. The argument is
/// one of the following:
/// * the squared distance, (‖x−z‖₂/σ)², with
///   [`squared_distance_kernel`](super::distance_argument::squared_distance_kernel);
/// * the L1 distance, ‖x−z‖₁/σ, with
///   [`l1_distance_kernel`](super::distance_argument::l1_distance_kernel);
/// * the inner product x·z, with
///   [`direct::inner_product_kernel`](super::direct::inner_product_kernel).
pub(crate) trait Profile: Debug + Send + Sync + 'static {
    const POSITIVE_DEFINITE: bool = true;
    /// Returns the function with its constants converted to `T`. It is inlined into the loops of
    /// every instruction set: return a closure marked `#[inline(always)]` that calls only
    /// [`Real`]'s arithmetic.
    fn function<T: Real>(&self) -> impl ScalarFunction<T> + use<Self, T>;
    /// Returns the derivative of the function with respect to its argument; at a cusp it is 0.
    /// Returns `None` if the derivative is not known.
    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<Self, T>> {
        None::<fn(T) -> T>
    }
    /// Returns the distribution of the kernel's frequencies, in units of one over the length scale;
    /// see [`KernelFunction::spectrum`].
    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        None
    }
}

/// A scalar function that can be copied into loops and threads.
pub(crate) trait ScalarFunction<T>: Fn(T) -> T + Copy + Send + Sync + 'static {}

impl<T, F: Fn(T) -> T + Copy + Send + Sync + 'static> ScalarFunction<T> for F {}

/// A computation with a kernel: of a block, or of points prepared for a few rows.
pub(crate) trait KernelComputation<T: Real> {
    type Output;
    fn frame(&self) -> &Frame<T>;
    /// Computes with the kernel values that `epilogue` derives from the sums Σ_k M(x_k, z_k).
    fn sums<M: Term, F: Epilogue<T> + Send + Sync + 'static>(self, epilogue: F) -> Self::Output;
    /// Computes with the kernel values `profile(f)`, where `accumulator` computes the number f from
    /// the differences of a pair.
    fn sweep<F: DifferenceAccumulator>(self, accumulator: &Arc<F>, profile: impl ScalarFunction<T>) -> Self::Output;
}

impl<T: Real> KernelComputation<T> for ValueBlock<'_, T> {
    type Output = ();

    fn frame(&self) -> &Frame<T> {
        self.frame
    }
    fn sums<M: Term, F: Epilogue<T> + Send + Sync + 'static>(self, epilogue: F) {
        self.fill::<M, _>(&epilogue);
    }
    fn sweep<F: DifferenceAccumulator>(self, accumulator: &Arc<F>, profile: impl ScalarFunction<T>) {
        sweep::fill_block(self, &**accumulator, profile);
    }
}

/// Points to prepare for a few rows at a time.
struct PointPreparation<'a, T> {
    frame: Frame<T>,
    z: MatRef<'a, T>,
}

impl<T: Real> KernelComputation<T> for PointPreparation<'_, T> {
    type Output = Box<dyn PreparedPoints<T>>;

    fn frame(&self) -> &Frame<T> {
        &self.frame
    }
    fn sums<M: Term, F: Epilogue<T> + Send + Sync + 'static>(self, epilogue: F) -> Self::Output {
        few_rows::prepare_points::<T, M, _>(self.frame, epilogue, self.z)
    }
    fn sweep<F: DifferenceAccumulator>(self, accumulator: &Arc<F>, profile: impl ScalarFunction<T>) -> Self::Output {
        sweep::prepare_points(self.frame, accumulator, profile, self.z)
    }
}

/// The number, computed from two points, to which a profile is applied.
pub(crate) trait Argument: Debug + Send + Sync + 'static {
    /// Returns the shift and the units for computing the argument of points with the points `z`.
    fn frame<T: Real>(&self, z: MatRef<'_, T>) -> Frame<T> {
        Frame::identity(z.ncols())
    }
    /// Runs an engine with the values `profile(argument)`. If `is_derivative` is true, `profile`
    /// is a derivative, and the arguments are computed accurately enough for it.
    fn run<T: Real, E: KernelComputation<T>>(
        &self,
        engine: E,
        profile: impl ScalarFunction<T>,
        is_derivative: bool,
    ) -> E::Output;
    /// Returns the derivative of the argument with respect to a feature of x, up to a constant
    /// factor, as a function of the feature's values in x and z. At a jump, the derivative is the
    /// mean of its values on both sides. Return a closure marked `#[inline(always)]`.
    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy;
    /// Multiplies a sum of slopes of feature k by the factor that [`slope`](Self::slope) omits.
    fn scale_slope_sum<T: Real>(&self, _k: usize, sum: T) -> T {
        sum
    }
    /// Returns the argument of a point with itself: 0 if the argument is a distance.
    fn self_argument<T: Real>(&self, _x: &[T]) -> f64 {
        0.0
    }
    /// Returns the length scale of each feature, or one for all.
    fn length_scales(&self) -> Vec<f64> {
        vec![1.0]
    }
    /// Returns the argument for sparse points, or `None` if the entries that both points have, and
    /// the norms of the points, do not determine it.
    fn sparse_argument(&self) -> Option<SparseArgument> {
        None
    }
}

#[inline(always)]
pub(super) fn identity<T>(argument: T) -> T {
    argument
}

pub(super) fn profile_kernel<A: Argument, P: Profile>(text: String, argument: A, profile: P) -> Arc<dyn AnyKernel> {
    Arc::new(ProfileKernel { text, argument, profile: Arc::new(profile) })
}

#[derive(Debug)]
pub(super) struct ProfileKernel<A, P> {
    pub(super) text: String,
    pub(super) argument: A,
    pub(super) profile: Arc<P>,
}

impl<T: Real, A: Argument, P: Profile> KernelFunction<T> for ProfileKernel<A, P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn is_positive_definite(&self) -> bool {
        P::POSITIVE_DEFINITE
    }

    fn spectrum(&self) -> Option<Spectrum> {
        let amplitude = self.profile.function::<f64>()(0.0);
        Some(Spectrum {
            distribution: self.profile.frequency_distribution()?,
            length_scales: self.argument.length_scales(),
            amplitude,
        })
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        self.argument.run(ValueBlock { frame: &self.argument.frame(z), x, z, out }, self.profile.function(), false);
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        Some(self.argument.run(PointPreparation { frame: self.argument.frame(z), z }, self.profile.function(), false))
    }

    fn sparse_kernel(self: Arc<Self>) -> Option<Arc<dyn AnyKernel>> {
        let argument = self.argument.sparse_argument()?;
        Some(Arc::new(SparseKernel { text: self.text.clone(), argument, profile: Arc::clone(&self.profile) }))
    }

    fn is_differentiable(&self) -> bool {
        self.profile.derivative::<T>().is_some()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = WeightedPairs::new(x, z, weights, &out);
        let Some(derivative) = self.profile.derivative() else { return false };
        let frame = self.argument.frame(z);
        let factors = |WeightedPairs { x, z, weights }: WeightedPairs<'_, T>, mut out: MatMut<'_, T>| {
            self.argument.run(ValueBlock { frame: &frame, x, z, out: out.rb_mut() }, identity, true);
            weigh_factors(derivative, weights, out);
        };
        gradient::add_gradient(pairs, out, &factors, self.argument.slope(), &|k, sum| {
            self.argument.scale_slope_sum(k, sum)
        });
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let (profile, mut row_buffer) = (self.profile.function::<f64>(), Vec::new());
        let (mut argument, mut value) = (0.0, profile(0.0).saturate());
        for (i, out) in out.iter_mut().enumerate() {
            let self_argument = self.argument.self_argument(row_slice(x, i, &mut row_buffer));
            // if the argument is a distance, it is 0 for every point with itself: evaluate the
            // profile once
            if self_argument != argument {
                (argument, value) = (self_argument, profile(self_argument).saturate());
            }
            *out = value;
        }
    }
}
