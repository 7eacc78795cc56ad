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
    /// The target, and the number of rows over which its change is learned, such as `count:1`. Past
    /// values of the target are then relative to its value this many rows earlier (the base).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub difference: Option<RowsBack>,
}

/// A new column of a table with lags.
pub(crate) struct LagColumn<'a> {
    /// Name of the existing column.
    pub(crate) column: &'a str,
    pub(crate) past: PastValue,
    /// Number of rows back of the value that is subtracted, if any.
    pub(crate) base_rows: Option<usize>,
    pub(crate) name: String,
    /// False for the base of a difference, and for the change from it, which is the target.
    pub(crate) is_feature: bool,
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
    /// The value of the row itself, from which the base is subtracted.
    Current,
}

impl PastValue {
    /// Returns the number of earlier rows that must be known.
    pub(crate) fn rows_back(self) -> usize {
        match self {
            Self::Lag(rows) | Self::Mean(rows) => rows,
            Self::Current => 0,
        }
    }

    /// Returns the smallest distance to an earlier row whose value is read.
    pub(crate) fn nearest_row(self) -> usize {
        match self {
            Self::Lag(rows) => rows,
            Self::Mean(_) => 1,
            Self::Current => usize::MAX,
        }
    }
}

/// Returns each column with each of its numbers of rows.
fn pairs(columns: &[RowsBack]) -> impl Iterator<Item = (&str, usize)> {
    columns.iter().flat_map(|column| column.rows.iter().map(|rows| (&*column.column, *rows)))
}

impl Lags {
    /// Returns the new columns in order: lags and means, then the base and the change of a
    /// difference.
    pub(crate) fn columns(&self) -> impl Iterator<Item = LagColumn<'_>> {
        let lags =
            pairs(&self.lags).map(|(column, rows)| (column, PastValue::Lag(rows), format!("{column}_lag{rows}")));
        let means = pairs(&self.rolling);
        let means = means.map(|(column, rows)| (column, PastValue::Mean(rows), format!("{column}_mean{rows}")));
        let base = self.base();
        let features = lags.chain(means).filter_map(move |(column, past, name)| match base {
            // the base minus itself
            Some((target, rows)) if target == column && past == PastValue::Lag(rows) => None,
            Some((target, rows)) if target == column => {
                let name = format!("{name}_minus_lag{rows}");
                Some(LagColumn { column, past, base_rows: Some(rows), name, is_feature: true })
            }
            _ => Some(LagColumn { column, past, base_rows: None, name, is_feature: true }),
        });
        let levels = base.into_iter().flat_map(|(column, rows)| {
            let level = |past, base_rows, name| LagColumn { column, past, base_rows, name, is_feature: false };
            [
                level(PastValue::Lag(rows), None, format!("{column}_lag{rows}")),
                level(PastValue::Current, Some(rows), format!("{column}_change{rows}")),
            ]
        });
        features.chain(levels)
    }

    /// Returns the target and the number of rows of the difference.
    fn base(&self) -> Option<(&str, usize)> {
        self.difference.as_ref().and_then(|difference| Some((&*difference.column, *difference.rows.first()?)))
    }

    /// Returns the name of the column that is added to the predictions of changes: the target at an
    /// earlier row. `None` without a difference.
    #[doc(hidden)]
    pub fn base_column(&self) -> Option<String> {
        self.base().map(|(column, rows)| format!("{column}_lag{rows}"))
    }

    /// Returns the column of the difference, and the name of the column of its changes.
    pub(crate) fn change(&self) -> Option<(&str, String)> {
        self.base().map(|(column, rows)| (column, format!("{column}_change{rows}")))
    }

    /// Returns the names of the columns that the difference uses, and that are not features.
    pub(crate) fn level_columns(&self) -> Vec<String> {
        let target = self.difference.iter().map(|difference| difference.column.clone());
        target.chain(self.columns().filter(|column| !column.is_feature).map(|column| column.name)).collect()
    }

    /// Returns the names of the new columns, such as `count_lag24` and `count_mean24`.
    pub fn names(&self) -> Vec<String> {
        self.columns().map(|column| column.name).collect()
    }

    /// Returns the names of the new columns that are features.
    #[doc(hidden)]
    pub fn feature_names(&self) -> Vec<String> {
        self.columns().filter(|column| column.is_feature).map(|column| column.name).collect()
    }

    /// Returns the lags of a column, each with the name of the new column. With a difference, a new
    /// column is relative to the base, or it is the base.
    #[doc(hidden)]
    pub fn lags_of(&self, column: &str) -> Vec<(usize, String)> {
        let lags = self.columns().filter_map(|lag| match lag.past {
            PastValue::Lag(rows) if lag.column == column => Some((rows, lag.name)),
            _ => None,
        });
        lags.collect()
    }

    /// Returns whether past values of a column are read.
    pub fn reads(&self, column: &str) -> bool {
        self.columns().any(|lag| lag.column == column)
    }
}

impl std::fmt::Display for Lags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts = |columns: &[RowsBack]| columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let mut parts = Vec::new();
        parts.extend((!self.lags.is_empty()).then(|| format!("lags {}", texts(&self.lags))));
        parts.extend((!self.rolling.is_empty()).then(|| format!("rolling means {}", texts(&self.rolling))));
        parts.extend(self.difference.iter().map(|difference| format!("difference {difference}")));
        parts.extend((!self.by.is_empty()).then(|| format!("by {}", self.by.join(", "))));
        parts.extend(self.order.iter().map(|order| format!("in the order of {order}")));
        f.write_str(&parts.join("; "))
    }
}
