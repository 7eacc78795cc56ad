//! The rational quadratic kernel, (1 + ‖x − z‖² / (2ασ²))^(−α): a mixture of Gaussian kernels of
//! all length scales.
//!
//! It is scikit-learn's `RationalQuadratic` with `length_scale` = σ. In the limit α → ∞ it is the
//! Gaussian kernel. It is positive definite in every dimension (Rasmussen, Williams, *Gaussian
//! Processes for Machine Learning*, 2006, equation 4.19).

use super::distance_argument::{Smoothness, squared_distance_kernel};
use super::family::{Distance, KernelFamily, KernelProperties, NumericParameter, ParameterRange, SIGMA, Value};
use super::{AnyKernel, FrequencyDistribution, Kernel, Profile, points::LengthScales};
use crate::Real;
use rand_distr::Distribution;
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        NumericParameter::number(
            "alpha",
            1.0,
            ParameterRange::Positive,
            "the kernel mixes Gaussian kernels by a gamma distribution with this shape",
        ),
        SIGMA,
    ],
    distance: Some(Distance::L2),
    build_list: Some(|text, values, lengths| build(text, values[0], LengthScales::per_feature(lengths))),
    properties: KernelProperties::ALL,
    ..KernelFamily::new(
        "rational_quadratic",
        "(1 + |x-z|^2 / (2 alpha sigma^2))^-alpha",
        "rational_quadratic(alpha=0.75, sigma=2)",
        |text, values| build(text, values[0], LengthScales::Shared(values[1])),
    )
};

fn build(text: String, alpha: f64, lengths: LengthScales) -> Arc<dyn AnyKernel> {
    let lengths = lengths.map(|sigma| sigma * (2.0 * alpha).sqrt());
    squared_distance_kernel(text, lengths, Smoothness::Smooth, RationalQuadratic { alpha })
}

impl Kernel {
    /// Returns the kernel (1 + ‖x − z‖² / (2 alpha sigma²))^−alpha.
    pub fn rational_quadratic(alpha: f64, sigma: impl Into<Value>) -> Self {
        Self::from_family(&FAMILY, [alpha.into(), sigma.into()])
    }
}

#[derive(Debug)]
struct RationalQuadratic {
    alpha: f64,
}

impl Profile for RationalQuadratic {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let alpha = T::from_f64(self.alpha).saturate();
        inlined!(|squared: T| {
            let base = (T::ONE + squared).larger(T::ONE).smaller(T::LARGEST);
            // base^(−α) = 2^(−α log₂ base)
            (base.log_base_2() * alpha).exp2_neg()
        })
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let (rate, exponent) = (T::from_f64(-self.alpha).saturate(), T::from_f64(self.alpha + 1.0).saturate());
        Some(inlined!(|squared: T| {
            let base = (T::ONE + squared).larger(T::ONE).smaller(T::LARGEST);
            rate * (base.log_base_2() * exponent).exp2_neg()
        }))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        // a mixture of exp(−τ r²), whose frequencies have variance 2τ, with gamma-distributed τ
        let gamma = rand_distr::Gamma::new(self.alpha, 1.0).ok()?;
        Some(FrequencyDistribution::radial(move |rng| (2.0 * gamma.sample(rng)).sqrt()))
    }
}
