//! The state of the series of a table: the last values of their lagged columns.

use crate::lags::PastValue;
use crate::select::OrderedValue;
use std::collections::VecDeque;

/// Bytes of a series without its values and its name, in the list and in the hash table of twice
/// the size.
pub(crate) const SERIES_BYTES: usize = 256;

/// A column whose past values are read.
#[derive(Clone, Debug)]
pub(crate) struct ValueColumn {
    /// Position among the kept columns.
    pub(crate) slot: usize,
    /// Number of values that a series stores.
    pub(crate) capacity: usize,
    /// Position among the targets of a forecast; `None` if the column is not forecast.
    pub(crate) target: Option<usize>,
}

/// A new column: the value column, by its position, the past value, and the number of rows back of
/// the value that is subtracted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewColumn {
    pub(crate) value: usize,
    pub(crate) past: PastValue,
    pub(crate) base_rows: Option<usize>,
}

impl NewColumn {
    /// Returns the value for the row that follows the history after `gap` unknown rows; NaN if it
    /// is missing. `current` is the value of the row itself.
    pub(crate) fn number(self, history: &VecDeque<f64>, gap: usize, current: f64) -> f64 {
        let value = if self.past == PastValue::Current { current } else { past_value(history, self.past, gap) };
        self.base_rows.map_or(value, |rows| value - past_value(history, PastValue::Lag(rows), gap))
    }
}

/// The state of a series.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The last value of the column that orders the rows.
    pub(crate) last: Option<OrderedValue>,
    /// The last values of each value column, the oldest first; NaN if missing. The histories of
    /// forecast columns end with the last row that has a target.
    pub(crate) histories: Vec<VecDeque<f64>>,
    /// Rows after the last row that has a target.
    pub(crate) future_rows: Vec<u64>,
}

impl Series {
    pub(crate) fn push(&mut self, value: usize, capacity: usize, number: f64) {
        push_value(&mut self.histories[value], capacity, number);
    }
}

/// Appends a value to a history of at most `capacity` values.
pub(crate) fn push_value(history: &mut VecDeque<f64>, capacity: usize, number: f64) {
    if history.len() == capacity {
        history.pop_front();
    }
    history.push_back(number);
}

/// Returns a past value of the row that follows the history after `gap` unknown rows; NaN if it is
/// missing.
pub(crate) fn past_value(history: &VecDeque<f64>, past: PastValue, gap: usize) -> f64 {
    match past {
        PastValue::Lag(rows) => {
            let rows_back = rows.checked_sub(gap).filter(|rows| *rows > 0);
            rows_back.and_then(|rows| history.len().checked_sub(rows)).map_or(f64::NAN, |index| history[index])
        }
        PastValue::Mean(rows) => match history.len().checked_sub(rows).filter(|_| gap == 0) {
            Some(first) => history.range(first..).sum::<f64>() / rows as f64,
            None => f64::NAN,
        },
        PastValue::Current => f64::NAN,
    }
}
