//! Matérn kernels of smoothness ν = 1/2, 3/2 and 5/2, in r = ‖x − z‖₂ / σ.
//!
//! | nu | k |
//! |---|---|
//! | 0.5 | exp(−r) |
//! | 1.5 | (1 + √3 r) exp(−√3 r) |
//! | 2.5 | (1 + √5 r + 5r²/3) exp(−√5 r) |
//!
//! Matérn kernels are positive definite in every dimension (Rasmussen, Williams, *Gaussian
//! Processes for Machine Learning*, 2006, section 4.2.1; the table lists equations 4.17 of the
//! book, with length scale σ). The kernel with ν = 1/2 is also called `exponential`.
//! [`laplacian`](super::laplacian) is exp(−‖x − z‖₁ / σ), the `exponential` kernel with the L1
//! distance instead of the Euclidean distance.
//!
//! ```
//! use kapprox::kernel::Kernel;
//! assert!(Kernel::parse("matern(nu=1.5, sigma=2)").is_ok());
//! assert!(Kernel::parse("matern(nu=2)").is_err());
//! ```

use super::distance_argument::{Smoothness, squared_distance_kernel};
use super::family::{Distance, KernelFamily, KernelProperties, NumericParameter, ParameterRange, SIGMA, Value};
use super::{AnyKernel, FrequencyDistribution, Kernel, Profile, points::LengthScales};
use crate::Real;
use rand_distr::Distribution;
use std::f64::consts::LN_2;
use std::sync::Arc;

pub(super) const NU: NumericParameter =
    NumericParameter::number("nu", 1.5, ParameterRange::OneOf(&[0.5, 1.5, 2.5]), "other values need Bessel functions");

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[NU, SIGMA],
    distance: Some(Distance::L2),
    build_list: Some(|text, values, lengths| build(text, values[0], LengthScales::per_feature(lengths))),
    properties: KernelProperties::ALL,
    ..KernelFamily::new(
        "matern",
        "exp(-r), (1 + a) exp(-a), (1 + b + b^2/3) exp(-b); r = |x-z|/sigma, a = sqrt(3) r, b = sqrt(5) r",
        "matern(nu=1.5, sigma=2)",
        |text, values| build(text, values[0], LengthScales::Shared(values[1])),
    )
};

fn build(text: String, nu: f64, lengths: LengthScales) -> Arc<dyn AnyKernel> {
    let lengths = |root: f64| lengths.map(|sigma| sigma * LN_2 / root);
    match nu {
        0.5 => squared_distance_kernel(text, lengths(1.0), Smoothness::Cusp, MaternHalf),
        1.5 => squared_distance_kernel(text, lengths(3f64.sqrt()), Smoothness::DerivativeCusp, MaternThreeHalves),
        _ => squared_distance_kernel(text, lengths(5f64.sqrt()), Smoothness::Smooth, MaternFiveHalves),
    }
}

pub(super) const EXPONENTIAL: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    distance: Some(Distance::L2),
    rate_to_length_scale: Some(f64::recip),
    build_list: Some(|text, _, lengths| build(text, 0.5, LengthScales::per_feature(lengths))),
    properties: KernelProperties::ALL,
    ..KernelFamily::new("exponential", "exp(-|x-z| / sigma)", "exponential(sigma=3)", |text, values| {
        build(text, 0.5, LengthScales::Shared(values[0]))
    })
};

impl Kernel {
    /// Returns the Matérn kernel of smoothness `nu` 0.5, 1.5 or 2.5 and length scale `sigma`.
    pub fn matern(nu: f64, sigma: impl Into<Value>) -> Self {
        Self::from_family(&FAMILY, [nu.into(), sigma.into()])
    }

    /// Returns the kernel exp(−‖x − z‖ / sigma).
    pub fn exponential(sigma: impl Into<Value>) -> Self {
        Self::from_family(&EXPONENTIAL, [sigma.into()])
    }
}

/// Returns the distribution of the frequencies ω = (ln 2 / √c) g, where g is standard normal and c
/// is chi-squared with `degrees_of_freedom` = 2ν. Each coordinate of ω is ln 2 / √(2ν) times a
/// Student t number with 2ν degrees of freedom. The unit of length is (ln 2 / √(2ν)) σ, as in
/// [`build`]. (Rasmussen, Williams, 2006, equation 4.15.)
fn student_t_frequencies(degrees_of_freedom: f64) -> Option<FrequencyDistribution> {
    let chi_squared = rand_distr::ChiSquared::new(degrees_of_freedom).ok()?;
    Some(FrequencyDistribution::radial(move |rng| LN_2 / chi_squared.sample(rng).sqrt()))
}

/// Upper limit of √s, the root of a profile's argument s: the number of halvings of 2^−√s.
/// 2^−`MAX_HALVINGS` is 0 in f32 and f64; without the limit, (1 + a) exp(−a) would become ∞ · 0 for
/// very large a.
pub(super) const MAX_HALVINGS: f64 = 2000.0;

/// exp(−r) = 2^−√s of the argument s = (r / ln 2)²; base 2, because `exp2_neg` is faster than exp.
#[derive(Debug)]
struct MaternHalf;

impl Profile for MaternHalf {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        inlined!(|squared_argument: T| squared_argument.sqrt().exp2_neg())
    }

    /// Returns the derivative with respect to s, −(ln 2) 2^−√s / (2√s). The derivative is infinite
    /// at s = 0; the result is 0 if s is zero or subnormal.
    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let factor = T::from_f64(-0.5 * LN_2);
        Some(inlined!(|squared: T| {
            let root = squared.sqrt();
            let derivative = factor * root.exp2_neg() / root;
            if squared >= T::MIN_POSITIVE { derivative } else { T::ZERO }
        }))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        student_t_frequencies(1.0)
    }
}

/// (1 + a) exp(−a) with a = √3 r, as a function of the argument s = (a / ln 2)².
#[derive(Debug)]
struct MaternThreeHalves;

impl Profile for MaternThreeHalves {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let (ln_2, max_argument) = (T::from_f64(LN_2), T::from_f64(MAX_HALVINGS));
        inlined!(|squared: T| {
            let root = squared.sqrt().smaller(max_argument);
            root.mul_plus(ln_2, T::ONE) * root.exp2_neg()
        })
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let factor = T::from_f64(-0.5 * LN_2 * LN_2);
        Some(inlined!(|squared: T| factor * squared.sqrt().exp2_neg()))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        student_t_frequencies(3.0)
    }
}

/// (1 + b + b²/3) exp(−b) with b = √5 r, as a function of the argument s = (b / ln 2)².
#[derive(Debug)]
struct MaternFiveHalves;

impl Profile for MaternFiveHalves {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let (ln_2, quadratic_coefficient, max_argument) =
            (T::from_f64(LN_2), T::from_f64(LN_2 * LN_2 / 3.0), T::from_f64(MAX_HALVINGS));
        inlined!(|squared: T| {
            let root = squared.sqrt().smaller(max_argument);
            quadratic_coefficient.mul_plus(root, ln_2).mul_plus(root, T::ONE) * root.exp2_neg()
        })
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let (ln_2, factor, max_argument) =
            (T::from_f64(LN_2), T::from_f64(LN_2 * LN_2 / -6.0), T::from_f64(MAX_HALVINGS));
        Some(inlined!(|squared: T| {
            let root = squared.sqrt().smaller(max_argument);
            factor * root.mul_plus(ln_2, T::ONE) * root.exp2_neg()
        }))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        student_t_frequencies(5.0)
    }
}
