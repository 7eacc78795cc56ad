//! The parameters `where` and `rows`, which select rows.

use crate::dates::{self, TimeForm};
use crate::schema::{Column, Kind};
use crate::view::ColumnView;
use crate::{Error, Result, display};
use std::{cmp::Ordering, ops::Range, path::Path};

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the operators")]
#[non_exhaustive]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The operators with their signs. The three booleans say whether the operator holds if the value
/// is less than, equal to, or greater than the value of the condition. Signs of two characters come
/// first, so that `<=` is not read as `<`.
const OPERATORS: [(&str, Operator, [bool; 3]); 6] = [
    ("==", Operator::Equal, [false, true, false]),
    ("!=", Operator::NotEqual, [true, false, true]),
    ("<=", Operator::LessOrEqual, [true, true, false]),
    (">=", Operator::GreaterOrEqual, [false, true, true]),
    ("<", Operator::Less, [true, false, false]),
    (">", Operator::Greater, [false, false, true]),
];

impl Operator {
    fn definition(self) -> (&'static str, [bool; 3]) {
        OPERATORS
            .iter()
            .find(|(_, operator, _)| *operator == self)
            .map_or(("", [false; 3]), |(sign, _, holds)| (sign, *holds))
    }
}

/// A comparison of one column with a value, such as `fold != 3`.
///
/// A missing value satisfies no condition, not even one with `!=`. Numbers are compared in the
/// precision of the column: `x == 0.1` matches the 0.1 of a float32 column. Text is compared by
/// code points. Dates and times are compared with a value such as 2024-01-31 or 2024-01-31T12:30,
/// or with the number that the file stores.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Condition {
    /// Column name.
    pub column: String,
    /// Comparison operator.
    pub operator: Operator,
    /// Value that the column is compared with, as written, without quotes.
    pub value: String,
    /// Whether the value was written in quotes and is therefore text.
    pub is_quoted: bool,
}

impl Condition {
    /// Reads `column operator value`.
    ///
    /// ```
    /// # use kstore::condition::{Condition, Operator};
    /// let condition = Condition::parse("fold!=3")?;
    /// assert_eq!((condition.column.as_str(), condition.operator), ("fold", Operator::NotEqual));
    /// assert!(Condition::parse("fold = 3").is_err());
    /// # Ok::<(), kstore::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Syntax`] for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let syntax_error = |expected: &str| Error::Syntax {
            what: "`where`",
            text: text.to_string(),
            expected: format!("{expected}; write one column, one of == != < <= > >= and a value, like 'fold != 3'"),
        };
        let first_operator = text.char_indices().find_map(|(index, _)| {
            OPERATORS.iter().find(|(sign, ..)| text[index..].starts_with(sign)).map(|definition| (index, definition))
        });
        let Some((index, (sign, operator, _))) = first_operator else {
            return Err(syntax_error(if text.contains('=') {
                "equality is written =="
            } else {
                "the comparison operator is missing"
            }));
        };
        let (column, value) = (text[..index].trim(), text[index + sign.len()..].trim());
        if column.is_empty() {
            return Err(syntax_error("the column before the operator is missing"));
        }
        let (value, is_quoted) = unquote(value);
        if value.is_empty() && !is_quoted {
            return Err(syntax_error("the value after the operator is missing"));
        }
        if !is_quoted && value.contains(['=', '<', '>', '!']) {
            return Err(syntax_error("the value contains another operator (put a text with an operator in quotes)"));
        }
        Ok(Self { column: unquote(column).0.to_string(), operator: *operator, value: value.to_string(), is_quoted })
    }

    /// Returns the opposite condition. A row with a missing value satisfies neither of the two
    /// conditions.
    ///
    /// ```
    /// # use kstore::condition::Condition;
    /// assert_eq!(Condition::parse("fold == 0")?.complement().to_string(), "fold != 0");
    /// assert_eq!(Condition::parse("x <= 2")?.complement().to_string(), "x > 2");
    /// # Ok::<(), kstore::Error>(())
    /// ```
    #[must_use]
    pub fn complement(&self) -> Self {
        let complement_holds = self.operator.definition().1.map(|holds| !holds);
        let complement = OPERATORS.iter().find(|(.., holds)| *holds == complement_holds);
        Self { operator: complement.map_or(self.operator, |(_, operator, _)| *operator), ..self.clone() }
    }

    /// Converts the value of the condition to the type of its column; the path is for messages.
    pub(crate) fn bind(&self, column: &Column, path: &Path) -> Result<BoundCondition> {
        let type_error = |expected: String| Error::wrong_type(path, &column.name, column.kind.to_string(), expected);
        let number = if self.is_quoted { None } else { self.value.parse::<f64>().ok().filter(|v| !v.is_nan()) };
        let number_error =
            || type_error(format!("`where` compares it with {:?}; compare it with a number", self.value));
        let value = match &column.kind {
            Kind::Text => Comparand::Text(self.value.clone()),
            Kind::Bool => match self.value.as_str() {
                "true" | "True" | "1" => Comparand::Integer(1),
                "false" | "False" | "0" => Comparand::Integer(0),
                other => {
                    return Err(type_error(format!(
                        "`where` compares it with {other:?}; compare it with true or false"
                    )));
                }
            },
            Kind::Time(time_type) if number.is_none() && dates::stored_form(time_type) != TimeForm::Duration => {
                let date_error =
                    || type_error(format!("`where` compares it with {:?}; write it like 2024-01-31", self.value));
                let instant =
                    dates::parse_instant(&self.value, dates::stored_form(time_type)).ok_or_else(date_error)?;
                match instant.to_units(dates::units_per_day(time_type)) {
                    (integer, 0.0) => Comparand::Integer(integer),
                    (integer, fraction) => Comparand::Number(integer as f64 + fraction),
                }
            }
            Kind::Int { .. } | Kind::Time(_) => match (self.value.parse::<i128>(), number) {
                (Ok(integer), Some(_)) => Comparand::Integer(integer),
                (_, number) => Comparand::Number(number.ok_or_else(number_error)?),
            },
            Kind::Float { bits } => {
                let number = number.ok_or_else(number_error)?;
                Comparand::Number(if *bits < 64 { f64::from(number as f32) } else { number })
            }
            Kind::Binary | Kind::Sparse(_) | Kind::Other(_) => {
                return Err(type_error("`where` needs numbers, booleans or text".to_string()));
            }
        };
        Ok(BoundCondition { holds: self.operator.definition().1, value })
    }
}

fn unquote(text: &str) -> (&str, bool) {
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)) {
            return (inner, true);
        }
    }
    (text, false)
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = self.operator.definition().0;
        let quote = if self.is_quoted { "'" } else { "" };
        write!(f, "{} {sign} {quote}{}{quote}", self.column, self.value)
    }
}

impl TryFrom<String> for Condition {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

/// The value of a condition, in the type with which it is compared.
#[derive(Clone, Debug)]
enum Comparand {
    /// An integer, compared exactly with integers of any size.
    Integer(i128),
    Number(f64),
    Text(String),
}

/// A [`Condition`] whose value was converted to the type of its column.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct BoundCondition {
    /// Whether the condition holds for values that are less than, equal to, and greater than its
    /// value.
    holds: [bool; 3],
    value: Comparand,
}

impl BoundCondition {
    /// Appends the rows of a chunk that satisfy the condition to `out`.
    pub(crate) fn select_rows(&self, view: &ColumnView<'_>, row_count: usize, out: &mut Vec<u32>) {
        let is_selected =
            |row: &usize| self.compare_row(view, *row).is_some_and(|order| self.holds[(order as i8 + 1) as usize]);
        out.extend((0..row_count).filter(is_selected).map(|row| row as u32));
    }

    /// Compares the value in `row` with the value of the condition; `None` if the value in `row` is
    /// missing or NaN.
    fn compare_row(&self, view: &ColumnView<'_>, row: usize) -> Option<Ordering> {
        match &self.value {
            _ if view.is_null(row) => None,
            Comparand::Integer(value) => view.integer(row).map(|row_value| row_value.cmp(value)),
            Comparand::Number(value) => view.number(row).partial_cmp(value),
            Comparand::Text(value) => view.text(row).map(|row_value| row_value.cmp(value.as_str())),
        }
    }

    /// Returns false if no row of a group of rows can satisfy the condition. `minima` and `maxima`
    /// hold, in `row`, bounds on the values of the group. Missing values and NaN lie outside the
    /// bounds, but satisfy no condition. A bound need not be a value of the column, because a
    /// writer may shorten texts.
    pub(crate) fn may_hold(&self, minima: &ColumnView<'_>, maxima: &ColumnView<'_>, row: usize) -> bool {
        let (Some(least_order), Some(greatest_order)) = (self.compare_row(minima, row), self.compare_row(maxima, row))
        else {
            return true;
        };
        let [less, equal, greater] = self.holds;
        less && least_order.is_lt()
            || equal && least_order.is_le() && greatest_order.is_ge()
            || greater && greatest_order.is_gt()
    }
}

/// Reads a half-open range of rows: `0..463715`, `..284217`, `284217..`. A range without an end
/// extends to `u64::MAX`.
///
/// ```
/// assert_eq!(kstore::condition::parse_rows("..284217")?, 0..284217);
/// assert!(kstore::condition::parse_rows("9..3").is_err());
/// # Ok::<(), kstore::Error>(())
/// ```
///
/// # Errors
/// [`Error::Syntax`] for any other text, and for a range without rows.
#[doc(hidden)]
pub fn parse_rows(text: &str) -> Result<Range<u64>> {
    let syntax_error = |expected: &str| Error::Syntax {
        what: "`rows`",
        text: text.to_string(),
        expected: format!("{expected}; write it like 0..463715, ..284217 or 284217..; the end is exclusive"),
    };
    let (start, end) =
        text.split_once("..").ok_or_else(|| syntax_error("the .. between first and last row is missing"))?;
    let parse_bound = |bound: &str, default_row: u64| match bound.trim().replace('_', "").as_str() {
        "" => Ok(default_row),
        digits => {
            digits.parse().map_err(|_| syntax_error(&format!("{:?} is not a row number", display::truncate(digits))))
        }
    };
    let rows = parse_bound(start, 0)?..parse_bound(end, u64::MAX)?;
    if rows.is_empty() { Err(syntax_error("the range is empty")) } else { Ok(rows) }
}

/// Formats a range of rows as [`parse_rows`] reads it.
#[doc(hidden)]
pub fn format_rows(rows: &Range<u64>) -> String {
    let end = if rows.end == u64::MAX { String::new() } else { rows.end.to_string() };
    format!("{}..{end}", rows.start)
}

pub(crate) mod rows_text {
    use super::{Range, format_rows, parse_rows};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(rows: &Option<Range<u64>>, serializer: S) -> Result<S::Ok, S::Error> {
        rows.as_ref().map(format_rows).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Range<u64>>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|text| parse_rows(&text).map_err(D::Error::custom)).transpose()
    }
}
