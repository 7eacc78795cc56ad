//! Additive kernels of histograms, sums over the features that are positive definite where none is negative.
//!
//! The additive chi-squared kernel, Σ 2xz / (x + z) (Vedaldi, Zisserman, *Efficient Additive Kernels via Explicit Feature Maps*,
//! IEEE TPAMI 34, 2012). scikit-learn's `additive_chi2_kernel` is −Σ (x − z)² / (x + z), which is only conditionally so;
//! this one is half of the sum of that, Σx and Σz. A feature that is 0 in both points adds nothing.
//!
//! The histogram intersection kernel, Σ min(x, z) (Barla, Odone, Verri, *Histogram Intersection Kernel for Image
//! Classification*, ICIP 2003).

use super::family::{Domain, Explicit, Homogeneous, KernelFamily};
use super::terms::{HarmonicMeans, Minima};
use super::{direct::raw, linear::Linear};

pub(super) const CHI_SQUARED: KernelFamily = KernelFamily {
    domain: Domain::NotNegative,
    explicit: Some(Explicit::Additive(Homogeneous::ChiSquared)),
    ..KernelFamily::new("additive_chi_squared", "sum 2xz/(x+z)", "additive_chi_squared()", |text, _| {
        raw(text, HarmonicMeans, Linear)
    })
};

pub(super) const INTERSECTION: KernelFamily = KernelFamily {
    domain: Domain::NotNegative,
    explicit: Some(Explicit::Additive(Homogeneous::Intersection)),
    ..KernelFamily::new("intersection", "sum min(x, z)", "intersection()", |text, _| raw(text, Minima, Linear))
};
