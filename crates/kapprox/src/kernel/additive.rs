//! Additive kernels of histograms: sums over features, positive definite for non-negative features.
//!
//! The additive chi-squared kernel is Σ 2xz / (x + z) (Vedaldi, Zisserman, *Efficient Additive
//! Kernels via Explicit Feature Maps*, IEEE TPAMI 34, 2012). scikit-learn's `additive_chi2_kernel`,
//! −Σ (x − z)² / (x + z), is only conditionally positive definite. Half of (Σ x + Σ z +
//! scikit-learn's kernel) is the kernel of this module. A feature that is 0 in both points adds
//! nothing.
//!
//! The histogram intersection kernel is Σ min(x, z) (Barla, Odone, Verri, *Histogram Intersection
//! Kernel for Image Classification*, ICIP 2003).

use super::family::{Domain, ExplicitForm, Homogeneous, KernelFamily};
use super::terms::{HarmonicMeans, Minima};
use super::{Separation, direct::sum_kernel, linear::Linear};

pub(super) const CHI_SQUARED: KernelFamily = KernelFamily {
    domain: Domain::NonNegative,
    separation: Some(Separation::Sum),
    explicit_form: Some(ExplicitForm::Additive(Homogeneous::ChiSquared)),
    ..KernelFamily::new("additive_chi_squared", "sum 2xz/(x+z)", "additive_chi_squared()", |text, _| {
        sum_kernel(text, HarmonicMeans, Linear)
    })
};

pub(super) const INTERSECTION: KernelFamily = KernelFamily {
    domain: Domain::NonNegative,
    separation: Some(Separation::Sum),
    explicit_form: Some(ExplicitForm::Additive(Homogeneous::Intersection)),
    ..KernelFamily::new("intersection", "sum min(x, z)", "intersection()", |text, _| sum_kernel(text, Minima, Linear))
};
