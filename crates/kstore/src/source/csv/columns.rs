//! Fields turned into typed columns.

use super::infer::{MISSING, number, truth};
use crate::arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, StringViewArray, UInt64Builder,
};
use crate::schema::Kind;
use std::sync::Arc;

/// The builder of a column of the chunk that is being read.
#[derive(Debug)]
pub(super) enum Builder {
    Float(Float64Builder),
    Int(Int64Builder),
    Large(UInt64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
}

impl Builder {
    pub(super) fn new(kind: &Kind) -> Self {
        match kind {
            Kind::Float { .. } => Self::Float(Float64Builder::new()),
            Kind::Int { signed: true, .. } => Self::Int(Int64Builder::new()),
            Kind::Int { signed: false, .. } => Self::Large(UInt64Builder::new()),
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
            // kinds that no inference gives
            Kind::Text | Kind::Binary | Kind::Time(_) | Kind::Other(_) => Self::Text(StringBuilder::new()),
        }
    }

    /// Appends a field; returns what was expected where the field is something else.
    pub(super) fn push(&mut self, field: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Float(values) => match number(field.trim_ascii()) {
                Some(value) => values.append_value(value),
                None => values.append_option(missing(field, "a number")?),
            },
            Self::Int(values) => match number(field.trim_ascii()) {
                Some(value) => values.append_value(value),
                None => values.append_option(missing_whole(field, "a whole number of 64 bits")?),
            },
            Self::Large(values) => match number(field.trim_ascii()) {
                Some(value) => values.append_value(value),
                None => values.append_option(missing_whole(field, "a whole number from 0 to 2^64 - 1")?),
            },
            Self::Bool(values) => match truth(field.trim_ascii()) {
                Some(value) => values.append_value(value),
                None => values.append_option(missing_whole(field, "true or false")?),
            },
            Self::Text(values) => match std::str::from_utf8(field) {
                Ok("") => values.append_null(),
                Ok(text) => values.append_value(text),
                Err(_) => return Err("text in UTF-8"),
            },
        }
        Ok(())
    }

    /// Returns the values so far; the next chunk starts empty.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Float(values) => Arc::new(values.finish()),
            Self::Int(values) => Arc::new(values.finish()),
            Self::Large(values) => Arc::new(values.finish()),
            Self::Bool(values) => Arc::new(values.finish()),
            Self::Text(values) => Arc::new(StringViewArray::from(&values.finish())),
        }
    }
}

/// `None` for a field that stands for a missing value; else `expected` as the error.
fn missing<V>(field: &[u8], expected: &'static str) -> Result<Option<V>, &'static str> {
    let field = field.trim_ascii();
    if field.is_empty() || MISSING.contains(&field) { Ok(None) } else { Err(expected) }
}

/// [`missing`] for columns without fractions, where `NaN` stands for a missing value too.
fn missing_whole<V>(field: &[u8], expected: &'static str) -> Result<Option<V>, &'static str> {
    if matches!(field.trim_ascii(), b"NaN" | b"nan") { Ok(None) } else { missing(field, expected) }
}
