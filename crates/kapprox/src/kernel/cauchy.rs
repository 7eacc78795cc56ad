//! The Cauchy kernel, 1 / (1 + ‖x − z‖² / σ²).
//!
//! It is the rational quadratic kernel with α = 1 and length scale σ/√2, and is positive definite
//! for every σ > 0 (Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, equation
//! 4.19).

use super::distance_argument::{Smoothness, squared_distance_kernel};
use super::family::{Distance, KernelFamily, KernelProperties, SIGMA, Value};
use super::{FrequencyDistribution, Kernel, Profile, points::LengthScales};
use crate::Real;
use rand_distr::Distribution;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    distance: Some(Distance::L2),
    build_list: Some(|text, _, lengths| {
        squared_distance_kernel(text, LengthScales::per_feature(lengths), Smoothness::Smooth, Cauchy)
    }),
    properties: KernelProperties::ALL,
    ..KernelFamily::new("cauchy", "1 / (1 + |x-z|^2 / sigma^2)", "cauchy(sigma=2)", |text, values| {
        squared_distance_kernel(text, LengthScales::Shared(values[0]), Smoothness::Smooth, Cauchy)
    })
};

impl Kernel {
    /// Returns the kernel 1 / (1 + ‖x − z‖² / sigma²).
    pub fn cauchy(sigma: impl Into<Value>) -> Self {
        Self::from_family(&FAMILY, [sigma.into()])
    }
}

#[derive(Debug)]
struct Cauchy;

impl Profile for Cauchy {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        inlined!(|squared: T| T::ONE / (T::ONE + squared))
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        Some(inlined!(|squared: T| {
            let value = T::ONE / (T::ONE + squared);
            T::ZERO - value * value
        }))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        // a mixture of exp(−τ r²), whose frequencies have variance 2τ, with exponentially
        // distributed τ
        Some(FrequencyDistribution::radial(|rng| (2.0 * Distribution::<f64>::sample(&rand_distr::Exp1, rng)).sqrt()))
    }
}
