//! Element types of arrays.

/// Type of the values in row-major bytes, all little-endian, like the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Element {
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl Element {
    /// Returns the number of bytes per value.
    pub fn bytes_per_value(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// A type of numbers that files hold.
pub trait Plain: bytemuck::Pod {
    /// The type as an [`Element`].
    const ELEMENT: Element;
}
macro_rules! plain {
    ($($type:ty: $element:ident),*) => {$(
        impl Plain for $type {
            const ELEMENT: Element = Element::$element;
        }
    )*};
}
plain!(f32: F32, f64: F64, i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64);
