//! The constant kernel, k(x, z) = value: a number added to a kernel, as in `1 + linear()`.
//!
//! It is positive semi-definite for every value ≥ 0, as the inner product of a single feature that
//! is the same for all rows. In an expression, a number that is a term of a sum is this kernel.
//!
//! ```
//! use kapprox::kernel::Kernel;
//! assert_eq!(Kernel::parse("1 + linear()")?.to_string(), "constant(value=1) + linear()");
//! # Ok::<(), kapprox::Error>(())
//! ```

use super::family::{KernelFamily, KernelProperties, NumericParameter, ParameterRange};
use super::{FrequencyDistribution, Kernel, Profile, direct::inner_product_kernel};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[NumericParameter::number(
        "value",
        1.0,
        ParameterRange::NonNegative,
        "a negative constant breaks positive definiteness",
    )],
    properties: KernelProperties::TRANSLATION_INVARIANT,
    ..KernelFamily::new("constant", "value", "constant(value=0.5)", |text, values| {
        inner_product_kernel(text, Constant(values[0]))
    })
};

impl Kernel {
    /// Returns the kernel with this value for all points.
    pub fn constant(value: f64) -> Self {
        Self::from_family(&FAMILY, [value.into()])
    }
}

#[derive(Debug)]
struct Constant(f64);

impl Profile for Constant {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let value = T::from_f64(self.0).saturate();
        inlined!(|_: T| value)
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        Some(inlined!(|_: T| T::ZERO))
    }

    /// Returns the distribution of the single frequency 0.
    fn frequency_distribution(&self) -> Option<FrequencyDistribution> {
        Some(FrequencyDistribution::radial(|_| 0.0))
    }
}
