//! Values of a column of any type that orders rows, such as a date.

use crate::condition::{Condition, Operator};
use crate::dates::{self, Instant, TimeForm};
use crate::schema::Kind;
use crate::table::Table;
use crate::{Error, KeptColumn, KeptValues, Label, Result};
use std::sync::Arc;

/// A value that orders rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderedValue {
    /// An integer, a Boolean, or a stored date or time.
    Integer(i128),
    /// A number, as an integer with the order of [`f64::total_cmp`].
    Number(i64),
    /// A text, ordered by code points.
    Text(Arc<str>),
}

/// Returns the bits of a number as an integer with the order of the number; its own inverse.
fn ordered_bits(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl OrderedValue {
    /// Returns the value of a row; `None` if it is missing.
    pub fn of_row(column: &KeptColumn, row: usize) -> Option<Self> {
        if column.is_null(row) {
            return None;
        }
        let values = column.values();
        if let KeptValues::Text(texts) = values {
            return Some(Self::Text(texts.text(row).into()));
        }
        if let Some(integer) = values.integer(row) {
            return Some(Self::Integer(integer));
        }
        let number = values.number(row).filter(|number| !number.is_nan())?;
        Some(Self::Number(ordered_bits((number + 0.0).to_bits() as i64)))
    }
}

impl Table {
    /// Returns the day of a value of a column of dates, or of texts that are dates with the year
    /// first: `2024-01-31`. Returns `None` for other values.
    #[doc(hidden)]
    pub fn day_of(&self, column: &str, value: &Label) -> Option<String> {
        let instant = match (&self.schema().columns[self.schema().position(column)?].kind, value) {
            (Kind::Time(time_type), Label::Int(stored)) if dates::stored_form(time_type) == TimeForm::YearFirst => {
                Instant::from_stored(*stored, dates::units_per_day(time_type))
            }
            (Kind::Text, Label::Text(text)) => dates::parse_instant(text, TimeForm::YearFirst)?,
            _ => return None,
        };
        Some(dates::format_instant(Instant { nanos: 0, ..instant }, TimeForm::YearFirst))
    }

    /// Returns the condition that selects the rows whose value in a column is at least `value`.
    ///
    /// # Errors
    /// A text that is not a date with the year first, because the order of its letters is not the
    /// order in time; a column whose name contains a comparison operator.
    #[doc(hidden)]
    pub fn condition_from(&self, name: &str, value: &OrderedValue) -> Result<Condition> {
        let column = self.column_index(name)?;
        let value_text = match (value, &self.schema().columns[column].kind) {
            (OrderedValue::Text(text), _) => {
                if dates::parse_instant(text, TimeForm::YearFirst).is_none() {
                    let expected = format!(
                        "{text:?} is not a date like 2024-01-31, and the order of its letters is not an order in time; read the column as \
                         dates with `types` {name}=date, or sort the table by time and use last:15%"
                    );
                    return Err(self.wrong_type_error(column, &expected));
                }
                text.to_string()
            }
            (OrderedValue::Integer(integer), Kind::Time(time_type))
                if dates::stored_form(time_type) != TimeForm::Duration =>
            {
                i64::try_from(*integer).map_or(integer.to_string(), |stored| dates::format_stored(stored, time_type))
            }
            (OrderedValue::Integer(integer), _) => integer.to_string(),
            (OrderedValue::Number(bits), _) => f64::from_bits(ordered_bits(*bits) as u64).to_string(),
        };
        let is_quoted = matches!(value, OrderedValue::Text(_));
        let condition =
            Condition { column: name.to_string(), operator: Operator::GreaterOrEqual, value: value_text, is_quoted };
        match Condition::parse(&condition.to_string()) {
            Ok(parsed) if parsed == condition => Ok(condition),
            _ => {
                let expected = "its name or its values contain a comparison operator or a quotation mark; rename it, or sort the table and use last:15%";
                Err(Error::Syntax { what: "`test`", text: name.to_string(), expected: expected.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_order() {
        let numbers = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 1e-300, 1.0, 7.25, f64::INFINITY];
        let bits = numbers.map(|number| ordered_bits(number.to_bits() as i64));
        assert!(bits.windows(2).all(|pair| pair[0] < pair[1]), "{bits:?}");
        assert_eq!(bits.map(|bits| f64::from_bits(ordered_bits(bits) as u64)), numbers);
    }
}
