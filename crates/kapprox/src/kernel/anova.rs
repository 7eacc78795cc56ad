//! The ANOVA kernel, (Σ exp(−(x − z)² / (2σ²)))^degree, a sum over features.
//!
//! It is kernlab's `anovadot` if kernlab's sigma is 1/(2σ²). It is positive definite because it is
//! an integer power of a sum of kernels (Stitson et al., *Support Vector ANOVA Decomposition*,
//! 1997; in this form: Karatzoglou, Smola, Hornik, Zeileis, *kernlab*, JSS 11, 2004). It costs one
//! exponential per feature and pair of points.

use super::family::{KernelFamily, KernelProperties, NumericParameter, ParameterRange};
use super::{Profile, direct::difference_kernel, matern::MAX_HALVINGS, sweep::DifferenceAccumulator};
use crate::Real;
use std::f64::consts::LN_2;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        NumericParameter::number(
            "sigma",
            1.0,
            ParameterRange::Positive,
            "it is a length that differences are divided by",
        ),
        NumericParameter::number(
            "degree",
            2.0,
            ParameterRange::Integer { min: 1, max: 31 },
            "only integer powers are positive definite, and higher powers overflow",
        ),
    ],
    properties: KernelProperties::TRANSLATION_INVARIANT,
    ..KernelFamily::new(
        "anova",
        "(sum exp(-(x-z)^2 / (2 sigma^2)))^degree",
        "anova(sigma=0.5, degree=2)",
        // in units of √(2 ln 2) σ the Gaussian is 2^−r²
        |text, values| {
            difference_kernel(text, values[0] * (2.0 * LN_2).sqrt(), Gaussians, Power { degree: values[1] as u32 })
        },
    )
};

/// s^degree.
#[derive(Debug)]
struct Power {
    degree: u32,
}

impl Profile for Power {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let degree = self.degree;
        inlined!(|sum: T| sum.power(degree))
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let (degree, lower_degree) = (T::from_f64(self.degree.into()), self.degree - 1);
        Some(inlined!(|sum: T| degree * sum.power(lower_degree)))
    }
}

/// s = Σ exp(−(x − z)² / (2σ²)).
#[derive(Debug)]
struct Gaussians;

impl DifferenceAccumulator for Gaussians {
    const START: f64 = 0.0;

    fn step<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        inlined!(|value: T, difference: T| value + (difference * difference).exp2_neg())
    }

    fn slope<T: Real>(&self) -> impl Fn(T) -> T + Copy {
        let (rate, max_argument) = (T::from_f64(-2.0 * LN_2), T::from_f64(MAX_HALVINGS));
        inlined!(|difference: T| {
            let clamped_difference = difference.smaller(max_argument).larger(T::ZERO - max_argument);
            rate * clamped_difference * (clamped_difference * clamped_difference).exp2_neg()
        })
    }
}
