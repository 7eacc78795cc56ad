//! The naive forecast of a series: the target of an earlier row as the prediction.

use super::Predictor;
use crate::Result;
use crate::run::Run;
use crate::score::NaiveForecast;
use kstore::{Merge, ReadSettings, Reduction, RowBlock, SelectedTable, Workers};

impl Predictor {
    /// Returns the error of the naive forecast on selected rows with true values, for the lag with
    /// the smallest error. Returns `None` unless the model has one target and lags of this target.
    ///
    /// *Cost*: one pass over the columns of the selection.
    ///
    /// # Errors
    /// Errors of reading.
    #[doc(hidden)]
    pub fn naive_forecast(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Option<NaiveForecast>> {
        let names = selected.target_names();
        let has_exposures = self.metadata().exposure_column().is_some();
        let (Some(metadata_lags), [target], false) = (self.metadata().lags(), &names[..], has_exposures) else {
            return Ok(None);
        };
        let lags = metadata_lags.lags_of(target);
        if lags.is_empty() {
            return Ok(None);
        }
        let rows = selected.with_kept_columns(lags.iter().map(|(_, column)| column))?;
        // with a base, the target and the past values are relative to it; the base is not
        let base = metadata_lags.base_column();
        let errors = NaiveErrors { is_base: lags.iter().map(|(_, column)| Some(column) == base.as_ref()).collect() };
        let sums = run.scan_rows("naive forecast", &rows, 0, &errors, &|text_limit| {
            rows.rows(ReadSettings { text_limit, ..ReadSettings::default() })
        })?;
        let forecasts = lags.iter().zip(&sums.0).map(|((lag, _), sums)| NaiveForecast {
            lag: *lag,
            rows: sums.rows,
            rmse: (sums.squares / sums.weight).sqrt(),
        });
        let known = forecasts.filter(|forecast| forecast.rmse.is_finite());
        Ok(known.min_by(|a, b| a.rmse.total_cmp(&b.rmse)))
    }
}

/// The errors of the naive forecasts whose past values are the kept columns.
struct NaiveErrors {
    /// True for the past value that the target is relative to: the error is the target.
    is_base: Vec<bool>,
}

/// The errors for each lag.
struct LagSums(Vec<ErrorSums>);

#[derive(Clone, Copy, Default)]
struct ErrorSums {
    rows: u64,
    weight: f64,
    squares: f64,
}

impl Merge for LagSums {
    fn merge(&mut self, later: &Self) {
        for (sums, later) in self.0.iter_mut().zip(&later.0) {
            sums.rows += later.rows;
            sums.weight += later.weight;
            sums.squares += later.squares;
        }
    }
}

impl Reduction<f64> for NaiveErrors {
    type State = LagSums;
    type Scratch = ();
    type Error = kstore::Error;

    fn init(&self) -> LagSums {
        LagSums(vec![ErrorSums::default(); self.is_base.len()])
    }

    fn scratch(&self) {}

    fn step(&self, sums: &mut LagSums, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        for ((sums, is_base), column) in sums.0.iter_mut().zip(&self.is_base).zip(block.kept_columns) {
            for (i, truth) in block.y.iter().enumerate().filter(|(i, _)| !column.is_null(*i)) {
                let Some(past) = column.values().number(i).filter(|past| past.is_finite()) else { continue };
                let weight = block.weight(i).unwrap_or(1.0);
                let error = if *is_base { *truth } else { truth - past };
                sums.rows += 1;
                sums.weight += weight;
                sums.squares += weight * error.powi(2);
            }
        }
        Ok(())
    }
}
