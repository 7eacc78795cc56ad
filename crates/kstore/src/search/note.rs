//! Notes on columns that become something unexpected.

use super::column_values::{DistinctCount, Resemblance};
use crate::{dates::TimeForm, display};

/// A note on columns whose values were inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are names of columns")]
pub enum ColumnNote {
    /// Columns without a value in any row are omitted.
    Blank { columns: Vec<String> },
    /// A text column with too many values for categories is omitted.
    TooManyValues { column: String, values: DistinctCount },
    /// A text column that becomes categories resembles something else. Options about the texts
    /// apply to files only.
    Resembles { column: String, resemblance: Resemblance, is_file: bool },
    /// A numeric column is read as times of day or dates.
    NumericTimes { column: String, form: TimeForm },
    /// A text column of dates or times is omitted, because no time features are requested.
    UnusedTimes { column: String },
    /// A text column with many values that say nothing about the target is omitted.
    NoEffect { column: String },
    /// A numeric column that counts the rows is omitted.
    RowCounter { column: String },
    /// Only the `kept_count` most frequent words of a text column are features. The column has
    /// `word_count` words in total, if this number could be counted.
    RareWords { column: String, kept_count: usize, word_count: Option<usize> },
    /// The dates of a text column were read with the month first, but could also be read with the
    /// day first.
    AmbiguousDates { column: String },
}

impl std::fmt::Display for ColumnNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blank { columns } => match &columns[..] {
                [column] => write!(f, "column {column} is left out: it has no value in any row"),
                [first, others @ ..] => {
                    let other_count = display::format_count(others.len() as u64);
                    write!(f, "column {first} and {other_count} more are left out: they have no value in any row")
                }
                [] => Ok(()),
            },
            Self::TooManyValues { column, values } => {
                let description = match values {
                    DistinctCount::More { has_repeats: false, .. } | DistinctCount::Exactly(_) => {
                        ", a different one in nearly every row, as in an identifier or a comment"
                    }
                    DistinctCount::More { .. } => "",
                };
                write!(
                    f,
                    "column {column} is left out: it has {values} values{description}; set `text` {column} for features of its words, \
                     `hash` 256 for features of whole texts, or `categories` {column} for a feature of each value"
                )
            }
            Self::Resembles { column, resemblance, is_file: true } => write!(f, "column {column} {resemblance}"),
            Self::Resembles { column, resemblance, is_file: false } => {
                write!(f, "column {column} {}", resemblance.describe_without_options())
            }
            Self::NumericTimes { column, form } => {
                let description = match form {
                    TimeForm::HourMinute => "a time of day, like 517 for 5:17",
                    _ => "a date, like 20240131 for 2024-01-31",
                };
                write!(f, "column {column} is read as {description}; `times` none keeps the number")
            }
            Self::UnusedTimes { column } => write!(
                f,
                "column {column} is left out: it has dates or times, and `times` is none; set `categories` {column} for a feature of \
                 each value"
            ),
            Self::NoEffect { column } => write!(
                f,
                "column {column} is left out: its many values do not predict the target better than chance; set `hash` 256 for \
                 features of its text"
            ),
            Self::RowCounter { column } => {
                write!(f, "column {column} is left out: it counts the rows; name it in `features` to include it")
            }
            Self::RareWords { column, kept_count, word_count } => {
                let word_count = word_count
                    .map_or("more than could be counted".to_string(), |words| display::format_count(words as u64));
                let kept = display::format_count(*kept_count as u64);
                write!(
                    f,
                    "column {column}: only the {kept} words that occur in the most rows are features, out of {word_count}"
                )
            }
            Self::AmbiguousDates { column } => write!(
                f,
                "column {column}: its dates are read as month, day, year, although every value could also be day, month, year; \
                 write them like 2024-01-31 if that is wrong"
            ),
        }
    }
}
