//! The linear kernel, x·z.
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("gaussian(sigma=3) + 0.5*linear()").is_ok());
//! ```

use super::Profile;
use super::inner::product;
use super::registry::{Domain, Family};
use crate::Real;

/// The family of kernels `linear()`.
pub(super) const FAMILY: Family = Family {
    name: "linear",
    formula: "x.z",
    parameters: &[],
    metric: None,
    positive_definite: true,
    domain: Domain::Any,
    example: "linear()",
    build: |text, _| product(text, Linear),
    each: None,
};

#[derive(Debug)]
pub(super) struct Linear;

impl Profile for Linear {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        #[inline(always)]
        |product: T| product
    }
}
