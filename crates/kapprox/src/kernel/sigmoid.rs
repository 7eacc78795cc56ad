//! The sigmoid kernel, tanh(γ x·z + c₀). **Not positive definite.**
//!
//! It is scikit-learn's `sigmoid_kernel`. Its kernel matrices have negative eigenvalues for most
//! parameters and data (Lin, Lin, *A Study on Sigmoid Kernels for SVM and the Training of non-PSD
//! Kernels by SMO-type Methods*, 2003). Therefore feature maps that factor the kernel matrix of the
//! landmarks reject it. Values near 0 have the same absolute error as values near 1, a few machine
//! epsilons.
//!
//! ```
//! use kapprox::kernel::Kernel;
//! assert!(!Kernel::parse("sigmoid(gamma=0.1, c0=0)")?.is_positive_definite());
//! # Ok::<(), kapprox::Error>(())
//! ```

use super::family::{KernelFamily, KernelProperties, NumericParameter, ParameterRange};
use super::{Kernel, Profile, direct::inner_product_kernel};
use crate::Real;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        NumericParameter::number(
            "gamma",
            1.0,
            ParameterRange::Positive,
            "a negative slope has even more negative eigenvalues, and 0 leaves a constant",
        ),
        NumericParameter::number("c0", 1.0, ParameterRange::Any, "it is a number"),
    ],
    is_positive_definite: false,
    properties: KernelProperties::BOUNDED,
    ..KernelFamily::new("sigmoid", "tanh(gamma x.z + c0)", "sigmoid(gamma=0.5, c0=-0.25)", |text, values| {
        inner_product_kernel(text, Sigmoid { gamma: values[0], c0: values[1] })
    })
};

impl Kernel {
    /// Returns the kernel tanh(gamma x·z + c0), which is not positive definite.
    pub fn sigmoid(gamma: f64, c0: f64) -> Self {
        Self::from_family(&FAMILY, [gamma.into(), c0.into()])
    }
}

#[derive(Debug)]
struct Sigmoid {
    gamma: f64,
    c0: f64,
}

impl Profile for Sigmoid {
    const POSITIVE_DEFINITE: bool = false;

    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        let (gamma, c0) = (T::from_f64(self.gamma).saturate(), T::from_f64(self.c0).saturate());
        let two_log2_e = T::from_f64(2.0 * std::f64::consts::LOG2_E);
        inlined!(|product: T| {
            let u = product.mul_plus(gamma, c0);
            let power = (u.magnitude() * two_log2_e).exp2_neg();
            // tanh |u| = (1 − exp(−2|u|)) / (1 + exp(−2|u|))
            let tanh_magnitude = (T::ONE - power) / (T::ONE + power);
            if u < T::ZERO { T::ZERO - tanh_magnitude } else { tanh_magnitude }
        })
    }

    /// Returns γ / cosh²(u) = 4γ e / (1 + e)², where u = γ x·z + c₀ and e = exp(−2|u|).
    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        let (gamma, c0) = (T::from_f64(self.gamma).saturate(), T::from_f64(self.c0).saturate());
        let (two_log2_e, rate) =
            (T::from_f64(2.0 * std::f64::consts::LOG2_E), T::from_f64(4.0 * self.gamma).saturate());
        Some(inlined!(|product: T| {
            let power = (product.mul_plus(gamma, c0).magnitude() * two_log2_e).exp2_neg();
            rate * power / ((T::ONE + power) * (T::ONE + power))
        }))
    }
}
