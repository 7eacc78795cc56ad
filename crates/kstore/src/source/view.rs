//! Columns of a chunk as typed values, whatever the format they came from.

use crate::arrow::array::{BinaryViewArray, BooleanArray, Float16Array, StringViewArray};
use crate::arrow::buffer::NullBuffer;
use crate::arrow::datatypes::{ArrowPrimitiveType, Float16Type};
use crate::sparse::SparseRows;

/// The 16-bit float, which the standard library does not have yet.
type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// The rows of a chunk that are read.
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// Consecutive rows from this one on.
    From(usize),
    /// The rows with these numbers.
    At(&'a [u32]),
}

impl<'a> Positions<'a> {
    /// The row of the chunk at place `i`.
    #[inline(always)]
    pub fn get(self, i: usize) -> usize {
        match self {
            Self::From(start) => start + i,
            Self::At(list) => list[i] as usize,
        }
    }

    /// The positions from place `skip` on.
    pub fn skip(self, skip: usize) -> Self {
        match self {
            Self::From(start) => Self::From(start + skip),
            Self::At(list) => Self::At(&list[skip..]),
        }
    }
}

/// Type of the values in row-major bytes; all little-endian.
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
    /// Bytes per value.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// A column inside row-major bytes: the value of row `i` starts at `offset + i * stride`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The bytes of the chunk.
    pub bytes: &'a [u8],
    /// Type of the values.
    pub element: Element,
    /// Place of the column in a row, in bytes.
    pub offset: usize,
    /// Bytes per row.
    pub stride: usize,
}

/// Values of a column.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Values<'a> {
    F16(&'a Float16Array),
    F32(&'a [f32]),
    F64(&'a [f64]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    Bool(&'a BooleanArray),
    Text(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
    Strided(Strided<'a>),
    Sparse(SparseRows<'a>),
}

/// A column of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The values; arbitrary where there is a null.
    pub values: Values<'a>,
    /// For each row, whether it has a value; `None` where all have one.
    pub nulls: Option<&'a NullBuffer>,
}

impl<'a> View<'a> {
    /// True for a row without a value.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// Reads the rows `at` as numbers: null becomes NaN, true 1, text and bytes NaN, a sparse row its value furthest from 0.
    #[inline]
    pub fn load(&self, at: Positions<'_>, out: &mut [f64]) {
        match self.values {
            Values::F32(v) => each(v, at, out, f64::from),
            Values::F64(v) => each(v, at, out, |v| v),
            Values::I8(v) => each(v, at, out, f64::from),
            Values::I16(v) => each(v, at, out, f64::from),
            Values::I32(v) => each(v, at, out, f64::from),
            Values::I64(v) => each(v, at, out, |v| v as f64),
            Values::U8(v) => each(v, at, out, f64::from),
            Values::U16(v) => each(v, at, out, f64::from),
            Values::U32(v) => each(v, at, out, f64::from),
            Values::U64(v) => each(v, at, out, |v| v as f64),
            Values::F16(v) => pick(at, out, |row| v.value(row).to_f64()),
            Values::Bool(v) => pick(at, out, |row| f64::from(u8::from(v.value(row)))),
            Values::Text(_) | Values::Binary(_) => out.fill(f64::NAN),
            Values::Strided(v) => v.load(at, out),
            Values::Sparse(v) => pick(at, out, |row| v.largest(row)),
        }
        if let Some(nulls) = self.nulls {
            for (i, out) in out.iter_mut().enumerate() {
                if nulls.is_null(at.get(i)) {
                    *out = f64::NAN;
                }
            }
        }
    }

    /// The whole number in `row` of an integer or truth column.
    pub fn integer(&self, row: usize) -> Option<i128> {
        Some(match self.values {
            Values::I8(v) => v[row].into(),
            Values::I16(v) => v[row].into(),
            Values::I32(v) => v[row].into(),
            Values::I64(v) => v[row].into(),
            Values::U8(v) => v[row].into(),
            Values::U16(v) => v[row].into(),
            Values::U32(v) => v[row].into(),
            Values::U64(v) => v[row].into(),
            Values::Bool(v) => v.value(row).into(),
            Values::Strided(v) => return v.integer(row),
            _ => return None,
        })
    }

    /// The text in `row` of a text column.
    pub fn text(&self, row: usize) -> Option<&'a str> {
        match self.values {
            Values::Text(v) => Some(v.value(row)),
            _ => None,
        }
    }

    /// The bytes in `row` of a column of texts or of strings of bytes.
    pub fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        match self.values {
            Values::Text(v) => Some(v.value(row).as_bytes()),
            Values::Binary(v) => Some(v.value(row)),
            _ => None,
        }
    }
}

#[inline(always)]
fn each<V: Copy>(values: &[V], at: Positions<'_>, out: &mut [f64], convert: impl Fn(V) -> f64) {
    match at {
        Positions::From(start) => {
            for (out, value) in out.iter_mut().zip(&values[start..]) {
                *out = convert(*value);
            }
        }
        Positions::At(list) => {
            for (out, row) in out.iter_mut().zip(list) {
                *out = convert(values[*row as usize]);
            }
        }
    }
}

#[inline(always)]
fn pick(at: Positions<'_>, out: &mut [f64], value: impl Fn(usize) -> f64) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = value(at.get(i));
    }
}

impl Strided<'_> {
    #[inline(always)]
    fn raw<const N: usize>(&self, row: usize) -> [u8; N] {
        let start = self.offset + row * self.stride;
        let mut raw = [0; N];
        raw.copy_from_slice(&self.bytes[start..start + N]);
        raw
    }

    #[inline]
    fn load(&self, at: Positions<'_>, out: &mut [f64]) {
        match self.element {
            Element::F16 => pick(at, out, |row| F16::from_le_bytes(self.raw(row)).to_f64()),
            Element::F32 => pick(at, out, |row| f32::from_le_bytes(self.raw(row)).into()),
            Element::F64 => pick(at, out, |row| f64::from_le_bytes(self.raw(row))),
            Element::I8 => pick(at, out, |row| i8::from_le_bytes(self.raw(row)).into()),
            Element::I16 => pick(at, out, |row| i16::from_le_bytes(self.raw(row)).into()),
            Element::I32 => pick(at, out, |row| i32::from_le_bytes(self.raw(row)).into()),
            Element::I64 => pick(at, out, |row| i64::from_le_bytes(self.raw(row)) as f64),
            Element::U8 => pick(at, out, |row| self.raw::<1>(row)[0].into()),
            Element::U16 => pick(at, out, |row| u16::from_le_bytes(self.raw(row)).into()),
            Element::U32 => pick(at, out, |row| u32::from_le_bytes(self.raw(row)).into()),
            Element::U64 => pick(at, out, |row| u64::from_le_bytes(self.raw(row)) as f64),
            Element::Bool => pick(at, out, |row| f64::from(u8::from(self.raw::<1>(row)[0] != 0))),
        }
    }

    fn integer(&self, row: usize) -> Option<i128> {
        Some(match self.element {
            Element::F16 | Element::F32 | Element::F64 => return None,
            Element::I8 => i8::from_le_bytes(self.raw(row)).into(),
            Element::I16 => i16::from_le_bytes(self.raw(row)).into(),
            Element::I32 => i32::from_le_bytes(self.raw(row)).into(),
            Element::I64 => i64::from_le_bytes(self.raw(row)).into(),
            Element::U8 => self.raw::<1>(row)[0].into(),
            Element::U16 => u16::from_le_bytes(self.raw(row)).into(),
            Element::U32 => u32::from_le_bytes(self.raw(row)).into(),
            Element::U64 => u64::from_le_bytes(self.raw(row)).into(),
            Element::Bool => (self.raw::<1>(row)[0] != 0).into(),
        })
    }
}
