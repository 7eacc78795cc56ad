//! The Laplacian kernel, exp(−‖x − z‖₁ / σ).
//!
//! It is positive definite for every σ > 0, as a product of one-dimensional exponential kernels
//! (Rahimi, Recht, *Random Features for Large-Scale Kernel Machines*, 2007). For the exponential of
//! the Euclidean distance see [`matern`](super::matern) with nu = 0.5.

use super::family::{Distance, KernelFamily, KernelProperties, SIGMA, Value};
use super::{
    AnyKernel, FrequencyDistribution, Kernel, Profile, Separation, distance_argument::l1_distance_kernel,
    points::LengthScales,
};
use crate::Real;
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    distance: Some(Distance::L1),
    rate_to_length_scale: Some(f64::recip),
    build_list: Some(|text, _, lengths| build(text, LengthScales::per_feature(lengths))),
    separation: Some(Separation::Product),
    properties: KernelProperties::ALL,
    ..KernelFamily::new("laplacian", "exp(-|x-z|_1 / sigma)", "laplacian(sigma=4)", |text, values| {
        build(text, LengthScales::Shared(values[0]))
    })
};

fn build(text: String, lengths: LengthScales) -> Arc<dyn AnyKernel> {
    l1_distance_kernel(text, lengths.map(|sigma| sigma * std::f64::consts::LN_2), Laplacian)
}

impl Kernel {
    /// Returns the kernel exp(−‖x − z‖₁ / sigma).
    pub fn laplacian(sigma: impl Into<Value>) -> Self {
        Self::from_family(&FAMILY, [sigma.into()])
    }
}

/// exp(−r); the argument is r / ln 2, so that the value is a power of two.
#[derive(Debug)]
struct Laplacian;

impl Profile for Laplacian {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        inlined!(|distance: T| distance.exp2_neg())
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let rate = T::from_f64(-std::f64::consts::LN_2);
        Some(inlined!(|distance: T| rate * distance.exp2_neg()))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        // 2^(−r) has Cauchy distributed frequencies of scale ln 2
        Some(FrequencyDistribution::product(|u| std::f64::consts::LN_2 * (std::f64::consts::PI * (u - 0.5)).tan()))
    }
}
