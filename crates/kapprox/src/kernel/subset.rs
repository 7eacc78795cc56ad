//! The subset kernel on 0/1 features, 2^|A∩B|: the number of sets that are subsets of both.
//!
//! Positive definite: the inner product of indicators of subsets (Shawe-Taylor, Cristianini,
//! *Kernel Methods for Pattern Analysis*, 2004, section 9.5). It saturates at 127 common features
//! in `f32`, and at 1,023 in `f64`.

use super::family::{Domain, KernelFamily, KernelProperties};
use super::{Profile, direct::inner_product_kernel};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    domain: Domain::Binary,
    // a product of [[1, 1], [1, 2]] over the features: no matrix of distinct sets is singular
    properties: KernelProperties::UNIVERSAL,
    ..KernelFamily::new("subset", "2^(x.z)", "subset()", |text, _| inner_product_kernel(text, Subset))
};

#[derive(Debug)]
struct Subset;

impl Profile for Subset {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        // exact for integers; 1/0 saturates
        inlined!(|shared: T| T::ONE / shared.larger(T::ZERO).halvings())
    }
}
