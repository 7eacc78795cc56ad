//! The Gaussian kernel, exp(−‖x − z‖² / (2σ²)).
//!
//! It is positive definite for every σ > 0 (Schölkopf, Smola, *Learning with Kernels*, 2002,
//! section 4.4). It is also called the RBF kernel, and often written exp(−γ‖x − z‖²) with γ = 1 /
//! (2σ²). Expressions accept γ as well as σ: `gaussian(gamma=0.5)` is `gaussian(sigma=1)`.
//!
//! `sigma=[1, 2, 0.5]` gives every feature k its own length scale: exp(−Σ_k (x_k − z_k)² /
//! (2σ_k²)).
//!
//! ```
//! use kapprox::kernel::Kernel;
//! let spec = Kernel::parse("gaussian(sigma=7)")?;
//! assert_eq!(spec.to_string(), "gaussian(sigma=7)");
//! # Ok::<(), kapprox::Error>(())
//! ```

use super::distance_argument::{Smoothness, squared_distance_kernel};
use super::family::{Distance, KernelFamily, KernelProperties, SIGMA, Value};
use super::{AnyKernel, FrequencyDistribution, Kernel, Profile, Separation, points::LengthScales};
use crate::Real;
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[SIGMA],
    distance: Some(Distance::L2),
    rate_to_length_scale: Some(|gamma| (0.5 / gamma).sqrt()),
    build_list: Some(|text, _, lengths| build(text, LengthScales::per_feature(lengths))),
    separation: Some(Separation::Product),
    properties: KernelProperties::ALL,
    ..KernelFamily::new("gaussian", "exp(-|x-z|^2 / (2 sigma^2))", "gaussian(sigma=1.5)", |text, values| {
        build(text, LengthScales::Shared(values[0]))
    })
};

fn build(text: String, lengths: LengthScales) -> Arc<dyn AnyKernel> {
    squared_distance_kernel(text, lengths.map(|sigma| sigma * UNIT), Smoothness::Smooth, Gaussian)
}

impl Kernel {
    /// Returns the kernel exp(−‖x − z‖² / (2 sigma²)). `sigma` is a length scale, a list with one
    /// per column, or [`Value::Median`].
    pub fn gaussian(sigma: impl Into<Value>) -> Self {
        Self::from_family(&FAMILY, [sigma.into()])
    }
}

/// √(2 ln 2). If the distance r is in units of this number times σ, the kernel is 2^(−r²).
const UNIT: f64 = 1.177_410_022_515_474_7;

#[derive(Debug)]
struct Gaussian;

impl Profile for Gaussian {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        inlined!(|squared: T| squared.exp2_neg())
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let rate = T::from_f64(-std::f64::consts::LN_2);
        Some(inlined!(|squared: T| rate * squared.exp2_neg()))
    }

    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        // 2^(−r²) is a Gaussian of variance 1 / (2 ln 2), so its frequencies have variance 2 ln 2
        Some(FrequencyDistribution::radial(|_| (2.0 * std::f64::consts::LN_2).sqrt()))
    }
}
