//! Blocks of kernels of the L1 distance: sums of the larger of two values, and a profile while the tile is in cache.
//!
//! Σ |x − z| = 2 Σ max(x, z) − Σ x − Σ z costs a maximum and an addition per feature, where the difference, its sign and the
//! addition cost three on the units that add; but it cancels: see [`cancelling`](super::cancelling) for the remedy.

use super::Spectrum;
use super::cancelling::{Cancelling, Split};
use super::direct::Plain;
use super::few::{self, Own};
use super::fixed::KernelColumns;
use super::gradient::{self, Slope, Weighted, argument, weigh};
use super::panel::{self, Magnitudes, Maxima, Packed};
use super::points::{Frame, Lengths, absolute_distance, panel_sum, panel_sums, row_sums};
use super::{Kernel, Profile, check_shapes};
use crate::Real;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// Up to this many features distances are summed from differences, which do not cancel: the loop over them is too short to
/// pay for the sums of rows.
const FEW_FEATURES: usize = 4;

/// The share of (Σ |x| + Σ |z|)/2 below which a distance is computed from differences: an error of a few roundings of
/// that sum is then a few thousand roundings of the distance at most.
const NEAR: f64 = 1.0 / 1024.0;

/// A kernel of ‖x − z‖₁ in units of `length`.
#[derive(Debug)]
struct Manhattan<P> {
    text: String,
    length: f64,
    profile: P,
}

/// The kernel `profile(‖x − z‖₁ / length)`, written `text`.
pub(crate) fn l1<P: Profile>(text: String, length: f64, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Manhattan { text, length, profile })
}

impl<T: Real, P: Profile> Kernel<T> for Manhattan<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn spectrum(&self) -> Option<Spectrum> {
        Some(Spectrum { law: self.profile.law()?, lengths: vec![self.length], amplitude: 1.0 })
    }

    /// Centring costs a rounding of each coordinate and nothing of its own: equal points stay equal.
    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        fill(&frame_of(z, self.length), self.profile.function(), x, z, out);
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        let profile = self.profile.function();
        let frame = frame_of(z, self.length);
        Some(if z.ncols() <= FEW_FEATURES {
            few::columns(frame, Plain(profile), Magnitudes, z)
        } else {
            let finish = Cancelling::<T, Spans, _>::new(&frame.scale, T::from_f64(NEAR), profile);
            few::columns(frame, finish, Maxima, z)
        })
    }

    fn differentiable(&self) -> bool {
        self.profile.derivative::<T>().is_some()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let Some(derivative) = self.profile.derivative() else { return false };
        let (frame, scale) = (frame_of(z, self.length), T::from_f64(1.0 / self.length).saturate());
        let factors = |pairs: Weighted<'_, T>, mut out: MatMut<'_, T>| {
            fill(&frame, argument, pairs.x, pairs.z, out.rb_mut());
            weigh(derivative, pairs.weights, out);
        };
        gradient::add(pairs, out, &factors, Magnitudes::slope, &|_, sum| sum * scale);
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(self.profile.function::<f64>()(0.0));
    }
}

/// The frame of distances from the points `z`: for many features in units of half a length, so that sums need no factor 2.
fn frame_of<T: Real>(z: MatRef<'_, T>, length: f64) -> Frame<T> {
    Frame::new(z, &Lengths::Same(if z.ncols() <= FEW_FEATURES { length } else { 0.5 * length }))
}

/// `out[i, j] = profile(‖x − z‖₁)`, in the units of [`frame_of`].
fn fill<T: Real>(
    frame: &Frame<T>,
    profile: impl Fn(T) -> T + Copy,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    out: MatMut<'_, T>,
) {
    if x.ncols() <= FEW_FEATURES {
        panel::block::<T, Magnitudes, _>(frame, &mut Plain(profile), x, z, out);
    } else {
        let mut finish = Cancelling::<T, Spans, _>::new(&frame.scale, T::from_f64(NEAR), profile);
        panel::block::<T, Maxima, _>(frame, &mut finish, x, z, out);
    }
}

/// Half of the L1 distance, as Σ max(x, z) − Σ x/2 − Σ z/2.
struct Spans;

impl<T: Real> Split<T> for Spans {
    fn rows(packed: &mut Packed<T>, d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        panel_sums(&packed.x, packed.height, d, offsets, sizes);
    }

    fn row(x: &mut [T]) -> Own<T> {
        let (offset, size) = panel_sum(x);
        Own { offset, size }
    }

    fn columns(packed: &Packed<T>, d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>) {
        row_sums(&packed.z, d, offsets, sizes);
    }

    #[inline(always)]
    fn again(x: &[T], z: &[T], scale: &[T]) -> T {
        absolute_distance(x, z, scale)
    }
}

#[cfg(test)]
mod tests {
    use super::super::points::Aligned;
    use super::*;

    /// The largest error of a distance by maxima, in roundings of (Σ |x| + Σ |z|)/2.
    fn roundings<T: Real>(d: usize) -> f64 {
        let (b, m) = (60, 80);
        let mut state = d as u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        };
        let x: Vec<T> = (0..b * d).map(|_| next()).collect();
        let z: Vec<T> = (0..m * d).map(|_| next()).collect();
        let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
        let frame = Frame::new(z, &Lengths::Same(0.5));
        // never near: the profile sees what the maxima give
        let mut got = faer::Mat::zeros(b, m);
        let identity = |distance: T| distance;
        let mut finish = Cancelling::<T, Spans, _>::new(&frame.scale, T::ZERO - T::ONE, identity);
        panel::block::<T, Maxima, _>(&frame, &mut finish, x, z, got.as_mut());
        let (mut x_packed, mut z_packed) = (Aligned::new(), Aligned::new());
        frame.pack_rows(x, b, &mut x_packed);
        frame.pack_rows(z, m, &mut z_packed);
        let mut worst = 0.0f64;
        for (i, x) in x_packed.chunks(d).enumerate() {
            for (j, z) in z_packed.chunks(d).enumerate() {
                let pairs = || x.iter().zip(z).map(|(x, z)| (x.to_f64(), z.to_f64()));
                let exact: f64 = pairs().map(|(x, z)| (x - z).abs() / 2.0).sum();
                let sizes: f64 = pairs().map(|(x, z)| (x.abs() + z.abs()) / 2.0).sum();
                worst = worst.max((got[(i, j)].to_f64() - exact).abs() / (sizes * T::EPSILON));
            }
        }
        worst
    }

    #[test]
    fn maxima_err_by_a_few_roundings() {
        for d in [5, 8, 32, 90, 300, 784] {
            let (single, double) = (roundings::<f32>(d), roundings::<f64>(d));
            println!("d={d}: {single:.2} {double:.2}");
            assert!(single < 16.0 && double < 32.0, "d={d}: {single} and {double} roundings");
            assert!(single > 0.05, "measures nothing");
        }
    }
}
