//! The subset kernel on 0/1 features, 2^|A∩B|, where the features are indicators of sets A and B.
//! It is the number of sets that are subsets of both A and B.
//!
//! It is positive definite, as the inner product of the indicators of all subsets (Shawe-Taylor,
//! Cristianini, *Kernel Methods for Pattern Analysis*, 2004, section 9.5). In `f32` it saturates at
//! 127 common features, and in `f64` at 1,023.

use super::family::{Domain, KernelFamily, KernelProperties};
use super::{Profile, direct::inner_product_kernel};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    domain: Domain::Binary,
    // universal, because the kernel is a product over the features of the kernel with the matrix
    // [[1, 1], [1, 2]], so no kernel matrix of distinct sets is singular
    properties: KernelProperties::UNIVERSAL,
    ..KernelFamily::new("subset", "2^(x.z)", "subset()", |text, _| inner_product_kernel(text, Subset))
};

#[derive(Debug)]
struct Subset;

impl Profile for Subset {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        // exact for integers; 1/0 saturates
        inlined!(|shared: T| T::ONE / shared.larger(T::ZERO).exp2_neg())
    }
}
