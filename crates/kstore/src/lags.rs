//! Past values of a table's rows as additional columns: lags and rolling means within each series.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Maximum lag, and maximum number of rows of a rolling mean. A year of hours has 8,760.
const MAX_ROWS_BACK: u64 = 100_000;

/// The lags and rolling means of a table, and the columns that define the series.
///
/// A lag of k rows is the value of the row that is k rows earlier in the same series. A rolling
/// mean of w rows is the mean of the w earlier rows, without the row itself. Both are missing if
/// one of these rows does not exist or has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lags {
    /// Lags of columns, such as `count:1,24`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<RowsBack>,
    /// Numbers of rows of rolling means, such as `count:24`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rolling: Vec<RowsBack>,
    /// Columns whose values name the series; empty if the table is one series.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// Column that increases from row to row of each series; `None` to trust the order of the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// A column with numbers of rows: `count:1,24,168`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RowsBack {
    /// Name of the column.
    pub column: String,
    /// Numbers of rows, each at least 1.
    pub rows: Vec<usize>,
}

impl RowsBack {
    /// Parses a column and its numbers of rows, such as `count:1,24,168`.
    ///
    /// # Errors
    /// [`Error::Syntax`] for any other text, for a number twice, and for a number outside 1 to
    /// 100,000.
    pub fn parse(text: &str) -> Result<Self> {
        let syntax_error = |expected: String| Error::Syntax { what: "`lags`", text: text.to_string(), expected };
        let (column, list) = text
            .rsplit_once(':')
            .filter(|(column, _)| !column.trim().is_empty())
            .ok_or_else(|| syntax_error("a column and numbers of rows, such as count:1,24,168".to_string()))?;
        let mut rows: Vec<usize> = Vec::new();
        for part in list.split(',').map(str::trim) {
            let number = part.parse::<u64>().ok().filter(|number| (1..=MAX_ROWS_BACK).contains(number));
            let number = number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
                syntax_error(format!(
                    "{part:?} is not a number of rows from 1 to {MAX_ROWS_BACK}; only earlier rows are known, so 1 is \
                     the smallest lag"
                ))
            })?;
            if rows.contains(&number) {
                return Err(syntax_error(format!("{number} is named twice; remove one of them")));
            }
            rows.push(number);
        }
        Ok(Self { column: column.trim().to_string(), rows })
    }
}

impl std::fmt::Display for RowsBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows: Vec<String> = self.rows.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}", self.column, rows.join(","))
    }
}

impl TryFrom<String> for RowsBack {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<RowsBack> for String {
    fn from(rows_back: RowsBack) -> Self {
        rows_back.to_string()
    }
}

/// A new column: the past values of an existing column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastValue {
    /// The value this many rows earlier.
    Lag(usize),
    /// The mean of this many earlier rows.
    Mean(usize),
}

impl PastValue {
    /// Returns the number of earlier rows that must be known.
    pub(crate) fn rows_back(self) -> usize {
        let (Self::Lag(rows) | Self::Mean(rows)) = self;
        rows
    }

    /// Returns the smallest distance to a row whose value is read.
    pub(crate) fn nearest_row(self) -> usize {
        match self {
            Self::Lag(rows) => rows,
            Self::Mean(_) => 1,
        }
    }
}

/// Returns each column with each of its numbers of rows.
fn pairs(columns: &[RowsBack]) -> impl Iterator<Item = (&str, usize)> {
    columns.iter().flat_map(|column| column.rows.iter().map(|rows| (&*column.column, *rows)))
}

impl Lags {
    /// Returns the new columns in order: the existing column, the past value and the new name.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, PastValue, String)> {
        let lags =
            pairs(&self.lags).map(|(column, rows)| (column, PastValue::Lag(rows), format!("{column}_lag{rows}")));
        let means = pairs(&self.rolling);
        lags.chain(means.map(|(column, rows)| (column, PastValue::Mean(rows), format!("{column}_mean{rows}"))))
    }

    /// Returns the names of the new columns, such as `count_lag24` and `count_mean24`.
    pub fn names(&self) -> Vec<String> {
        self.columns().map(|(_, _, name)| name).collect()
    }

    /// Returns the smallest lag of a column, with the name of the new column; `None` without lags
    /// of this column.
    #[doc(hidden)]
    pub fn smallest_lag(&self, column: &str) -> Option<(usize, String)> {
        let lags = self.columns().filter_map(|(existing, past, name)| match past {
            PastValue::Lag(rows) if existing == column => Some((rows, name)),
            _ => None,
        });
        lags.min()
    }

    /// Returns whether past values of a column are read.
    pub fn reads(&self, column: &str) -> bool {
        self.columns().any(|(name, _, _)| name == column)
    }
}

impl std::fmt::Display for Lags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts = |columns: &[RowsBack]| columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let mut parts = Vec::new();
        parts.extend((!self.lags.is_empty()).then(|| format!("lags {}", texts(&self.lags))));
        parts.extend((!self.rolling.is_empty()).then(|| format!("rolling means {}", texts(&self.rolling))));
        parts.extend((!self.by.is_empty()).then(|| format!("by {}", self.by.join(", "))));
        parts.extend(self.order.iter().map(|order| format!("in the order of {order}")));
        f.write_str(&parts.join("; "))
    }
}
