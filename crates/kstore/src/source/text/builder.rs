//! Columns of a text chunk, built value by value.

use super::table::{TEXT_CHUNK_BYTES, TEXT_CHUNK_ROWS};
use crate::arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, StringViewArray, UInt64Builder,
};
use crate::schema::{Column, Kind};
use crate::source::ColumnView;
use std::sync::Arc;

/// The narrowest type of all values of a column so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InferredType {
    #[default]
    Missing,
    Bool,
    /// Integers that fit in int64, none of them negative.
    NonNegativeInt,
    /// Integers that fit in int64, some of them negative.
    SignedInt,
    /// Integers, none of them negative, and some of them too large for int64.
    UInt64,
    Float,
    Text,
    /// Lists or objects, which are not supported.
    Nested,
}

impl InferredType {
    /// Returns the type that represents the values of both types; `None` if they cannot be in one
    /// column.
    pub(crate) fn common_type(self, other: Self) -> Option<Self> {
        Some(match (self, other) {
            (inferred, other) if inferred == other => inferred,
            (Self::Missing, inferred) | (inferred, Self::Missing) => inferred,
            (Self::Nested, _) | (_, Self::Nested) => Self::Nested,
            (Self::Text | Self::Bool, _) | (_, Self::Text | Self::Bool) => return None,
            (Self::NonNegativeInt, Self::SignedInt) | (Self::SignedInt, Self::NonNegativeInt) => Self::SignedInt,
            (Self::NonNegativeInt, Self::UInt64) | (Self::UInt64, Self::NonNegativeInt) => Self::UInt64,
            _ => Self::Float,
        })
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::NonNegativeInt | Self::SignedInt => Kind::Int { bits: 64, signed: true },
            Self::UInt64 => Kind::Int { bits: 64, signed: false },
            Self::Missing | Self::Float => Kind::Float { bits: 64 },
            Self::Text => Kind::Text,
            Self::Nested => Kind::Other("lists or objects".to_string()),
        }
    }
}

#[derive(Debug)]
pub(crate) enum ColumnBuilder {
    Float(Float64Builder),
    Int(Int64Builder),
    Unsigned(UInt64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
}

impl ColumnBuilder {
    pub(crate) fn new(kind: &Kind) -> Self {
        match kind {
            Kind::Float { .. } => Self::Float(Float64Builder::new()),
            Kind::Int { signed: true, .. } | Kind::Time(_) => Self::Int(Int64Builder::new()),
            Kind::Int { signed: false, .. } => Self::Unsigned(UInt64Builder::new()),
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            // text formats produce only the kinds above, `Text`, and `Other` for lists and objects,
            // which cannot be selected
            Kind::Text | Kind::Binary | Kind::Sparse(_) | Kind::Other(_) => Self::Text(StringBuilder::new()),
        }
    }

    /// Returns the values so far; the next chunk starts empty.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Float(values) => Arc::new(values.finish()),
            Self::Int(values) => Arc::new(values.finish()),
            Self::Unsigned(values) => Arc::new(values.finish()),
            Self::Bool(values) => Arc::new(values.finish()),
            Self::Text(values) => Arc::new(StringViewArray::from(&values.finish())),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ColumnBuilders {
    pub(crate) columns: Vec<ColumnBuilder>,
    /// For each column of the file, its index in `columns`; `None` if it is not requested.
    pub(crate) builder_indices: Vec<Option<usize>>,
    finished_arrays: Vec<ArrayRef>,
}

impl ColumnBuilders {
    pub(crate) fn new(columns: &[Column], requested: &[usize]) -> Self {
        let builder_indices = super::requested_slots(columns.len(), requested);
        let columns = requested.iter().map(|column| ColumnBuilder::new(&columns[*column].kind));
        Self { columns: columns.collect(), builder_indices, finished_arrays: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.finished_arrays.clear();
    }

    pub(crate) fn finish(&mut self) {
        self.finished_arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
    }

    pub(crate) fn view(&self, column: usize) -> Option<ColumnView<'_>> {
        crate::source::arrow_values::array_view(&**self.finished_arrays.get(self.builder_indices[column]?)?)
    }

    /// Returns an upper bound on the memory of a chunk in bytes. A numeric column has 8 bytes per
    /// row, and the texts of all columns are at most as long as the chunk. The factor 2 covers the
    /// growth of the builders, whose capacity doubles.
    pub(crate) fn max_chunk_bytes(columns: &[&Column], longest_row: usize) -> usize {
        let has_text = columns.iter().any(|column| column.kind == Kind::Text);
        2 * (TEXT_CHUNK_ROWS * columns.len() * 8 + if has_text { TEXT_CHUNK_BYTES + longest_row } else { 0 })
    }
}
