//! The exponential kernel, exp(−‖x − z‖₂ / σ): the Matérn kernel of smoothness 1/2 under its own name.
//!
//! Positive definite in every dimension (Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, section
//! 4.2.1). With the sum of absolute differences in place of the Euclidean distance it is
//! [`laplacian`](super::laplacian).

use super::distances::{AtZero, l2};
use super::family::{Distance, Facts, KernelFamily, SIGMA};
use super::{matern::Half, points::Lengths};

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    metric: Some(Distance::L2),
    rate: Some(f64::recip),
    facts: Facts::ALL,
    ..KernelFamily::new("exponential", "exp(-|x-z| / sigma)", "exponential(sigma=3)", |text, values| {
        l2(text, Lengths::Same(values[0] * std::f64::consts::LN_2), AtZero::Cusp, Half)
    })
};
