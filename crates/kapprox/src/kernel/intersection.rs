//! The histogram intersection kernel, Σ min(x, z).
//!
//! Positive definite on non-negative features (Barla, Odone, Verri, *Histogram Intersection Kernel for Image
//! Classification*, ICIP 2003).
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("intersection()").is_ok());
//! ```

use super::direct::raw;
use super::linear::Linear;
use super::panel::Minima;
use super::registry::{Domain, Family};

/// The family of kernels `intersection()`.
pub(super) const FAMILY: Family = Family {
    name: "intersection",
    formula: "sum min(x, z)",
    parameters: &[],
    metric: None,
    positive_definite: true,
    domain: Domain::NotNegative,
    example: "intersection()",
    build: |text, _| raw(text, Minima, |x| x.iter().sum(), Linear),
    each: None,
};
