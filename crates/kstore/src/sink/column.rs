//! The columns of a table that is written.

use crate::arrow::datatypes::DataType;
use crate::schema::Kind;
use kpass::OutputKind;

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

impl OutputColumn {
    /// A column called `name` without missing values.
    pub fn new(name: impl Into<String>, kind: OutputKind) -> Self {
        Self { name: name.into(), kind, nullable: false, time: None }
    }

    /// The type of its values, in words.
    pub fn holds(&self) -> String {
        match (&self.time, self.kind) {
            (Some(time), _) => crate::Kind::Time(time.clone()).to_string(),
            (None, kind) => kind.to_string(),
        }
    }

    /// This column, with values that may be missing.
    pub fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

/// The type in which a column of this kind is kept: uint64 stays, and other integers become int64.
pub(crate) fn kept_as(kind: &Kind) -> OutputKind {
    match kind {
        Kind::Float { bits: 64 } => OutputKind::F64,
        Kind::Float { .. } => OutputKind::F32,
        Kind::Int { bits: 64, signed: false } => OutputKind::U64,
        Kind::Int { .. } | Kind::Time(_) => OutputKind::I64,
        Kind::Bool => OutputKind::Bool,
        Kind::Binary => OutputKind::Binary,
        Kind::Sparse(shape) => OutputKind::Sparse(*shape),
        Kind::Text | Kind::Other(_) => OutputKind::Text,
    }
}

impl OutputColumn {
    /// The column as which a kept column of this kind is written: uint64 stays, and other integers
    /// become int64.
    pub fn of(name: &str, kind: &Kind) -> Self {
        let time = match kind {
            Kind::Time(time) => Some(time.clone()),
            _ => None,
        };
        OutputColumn { time, ..OutputColumn::new(name, kept_as(kind)).nullable() }
    }
}
