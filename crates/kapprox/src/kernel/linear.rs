//! The linear kernel, x·z.

use super::family::{Explicit, KernelFamily};
use super::{Kernel, Profile, direct::product};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    explicit: Some(Explicit::Linear),
    ..KernelFamily::new("linear", "x.z", "linear()", |text, _| product(text, Linear))
};

impl Kernel {
    /// Returns the kernel x·z.
    pub fn linear() -> Self {
        Self::of(&FAMILY, [])
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
