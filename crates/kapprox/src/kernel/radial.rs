//! Blocks of kernels of the Euclidean distance: a matrix product, and a profile while the tile is in cache.
//!
//! ‖x − z‖² = ‖x‖² + ‖z‖² − 2 x·z costs one fused multiply-add per feature instead of two operations, but it cancels: see
//! [`cancelling`](super::cancelling) for the remedy.

use super::Spectrum;
use super::cancelling::{Cancelling, Split};
use super::few::{self, Own};
use super::fixed::KernelColumns;
use super::gradient::{self, Weighted, argument, weigh};
use super::panel::{self, Packed, Products, Squares};
use super::points::{Frame, Lengths, panel_norm, panel_norms, row_norms, squared_distance};
use super::{Kernel, Profile, check_shapes, direct::Plain};
use crate::Real;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// Up to this many features distances are summed from differences, which do not cancel. A guess: not yet measured.
const FEW_FEATURES: usize = 4;

/// Below how many roundings of ‖x‖² + ‖z‖² a squared distance is computed again, for profiles smooth in it.
///
/// The largest error seen was 6.8 roundings in `f32` and 16.4 in `f64` (there with the rounding of the reference; test
/// `the_product_errs_by_a_few_roundings`, d up to 784); 64 leaves room, and keeps recomputed pairs rare.
const SMOOTH: f64 = 64.0;
/// The share of ‖x‖² + ‖z‖² below which a squared distance is computed again, for profiles with a square root at 0:
/// these turn an error δ of r² into δ / 2r, which at 2^-10 of the norms is 16 δ.
const ROUGH: f64 = 1.0 / 1024.0;
/// How a profile behaves where the distance vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtZero {
    /// Differentiable in the squared distance, more than once.
    Smooth,
    /// Differentiable in the squared distance, but the derivative has a cusp at 0.
    Bend,
    /// A function of the distance itself, with a cusp at 0.
    Cusp,
}

impl AtZero {
    /// The share of ‖x‖² + ‖z‖² below which a squared distance is computed from differences.
    fn near<T: Real>(self) -> T {
        T::from_f64(match self {
            Self::Smooth | Self::Bend => SMOOTH * T::EPSILON,
            Self::Cusp => ROUGH,
        })
    }

    /// How the profile's derivative behaves.
    fn of_derivative(self) -> Self {
        match self {
            Self::Smooth => Self::Smooth,
            Self::Bend | Self::Cusp => Self::Cusp,
        }
    }
}

/// A kernel of Σ ((x − z) / length)².
#[derive(Debug)]
struct Radial<P> {
    text: String,
    lengths: Lengths,
    at_zero: AtZero,
    profile: P,
}

/// The kernel `profile(Σ ((x − z) / length)²)`, written `text`.
pub(crate) fn l2<P: Profile>(text: String, lengths: Lengths, at_zero: AtZero, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Radial { text, lengths, at_zero, profile })
}

/// `out[i, j] = profile(r²)`, in the units of `frame`.
fn fill<T: Real>(
    frame: &Frame<T>,
    at_zero: AtZero,
    profile: impl Fn(T) -> T + Copy,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    out: MatMut<'_, T>,
) {
    if x.ncols() <= FEW_FEATURES {
        panel::block::<T, Squares, _>(frame, &mut Plain(profile), x, z, out);
    } else {
        let mut finish = Cancelling::<T, Euclidean, _>::new(&frame.scale, at_zero.near(), profile);
        panel::block::<T, Products, _>(frame, &mut finish, x, z, out);
    }
}

impl<T: Real, P: Profile> Kernel<T> for Radial<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn spectrum(&self) -> Option<Spectrum> {
        Some(Spectrum { law: self.profile.law()?, lengths: self.lengths.to_vec(), amplitude: 1.0 })
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        fill(&Frame::new(z, &self.lengths), self.at_zero, self.profile.function(), x, z, out);
    }

    fn differentiable(&self) -> bool {
        self.profile.derivative::<T>().is_some()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let Some(derivative) = self.profile.derivative() else { return false };
        let (frame, at_zero) = (Frame::new(z, &self.lengths), self.at_zero.of_derivative());
        let factors = |pairs: Weighted<'_, T>, mut out: MatMut<'_, T>| {
            fill(&frame, at_zero, argument, pairs.x, pairs.z, out.rb_mut());
            weigh(derivative, pairs.weights, out);
        };
        let in_units = |k: usize, sum: T| (sum + sum) * frame.scale[k] * frame.scale[k];
        gradient::add(pairs, out, &factors, gradient::difference, &in_units);
        true
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        let (frame, profile) = (Frame::new(z, &self.lengths), self.profile.function());
        Some(if z.ncols() <= FEW_FEATURES {
            few::columns(frame, Plain(profile), Squares, z)
        } else {
            let finish = Cancelling::<T, Euclidean, _>::new(&frame.scale, self.at_zero.near(), profile);
            few::columns(frame, finish, Products, z)
        })
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(self.profile.function::<f64>()(0.0));
    }
}

/// The squared distance as ‖x‖² + ‖z‖² − 2 x·z.
struct Euclidean;

impl<T: Real> Split<T> for Euclidean {
    /// Norms are offsets and sizes; then x becomes −2 x, so that sums need no factor.
    fn rows(packed: &mut Packed<T>, d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        panel_norms(&packed.x, packed.height, d, offsets);
        sizes.clone_from(offsets);
        minus_twice(&mut packed.x);
    }

    fn row(x: &mut [T]) -> Own<T> {
        let norm = panel_norm(x);
        minus_twice(x);
        Own { offset: norm, size: norm }
    }

    fn columns(packed: &Packed<T>, d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        row_norms(&packed.z, packed.z.len() / d.max(1), offsets);
        sizes.clone_from(offsets);
    }

    #[inline(always)]
    fn again(x: &[T], z: &[T], scale: &[T]) -> T {
        squared_distance(x, z, scale)
    }
}

/// Replaces x by −2 x.
fn minus_twice<T: Real>(x: &mut [T]) {
    let minus_two = T::ZERO - T::ONE - T::ONE;
    x.iter_mut().for_each(|value| *value *= minus_two);
}

#[cfg(test)]
mod tests {
    use super::super::points::Aligned;
    use super::*;

    /// The largest error of a squared distance by product, in roundings of ‖x‖² + ‖z‖².
    fn roundings<T: Real>(d: usize) -> f64 {
        let (b, m) = (256, 256);
        let mut state = d as u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        };
        let x: Vec<T> = (0..b * d).map(|_| next()).collect();
        // half of the rows are nearly those of x: there the products are largest
        let z: Vec<T> =
            x.iter().enumerate().map(|(i, &x)| if (i / d).is_multiple_of(2) { next() } else { x }).collect();
        let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
        let frame = Frame::new(z, &Lengths::Same(1.0));
        // never near: the profile sees what the product gives
        let mut got = faer::Mat::zeros(b, m);
        let identity = |squared: T| squared;
        panel::block::<T, Products, _>(
            &frame,
            &mut Cancelling::<T, Euclidean, _>::new(&frame.scale, T::ZERO - T::ONE, identity),
            x,
            z,
            got.as_mut(),
        );
        let (mut x_packed, mut z_packed) = (Aligned::new(), Aligned::new());
        frame.pack_rows(x, b, &mut x_packed);
        frame.pack_rows(z, m, &mut z_packed);
        let mut worst = 0.0f64;
        for (i, x) in x_packed.chunks(d).enumerate() {
            for (j, z) in z_packed.chunks(d).enumerate() {
                let pairs = || x.iter().zip(z).map(|(x, z)| (x.to_f64(), z.to_f64()));
                let exact: f64 = pairs().map(|(x, z)| (x - z) * (x - z)).sum();
                let norms: f64 = pairs().map(|(x, z)| x * x + z * z).sum();
                worst = worst.max((got[(i, j)].to_f64() - exact).abs() / (norms * T::EPSILON));
            }
        }
        worst
    }

    #[test]
    fn the_product_errs_by_a_few_roundings() {
        for d in [5, 8, 32, 90, 300, 784] {
            let (single, double) = (roundings::<f32>(d), roundings::<f64>(d));
            println!("d={d}: {single:.2} {double:.2}");
            assert!(single < SMOOTH / 2.0 && double < SMOOTH / 2.0, "d={d}: {single} and {double} roundings");
            assert!(single > 0.05, "measures nothing");
        }
    }
}
