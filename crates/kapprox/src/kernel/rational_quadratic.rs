//! The rational quadratic kernel, (1 + ‖x − z‖² / (2ασ²))^(−α): a mixture of Gaussian kernels of all lengths.
//!
//! scikit-learn's `RationalQuadratic` with `length_scale` = σ; α → ∞ gives the Gaussian. Positive definite in every
//! dimension (Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, equation 4.19).
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("rational_quadratic(alpha=0.5, sigma=2)").is_ok());
//! ```

use super::Profile;
use super::points::Lengths;
use super::radial::{AtZero, l2};
use super::registry::{Domain, Family, Metric, Parameter, Range, SIGMA, Value};
use crate::Real;
use crate::map::random::Law;
use rand_distr::Distribution;

/// The family of kernels `rational_quadratic(alpha=1, sigma=median)`.
pub(super) const FAMILY: Family = Family {
    name: "rational_quadratic",
    formula: "(1 + |x-z|^2 / (2 alpha sigma^2))^-alpha",
    parameters: &[
        Parameter {
            name: "alpha",
            default: Value::Number(1.0),
            range: Range::Positive,
            reason: "it is the shape of a gamma distribution",
        },
        SIGMA,
    ],
    metric: Some(Metric::L2),
    positive_definite: true,
    domain: Domain::Any,
    example: "rational_quadratic(alpha=0.75, sigma=2)",
    build: |text, values| {
        let (alpha, sigma) = (values[0], values[1]);
        let length = sigma * (2.0 * alpha).sqrt();
        l2(text, Lengths::Same(length), AtZero::Smooth, RationalQuadratic { alpha })
    },
    each: None,
};

#[derive(Debug)]
struct RationalQuadratic {
    alpha: f64,
}

impl Profile for RationalQuadratic {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let alpha = T::from_f64(self.alpha).saturate();
        #[inline(always)]
        move |squared: T| {
            let base = (T::ONE + squared).larger(T::ONE).smaller(T::LARGEST);
            (base.logarithm() * alpha).halvings()
        }
    }

    fn law(&self) -> Option<Law> {
        // a mixture of exp(−τ r²) with τ of a gamma distribution
        let gamma = rand_distr::Gamma::new(self.alpha, 1.0).ok()?;
        Some(Law::radial(move |rng| (2.0 * gamma.sample(rng)).sqrt()))
    }
}
