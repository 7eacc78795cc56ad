//! The element types rows are stored in.

use crate::checkpoint::Number;
use crate::source::Element;
use std::fmt::{Debug, Display};

/// `f32` or `f64`: the one type parameter that travels through the workspace.
///
/// Rows, kernel blocks and features are kept in `T`; whatever is summed over blocks is `f64`.
pub trait Real: Number + Debug + Display + Default + PartialOrd + Send + Sync {
    /// `"f32"` or `"f64"`, as in `--precision`.
    const NAME: &'static str;
    /// Distance from 1 to the next larger number, as `f64`.
    const EPSILON: f64;
    /// The type by its name in files.
    const ELEMENT: Element;
    /// The bytes that hold some values, in the machine's order.
    fn bytes(values: &[Self]) -> &[u8];
    /// The same, to be read into: any bytes are values.
    fn bytes_mut(values: &mut [Self]) -> &mut [u8];
    /// Bytes as values; `None` where they are not aligned for the type or end inside a value.
    fn from_bytes(bytes: &[u8]) -> Option<&[Self]>;
    /// The nearest `T` to `value`.
    fn from_f64(value: f64) -> Self;
    /// The same number in `f64`, exactly.
    fn to_f64(self) -> f64;
    /// False for NaN and the infinities. Not by way of f64, which would halve the width of a vector.
    fn is_finite(self) -> bool;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const EPSILON: f64 = f32::EPSILON as f64;
    const ELEMENT: Element = Element::F32;
    fn bytes(values: &[Self]) -> &[u8] {
        bytemuck::cast_slice(values)
    }
    fn bytes_mut(values: &mut [Self]) -> &mut [u8] {
        bytemuck::cast_slice_mut(values)
    }
    fn from_bytes(bytes: &[u8]) -> Option<&[Self]> {
        bytemuck::try_cast_slice(bytes).ok()
    }
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
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const EPSILON: f64 = f64::EPSILON;
    const ELEMENT: Element = Element::F64;
    fn bytes(values: &[Self]) -> &[u8] {
        bytemuck::cast_slice(values)
    }
    fn bytes_mut(values: &mut [Self]) -> &mut [u8] {
        bytemuck::cast_slice_mut(values)
    }
    fn from_bytes(bytes: &[u8]) -> Option<&[Self]> {
        bytemuck::try_cast_slice(bytes).ok()
    }
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
}
