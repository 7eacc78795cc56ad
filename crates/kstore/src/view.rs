//! Views of the columns of a chunk as typed values, independent of the file format.

use crate::arrow::array::{BinaryViewArray, BooleanArray, StringViewArray};
use crate::arrow::buffer::NullBuffer;
use crate::arrow::datatypes::{ArrowPrimitiveType, Float16Type};
use crate::schema::Kind;
use crate::sparse::SparseRows;

pub use kpass::element::Element;
use kpass::element::Plain;

impl From<Element> for Kind {
    fn from(element: Element) -> Self {
        let bits = 8 * element.bytes_per_value() as u8;
        match element {
            Element::F16 | Element::F32 | Element::F64 => Self::Float { bits },
            Element::I8 | Element::I16 | Element::I32 | Element::I64 => Self::Int { bits, signed: true },
            Element::U8 | Element::U16 | Element::U32 | Element::U64 => Self::Int { bits, signed: false },
            Element::Bool => Self::Bool,
        }
    }
}

/// The 16-bit float, which stable Rust does not have yet.
type F16 = <Float16Type as ArrowPrimitiveType>::Native;

/// The rows of a chunk that are read.
#[derive(Clone, Copy, Debug)]
pub enum RowIndices<'a> {
    /// Consecutive rows, from the row with this number on.
    StartingAt(usize),
    /// The rows with these numbers.
    List(&'a [u32]),
}

impl<'a> RowIndices<'a> {
    /// Returns the row of the chunk at position `i`.
    #[inline(always)]
    pub fn get(self, i: usize) -> usize {
        match self {
            Self::StartingAt(start) => start + i,
            Self::List(list) => list[i] as usize,
        }
    }

    /// Returns the rows without the first `skip` of them.
    #[doc(hidden)]
    pub fn skip(self, skip: usize) -> Self {
        match self {
            Self::StartingAt(start) => Self::StartingAt(start + skip),
            Self::List(list) => Self::List(&list[skip..]),
        }
    }
}

/// A column inside row-major bytes. The value of row `i` starts at byte `offset + i * stride`.
#[derive(Clone, Copy, Debug)]
pub struct StridedColumn<'a> {
    /// Bytes of the chunk.
    pub bytes: &'a [u8],
    /// Type of the values.
    pub element: Element,
    /// Offset of the column in a row, in bytes.
    pub offset: usize,
    /// Bytes per row.
    pub stride: usize,
}

/// Values of a column.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Numbers, and booleans of one byte each.
    Strided(StridedColumn<'a>),
    /// Booleans.
    Bool(&'a BooleanArray),
    /// Texts.
    Text(&'a StringViewArray),
    /// Byte strings.
    Binary(&'a BinaryViewArray),
    /// Sparse rows.
    Sparse(SparseRows<'a>),
}

impl<'a> Values<'a> {
    /// Wraps contiguous numbers.
    pub fn from_slice<V: Plain>(values: &'a [V]) -> Self {
        Self::from_bytes(bytemuck::cast_slice(values), V::ELEMENT)
    }

    /// Wraps contiguous numbers, given as bytes.
    pub(crate) fn from_bytes(bytes: &'a [u8], element: Element) -> Self {
        Self::Strided(StridedColumn { bytes, element, offset: 0, stride: element.bytes_per_value() })
    }
}

/// A column of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct ColumnView<'a> {
    /// The values. The value of a row that is null is arbitrary.
    pub values: Values<'a>,
    /// Null mask (Arrow's validity bitmap); `None` if all rows have a value.
    pub nulls: Option<&'a NullBuffer>,
}

impl<'a> ColumnView<'a> {
    /// Returns whether a row is missing.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// Reads the rows `row_indices` as numbers. Null, text and bytes become NaN, true becomes 1,
    /// and a sparse row becomes its value with the largest magnitude.
    #[inline]
    pub fn load(&self, row_indices: RowIndices<'_>, out: &mut [f64]) {
        match self.values {
            Values::Strided(v) => v.load(row_indices, out),
            Values::Bool(v) => fill_by_row(row_indices, out, |row| f64::from(u8::from(v.value(row)))),
            Values::Text(_) | Values::Binary(_) => out.fill(f64::NAN),
            Values::Sparse(v) => fill_by_row(row_indices, out, |row| v.largest_magnitude(row)),
        }
        if let Some(nulls) = self.nulls {
            for (i, out) in out.iter_mut().enumerate() {
                if nulls.is_null(row_indices.get(i)) {
                    *out = f64::NAN;
                }
            }
        }
    }

    /// Returns the value in `row` as a number, converted like [`Self::load`].
    pub fn number(&self, row: usize) -> f64 {
        let mut value = [0.0];
        self.load(RowIndices::StartingAt(row), &mut value);
        value[0]
    }

    /// Returns the integer in `row` of an integer or boolean column; `None` if the value is
    /// missing.
    pub(crate) fn non_null_integer(&self, row: usize) -> Option<i128> {
        self.integer(row).filter(|_| !self.is_null(row))
    }

    /// Returns the integer in `row` of an integer or boolean column.
    pub fn integer(&self, row: usize) -> Option<i128> {
        match self.values {
            Values::Bool(v) => Some(v.value(row).into()),
            Values::Strided(v) => v.integer(row),
            _ => None,
        }
    }

    /// Returns the text in `row` of a text column.
    pub fn text(&self, row: usize) -> Option<&'a str> {
        match self.values {
            Values::Text(v) => Some(v.value(row)),
            _ => None,
        }
    }

    /// Returns the bytes in `row` of a column of texts or byte strings.
    pub fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        match self.values {
            Values::Text(v) => Some(v.value(row).as_bytes()),
            Values::Binary(v) => Some(v.value(row)),
            _ => None,
        }
    }
}

#[inline(always)]
fn convert_rows<V: Copy>(values: &[V], row_indices: RowIndices<'_>, out: &mut [f64], convert: impl Fn(V) -> f64) {
    match row_indices {
        RowIndices::StartingAt(start) => {
            for (out, value) in out.iter_mut().zip(&values[start..]) {
                *out = convert(*value);
            }
        }
        RowIndices::List(list) => {
            for (out, row) in out.iter_mut().zip(list) {
                *out = convert(values[*row as usize]);
            }
        }
    }
}

#[inline(always)]
fn fill_by_row(row_indices: RowIndices<'_>, out: &mut [f64], value_of_row: impl Fn(usize) -> f64) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = value_of_row(row_indices.get(i));
    }
}

impl<'a> StridedColumn<'a> {
    /// Returns the values without conversion if they have this type and are contiguous.
    pub(crate) fn contiguous<V: bytemuck::Pod>(self, element: Element) -> Option<&'a [V]> {
        let is_contiguous = self.element == element && self.stride == size_of::<V>();
        bytemuck::try_cast_slice(self.bytes.get(self.offset..)?).ok().filter(|_| is_contiguous)
    }

    #[inline(always)]
    fn value<V: bytemuck::Pod>(&self, row: usize) -> V {
        let byte_offset = self.offset + row * self.stride;
        bytemuck::pod_read_unaligned(&self.bytes[byte_offset..byte_offset + size_of::<V>()])
    }

    #[inline(always)]
    fn load_as<V: bytemuck::Pod>(&self, row_indices: RowIndices<'_>, out: &mut [f64], convert: impl Fn(V) -> f64) {
        match self.contiguous(self.element) {
            Some(values) => convert_rows(values, row_indices, out, convert),
            None => fill_by_row(row_indices, out, |row| convert(self.value(row))),
        }
    }

    #[inline]
    fn load(&self, row_indices: RowIndices<'_>, out: &mut [f64]) {
        match self.element {
            Element::F16 => self.load_as(row_indices, out, |bits| F16::from_bits(bits).to_f64()),
            Element::F32 => self.load_as(row_indices, out, |v: f32| v.into()),
            Element::F64 => self.load_as(row_indices, out, |v| v),
            Element::I8 => self.load_as(row_indices, out, |v: i8| v.into()),
            Element::I16 => self.load_as(row_indices, out, |v: i16| v.into()),
            Element::I32 => self.load_as(row_indices, out, |v: i32| v.into()),
            Element::I64 => self.load_as(row_indices, out, |v: i64| v as f64),
            Element::U8 => self.load_as(row_indices, out, |v: u8| v.into()),
            Element::U16 => self.load_as(row_indices, out, |v: u16| v.into()),
            Element::U32 => self.load_as(row_indices, out, |v: u32| v.into()),
            Element::U64 => self.load_as(row_indices, out, |v: u64| v as f64),
            Element::Bool => self.load_as(row_indices, out, |v: u8| f64::from(u8::from(v != 0))),
        }
    }

    fn integer(&self, row: usize) -> Option<i128> {
        Some(match self.element {
            Element::F16 | Element::F32 | Element::F64 => return None,
            Element::I8 => self.value::<i8>(row).into(),
            Element::I16 => self.value::<i16>(row).into(),
            Element::I32 => self.value::<i32>(row).into(),
            Element::I64 => self.value::<i64>(row).into(),
            Element::U8 => self.value::<u8>(row).into(),
            Element::U16 => self.value::<u16>(row).into(),
            Element::U32 => self.value::<u32>(row).into(),
            Element::U64 => self.value::<u64>(row).into(),
            Element::Bool => (self.value::<u8>(row) != 0).into(),
        })
    }
}
