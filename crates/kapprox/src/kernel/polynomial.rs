//! The polynomial kernel, (γ x·z + c₀)^degree.
//!
//! It is positive definite for γ > 0, c₀ ≥ 0 and an integer degree ≥ 1, because its expansion in
//! powers of x·z has no negative coefficient (Schölkopf, Smola, *Learning with Kernels*, 2002,
//! proposition 13.2).
//!
//! ```
//! use kapprox::kernel::Kernel;
//! assert_eq!(Kernel::parse("polynomial()")?.to_string(), "polynomial(degree=3, gamma=1, c0=1)");
//! # Ok::<(), kapprox::Error>(())
//! ```

use super::family::{ExplicitForm, KernelFamily, NumericParameter, ParameterRange};
use super::{Kernel, Profile, direct::inner_product_kernel};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        NumericParameter::number(
            "degree",
            3.0,
            ParameterRange::Integer { min: 1, max: MAX_DEGREE },
            "only integer powers are positive definite, and higher powers overflow",
        ),
        NumericParameter::number(
            "gamma",
            1.0,
            ParameterRange::Positive,
            "a negative factor breaks positive definiteness, and 0 leaves a constant",
        ),
        NumericParameter::number(
            "c0",
            1.0,
            ParameterRange::NonNegative,
            "a negative constant breaks positive definiteness",
        ),
    ],
    explicit_form: Some(ExplicitForm::Polynomial),
    ..KernelFamily::new(
        "polynomial",
        "(gamma x.z + c0)^degree",
        "polynomial(degree=3, gamma=0.5, c0=1)",
        |text, values| {
            inner_product_kernel(text, Polynomial { degree: values[0] as u32, gamma: values[1], c0: values[2] })
        },
    )
};

impl Kernel {
    /// Returns the kernel (gamma x·z + c0)^degree.
    pub fn polynomial(degree: u32, gamma: f64, c0: f64) -> Self {
        Self::from_family(&FAMILY, [f64::from(degree).into(), gamma.into(), c0.into()])
    }
}

/// Largest degree, the largest exponent of [`Real::power`].
const MAX_DEGREE: u32 = 31;

#[derive(Debug)]
struct Polynomial {
    degree: u32,
    gamma: f64,
    c0: f64,
}

impl Profile for Polynomial {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let degree = self.degree;
        let (gamma, c0) = (T::from_f64(self.gamma).saturate(), T::from_f64(self.c0).saturate());
        inlined!(|product: T| product.mul_plus(gamma, c0).power(degree))
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let rate = T::from_f64(f64::from(self.degree) * self.gamma).saturate();
        let lower_power = Self { degree: self.degree - 1, ..*self }.function::<T>();
        Some(inlined!(|product: T| rate * lower_power(product)))
    }
}
