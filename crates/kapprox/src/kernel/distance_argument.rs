//! Distances of points: squared Euclidean distances computed by a matrix product, and L1 distances
//! computed by sums of maxima.
//!
//! Per pair and feature, ‖x‖² + ‖z‖² − 2 x·z costs one fused multiply-add, while ‖x − z‖² costs two
//! operations. 2 Σ max(x, z) − Σ x − Σ z costs a maximum and an addition, while Σ |x − z| costs
//! three operations of the processor's adders: a difference, an absolute value and an addition. In
//! both cheap formulas the terms cancel if the points are close; see
//! [`cancelling`](super::cancelling) for the remedy.

use super::cancelling::{OffsetEpilogue, SplitDistance};
use super::points::{Frame, LengthScales, finite_inverse, negative_half_sums, squared_row_norms, sum_of_differences};
use super::profile::{Argument, KernelComputation, Profile, ScalarFunction, profile_kernel};
use super::terms::{Magnitudes, Maxima, Products, Squares, Term};
use super::{direct::SumEpilogue, sparse_argument::SparseArgument};
use crate::Real;
use faer::MatRef;
use std::{fmt::Debug, marker::PhantomData, sync::Arc};

/// If the points have at most this many features, distances are summed from the differences x − z,
/// which do not cancel: the loop over the features is then too short to amortise the work per row
/// of the cheaper formulas. The number is a guess and not yet measured.
const FEW_FEATURES: usize = 4;

/// For a profile that is smooth in the squared distance: a squared distance below this number times
/// the machine epsilon times ‖x‖² + ‖z‖² is recomputed.
///
/// The largest observed error, in units of machine epsilon times ‖x‖² + ‖z‖², was 6.8 in `f32` and
/// 16.4 in `f64` (including the rounding of the reference; test `distances_err_by_a_few_roundings`,
/// d up to 784). A limit of 64 leaves room, and few pairs are recomputed.
const SMOOTH_ROUNDINGS: f64 = 64.0;
/// For a profile that is a function of the distance r itself: a distance below this fraction of the
/// points' sizes is recomputed. For the Euclidean distance, the fraction applies to r². The square
/// root turns an error δ of r² into an error δ / 2r of r, which is 16 δ at the fraction r² = 2^-10
/// of ‖x‖² + ‖z‖² = 1. For the L1 distance, the error is a few machine epsilons times the sum of
/// magnitudes, which is at most a few thousand machine epsilons times the distance.
const CUSP_FRACTION: f64 = 1.0 / 1024.0;

/// Behaviour of a profile where the distance vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Smoothness {
    /// Differentiable in the squared distance, more than once.
    Smooth,
    /// Differentiable in the squared distance, but the derivative has a cusp at 0.
    DerivativeCusp,
    /// A function of the distance itself, with a cusp at 0.
    Cusp,
}

impl Smoothness {
    /// Returns the fraction of the points' sizes below which a distance is computed from
    /// differences.
    fn recompute_fraction<T: Real>(self) -> T {
        T::from_f64(match self {
            Self::Smooth | Self::DerivativeCusp => SMOOTH_ROUNDINGS * T::EPSILON,
            Self::Cusp => CUSP_FRACTION,
        })
    }

    fn derivative(self) -> Self {
        match self {
            Self::Smooth => Self::Smooth,
            Self::DerivativeCusp | Self::Cusp => Self::Cusp,
        }
    }
}

/// Returns the kernel `profile(Σ ((x − z) / length)²)`, written `text`.
pub(crate) fn squared_distance_kernel<P: Profile>(
    text: String,
    length_scales: LengthScales,
    smoothness: Smoothness,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    profile_kernel(text, DistanceArgument { length_scales, smoothness, distance: PhantomData::<Euclidean> }, profile)
}

/// Returns the kernel `profile(Σ |x − z| / length)`, written `text`.
pub(crate) fn l1_distance_kernel<P: Profile>(
    text: String,
    lengths: LengthScales,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    profile_kernel(
        text,
        DistanceArgument { length_scales: lengths, smoothness: Smoothness::Cusp, distance: PhantomData::<HalfL1> },
        profile,
    )
}

#[derive(Debug)]
struct DistanceArgument<S> {
    length_scales: LengthScales,
    smoothness: Smoothness,
    distance: PhantomData<S>,
}

impl<S: SplitDistance> Argument for DistanceArgument<S> {
    /// Centring rounds each coordinate once, and equal points stay equal.
    fn frame<T: Real>(&self, z: MatRef<'_, T>) -> Frame<T> {
        Frame::new(z, &self.length_scales, if z.ncols() <= FEW_FEATURES { 1.0 } else { S::UNIT })
    }

    fn run<T: Real, E: KernelComputation<T>>(
        &self,
        engine: E,
        profile: impl ScalarFunction<T>,
        is_derivative: bool,
    ) -> E::Output {
        let scale = &engine.frame().scale;
        if scale.len() <= FEW_FEATURES {
            return engine.sums::<S::FewFeatures, _>(SumEpilogue(profile, PhantomData::<S::FewFeatures>));
        }
        let smoothness = if is_derivative { self.smoothness.derivative() } else { self.smoothness };
        let epilogue = OffsetEpilogue::<T, S, _>::new(scale, smoothness.recompute_fraction(), profile);
        engine.sums::<S::ManyFeatures, _>(epilogue)
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        S::FewFeatures::slope
    }

    fn scale_slope_sum<T: Real>(&self, k: usize, sum: T) -> T {
        S::scale_slope_sum(finite_inverse(self.length_scales.length_scale(k)), sum)
    }

    fn length_scales(&self) -> Vec<f64> {
        self.length_scales.to_vec()
    }

    fn sparse_argument(&self) -> Option<SparseArgument> {
        match self.length_scales {
            LengthScales::Shared(length) => Some(S::sparse_argument(length)),
            LengthScales::PerFeature(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Euclidean;

impl SplitDistance for Euclidean {
    type FewFeatures = Squares;
    type ManyFeatures = Products;
    const UNIT: f64 = 1.0;
    const ROW_FACTOR: f64 = -2.0;
    const OFFSET_FACTOR: f64 = 1.0;
    const SIZE_FACTOR: Option<f64> = None;

    #[inline(always)]
    fn offset(sum: f64, value: f64) -> f64 {
        value.mul_add(value, sum)
    }

    fn sparse_argument(length: f64) -> SparseArgument {
        SparseArgument::SquaredDistance { length }
    }

    fn offsets_and_sizes<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        squared_row_norms(z, z.len() / d.max(1), offsets);
        sizes.clone_from(offsets);
    }

    #[inline(always)]
    fn direct_distance<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T {
        sum_of_differences(x, z, scale, inlined!(|sum, difference| difference.mul_plus(difference, sum)))
    }

    fn scale_slope_sum<T: Real>(scale: T, sum: T) -> T {
        (sum + sum) * scale * scale
    }
}

/// Half of the L1 distance, Σ max(x, z) − Σ x/2 − Σ z/2. It is in units of half a length scale, so
/// that its sums need no factor 2.
#[derive(Debug)]
struct HalfL1;

impl SplitDistance for HalfL1 {
    type FewFeatures = Magnitudes;
    type ManyFeatures = Maxima;
    const UNIT: f64 = 0.5;
    const ROW_FACTOR: f64 = 1.0;
    const OFFSET_FACTOR: f64 = -0.5;
    const SIZE_FACTOR: Option<f64> = Some(0.5);

    #[inline(always)]
    fn offset(sum: f64, value: f64) -> f64 {
        sum + value
    }

    fn sparse_argument(length: f64) -> SparseArgument {
        SparseArgument::Distance { length }
    }

    #[inline(always)]
    fn size(sum: f64, value: f64) -> f64 {
        sum + value.abs()
    }

    fn offsets_and_sizes<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        negative_half_sums(z, d, offsets, sizes);
    }

    #[inline(always)]
    fn direct_distance<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T {
        let sum = sum_of_differences(x, z, scale, inlined!(|sum, difference: T| difference.magnitude() + sum));
        sum * T::from_f64(0.5)
    }

    fn scale_slope_sum<T: Real>(scale: T, sum: T) -> T {
        sum * scale
    }
}

#[cfg(test)]
mod tests {
    use super::super::panel::ValueBlock;
    use super::super::points::AlignedVec;
    use super::super::profile::identity;
    use super::*;
    use kpass::key::{Purpose, Stream};

    /// Returns the largest error of the distances that `S` computes, in units of the machine
    /// epsilon times the points' sizes. `term_and_size(x, z)` returns the exact term of two values,
    /// and its size.
    fn max_error_in_roundings<T: Real, S: SplitDistance>(d: usize, term_and_size: fn(f64, f64) -> (f64, f64)) -> f64 {
        let (b, m) = (256, 256);
        let (stream, mut count) = (Stream::new(d as u64, Purpose::Data, 0), 0..);
        let mut next = || T::from_f64(2.0 * stream.uniform(count.next().unwrap()) - 1.0);
        let x: Vec<T> = (0..b * d).map(|_| next()).collect();
        // every second row of z is a row of x, because the products x·z are largest for equal
        // points
        let z: Vec<T> =
            x.iter().enumerate().map(|(i, &x)| if (i / d).is_multiple_of(2) { next() } else { x }).collect();
        let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
        let frame = Frame::new(z, &LengthScales::Shared(1.0), S::UNIT);
        // a negative fraction: the profile receives the sums unchanged
        let mut distances = faer::Mat::zeros(b, m);
        let epilogue = OffsetEpilogue::<T, S, _>::new(&frame.scale, T::ZERO - T::ONE, identity);
        ValueBlock { frame: &frame, x, z, out: distances.as_mut() }.fill::<S::ManyFeatures, _>(&epilogue);
        let (mut x_packed, mut z_packed) = (AlignedVec::default(), AlignedVec::default());
        frame.pack_rows(x, b, &mut x_packed);
        frame.pack_rows(z, m, &mut z_packed);
        let mut max_error = 0.0f64;
        for (i, x) in x_packed.chunks(d).enumerate() {
            for (j, z) in z_packed.chunks(d).enumerate() {
                let pairs = x.iter().zip(z).map(|(x, z)| term_and_size(x.to_f64(), z.to_f64()));
                let (exact, size) = pairs.fold((0.0, 0.0), |(sum, all), (term, size)| (sum + term, all + size));
                max_error = max_error.max((distances[(i, j)].to_f64() - exact).abs() / (size * T::EPSILON));
            }
        }
        max_error
    }

    #[test]
    fn distances_err_by_a_few_roundings() {
        let squares = |x: f64, z: f64| ((x - z) * (x - z), x * x + z * z);
        let spans = |x: f64, z: f64| ((x - z).abs() / 2.0, (x.abs() + z.abs()) / 2.0);
        for d in [5, 8, 32, 90, 300, 784] {
            let l2 = (
                max_error_in_roundings::<f32, Euclidean>(d, squares),
                max_error_in_roundings::<f64, Euclidean>(d, squares),
            );
            let l1 = (max_error_in_roundings::<f32, HalfL1>(d, spans), max_error_in_roundings::<f64, HalfL1>(d, spans));
            println!("d={d}: {l2:.2?} {l1:.2?}");
            assert!(l2.0 < SMOOTH_ROUNDINGS / 2.0 && l2.1 < SMOOTH_ROUNDINGS / 2.0, "d={d}: {l2:?} roundings");
            assert!(l1.0 < 16.0 && l1.1 < 32.0, "d={d}: {l1:?} roundings");
            assert!(l2.0 > 0.05 && l1.0 > 0.05, "measures nothing");
        }
    }
}
