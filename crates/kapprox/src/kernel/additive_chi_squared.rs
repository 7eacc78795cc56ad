//! The additive chi-squared kernel, Σ 2xz / (x + z), for histograms.
//!
//! Positive definite on non-negative features (Vedaldi, Zisserman, *Efficient Additive Kernels via Explicit Feature Maps*,
//! IEEE TPAMI 34, 2012). scikit-learn's `additive_chi2_kernel` is −Σ (x − z)² / (x + z), which is only conditionally so;
//! this one is half of the sum of that, Σx and Σz. A feature that is 0 in both points adds nothing.

use super::family::{Domain, Explicit, Homogeneous, KernelFamily};
use super::{direct::raw, linear::Linear, terms::HarmonicMeans};

pub(super) const FAMILY: KernelFamily = KernelFamily {
    domain: Domain::NotNegative,
    explicit: Some(Explicit::Additive(Homogeneous::ChiSquared)),
    ..KernelFamily::new("additive_chi_squared", "sum 2xz/(x+z)", "additive_chi_squared()", |text, _| {
        raw(text, HarmonicMeans, Linear)
    })
};
