//! Terms of sums over features: the contribution of one feature to a sum Σ_k M(x_k, z_k), and its
//! slope ∂M/∂x.

use super::{points::squared_norm, sparse_argument::SparseArgument};
use crate::{Real, vectorised};
use pulp::Simd;
use std::fmt::Debug;

/// One feature's contribution to a sum.
pub(crate) trait Term: Copy + Debug + Send + Sync + 'static {
    /// Returns `sum` plus the contribution M of a feature with the values `x` and `z`. Must be
    /// marked `#[inline(always)]`.
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S>;
    /// Returns ∂M/∂x, without a constant factor if the kernel supplies it. At a jump, returns the
    /// mean of the values on both sides. Must be marked `#[inline(always)]`.
    fn slope<T: Real>(x: T, z: T) -> T;
    /// Returns Σ_k M(x_k, x_k).
    fn self_sum<T: Real>(_x: &[T]) -> f64 {
        0.0
    }
    /// The sum for sparse points; `None` if the features that both points have, and the norms of
    /// the points, do not determine it.
    const SPARSE_ARGUMENT: Option<SparseArgument> = None;
    /// True if the sum may overflow for points whose kernel value is still meaningful.
    const OVERFLOWS: bool = false;
    /// Returns a finite value for a sum that overflows.
    fn finite_sum<T: Real>(_x: &[T], _z: &[T]) -> T {
        T::LARGEST
    }
}

/// Defines a term from its two functions.
macro_rules! term {
    ($(#[$what:meta])* $name:ident, |$simd:ident, $sum:ident, $x:ident, $z:ident| $add:expr, |$a:pat_param, $b:pat_param| $slope:expr $(; $($more:tt)*)?) => {
        $(#[$what])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name;

        impl Term for $name {
            #[inline(always)]
            fn add<T: Real, S: Simd>($simd: S, $sum: T::Vector<S>, $x: T::Vector<S>, $z: T::Vector<S>) -> T::Vector<S> {
                $add
            }
            #[inline(always)]
            fn slope<T: Real>($a: T, $b: T) -> T {
                $slope
            }
            $($($more)*)?
        }
    };
}

term!(
    /// Σ x z.
    Products,
    |simd, sum, x, z| T::multiply_add(simd, x, z, sum),
    |_, z| z;
    fn self_sum<T: Real>(x: &[T]) -> f64 {
        vectorised!(squared_norm(x))
    }
    const SPARSE_ARGUMENT: Option<SparseArgument> = Some(SparseArgument::Product);
    const OVERFLOWS: bool = true;
    fn finite_sum<T: Real>(x: &[T], z: &[T]) -> T {
        scaled_product(x, z)
    }
);

term!(
    /// Σ (x − z)²; the factor of its slope is 2.
    Squares,
    |simd, sum, x, z| {
        let difference = T::minus(simd, x, z);
        T::multiply_add(simd, difference, difference, sum)
    },
    |x, z| x - z
);

term!(
    /// Σ |x − z|.
    Magnitudes,
    |simd, sum, x, z| T::plus(simd, sum, T::absolute(simd, T::minus(simd, x, z))),
    |x, z| sign(x - z);
    const SPARSE_ARGUMENT: Option<SparseArgument> = Some(SparseArgument::Distance { length: 1.0 });
);

term!(
    /// Σ max(x, z).
    Maxima,
    |simd, sum, x, z| T::plus(simd, sum, T::greatest(simd, x, z)),
    |x, z| (T::ONE + sign(x - z)) * T::from_f64(0.5)
);

term!(
    /// Σ min(x, z).
    Minima,
    |simd, sum, x, z| T::plus(simd, sum, T::least(simd, x, z)),
    |x, z| (T::ONE - sign(x - z)) * T::from_f64(0.5);
    const SPARSE_ARGUMENT: Option<SparseArgument> = Some(SparseArgument::Minimum);
    fn self_sum<T: Real>(x: &[T]) -> f64 {
        x.iter().map(|value| value.to_f64()).sum()
    }
);

term!(
    /// Σ (x − z)² / (x + z), where 0/0 is 0; with q = (x − z) / (x + z) its slope is q (2 − q).
    ChiSquares,
    |simd, sum, x, z| {
        let difference = T::minus(simd, x, z);
        let total = T::greatest(simd, T::plus(simd, x, z), T::splat(simd, T::MIN_POSITIVE));
        // the quotient is at most 1: nothing overflows
        T::multiply_add(simd, difference, T::quotient(simd, difference, total), sum)
    },
    |x, z| {
        let quotient = (x - z) / (x + z).larger(T::MIN_POSITIVE);
        quotient * (T::ONE + T::ONE - quotient)
    };
    const SPARSE_ARGUMENT: Option<SparseArgument> = Some(SparseArgument::ChiSquare);
);

term!(
    /// Σ 2 x z / (x + z), where 0/0 is 0; with q = z / (x + z) its slope is 2 q².
    HarmonicMeans,
    |simd, sum, x, z| {
        let total = T::greatest(simd, T::plus(simd, x, z), T::splat(simd, T::MIN_POSITIVE));
        T::multiply_add(simd, T::plus(simd, x, x), T::quotient(simd, z, total), sum)
    },
    |x, z| {
        let quotient = z / (x + z).larger(T::MIN_POSITIVE);
        (quotient + quotient) * quotient
    };
    const SPARSE_ARGUMENT: Option<SparseArgument> = Some(SparseArgument::HarmonicMean);
    fn self_sum<T: Real>(x: &[T]) -> f64 {
        x.iter().map(|value| value.to_f64()).sum()
    }
);

/// Returns the sign of `value`: −1, 0 or 1, or a number between −1 and 1 if `value` is subnormal.
#[inline(always)]
pub(super) fn sign<T: Real>(value: T) -> T {
    (value * T::LARGEST).smaller(T::ONE).larger(T::ZERO - T::ONE)
}

/// Returns whether a sum is infinite, or NaN because infinities of both signs met.
#[inline(always)]
pub(super) fn is_overflow<T: Real>(sum: T) -> bool {
    let fits = sum.magnitude() <= T::LARGEST;
    !fits
}

/// Returns x·z = (Σ (x/‖x‖∞)(z/‖z‖∞)) ‖x‖∞ ‖z‖∞, computed in `f64` from points whose values are
/// scaled to at most 1. Only the last product can overflow, and it is kept finite.
fn scaled_product<T: Real>(x: &[T], z: &[T]) -> T {
    let largest = |v: &[T]| v.iter().fold(f64::MIN_POSITIVE, |max, value| max.max(value.to_f64().abs()));
    let (x_largest, z_largest) = (largest(x), largest(z));
    let sum: f64 = x.iter().zip(z).map(|(x, z)| x.to_f64() / x_largest * (z.to_f64() / z_largest)).sum();
    T::from_f64((sum * x_largest * z_largest).saturate()).saturate()
}
