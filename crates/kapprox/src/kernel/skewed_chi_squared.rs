//! The skewed chi-squared kernel, Π 2√(x + s)√(z + s) / (x + z + 2s), for histograms, where s is
//! the skew.
//!
//! This kernel is a product over the features, related to the chi-squared kernel, and random
//! Fourier features exist for it. As a function of u = ln(x + s) and v = ln(z + s), the kernel is Π
//! sech((u − v)/2), which is shift-invariant. Its spectrum is again a sech, which is positive
//! everywhere, so the kernel is positive definite and universal. Without the skew, a single empty
//! bin would make the product zero.
//!
//! Li, Ionescu, Sminchisescu, "Random Fourier approximations for skewed multiplicative histogram
//! kernels", DAGM 2010.

use super::direct::{ProductProfile, difference_kernel};
use super::embedded::{Embedding, embedded_kernel};
use super::family::{Domain, ExplicitForm, KernelFamily, KernelProperties, NumericParameter, ParameterRange};
use super::{Separation, sweep::DifferenceAccumulator, terms::sign};
use crate::Real;
use std::f64::consts::LN_2;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[NumericParameter::number(
        "skew",
        1.0,
        ParameterRange::Positive,
        "it is added to values that may be 0, and their logarithm is taken",
    )],
    domain: Domain::NonNegative,
    properties: KernelProperties::UNIVERSAL,
    separation: Some(Separation::Product),
    explicit_form: Some(ExplicitForm::Skewed),
    ..KernelFamily::new(
        "skewed_chi_squared",
        "product of the features' 2 sqrt((x+skew)(z+skew)) / (x+z+2 skew)",
        "skewed_chi_squared(skew=0.5)",
        // the unit halves the difference of logarithms, and replaces the exponential by a power of
        // two, which is cheaper
        |text, values| {
            embedded_kernel(
                text,
                Logarithms { skew: values[0] },
                difference_kernel(String::new(), 2.0 * LN_2, HyperbolicSecants, ProductProfile),
            )
        },
    )
};

/// The map x ↦ ln(x + skew), for every feature.
#[derive(Debug)]
struct Logarithms {
    skew: f64,
}

impl Embedding for Logarithms {
    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        for (image, value) in image.iter_mut().zip(x) {
            *image = T::from_f64(logarithm(value.to_f64(), self.skew));
        }
    }

    fn pull_back<T: Real>(&self, x: &[T], _: &[T], image_gradient: &[T], gradient: &mut [T]) {
        for ((gradient, derivative), value) in gradient.iter_mut().zip(image_gradient).zip(x) {
            let rate = 1.0 / (value.to_f64() + self.skew).max(f64::MIN_POSITIVE);
            *gradient = T::from_f64(derivative.to_f64() * rate);
        }
    }
}

/// Returns ln(value + skew). If the value is at most −skew, the logarithm does not exist, and the
/// value is treated as slightly above −skew.
pub(crate) fn logarithm(value: f64, skew: f64) -> f64 {
    (value + skew).clamp(f64::MIN_POSITIVE, f64::MAX).ln()
}

/// Π 2h / (1 + h²) with h = 2^−|difference|.
#[derive(Debug)]
struct HyperbolicSecants;

impl DifferenceAccumulator for HyperbolicSecants {
    const START: f64 = 1.0;

    fn step<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        inlined!(|value: T, difference: T| {
            let h = difference.magnitude().exp2_neg();
            value * (h + h) / h.mul_plus(h, T::ONE)
        })
    }

    /// Returns the derivative of the logarithm of a factor, −ln 2 (1 − h²) / (1 + h²).
    fn slope<T: Real>(&self) -> impl Fn(T) -> T + Copy {
        let rate = T::from_f64(-LN_2);
        inlined!(|difference: T| {
            let h = difference.magnitude().exp2_neg();
            let square = h * h;
            rate * sign(difference) * (T::ONE - square) / (T::ONE + square)
        })
    }
}
