//! The exponential chi-squared kernel, exp(−χ²(x, z) / σ) with χ²(x, z) = Σ (x − z)² / (x + z), for
//! histograms.
//!
//! It is scikit-learn's `chi2_kernel` with γ = 1/σ. A feature that is 0 in both points adds
//! nothing. The kernel is positive definite on non-negative features (Zhang, Marszalek, Lazebnik,
//! Schmid, *Local Features and Kernels for Classification of Texture and Object Categories*, IJCV
//! 73, 2007, where σ is the mean χ² distance).

use super::family::{Distance, Domain, KernelFamily, KernelProperties, SIGMA};
use super::{Profile, Separation, direct::sum_kernel, terms::ChiSquares};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    distance: Some(Distance::ChiSquared),
    rate_to_length_scale: Some(f64::recip),
    domain: Domain::NonNegative,
    separation: Some(Separation::Product),
    properties: KernelProperties::BOUNDED,
    ..KernelFamily::new("chi_squared", "exp(-sum (x-z)^2/(x+z) / sigma)", "chi_squared(sigma=2)", |text, values| {
        sum_kernel(text, ChiSquares, ChiSquared { sigma: values[0] })
    })
};

#[derive(Debug)]
struct ChiSquared {
    sigma: f64,
}

impl Profile for ChiSquared {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let rate = T::from_f64(std::f64::consts::LOG2_E / self.sigma).saturate();
        inlined!(|distance: T| (distance * rate).exp2_neg())
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let (rate, value) = (T::from_f64(-1.0 / self.sigma).saturate(), self.function::<T>());
        Some(inlined!(|distance: T| rate * value(distance)))
    }
}
