//! The naive forecast of a series: the target of an earlier row as the prediction.

use super::Predictor;
use crate::Result;
use crate::run::Run;
use crate::score::NaiveForecast;
use kstore::{Merge, ReadSettings, Reduction, RowBlock, SelectedTable, Workers};

impl Predictor {
    /// Returns the error of the naive forecast on selected rows with true values. Returns `None`
    /// unless the model has one target and lags of this target.
    ///
    /// *Cost*: one pass over the columns of the selection.
    ///
    /// # Errors
    /// Errors of reading.
    #[doc(hidden)]
    pub fn naive_forecast(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Option<NaiveForecast>> {
        let names = selected.target_names();
        let has_exposures = self.metadata().exposure_column().is_some();
        let (Some(lags), [target], false) = (self.metadata().lags(), &names[..], has_exposures) else {
            return Ok(None);
        };
        let Some((lag, column)) = lags.smallest_lag(target) else { return Ok(None) };
        let rows = selected.with_kept_column(&column)?;
        let errors = match lags.base_column() {
            None => NaiveErrors::Past,
            // both the target and the past value are relative to the base
            Some(base) if base == column => NaiveErrors::Change,
            Some(_) => NaiveErrors::Past,
        };
        let sums = run.scan_rows("naive forecast", &rows, 0, &errors, &|text_limit| {
            rows.rows(ReadSettings { text_limit, ..ReadSettings::default() })
        })?;
        let rmse = (sums.squares / sums.weight).sqrt();
        Ok(rmse.is_finite().then_some(NaiveForecast { lag, rows: sums.rows, rmse }))
    }
}

/// The errors of the naive forecast.
enum NaiveErrors {
    /// The target minus the kept column.
    Past,
    /// The target, which is the change from the kept column.
    Change,
}

#[derive(Clone, Copy, Default)]
struct ErrorSums {
    rows: u64,
    weight: f64,
    squares: f64,
}

impl Merge for ErrorSums {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.weight += later.weight;
        self.squares += later.squares;
    }
}

impl Reduction<f64> for NaiveErrors {
    type State = ErrorSums;
    type Scratch = ();
    type Error = kstore::Error;

    fn init(&self) -> ErrorSums {
        ErrorSums::default()
    }

    fn scratch(&self) {}

    fn step(&self, sums: &mut ErrorSums, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        for (i, truth) in block.y.iter().enumerate() {
            let past = block.kept_columns.first().filter(|column| !column.is_null(i));
            let Some(past) = past.and_then(|column| column.values().number(i)).filter(|past| past.is_finite()) else {
                continue;
            };
            let weight = block.weight(i).unwrap_or(1.0);
            sums.rows += 1;
            sums.weight += weight;
            let error = match self {
                Self::Past => truth - past,
                Self::Change => *truth,
            };
            sums.squares += weight * error.powi(2);
        }
        Ok(())
    }
}
