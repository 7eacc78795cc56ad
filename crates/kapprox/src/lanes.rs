//! SIMD vectors, for the few loops that the compiler does not vectorise by itself.

use pulp::Simd;

/// A number type with SIMD vectors, as wide as in the instruction set `S`.
///
/// The compiler vectorises loops over slices (see [`vectorised`](crate::vectorised!)). But it does
/// not vectorise loops with two dozen sums that must stay in registers. If these sums are written
/// as arrays of numbers, they are unrolled into scalars, and the loop is thirty times slower
/// (measured).
pub trait Lanes: Sized {
    /// A vector that fills a register of `S`.
    type Vector<S: Simd>: Copy;

    /// Returns a vector with `value` in every lane.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    /// Returns `a + b`.
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns `a - b`.
    fn minus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns `a / b`.
    fn quotient<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns `a * b + c`, rounded once.
    fn multiply_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns |a|.
    fn absolute<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns the smaller of two numbers.
    fn least<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns the larger of two numbers.
    fn greatest<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Returns the start of a slice as vectors; the numbers at its end that do not fill a vector
    /// are omitted.
    fn vectors<S: Simd>(numbers: &[Self]) -> &[Self::Vector<S>];
    /// Returns the start of a slice as mutable vectors, as [`vectors`](Self::vectors) does.
    fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [Self::Vector<S>];
}

macro_rules! lanes {
    ($type:ty, $vector:ident, $splat:ident, $add:ident, $sub:ident, $div:ident, $mul_add:ident, $min:ident, $max:ident, $slice:ident, $slice_mut:ident) => {
        impl Lanes for $type {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$vector {
                simd.$splat(value)
            }
            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn minus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn quotient<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$div(a, b)
            }
            #[inline(always)]
            fn multiply_add<S: Simd>(simd: S, a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn absolute<S: Simd>(simd: S, a: S::$vector) -> S::$vector {
                // pulp's `abs` compiles to function calls unless the compiler optimises for speed
                // alone
                simd.$max(a, simd.$sub(simd.$splat(0.0), a))
            }
            #[inline(always)]
            fn least<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$min(a, b)
            }
            #[inline(always)]
            fn greatest<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$max(a, b)
            }
            #[inline(always)]
            fn vectors<S: Simd>(numbers: &[Self]) -> &[S::$vector] {
                S::$slice(numbers).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(numbers: &mut [Self]) -> &mut [S::$vector] {
                S::$slice_mut(numbers).0
            }
        }
    };
}

lanes! {
    f32, f32s, splat_f32s, add_f32s, sub_f32s, div_f32s,
    mul_add_f32s, min_f32s, max_f32s, as_simd_f32s, as_mut_simd_f32s
}
lanes! {
    f64, f64s, splat_f64s, add_f64s, sub_f64s, div_f64s,
    mul_add_f64s, min_f64s, max_f64s, as_simd_f64s, as_mut_simd_f64s
}

/// Returns the instruction set that kernels and products use on this machine. Results are bitwise
/// reproducible within one instruction set.
pub fn instruction_set() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let level = if std::arch::is_x86_feature_detected!("avx512f") {
            "AVX-512"
        } else if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            "AVX2"
        } else {
            "SSE2"
        };
        format!("x86-64 {level}")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_string()
    }
}
