//! The delta kernel on categories: 1 if all features are equal, else 0.
//!
//! It is positive definite, as the inner product of indicators of the categories. It is universal
//! and characteristic only on discrete sets, such as categories. Here categories are numbers that
//! are compared exactly; scaling the inputs keeps equal numbers equal.

use super::family::{KernelFamily, KernelProperties};
use super::{Profile, Separation, direct::sum_kernel, terms::Magnitudes};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    // not characteristic on other sets: every distribution without atoms has mean 0 in feature
    // space
    separation: Some(Separation::Product),
    properties: KernelProperties { scope: "discrete sets", ..KernelProperties::ALL },
    ..KernelFamily::new("delta", "1 if x = z, else 0", "delta()", |text, _| sum_kernel(text, Magnitudes, Delta))
};

#[derive(Debug)]
struct Delta;

impl Profile for Delta {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        // different numbers never have a difference of 0
        inlined!(|distance: T| if distance == T::ZERO { T::ONE } else { T::ZERO })
    }
}
