//! The columns of a table that is written.

use crate::{arrow::datatypes::DataType, sparse::SparseShape};

/// The type of the values of a written column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the types")]
#[non_exhaustive]
pub enum OutputKind {
    F32,
    F64,
    I64,
    U64,
    Bool,
    Text,
    Binary,
    Sparse(SparseShape),
}

/// A column to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Name of the column.
    pub name: String,
    /// The type of its values.
    pub kind: OutputKind,
    /// Whether values may be missing.
    pub nullable: bool,
    /// The Arrow type of dates or times, where the values are whole numbers that stand for them.
    pub time: Option<DataType>,
}

impl OutputKind {
    /// True for values whose bytes are not known beforehand: text, bytes and sparse rows.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::Text | Self::Binary | Self::Sparse(_))
    }

    /// Bytes of a value; of text, bytes and sparse rows without what they hold.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::F32 => 4,
            Self::F64 | Self::I64 | Self::U64 | Self::Text | Self::Binary | Self::Sparse(_) => 8,
        }
    }
}

impl OutputColumn {
    /// A column called `name` without missing values.
    pub fn new(name: impl Into<String>, kind: OutputKind) -> Self {
        Self { name: name.into(), kind, nullable: false, time: None }
    }

    /// The type of its values, in words.
    pub fn holds(&self) -> String {
        match (&self.time, self.kind) {
            (Some(time), _) => crate::Kind::Time(time.clone()).to_string(),
            (None, OutputKind::F32) => "float32".to_string(),
            (None, OutputKind::F64) => "float64".to_string(),
            (None, OutputKind::I64) => "int64".to_string(),
            (None, OutputKind::U64) => "uint64".to_string(),
            (None, OutputKind::Bool) => "bool".to_string(),
            (None, OutputKind::Text) => "text".to_string(),
            (None, OutputKind::Binary) => "binary".to_string(),
            (None, OutputKind::Sparse(shape)) => crate::Kind::Sparse(shape).to_string(),
        }
    }

    /// This column, with values that may be missing.
    pub fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}
