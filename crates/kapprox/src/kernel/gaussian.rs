//! The Gaussian kernel, exp(−‖x − z‖² / (2σ²)).
//!
//! Positive definite for every σ > 0 (Schölkopf, Smola, *Learning with Kernels*, 2002, section 4.4). Also called RBF; other
//! programs write it exp(−γ‖x − z‖²), with γ = 1 / (2σ²).
//!
//! ```
//! use kapprox::kernel::Spec;
//! let spec = Spec::parse("gaussian(sigma=7)")?;
//! assert_eq!(spec.to_string(), "gaussian(sigma=7)");
//! # Ok::<(), kapprox::Error>(())
//! ```

use super::Profile;
use super::radial::{AtZero, l2};
use super::registry::{Family, Metric, SIGMA};
use crate::Real;

/// `gaussian(sigma=median)`.
pub(super) const FAMILY: Family = Family {
    name: "gaussian",
    formula: "exp(-|x-z|^2 / (2 sigma^2))",
    parameters: &[SIGMA],
    metric: Some(Metric::L2),
    positive_definite: true,
    example: "gaussian(sigma=1.5)",
    build: |text, values| l2(text, values[0], AtZero::Smooth, Gaussian),
};

#[derive(Debug)]
struct Gaussian;

impl Profile for Gaussian {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy {
        let rate = T::from_f64(-0.5);
        #[inline(always)]
        move |squared: T| (squared * rate).exponential()
    }
}
