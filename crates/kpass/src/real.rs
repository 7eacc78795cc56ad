//! The element types of stored rows.

use crate::element::Plain;
use std::fmt::{Debug, Display};

/// An element type of arrays in checkpoints.
pub trait Number: Plain {
    /// The type in the safetensors file.
    const DTYPE: safetensors::Dtype;
}

macro_rules! numbers {
    ($($type:ty: $dtype:ident),*) => {$(
        impl Number for $type {
            const DTYPE: safetensors::Dtype = safetensors::Dtype::$dtype;
        }
    )*};
}
numbers!(f32: F32, f64: F64, u64: U64, u32: U32, u16: U16, i64: I64, u8: U8);

/// `f32` or `f64`, the element types of rows and features.
///
/// Rows, kernel blocks and features are stored in `T`; sums over blocks are `f64`.
pub trait Float: Number + Debug + Display + Default + PartialOrd + Send + Sync {
    /// `"f32"` or `"f64"`, the name of the type in the parameter `precision`.
    const NAME: &'static str;
    /// Distance from 1 to the next larger number, as `f64`.
    const EPSILON: f64;
    /// Returns the bytes of `values`, in native byte order.
    fn as_bytes(values: &[Self]) -> &[u8] {
        bytemuck::cast_slice(values)
    }
    /// Returns the bytes of `values` for writing. Every bit pattern is a valid value.
    fn as_bytes_mut(values: &mut [Self]) -> &mut [u8] {
        bytemuck::cast_slice_mut(values)
    }
    /// Returns the nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// Returns this number as `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Returns false for NaN and the infinities. Each type has its own implementation, because a
    /// conversion of f32 to f64 would halve the number of values per SIMD register.
    fn is_finite(self) -> bool;
    /// Returns false if any value is NaN or infinite.
    fn all_finite(values: &[Self]) -> bool;
    /// Writes four columns of equal length to the first four columns of `out`, a row-major matrix
    /// with `row_stride` columns.
    #[inline(always)]
    fn interleave_columns(columns: [&[Self]; 4], row_stride: usize, out: &mut [Self]) {
        interleave_scalar(columns, row_stride, out);
    }
}

/// Compiles an expression with loops for the best instruction set of this machine, and evaluates
/// it.
#[macro_export]
macro_rules! vectorised {
    ($loops:expr) => {
        $crate::vectorised(
            #[inline(always)]
            || $loops,
        )
    };
}

/// The implementation of [`vectorised!`](crate::vectorised!).
///
/// `loops` must be a closure marked `#[inline(always)]`. Do not relax the bound to `FnMut`:
/// `dispatch` calls through `FnOnce`, and a closure that is also `FnMut` gets a `FnOnce` wrapper
/// that is not inlined. The loops would then be compiled for the baseline instruction set (30 to 45
/// times slower for the Laplacian, because of calls to `mul_add`).
#[inline(always)]
pub fn vectorised<R>(loops: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(loops)
}

#[inline(always)]
fn interleave_scalar<T: Copy>([a, b, c, d]: [&[T]; 4], row_stride: usize, out: &mut [T]) {
    for ((((a, b), c), d), out) in a.iter().zip(b).zip(c).zip(d).zip(out.chunks_mut(row_stride)) {
        out[..4].copy_from_slice(&[*a, *b, *c, *d]);
    }
}

impl Float for f32 {
    const NAME: &'static str = "f32";
    const EPSILON: f64 = f32::EPSILON as f64;
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    fn all_finite(values: &[Self]) -> bool {
        // adding 1 to an exponent of all ones (NaN or infinity) carries into the sign bit
        const EXPONENT_MASK: u32 = 0x7f80_0000;
        const EXPONENT_UNIT: u32 = 0x0080_0000;
        vectorised!(
            values.iter().fold(0, |carries, value| carries | ((value.to_bits() & EXPONENT_MASK) + EXPONENT_UNIT)) >> 31
                == 0
        )
    }
    /// Transposes four rows at a time in SSE registers. Without these intrinsics the compiler moves
    /// every value separately.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn interleave_columns(columns: [&[Self]; 4], row_stride: usize, out: &mut [Self]) {
        // every x86-64 has SSE
        let Some(sse) = pulp::core_arch::x86::Sse::try_new() else {
            return interleave_scalar(columns, row_stride, out);
        };
        let [(a, a_rest), (b, b_rest), (c, c_rest), (d, d_rest)] = columns.map(|column| column.as_chunks::<4>());
        for ((((a, b), c), d), out) in a.iter().zip(b).zip(c).zip(d).zip(out.chunks_mut(4 * row_stride)) {
            let rows = transpose_4x4(sse, [*a, *b, *c, *d]);
            // `chunks(row_stride)` would compute the number of chunks, which needs a division
            for (i, row) in rows.iter().enumerate() {
                out[i * row_stride..i * row_stride + 4].copy_from_slice(row);
            }
        }
        let rest_start = (4 * row_stride * a.len()).min(out.len());
        interleave_scalar([a_rest, b_rest, c_rest, d_rest], row_stride, &mut out[rest_start..]);
    }
}

/// Returns four columns of four values as rows.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose_4x4(sse: pulp::core_arch::x86::Sse, columns: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    let [a, b, c, d]: [std::arch::x86_64::__m128; 4] = bytemuck::cast(columns);
    // a0 b0 a1 b1, then a2 b2 a3 b3
    let (ab_low, ab_high) = (sse._mm_unpacklo_ps(a, b), sse._mm_unpackhi_ps(a, b));
    let (cd_low, cd_high) = (sse._mm_unpacklo_ps(c, d), sse._mm_unpackhi_ps(c, d));
    bytemuck::cast([
        sse._mm_movelh_ps(ab_low, cd_low),
        sse._mm_movehl_ps(cd_low, ab_low),
        sse._mm_movelh_ps(ab_high, cd_high),
        sse._mm_movehl_ps(cd_high, ab_high),
    ])
}

impl Float for f64 {
    const NAME: &'static str = "f64";
    const EPSILON: f64 = f64::EPSILON;
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    fn all_finite(values: &[Self]) -> bool {
        const EXPONENT_MASK: u64 = 0x7ff0_0000_0000_0000;
        const EXPONENT_UNIT: u64 = 0x0010_0000_0000_0000;
        vectorised!(
            values.iter().fold(0, |carries, value| carries | ((value.to_bits() & EXPONENT_MASK) + EXPONENT_UNIT)) >> 63
                == 0
        )
    }
}
