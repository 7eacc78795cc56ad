//! The forecast of several steps: the rows after the last row of each series that has a target.

use crate::Result;
use crate::lags::PastValue;
use crate::series::{NewColumn, SERIES_BYTES, Series, ValueColumn, past_value};
use crate::source::ComputedColumns;

/// The rows after the last row of each series that has a target. Their past values are forecasts of
/// earlier rows, so they are predicted in rounds: in a round, no row needs the forecast of another
/// row of the round. If 24 is the smallest lag, a round has 24 rows of each series.
#[derive(Debug)]
pub struct FutureRows {
    pub(crate) values: Vec<ValueColumn>,
    /// The new columns that depend on forecasts, with their positions among all new columns.
    pub(crate) new_columns: Vec<(usize, NewColumn)>,
    pub(crate) computed: ComputedColumns,
    pub(crate) series: Vec<Series>,
    pub(crate) next_step: usize,
    pub(crate) steps_per_round: usize,
}

impl FutureRows {
    /// Returns the number of rows.
    pub fn row_count(&self) -> u64 {
        self.series.iter().map(|series| series.future_rows.len() as u64).sum()
    }

    /// Returns the number of rows of the longest series.
    pub fn step_count(&self) -> usize {
        self.series.iter().map(|series| series.future_rows.len()).max().unwrap_or(0)
    }

    /// Returns the bytes of the histories and row numbers.
    pub fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|column| column.capacity).sum();
        self.series.iter().map(|series| SERIES_BYTES + 8 * (values + series.future_rows.capacity())).sum()
    }

    /// Writes the past values of the rows of the next round, and returns the numbers of these rows,
    /// ascending; no rows at the end. The predictions of a round must be given to
    /// [`FutureRows::push`] before the next round.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn next_round(&self) -> Result<Vec<u64>> {
        let mut rows = Vec::new();
        for series in &self.series {
            for (gap, row) in series.future_rows.iter().skip(self.next_step).take(self.steps_per_round).enumerate() {
                for (column, new_column) in &self.new_columns {
                    let number = new_column.number(&series.histories[new_column.value], gap, f64::NAN);
                    self.computed.write(*column, *row, &[number])?;
                }
                rows.push(*row);
            }
        }
        rows.sort_unstable();
        Ok(rows)
    }

    /// Takes the predictions of a round: `target_count` values for each of its rows, NaN for a row
    /// without a prediction. Predictions of changes are added to the value of the earlier row.
    pub fn push(&mut self, rows: &[u64], predictions: &[f64], target_count: usize) {
        for series in &mut self.series {
            let last_step = series.future_rows.len().min(self.next_step + self.steps_per_round);
            for step in self.next_step..last_step {
                let Ok(position) = rows.binary_search(&series.future_rows[step]) else { continue };
                for (value, column) in self.values.iter().enumerate() {
                    let Some(target) = column.target else { continue };
                    let change = self.new_columns.iter().map(|(_, column)| column);
                    let change = change.filter(|column| column.past == PastValue::Current && column.value == value);
                    let base = change.filter_map(|column| column.base_rows).next();
                    let base = base.map_or(0.0, |rows| past_value(&series.histories[value], PastValue::Lag(rows), 0));
                    series.push(value, column.capacity, base + predictions[position * target_count + target]);
                }
            }
        }
        self.next_step += self.steps_per_round;
    }
}
