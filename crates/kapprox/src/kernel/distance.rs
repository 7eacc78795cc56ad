//! The distance kernel, k(x, z) = (‖x‖ + ‖z‖ − ‖x − z‖) / 2. The squared distance of two points in
//! its feature space is their Euclidean distance: ‖k(x, ·) − k(z, ·)‖² = ‖x − z‖.
//!
//! The kernel is positive definite because ‖x − z‖ is of negative type. It is characteristic for
//! distributions with a mean. Its squared maximum mean discrepancy between the distributions of X
//! and Z is half of their energy distance, 2 E‖X − Z‖ − E‖X − X'‖ − E‖Z − Z'‖, where X' and Z' are
//! independent copies of X and Z. In one dimension, the energy distance is the square of
//! `scipy.stats.energy_distance`. The kernel has no length scale. Its values at points far from the
//! origin suffer from cancellation.
//!
//! References: Székely, Rizzo, "Testing for equal distributions in high dimension", InterStat 5,
//! 2004; Sejdinovic, Sriperumbudur, Gretton, Fukumizu, "Equivalence of distance-based and
//! RKHS-based statistics in hypothesis testing", Annals of Statistics 41, 2013.

use super::distance_argument::{Smoothness, squared_distance_kernel};
use super::family::{KernelFamily, KernelProperties};
use super::points::{LengthScales, row_slice};
use super::transform::{PairFunction, transformed_kernel};
use super::{KernelFunction, Profile, gradient::WeightedPairs};
use crate::Real;
use faer::{MatMut, MatRef, prelude::*};

pub(super) const FAMILY: KernelFamily = KernelFamily {
    // not universal: k(0, ·) is 0, so no sum of kernel sections approximates 1 at the origin
    properties: KernelProperties { characteristic: true, scope: "laws with a mean", ..KernelProperties::NONE },
    ..KernelFamily::new("distance", "(|x| + |z| - |x-z|) / 2", "distance()", |text, _| {
        let distance = squared_distance_kernel(
            "distance()".to_string(),
            LengthScales::Shared(1.0),
            Smoothness::Cusp,
            NegativeHalfDistance,
        );
        transformed_kernel(text, HalfNorms, distance)
    })
};

/// The term −‖x − z‖ / 2 of the kernel. Without the other terms it is only conditionally positive
/// definite.
#[derive(Debug)]
struct NegativeHalfDistance;

impl Profile for NegativeHalfDistance {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let minus_half = T::from_f64(-0.5);
        inlined!(|squared: T| minus_half * squared.larger(T::ZERO).sqrt())
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let minus_quarter = T::from_f64(-0.25);
        Some(inlined!(|squared: T| if squared > T::ZERO { minus_quarter / squared.sqrt() } else { T::ZERO }))
    }
}

/// Adds the half norms of x and z to k(x, z).
#[derive(Debug, Clone, Copy)]
struct HalfNorms;

impl PairFunction for HalfNorms {
    /// Writes ‖x‖ of each point to `diagonal`, and ‖x‖ / 2 to `half_norms`.
    fn prepare<T: Real>(
        self,
        _: &dyn KernelFunction<T>,
        points: MatRef<'_, T>,
        diagonal: &mut [f64],
        half_norms: &mut [T],
    ) {
        norms(points, diagonal);
        half_norms.iter_mut().zip(diagonal).for_each(|(half, norm)| *half = T::from_f64(0.5 * *norm).saturate());
    }

    #[inline(always)]
    fn value<T: Real>(self, k: T, x: T, z: T) -> T {
        ((x + z).saturate() + k).saturate()
    }

    fn gradient<T: Real>(self, distance: &dyn KernelFunction<T>, pairs: WeightedPairs<'_, T>, mut out: MatMut<'_, T>) {
        let WeightedPairs { x, z, weights } = pairs;
        distance.gradient(x, z, weights, out.rb_mut());
        let (mut norms, mut half_norms, mut row_buffer) = (vec![0.0; x.nrows()], vec![T::ZERO; x.nrows()], Vec::new());
        self.prepare(distance, x, &mut norms, &mut half_norms);
        for (i, &half_norm) in half_norms.iter().enumerate().filter(|(_, half)| **half > T::ZERO) {
            let weight_sum: f64 = weights.row(i).iter().map(|weight| weight.to_f64()).sum();
            // ∇(‖x‖/2) = x / (2‖x‖)
            let scale = 0.25 * weight_sum / half_norm.to_f64();
            for (out, &x) in out.rb_mut().row_mut(i).iter_mut().zip(row_slice(x, i, &mut row_buffer)) {
                *out = (*out + T::from_f64(scale * x.to_f64()).saturate()).saturate();
            }
        }
    }

    fn diag<T: Real>(self, x: MatRef<'_, T>, out: &mut [f64]) {
        norms(x, out);
    }
}

fn norms<T: Real>(points: MatRef<'_, T>, out: &mut [f64]) {
    let mut row_buffer = Vec::new();
    for (i, out) in out.iter_mut().enumerate() {
        let squared_norm: f64 =
            row_slice(points, i, &mut row_buffer).iter().map(|value| value.to_f64() * value.to_f64()).sum();
        *out = squared_norm.min(f64::MAX).sqrt();
    }
}
