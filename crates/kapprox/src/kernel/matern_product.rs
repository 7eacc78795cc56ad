//! Products over the features of one-dimensional Matérn kernels, Π M_ν(|x − z| / σ), of smoothness
//! ν = 1/2, 3/2 and 5/2.
//!
//! Such a product is rougher along diagonals than [`matern`](super::matern), the kernel of the
//! Euclidean distance. For ν = 1/2 it is the [`laplacian`](super::laplacian). It is positive
//! definite as a product of kernels (Rasmussen, Williams, *Gaussian Processes for Machine
//! Learning*, 2006, section 4.2.4). It costs one exponential per feature and pair of points.

use super::direct::{ProductProfile, difference_kernel};
use super::family::{Distance, KernelFamily, KernelProperties, SIGMA};
use super::matern::{MAX_HALVINGS, NU};
use super::{Separation, sweep::DifferenceAccumulator, terms::sign};
use crate::Real;
use std::f64::consts::LN_2;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[NU, SIGMA],
    distance: Some(Distance::L2),
    separation: Some(Separation::Product),
    properties: KernelProperties::ALL,
    ..KernelFamily::new(
        "matern_product",
        "product of the features' matern(nu, sigma)",
        "matern_product(nu=1.5, sigma=4)",
        |text, values| {
            // M(a) = (1 + linear a + square a²) 2^−a, where a is in units of (ln 2 / root) length
            // scales
            let (root, linear, square) = match values[0] {
                0.5 => (1.0, 0.0, 0.0),
                1.5 => (3f64.sqrt(), LN_2, 0.0),
                _ => (5f64.sqrt(), LN_2, LN_2 * LN_2 / 3.0),
            };
            difference_kernel(text, values[1] * LN_2 / root, Matern { linear, square }, ProductProfile)
        },
    )
};

#[derive(Debug)]
struct Matern {
    linear: f64,
    square: f64,
}

impl DifferenceAccumulator for Matern {
    const START: f64 = 1.0;

    fn step<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        let (linear, square, max_argument) =
            (T::from_f64(self.linear), T::from_f64(self.square), T::from_f64(MAX_HALVINGS));
        inlined!(|value: T, difference: T| {
            let a = difference.magnitude().smaller(max_argument);
            value * (square.mul_plus(a, linear).mul_plus(a, T::ONE) * a.exp2_neg())
        })
    }

    /// Returns (ln M)' = (linear + 2 square a) / (1 + linear a + square a²) − ln 2 as one fraction
    /// over the common denominator. The numerator is collected by powers of a. For ν = 3/2 and 5/2
    /// its constant term is exactly 0, so nothing cancels if a is small.
    fn slope<T: Real>(&self) -> impl Fn(T) -> T + Copy {
        let (linear, square, max_argument) =
            (T::from_f64(self.linear), T::from_f64(self.square), T::from_f64(MAX_HALVINGS));
        let constant = T::from_f64(self.linear - LN_2);
        let linear_coefficient = T::from_f64(2.0 * self.square - LN_2 * self.linear);
        let quadratic_coefficient = T::from_f64(-LN_2 * self.square);
        inlined!(|difference: T| {
            let a = difference.magnitude().smaller(max_argument);
            let numerator = quadratic_coefficient.mul_plus(a, linear_coefficient).mul_plus(a, constant);
            sign(difference) * numerator / square.mul_plus(a, linear).mul_plus(a, T::ONE)
        })
    }
}
