//! The exponential kernel, exp(−‖x − z‖₂ / σ): the Matérn kernel of smoothness 1/2 under its own name.
//!
//! Positive definite in every dimension (Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, section
//! 4.2.1). With the sum of absolute differences in place of the Euclidean distance it is
//! [`laplacian`](super::laplacian).
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("exponential(sigma=2)").is_ok());
//! ```

use super::matern::Half;
use super::points::Lengths;
use super::radial::{AtZero, l2};
use super::registry::{Domain, Family, Metric, SIGMA};

/// The family of kernels `exponential(sigma=median)`.
pub(super) const FAMILY: Family = Family {
    name: "exponential",
    formula: "exp(-|x-z| / sigma)",
    parameters: &[SIGMA],
    metric: Some(Metric::L2),
    positive_definite: true,
    domain: Domain::Any,
    example: "exponential(sigma=3)",
    build: |text, values| l2(text, Lengths::Same(values[0] * std::f64::consts::LN_2), AtZero::Cusp, Half),
    each: None,
};
