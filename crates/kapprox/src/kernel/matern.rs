//! Matérn kernels of smoothness ν = 1/2, 3/2 and 5/2, in r = ‖x − z‖₂ / σ.
//!
//! | nu | k |
//! |---|---|
//! | 0.5 | exp(−r) |
//! | 1.5 | (1 + √3 r) exp(−√3 r) |
//! | 2.5 | (1 + √5 r + 5r²/3) exp(−√5 r) |
//!
//! They are positive definite in every dimension (Rasmussen, Williams, *Gaussian Processes for
//! Machine Learning*, 2006, section 4.2.1; the table lists equations 4.17 of the book, with length
//! scale σ). The kernel with ν = 1/2 is also called `exponential`. The same function of the sum of
//! absolute differences, instead of the Euclidean distance, is [`laplacian`](super::laplacian).
//!
//! ```
//! use kapprox::kernel::Kernel;
//! assert!(Kernel::parse("matern(nu=1.5, sigma=2)").is_ok());
//! assert!(Kernel::parse("matern(nu=2)").is_err());
//! ```

use super::distance_argument::{Smoothness, squared_distance_kernel};
use super::family::{Distance, KernelFamily, KernelProperties, NumericParameter, ParameterRange, SIGMA, Value};
use super::{FrequencyDistribution, Kernel, Profile, points::LengthScales};
use crate::Real;
use rand_distr::Distribution;
use std::f64::consts::LN_2;

pub(super) const NU: NumericParameter =
    NumericParameter::number("nu", 1.5, ParameterRange::OneOf(&[0.5, 1.5, 2.5]), "other values need Bessel functions");

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[NU, SIGMA],
    distance: Some(Distance::L2),
    properties: KernelProperties::ALL,
    ..KernelFamily::new(
        "matern",
        "exp(-r), (1 + a) exp(-a), (1 + b + b^2/3) exp(-b); r = |x-z|/sigma, a = sqrt(3) r, b = sqrt(5) r",
        "matern(nu=1.5, sigma=2)",
        |text, values| {
            let length = |root: f64| LengthScales::Shared(values[1] * LN_2 / root);
            match values[0] {
                0.5 => squared_distance_kernel(text, length(1.0), Smoothness::Cusp, Half),
                1.5 => squared_distance_kernel(text, length(3f64.sqrt()), Smoothness::DerivativeCusp, ThreeHalves),
                _ => squared_distance_kernel(text, length(5f64.sqrt()), Smoothness::Smooth, FiveHalves),
            }
        },
    )
};

pub(super) const EXPONENTIAL: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    distance: Some(Distance::L2),
    rate: Some(f64::recip),
    properties: KernelProperties::ALL,
    ..KernelFamily::new("exponential", "exp(-|x-z| / sigma)", "exponential(sigma=3)", |text, values| {
        squared_distance_kernel(text, LengthScales::Shared(values[0] * LN_2), Smoothness::Cusp, Half)
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

/// Returns the distribution of the frequencies. In every direction it is Student's t with 2ν
/// degrees of freedom, if lengths are in units of (ln 2 / √(2ν)) σ (Rasmussen, Williams, 2006,
/// equation 4.15).
fn student_t(degrees_of_freedom: f64) -> Option<FrequencyDistribution> {
    let chi_squared = rand_distr::ChiSquared::new(degrees_of_freedom).ok()?;
    Some(FrequencyDistribution::radial(move |rng| LN_2 / chi_squared.sample(rng).sqrt()))
}

/// Limit on the argument. 2^−`MAX_ARGUMENT` is 0 in f32 and f64; without the limit, (1 + r) exp(−r)
/// would become ∞ · 0 for very large r.
pub(super) const MAX_ARGUMENT: f64 = 2000.0;

/// exp(−r); the argument is (r / ln 2)², so that the value is a power of two.
#[derive(Debug)]
struct Half;

impl Profile for Half {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        inlined!(|squared: T| squared.root().halvings())
    }

    /// Returns the derivative with respect to the squared distance, −exp(−r) / 2r in units of the
    /// argument; 0 if the squared distance is not a normal number.
    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let rate = T::from_f64(-0.5 * LN_2);
        Some(inlined!(|squared: T| {
            let root = squared.root();
            let derivative = rate * root.halvings() / root;
            if squared >= T::SMALLEST { derivative } else { T::ZERO }
        }))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        student_t(1.0)
    }
}

/// (1 + a) exp(−a); the argument is (a / ln 2)².
#[derive(Debug)]
struct ThreeHalves;

impl Profile for ThreeHalves {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let (unit, max_argument) = (T::from_f64(LN_2), T::from_f64(MAX_ARGUMENT));
        inlined!(|squared: T| {
            let a = squared.root().smaller(max_argument);
            a.mul_plus(unit, T::ONE) * a.halvings()
        })
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let rate = T::from_f64(-0.5 * LN_2 * LN_2);
        Some(inlined!(|squared: T| rate * squared.root().halvings()))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        student_t(3.0)
    }
}

/// (1 + b + b²/3) exp(−b); the argument is (b / ln 2)².
#[derive(Debug)]
struct FiveHalves;

impl Profile for FiveHalves {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let (unit, third, max_argument) =
            (T::from_f64(LN_2), T::from_f64(LN_2 * LN_2 / 3.0), T::from_f64(MAX_ARGUMENT));
        inlined!(|squared: T| {
            let b = squared.root().smaller(max_argument);
            third.mul_plus(b, unit).mul_plus(b, T::ONE) * b.halvings()
        })
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let (unit, rate, max_argument) =
            (T::from_f64(LN_2), T::from_f64(LN_2 * LN_2 / -6.0), T::from_f64(MAX_ARGUMENT));
        Some(inlined!(|squared: T| {
            let b = squared.root().smaller(max_argument);
            rate * b.mul_plus(unit, T::ONE) * b.halvings()
        }))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        student_t(5.0)
    }
}
