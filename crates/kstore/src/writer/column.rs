//! The columns of an output table.

use crate::arrow::datatypes::DataType;
use crate::schema::Kind;
use kpass::OutputKind;

/// A column to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Column name.
    pub name: String,
    /// Type of the values.
    pub kind: OutputKind,
    /// Whether values may be missing.
    pub nullable: bool,
    /// Arrow type of dates or times, if the values are integers that represent them.
    pub time_type: Option<DataType>,
}

impl OutputColumn {
    /// Returns a column called `name` without missing values.
    pub fn new(name: impl Into<String>, kind: OutputKind) -> Self {
        Self { name: name.into(), kind, nullable: false, time_type: None }
    }

    /// Returns the name of the type of its values, for messages.
    #[doc(hidden)]
    pub fn type_name(&self) -> String {
        match (&self.time_type, self.kind) {
            (Some(time), _) => crate::Kind::Time(time.clone()).to_string(),
            (None, kind) => kind.to_string(),
        }
    }

    /// Returns this column with values that may be missing.
    pub fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

/// Returns the type in which a kept column of this kind is written. uint64 stays uint64, and every
/// other integer type becomes int64.
pub(crate) fn kept_kind(kind: &Kind) -> OutputKind {
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
    /// Returns the output column for a kept column of this kind. uint64 stays uint64, and every
    /// other integer type becomes int64.
    #[doc(hidden)]
    pub fn for_kind(name: &str, kind: &Kind) -> Self {
        let time_type = match kind {
            Kind::Time(time_type) => Some(time_type.clone()),
            _ => None,
        };
        OutputColumn { time_type, ..OutputColumn::new(name, kept_kind(kind)).nullable() }
    }
}
