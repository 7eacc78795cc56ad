//! Distances: squared Euclidean distances by a matrix product, L1 distances by sums of maxima.
//!
//! ‖x − z‖² = ‖x‖² + ‖z‖² − 2 x·z costs one fused multiply-add per feature instead of two
//! operations. Σ |x − z| = 2 Σ max(x, z) − Σ x − Σ z costs a maximum and an addition, while the
//! difference, its absolute value and the addition cost three operations of the units that add.
//! Both sums cancel: see [`cancelling`](super::cancelling) for the remedy.

use super::cancelling::{Cancelling, SplitDistance};
use super::points::{Frame, Lengths, half_sums, inverse, row_norms, sum_of_differences};
use super::profile::{Argument, Engine, Profile, ScalarFunction, profile_kernel};
use super::terms::{Magnitudes, Maxima, Products, Squares, Term};
use super::{direct::SumFinish, sparse_argument::SparseArgument};
use crate::Real;
use faer::MatRef;
use std::{fmt::Debug, marker::PhantomData, sync::Arc};

/// Up to this many features, distances are summed from differences, which do not cancel: the loop
/// over the features is too short to amortise the work per row. A guess: not yet measured.
const FEW_FEATURES: usize = 4;

/// A squared distance below this many roundings of ‖x‖² + ‖z‖² is recomputed, for profiles that are
/// smooth in it.
///
/// The largest error seen was 6.8 roundings in `f32` and 16.4 in `f64` (including the rounding of
/// the reference; test `distances_err_by_a_few_roundings`, d up to 784); 64 leaves room and keeps
/// recomputed pairs rare.
const SMOOTH_ROUNDINGS: f64 = 64.0;
/// A distance below this fraction of the points' sizes is recomputed, for profiles of the distance
/// itself. The square root at 0 turns an error δ of r² into δ / 2r, which at 2^-10 of the norms is
/// 16 δ. For the L1 distance, an error of a few roundings of the sum of magnitudes is at most a few
/// thousand roundings of the distance.
const CUSP_FRACTION: f64 = 1.0 / 1024.0;

/// Behaviour of a profile where the distance vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtZero {
    /// Differentiable in the squared distance, more than once.
    Smooth,
    /// Differentiable in the squared distance, but the derivative has a cusp at 0.
    DerivativeCusp,
    /// A function of the distance itself, with a cusp at 0.
    Cusp,
}

impl AtZero {
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
pub(crate) fn l2<P: Profile>(text: String, lengths: Lengths, at_zero: AtZero, profile: P) -> Arc<dyn super::AnyKernel> {
    profile_kernel(text, DistanceArgument { lengths, at_zero, split: PhantomData::<Euclidean> }, profile)
}

/// Returns the kernel `profile(‖x − z‖₁ / length)`, written `text`.
pub(crate) fn l1<P: Profile>(text: String, length: f64, profile: P) -> Arc<dyn super::AnyKernel> {
    let (lengths, at_zero) = (Lengths::Same(length), AtZero::Cusp);
    profile_kernel(text, DistanceArgument { lengths, at_zero, split: PhantomData::<HalfL1> }, profile)
}

#[derive(Debug)]
struct DistanceArgument<S> {
    lengths: Lengths,
    at_zero: AtZero,
    split: PhantomData<S>,
}

impl<S: SplitDistance> Argument for DistanceArgument<S> {
    /// Centring costs only one rounding of each coordinate: equal points stay equal.
    fn frame<T: Real>(&self, z: MatRef<'_, T>) -> Frame<T> {
        Frame::new(z, &self.lengths, if z.ncols() <= FEW_FEATURES { 1.0 } else { S::UNIT })
    }

    fn run<T: Real, E: Engine<T>>(
        &self,
        engine: E,
        profile: impl ScalarFunction<T>,
        differentiated: bool,
    ) -> E::Output {
        let scale = &engine.frame().scale;
        if scale.len() <= FEW_FEATURES {
            return engine.sums::<S::FewFeatures, _>(SumFinish(profile, PhantomData::<S::FewFeatures>));
        }
        let at_zero = if differentiated { self.at_zero.derivative() } else { self.at_zero };
        let finish = Cancelling::<T, S, _>::new(scale, at_zero.recompute_fraction(), profile);
        engine.sums::<S::ManyFeatures, _>(finish)
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        S::FewFeatures::slope
    }

    fn in_units<T: Real>(&self, k: usize, sum: T) -> T {
        S::in_units(inverse(self.lengths.length(k)), sum)
    }

    fn lengths(&self) -> Vec<f64> {
        self.lengths.to_vec()
    }

    fn sparse_argument(&self) -> Option<SparseArgument> {
        match self.lengths {
            Lengths::Same(length) => Some(S::by_entries(length)),
            Lengths::Each(_) => None,
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

    fn by_entries(length: f64) -> SparseArgument {
        SparseArgument::SquaredDistance { length }
    }

    fn offsets_and_sizes<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        row_norms(z, z.len() / d.max(1), offsets);
        sizes.clone_from(offsets);
    }

    #[inline(always)]
    fn by_differences<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T {
        sum_of_differences(x, z, scale, inlined!(|sum, difference| difference.mul_plus(difference, sum)))
    }

    fn in_units<T: Real>(scale: T, sum: T) -> T {
        (sum + sum) * scale * scale
    }
}

/// Half of the L1 distance, Σ max(x, z) − Σ x/2 − Σ z/2: in units of half a length scale, so that
/// sums need no factor 2.
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

    fn by_entries(length: f64) -> SparseArgument {
        SparseArgument::Distance { length }
    }

    #[inline(always)]
    fn size(sum: f64, value: f64) -> f64 {
        sum + value.abs()
    }

    fn offsets_and_sizes<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        half_sums(z, d, offsets, sizes);
    }

    #[inline(always)]
    fn by_differences<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T {
        let sum = sum_of_differences(x, z, scale, inlined!(|sum, difference: T| difference.magnitude() + sum));
        sum * T::from_f64(0.5)
    }

    fn in_units<T: Real>(scale: T, sum: T) -> T {
        sum * scale
    }
}

#[cfg(test)]
mod tests {
    use super::super::panel::Block;
    use super::super::points::AlignedVec;
    use super::super::profile::identity;
    use super::*;
    use kpass::key::{Purpose, Stream};

    /// Returns the largest error of a distance by a split, in roundings of the points' sizes;
    /// `pair` returns the term of two values and its size.
    fn roundings<T: Real, S: SplitDistance>(d: usize, pair: fn(f64, f64) -> (f64, f64)) -> f64 {
        let (b, m) = (256, 256);
        let (stream, mut count) = (Stream::new(d as u64, Purpose::Data, 0), 0..);
        let mut next = || T::from_f64(2.0 * stream.uniform(count.next().unwrap()) - 1.0);
        let x: Vec<T> = (0..b * d).map(|_| next()).collect();
        // every other row of z is a row of x: there the products are largest
        let z: Vec<T> =
            x.iter().enumerate().map(|(i, &x)| if (i / d).is_multiple_of(2) { next() } else { x }).collect();
        let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
        let frame = Frame::new(z, &Lengths::Same(1.0), S::UNIT);
        // a negative fraction: the profile receives the sums unchanged
        let mut got = faer::Mat::zeros(b, m);
        let finish = Cancelling::<T, S, _>::new(&frame.scale, T::ZERO - T::ONE, identity);
        Block { frame: &frame, x, z, out: got.as_mut() }.fill::<S::ManyFeatures, _>(&finish);
        let (mut x_packed, mut z_packed) = (AlignedVec::default(), AlignedVec::default());
        frame.pack_rows(x, b, &mut x_packed);
        frame.pack_rows(z, m, &mut z_packed);
        let mut worst = 0.0f64;
        for (i, x) in x_packed.chunks(d).enumerate() {
            for (j, z) in z_packed.chunks(d).enumerate() {
                let pairs = x.iter().zip(z).map(|(x, z)| pair(x.to_f64(), z.to_f64()));
                let (exact, size) = pairs.fold((0.0, 0.0), |(sum, all), (term, size)| (sum + term, all + size));
                worst = worst.max((got[(i, j)].to_f64() - exact).abs() / (size * T::EPSILON));
            }
        }
        worst
    }

    #[test]
    fn distances_err_by_a_few_roundings() {
        let squares = |x: f64, z: f64| ((x - z) * (x - z), x * x + z * z);
        let spans = |x: f64, z: f64| ((x - z).abs() / 2.0, (x.abs() + z.abs()) / 2.0);
        for d in [5, 8, 32, 90, 300, 784] {
            let l2 = (roundings::<f32, Euclidean>(d, squares), roundings::<f64, Euclidean>(d, squares));
            let l1 = (roundings::<f32, HalfL1>(d, spans), roundings::<f64, HalfL1>(d, spans));
            println!("d={d}: {l2:.2?} {l1:.2?}");
            assert!(l2.0 < SMOOTH_ROUNDINGS / 2.0 && l2.1 < SMOOTH_ROUNDINGS / 2.0, "d={d}: {l2:?} roundings");
            assert!(l1.0 < 16.0 && l1.1 < 32.0, "d={d}: {l1:?} roundings");
            assert!(l2.0 > 0.05 && l1.0 > 0.05, "measures nothing");
        }
    }
}
