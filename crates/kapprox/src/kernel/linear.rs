//! The linear kernel, x·z.

use super::family::{ExplicitForm, KernelFamily};
use super::{Kernel, Profile, Separation, direct::inner_product_kernel};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    separation: Some(Separation::Sum),
    explicit_form: Some(ExplicitForm::Linear),
    ..KernelFamily::new("linear", "x.z", "linear()", |text, _| inner_product_kernel(text, Linear))
};

impl Kernel {
    /// Returns the kernel x·z.
    pub fn linear() -> Self {
        Self::from_family(&FAMILY, [])
    }
}

#[derive(Debug)]
pub(super) struct Linear;

impl Profile for Linear {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        inlined!(|product: T| product)
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        Some(inlined!(|_: T| T::ONE))
    }
}
