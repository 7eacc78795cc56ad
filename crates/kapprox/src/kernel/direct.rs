//! Kernels of a number that is computed feature by feature from the original values of two points:
//! a sum of [terms](super::terms), or a [sweep](super::sweep).

use super::panel::{Epilogue, PointStats};
use super::points::{Frame, LengthScales, finite_inverse};
use super::profile::{Argument, KernelComputation, Profile, ScalarFunction, identity, profile_kernel};
use super::terms::{Products, Term, is_overflow};
use super::{sparse_argument::SparseArgument, sweep::DifferenceAccumulator};
use crate::{Real, vectorised};
use faer::MatRef;
use std::{marker::PhantomData, sync::Arc};

/// Returns the kernel `profile(Σ_k M(x_k, z_k))` of the original values, written `text`.
pub(crate) fn sum_kernel<M: Term, P: Profile>(text: String, _term: M, profile: P) -> Arc<dyn super::AnyKernel> {
    profile_kernel(text, SumArgument(PhantomData::<M>), profile)
}

/// Returns the kernel `profile(x·z)`, written `text`.
pub(crate) fn inner_product_kernel<P: Profile>(text: String, profile: P) -> Arc<dyn super::AnyKernel> {
    sum_kernel(text, Products, profile)
}

#[derive(Debug)]
struct SumArgument<M>(PhantomData<M>);

impl<M: Term> Argument for SumArgument<M> {
    fn run<T: Real, E: KernelComputation<T>>(&self, engine: E, profile: impl ScalarFunction<T>, _: bool) -> E::Output {
        engine.sums::<M, _>(SumEpilogue(profile, PhantomData::<M>))
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        M::slope
    }

    fn self_argument<T: Real>(&self, x: &[T]) -> f64 {
        M::self_sum(x)
    }

    fn sparse_argument(&self) -> Option<SparseArgument> {
        M::SPARSE_ARGUMENT
    }
}

/// k(x, z) = `profile(sum)`, kept finite even if the sum overflows.
pub(crate) struct SumEpilogue<F, M>(pub(crate) F, pub(crate) PhantomData<M>);

impl<T: Real, F: Fn(T) -> T + Copy, M: Term> Epilogue<T> for SumEpilogue<F, M> {
    #[inline(always)]
    fn values(&self, _: PointStats<T>, _: &[T], _: T, sums: &[T], values: &mut [T]) -> bool {
        let mut has_suspect = false;
        for (value, &sum) in values.iter_mut().zip(sums) {
            has_suspect |= M::OVERFLOWS && is_overflow(sum);
            *value = (self.0)(sum).saturate();
        }
        has_suspect
    }

    fn recompute(&self, _: PointStats<T>, _: PointStats<T>, sum: T, x: &[T], z: &[T]) -> Option<T> {
        (M::OVERFLOWS && is_overflow(sum)).then(|| {
            let sum = M::finite_sum(x, z);
            vectorised!((self.0)(sum).saturate())
        })
    }
}

/// Returns the kernel `profile(f)`, written `text`, with the number f that `accumulator` computes
/// from (x − z) / `length`.
pub(crate) fn difference_kernel<F: DifferenceAccumulator, P: Profile>(
    text: String,
    length: f64,
    accumulator: F,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    profile_kernel(text, DifferenceArgument { length, accumulator: Arc::new(accumulator) }, profile)
}

/// The number that `accumulator` computes from the differences x − z of the features, in units of
/// `length`.
#[derive(Debug)]
struct DifferenceArgument<F> {
    length: f64,
    accumulator: Arc<F>,
}

/// The profile of a kernel k = Π f_j with one factor per feature: the identity. Since ∂k/∂x_j = k
/// ∂(ln f_j)/∂x_j, [`Profile::derivative`] returns k, and the slopes are derivatives of logarithms.
#[derive(Debug)]
pub(crate) struct ProductProfile;

impl Profile for ProductProfile {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        identity
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        Some(identity)
    }
}

impl<F: DifferenceAccumulator> Argument for DifferenceArgument<F> {
    fn frame<T: Real>(&self, z: MatRef<'_, T>) -> Frame<T> {
        Frame::new(z, &LengthScales::Shared(self.length), 1.0)
    }

    fn run<T: Real, E: KernelComputation<T>>(&self, engine: E, profile: impl ScalarFunction<T>, _: bool) -> E::Output {
        engine.sweep(&self.accumulator, profile)
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        let (slope, scale) = (self.accumulator.slope(), finite_inverse::<T>(self.length));
        inlined!(|x, z| slope((x - z) * scale))
    }

    fn scale_slope_sum<T: Real>(&self, _: usize, sum: T) -> T {
        sum * finite_inverse::<T>(self.length)
    }

    fn self_argument<T: Real>(&self, x: &[T]) -> f64 {
        let step = self.accumulator.step::<f64>();
        x.iter().fold(F::START, |value, _| step(value, 0.0))
    }
}
