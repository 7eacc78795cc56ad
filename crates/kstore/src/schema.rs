//! Names and types of the columns of a table.

use crate::arrow::datatypes::{DataType, TimeUnit};
use crate::sparse::SparseShape;
use kpass::names;
use std::{collections::HashMap, fmt};

/// Name of the column of a target file.
#[doc(hidden)]
pub const TARGET_COLUMN: &str = "y";

/// Name of the group column in formats whose rows begin with a group.
#[doc(hidden)]
pub const QUERY_COLUMN: &str = "qid";

/// Key of the metadata with the shapes of sparse rows, by column name, as JSON.
pub(crate) const SPARSE_KEY: &str = "kmill.sparse";

/// The type of the values of a column.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Binary floating point numbers of 16, 32 or 64 bits.
    Float {
        /// Size of a value in bits.
        bits: u8,
    },
    /// Integers of 8, 16, 32 or 64 bits.
    Int {
        /// Size of a value in bits.
        bits: u8,
        /// Whether values may be negative.
        signed: bool,
    },
    /// Boolean values, read as 0 and 1 if a number is required.
    Bool,
    /// Text: a label, or a category.
    Text,
    /// Byte strings, which can only be copied to the output.
    Binary,
    /// Dates, times of day, timestamps and durations, with their Arrow type. If they are features,
    /// they are converted as [`crate::encoding::TimeFeatures`] describes. Elsewhere they are the
    /// stored integers.
    #[serde(skip)]
    Time(DataType),
    /// Sparse rows: many numeric columns, stored as a single column. They are features if a
    /// [`Selection`](crate::Selection) includes them.
    Sparse(SparseShape),
    /// Any other type, with its name in the file format. Columns of these types cannot be read.
    Other(String),
}

impl Kind {
    /// Returns whether values can be a target or a numeric feature: numbers, booleans and times.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Self::Float { .. } | Self::Int { .. } | Self::Bool | Self::Time(_))
    }

    /// Returns whether values are features without conversion: numbers and booleans.
    pub fn is_direct_feature(&self) -> bool {
        self.is_numeric() && !matches!(self, Self::Time(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float { bits } => write!(f, "float{bits}"),
            Self::Int { bits, signed: true } => write!(f, "int{bits}"),
            Self::Int { bits, signed: false } => write!(f, "uint{bits}"),
            Self::Bool => f.write_str("bool"),
            Self::Text => f.write_str("text"),
            Self::Binary => f.write_str("binary"),
            Self::Time(time_type) => f.write_str(&time_name(time_type)),
            Self::Sparse(_) => f.write_str("sparse rows"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// Returns the name of a type of dates or times, such as `timestamp in us, UTC`.
fn time_name(time_type: &DataType) -> String {
    match time_type {
        DataType::Date32 => "date in days".to_string(),
        DataType::Date64 => "date in ms".to_string(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time of day in {}", unit_symbol(*unit)),
        DataType::Duration(unit) => format!("duration in {}", unit_symbol(*unit)),
        DataType::Timestamp(unit, None) => format!("timestamp in {}", unit_symbol(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp in {}, {zone}", unit_symbol(*unit)),
        other => other.to_string(),
    }
}

fn unit_symbol(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Column {
    /// Column name.
    pub name: String,
    /// Type of the values.
    pub kind: Kind,
}

/// The columns of a table, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// The columns.
    pub columns: Vec<Column>,
    /// Indices of columns that only number or name the rows, like the index of a pandas table. Such
    /// a column is a feature only if it is selected by name.
    pub row_id_columns: Vec<usize>,
    /// Index of the label column, in formats whose rows have a label, such as svmlight. The label
    /// is a target, and is a feature only if it is selected by name.
    pub label_column: Option<usize>,
}

impl AsRef<str> for Column {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl Schema {
    /// Returns the index of each column name. If several columns share a name, returns the first
    /// index. This function is for many lookups, because [`Schema::position`] scans all columns
    /// each time.
    #[doc(hidden)]
    pub fn index_by_name(&self) -> HashMap<&str, usize> {
        let columns = self.columns.iter().enumerate().rev();
        columns.map(|(index, column)| (column.name.as_str(), index)).collect()
    }

    /// Returns the index of the column `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        names::position(&self.columns, name)
    }

    pub(crate) fn item_name(name: &str, item: usize) -> String {
        format!("{name}[{item}]")
    }

    /// Returns the indices of the columns that come from the lists of a column called `name`, in
    /// order. The result is empty if there are none.
    #[doc(hidden)]
    pub fn list_columns(&self, name: &str) -> Vec<usize> {
        names::list_columns(&self.columns, name)
    }

    /// Returns the end of the message "there is no column `name`": the most similar name, or the
    /// existing names.
    #[doc(hidden)]
    pub fn hint(&self, name: &str) -> String {
        names::hint(&self.columns, name)
    }

    /// Returns whether any column holds sparse rows.
    pub fn has_sparse(&self) -> bool {
        self.columns.iter().any(|column| matches!(column.kind, Kind::Sparse(_)))
    }

    pub(crate) fn sparse_shape(&self, column: usize) -> Option<SparseShape> {
        match self.columns[column].kind {
            Kind::Sparse(shape) => Some(shape),
            _ => None,
        }
    }
}
