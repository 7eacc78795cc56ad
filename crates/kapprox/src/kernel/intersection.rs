//! The histogram intersection kernel, Σ min(x, z).
//!
//! Positive definite on non-negative features (Barla, Odone, Verri, *Histogram Intersection Kernel for Image
//! Classification*, ICIP 2003).

use super::family::{Domain, Explicit, Homogeneous, KernelFamily};
use super::{direct::raw, linear::Linear, terms::Minima};

pub(super) const FAMILY: KernelFamily = KernelFamily {
    domain: Domain::NotNegative,
    explicit: Some(Explicit::Additive(Homogeneous::Intersection)),
    ..KernelFamily::new("intersection", "sum min(x, z)", "intersection()", |text, _| raw(text, Minima, Linear))
};
