//! The forecast of several steps: the rows after the last row of each series that has a target.

use crate::Result;
use crate::lags::PastValue;
use crate::series::{NewColumn, SERIES_BYTES, Series, ValueColumn, past_value, push_value};
use crate::source::ComputedColumns;
use std::collections::VecDeque;

/// The rows after the last row of each series that has a target. Their past values are forecasts of
/// earlier rows, so they are predicted in rounds: in a round, no row needs the forecast of another
/// row of the round. If 24 is the smallest lag, a round has 24 rows of each series.
#[derive(Clone, Debug)]
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
                let outputs = &predictions[position * target_count..][..target_count];
                push_outputs(&self.values, &self.new_columns, &mut series.histories, outputs, |_, _| {});
            }
        }
        self.next_step += self.steps_per_round;
    }
}

/// Appends the outputs of a row, one for each target, to the histories of its series. Outputs that
/// are changes are added to the value of the earlier row. Calls `visitor` with each target and its
/// value.
fn push_outputs(
    values: &[ValueColumn],
    new_columns: &[(usize, NewColumn)],
    histories: &mut [VecDeque<f64>],
    outputs: &[f64],
    mut visitor: impl FnMut(usize, f64),
) {
    for (value, column) in values.iter().enumerate() {
        let Some(target) = column.target else { continue };
        let change = new_columns.iter().map(|(_, column)| column);
        let change = change.filter(|column| column.past == PastValue::Current && column.value == value);
        let base = change.filter_map(|column| column.base_rows).next();
        let base = base.map_or(0.0, |rows| past_value(&histories[value], PastValue::Lag(rows), 0));
        visitor(target, base + outputs[target]);
        push_value(&mut histories[value], column.capacity, base + outputs[target]);
    }
}

/// Sample paths of the forecast of one series: possible values of its future rows. The paths start
/// with the values before the first future row, and grow by one row at a time.
#[doc(hidden)]
#[derive(Debug)]
pub struct FuturePaths<'a> {
    future_rows: &'a FutureRows,
    /// The histories of each path.
    histories: Vec<Vec<VecDeque<f64>>>,
}

impl FutureRows {
    /// Returns the future rows of each series.
    #[doc(hidden)]
    pub fn rows_by_series(&self) -> impl Iterator<Item = &[u64]> {
        self.series.iter().map(|series| &series.future_rows[..])
    }

    /// Returns the number of rows of a series whose past values are all known.
    #[doc(hidden)]
    pub fn steps_per_round(&self) -> usize {
        self.steps_per_round
    }

    /// Returns the positions of the columns that depend on forecasts, among the names of the lags
    /// ([`Lags::names`](crate::Lags::names)).
    #[doc(hidden)]
    pub fn column_positions(&self) -> impl Iterator<Item = usize> {
        self.new_columns.iter().map(|(position, _)| *position)
    }

    /// Returns `count` equal paths of a series. No round may have been pushed.
    #[doc(hidden)]
    pub fn paths(&self, series: usize, count: usize) -> FuturePaths<'_> {
        FuturePaths { future_rows: self, histories: vec![self.series[series].histories.clone(); count] }
    }

    /// Returns the bytes of `count` paths.
    #[doc(hidden)]
    pub fn path_bytes(&self, count: usize) -> usize {
        let values: usize = self.values.iter().map(|column| column.capacity).sum();
        count * (size_of::<Vec<f64>>() + self.values.len() * size_of::<VecDeque<f64>>() + 8 * values)
    }
}

impl FuturePaths<'_> {
    /// Returns the values of the columns that depend on forecasts for the next row of a path, in
    /// the order of [`FutureRows::column_positions`]; NaN if missing.
    pub fn past_values(&self, path: usize) -> impl Iterator<Item = f64> {
        let histories = &self.histories[path];
        let columns = self.future_rows.new_columns.iter();
        columns.map(|(_, column)| column.number(&histories[column.value], 0, f64::NAN))
    }

    /// Appends the outputs of the next row of a path, one for each target, as
    /// [`FutureRows::push`] does. Calls `visitor` with each target and its value.
    pub fn push(&mut self, path: usize, outputs: &[f64], visitor: impl FnMut(usize, f64)) {
        let FutureRows { values, new_columns, .. } = self.future_rows;
        push_outputs(values, new_columns, &mut self.histories[path], outputs, visitor);
    }
}
