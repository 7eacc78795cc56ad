//! Test rows: the rows of a table that a fit does not read, so that its model can be evaluated on
//! them.

use crate::condition::{BoundCondition, Condition};
use crate::key::{Purpose, Stream};
use crate::rows::Label;
use crate::table::Table;
use crate::view::ColumnView;
use crate::{Error, Result, labels};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

const TEST_HELP: &str = "write 20% (random rows; with classes, 20 % of each class), 20%:COLUMN (of each value of a column), last:15% (the last \
    rows), last:15%:COLUMN (the latest values of a column), groups:20%:COLUMN (whole groups), or 'where fold == 9'";

/// A description of the test rows, as the user writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TestSpec {
    /// Random rows: `20%`. With a column (`20%:region`), the fraction of the rows of each value.
    Random {
        /// Fraction of the rows.
        fraction: Fraction,
        /// Column whose values are the strata.
        strata: Option<String>,
    },
    /// The last rows, in the order of the table or of the values of a column: `last:15%:date`.
    Last {
        /// Fraction of the rows.
        fraction: Fraction,
        /// Column that orders the rows; `None` for the order of the table.
        column: Option<String>,
    },
    /// Random whole groups of rows: `groups:20%:subject`.
    Groups {
        /// Fraction of the groups.
        fraction: Fraction,
        /// Column that names the groups.
        column: String,
    },
    /// The rows that satisfy a condition: `where fold == 9`.
    Where(Condition),
}

/// A fraction above 0 and below 1, written as a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction(f64);

impl Fraction {
    /// Returns this fraction of a number of rows or groups, rounded.
    #[must_use]
    pub fn of(self, count: u64) -> u64 {
        (self.0 * count as f64).round() as u64
    }

    fn parse(text: &str, spec: &str) -> Result<Self> {
        let syntax_error = |expected: String| Error::Syntax { what: "`test`", text: spec.to_string(), expected };
        let parse = |digits: &str| digits.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let fraction = match text.trim().strip_suffix('%') {
            Some(digits) => parse(digits).map(|percentage| percentage / 100.0),
            // scikit-learn's test_size
            None => parse(text).filter(|value| value.fract() != 0.0 || *value <= 0.0),
        };
        match fraction {
            Some(fraction) if fraction > 0.0 && fraction < 1.0 => Ok(Self(fraction)),
            Some(_) => {
                let expected =
                    "the percentage must be above 0 and below 100, because both parts need rows; 20% is common";
                Err(syntax_error(expected.to_string()))
            }
            None if parse(text).is_some() => {
                Err(syntax_error(format!("the percent sign is missing; write {}%", text.trim())))
            }
            None => Err(syntax_error(TEST_HELP.to_string())),
        }
    }
}

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // twelve digits hide the rounding of 0.07 x 100
        let rounded = (self.0 * 1e14).round() / 1e12;
        write!(f, "{rounded}%")
    }
}

impl TestSpec {
    /// Parses `20%`, `20%:region`, `last:15%`, `last:15%:date`, `groups:20%:subject` or
    /// `where fold == 9`.
    ///
    /// # Errors
    /// [`Error::Syntax`] for any other text, and for a percentage that leaves a part without rows.
    pub fn parse(text: &str) -> Result<Self> {
        let syntax_error =
            |expected: &str| Error::Syntax { what: "`test`", text: text.to_string(), expected: expected.to_string() };
        let name = |name: &str| match name.trim() {
            "" => Err(syntax_error("the name of the column after : is missing")),
            name => Ok(name.to_string()),
        };
        let trimmed = text.trim();
        if let Some(condition) = trimmed.strip_prefix("where ") {
            return Ok(Self::Where(Condition::parse(condition)?));
        }
        match trimmed.split_once(':') {
            Some(("last", arguments)) => {
                let (fraction, column) =
                    arguments.split_once(':').map_or((arguments, None), |(fraction, column)| (fraction, Some(column)));
                let fraction = Fraction::parse(fraction, text)?;
                Ok(Self::Last { fraction, column: column.map(name).transpose()? })
            }
            Some(("groups", arguments)) => {
                let (fraction, column) = arguments.split_once(':').ok_or_else(|| {
                    syntax_error("the column of the groups is missing; write it like groups:20%:subject")
                })?;
                Ok(Self::Groups { fraction: Fraction::parse(fraction, text)?, column: name(column)? })
            }
            Some((fraction, column)) if fraction.trim_end().ends_with('%') => {
                Ok(Self::Random { fraction: Fraction::parse(fraction, text)?, strata: Some(name(column)?) })
            }
            // a condition without its keyword
            _ if Condition::parse(trimmed).is_ok() => Ok(Self::Where(Condition::parse(trimmed)?)),
            _ => Ok(Self::Random { fraction: Fraction::parse(trimmed, text)?, strata: None }),
        }
    }
}

impl std::fmt::Display for TestSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Random { fraction, strata: None } => write!(f, "{fraction}"),
            Self::Random { fraction, strata: Some(column) } => write!(f, "{fraction}:{column}"),
            Self::Last { fraction, column: None } => write!(f, "last:{fraction}"),
            Self::Last { fraction, column: Some(column) } => write!(f, "last:{fraction}:{column}"),
            Self::Groups { fraction, column } => write!(f, "groups:{fraction}:{column}"),
            Self::Where(condition) => write!(f, "where {condition}"),
        }
    }
}

impl TryFrom<String> for TestSpec {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<TestSpec> for String {
    fn from(spec: TestSpec) -> Self {
        spec.to_string()
    }
}

/// The rule by which a row is a test row: a function of its stored row number and of one column,
/// so that it is the same for every reader of the table. The model file stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestRows {
    /// The description from which the rule was computed.
    pub spec: TestSpec,
    /// Seed of the random choices.
    pub seed: u64,
    /// The rule.
    #[serde(flatten)]
    pub rule: TestRule,
}

/// See [`TestRows`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestRule {
    /// A row is a test row if its random key is below a threshold.
    Keys {
        /// Threshold without strata, and of values that are not in `strata`.
        below: u64,
        /// Column of the strata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        column: Option<String>,
        /// Thresholds of the values of `column`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        strata: Vec<(Label, u64)>,
    },
    /// A row is a test row if the random key of its group is below a threshold.
    GroupKeys {
        /// Threshold.
        below: u64,
        /// Column of the groups.
        column: String,
    },
    /// The rows from this stored row on are test rows.
    FromRow(u64),
    /// The rows that satisfy a condition are test rows.
    Where(Condition),
}

impl TestRows {
    /// Returns the stream of the random keys of rows and groups.
    pub fn stream(seed: u64) -> Stream {
        Stream::new(seed, Purpose::TestRows, 0)
    }

    fn column(&self) -> Option<&str> {
        match &self.rule {
            TestRule::Keys { column, .. } => column.as_deref(),
            TestRule::GroupKeys { column, .. } => Some(column),
            TestRule::FromRow(_) => None,
            TestRule::Where(condition) => Some(&condition.column),
        }
    }
}

/// One of the two parts of a table with test rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All rows except the test rows.
    Training(Arc<TestRows>),
    /// The test rows.
    Test(Arc<TestRows>),
}

impl Part {
    /// Returns the rule of the test rows.
    pub fn test_rows(&self) -> &Arc<TestRows> {
        let (Self::Training(test_rows) | Self::Test(test_rows)) = self;
        test_rows
    }
}

/// A part whose columns were found in a table.
#[derive(Clone, Debug)]
pub(crate) struct BoundPart {
    pub(crate) column: Option<usize>,
    selects_test: bool,
    rule: BoundRule,
}

#[derive(Clone, Debug)]
enum BoundRule {
    Keys { stream: Stream, below: u64, strata: HashMap<u64, u64> },
    GroupKeys { stream: Stream, below: u64 },
    Where(BoundCondition),
}

impl Table {
    /// Returns the rows of a part within `rows`: a smaller range, or a rule for each row.
    pub(crate) fn bind_part(&self, part: &Part, rows: Range<u64>) -> Result<(Range<u64>, Option<BoundPart>)> {
        let (test_rows, selects_test) = (part.test_rows(), matches!(part, Part::Test(_)));
        let column = test_rows.column().map(|name| self.column_index(name)).transpose()?;
        let stream = TestRows::stream(test_rows.seed);
        let rule = match &test_rows.rule {
            TestRule::FromRow(first) => {
                let first = (*first).clamp(rows.start, rows.end);
                let part_rows = if selects_test { first..rows.end } else { rows.start..first };
                if part_rows.is_empty() {
                    let why = format!(
                        "the test rows `test` {} begin at stored row {first}, and no row is left in this part; choose other `rows`",
                        test_rows.spec
                    );
                    return Err(self.empty_error(why));
                }
                return Ok((part_rows, None));
            }
            TestRule::Keys { below, strata, .. } => {
                let strata = strata.iter().map(|(label, below)| (label.digest(), *below)).collect();
                BoundRule::Keys { stream, below: *below, strata }
            }
            TestRule::GroupKeys { below, .. } => BoundRule::GroupKeys { stream, below: *below },
            TestRule::Where(condition) => BoundRule::Where(self.bind_condition(condition)?.1),
        };
        Ok((rows, Some(BoundPart { column, selects_test, rule })))
    }

    /// Returns the column of a part that is not a feature by default. A column that only orders or
    /// stratifies the rows stays a feature.
    pub(crate) fn part_role_column(&self, part: &Part) -> Result<Option<usize>> {
        match &part.test_rows().spec {
            TestSpec::Groups { column, .. } | TestSpec::Where(Condition { column, .. }) => {
                self.column_index(column).map(Some)
            }
            TestSpec::Random { .. } | TestSpec::Last { .. } => Ok(None),
        }
    }
}

impl BoundPart {
    /// Removes the rows of a chunk that are not in this part. `view` has the values of
    /// [`Self::column`], and `first_stored_row` is the stored row number of the chunk's first row.
    pub(crate) fn retain(
        &self,
        view: Option<&ColumnView<'_>>,
        first_stored_row: u64,
        chunk_rows: usize,
        selected_rows: &mut Vec<u32>,
    ) {
        let digest = |row: u32| view.and_then(|view| labels::digest_at(view, row as usize));
        match &self.rule {
            BoundRule::Keys { stream, below, strata } => selected_rows.retain(|row| {
                let stratum = digest(*row).and_then(|digest| strata.get(&digest));
                let is_test = stream.word(first_stored_row + u64::from(*row)) < *stratum.unwrap_or(below);
                is_test == self.selects_test
            }),
            BoundRule::GroupKeys { stream, below } => selected_rows.retain(|row| {
                let is_test = digest(*row).is_some_and(|digest| stream.word(digest) < *below);
                is_test == self.selects_test
            }),
            BoundRule::Where(condition) => {
                let mut test_rows = Vec::new();
                view.iter().for_each(|view| condition.select_rows(view, chunk_rows, &mut test_rows));
                // both lists ascend
                let mut test_rows = test_rows.into_iter().peekable();
                selected_rows.retain(|row| {
                    while test_rows.next_if(|test_row| test_row < row).is_some() {}
                    (test_rows.peek() == Some(row)) == self.selects_test
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_read_and_print() {
        for text in ["20%", "7%", "12.5%:region", "last:15%", "last:15%:date", "groups:20%:subject", "where fold == 9"]
        {
            assert_eq!(TestSpec::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(TestSpec::parse("0.2").unwrap().to_string(), "20%");
        assert_eq!(TestSpec::parse("fold == 9").unwrap().to_string(), "where fold == 9");
        for (text, remedy) in [
            ("20", "write 20%"),
            ("0%", "above 0 and below 100"),
            ("100%", "above 0 and below 100"),
            ("-5%", "above 0"),
            ("nan%", "last:15%"),
            ("1", "write 1%"),
            ("last", "last:15%"),
            ("last:15%:", "name of the column"),
            ("groups:20%", "groups:20%:subject"),
            ("where fold = 9", "=="),
            ("random", "20%"),
            ("", "20%"),
        ] {
            let error = TestSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}
