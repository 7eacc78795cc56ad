//! Lags of the rows that a model predicts, and forecasts of several steps.

use super::{AnyPreparedModel, Predictor, prepared_model::PreparedModel};
use crate::run::{Run, StageObserver};
use crate::{Result, Task, model::match_precision};
use kapprox::Real;
use kstore::pass::Observer;
use kstore::{FutureRows, MemoryPlan, Missing, ReadSettings, RowSource, SelectedTable, Selection, Table};
use std::sync::Arc;

/// Number of rows that are predicted together.
const FORECAST_TILE_ROWS: usize = 1024;

/// The rows of a forecast of several steps.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastSummary {
    /// Number of rows without a target after the last row of their series that has one.
    pub rows: u64,
    /// Number of rows of the longest series.
    pub steps: usize,
}

impl Predictor {
    /// Returns the table with the lags of the model, if it has any.
    ///
    /// If `forecasts` is true and lags of the target are features, the rows after the last target
    /// of each series are a forecast of several steps. They are predicted one after the other, and
    /// a missing past value of the target is the prediction of its row (a recursive forecast).
    ///
    /// *Cost*: one pass over the columns of the lags; for a forecast, one reading of its rows.
    ///
    /// # Errors
    /// Columns of the lags that do not exist; rows of a series that are not in order; the errors of
    /// [`Predictor::predict`], and of reading.
    #[doc(hidden)]
    pub fn with_lags(&self, table: Table, forecasts: bool, run: &Run<'_>) -> Result<(Table, Option<ForecastSummary>)> {
        let metadata = self.metadata();
        let Some(lags) = metadata.lags().filter(|lags| table.lags() != Some(lags)) else { return Ok((table, None)) };
        let has_forecast = forecasts
            && metadata.task == Task::Regression
            && self.output_count() == metadata.targets.len()
            && metadata.targets.iter().any(|target| lags.reads(target));
        if !has_forecast {
            return Ok((run.with_lags(table, Some(&lags))?, None));
        }
        let (table, mut future_rows) = run.compute_lags(&table, &lags, &metadata.targets)?;
        let summary = ForecastSummary { rows: future_rows.row_count(), steps: future_rows.step_count() };
        if summary.rows == 0 {
            return Ok((table, None));
        }
        // a row that the fit would drop or reject has no prediction; the rows between the rows of a
        // round are also read
        let missing = match metadata.missing() {
            missing @ (Missing::Mean | Missing::Indicator) => missing,
            _ => Missing::Keep,
        };
        let selected = self.select(&table, Selection { missing, ..Selection::default() })?;
        let source = selected.rows::<f64>(ReadSettings::default())?;
        let tile_bytes = source.footprint().bytes_for(4 * FORECAST_TILE_ROWS);
        let mut plan =
            MemoryPlan::for_process("the forecast", run.memory_budget(), 1, RowSource::metadata_bytes(&source))
                .term("rows of a tile", tile_bytes, "")
                .term("past values and rows", future_rows.bytes(), "forecast fewer rows at a time");
        plan.terms.push(self.plan_term(self.scratch_bytes()));
        plan.check()?;
        let recorder = run.stage_recorder();
        let observer = recorder.start_stage("forecast", Some(summary.rows));
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.forecast(&selected, &mut future_rows, &*observer))?;
        Ok((table, Some(summary)))
    }
}

impl<T: Real> PreparedModel<T> {
    /// Predicts the rows of a forecast round by round. The rows are scaled and imputed as in the
    /// pass that writes predictions, so that both have the same bits.
    fn forecast(&self, selected: &SelectedTable, future_rows: &mut FutureRows, observer: &dyn Observer) -> Result<()> {
        let scaler = Some(Arc::new(self.model.scaler.clone()));
        let source = selected.rows::<T>(ReadSettings { scaler, ..ReadSettings::default() })?;
        loop {
            let rows = future_rows.next_round()?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut predictions = Vec::with_capacity(rows.len() * self.model.dims().2);
            for tile in rows.chunks(FORECAST_TILE_ROWS) {
                if observer.should_stop() {
                    return Err(kstore::Error::Interrupted.into());
                }
                self.predict_known(source.gather(tile)?.x(), &mut predictions)?;
                observer.advance(tile.len() as u64);
            }
            future_rows.push(&rows, &predictions, self.model.dims().2);
        }
    }

    /// Appends the predictions of scaled rows; NaN for a row with a missing value.
    fn predict_known(&self, x: &[T], predictions: &mut Vec<f64>) -> Result<()> {
        let (d, t) = (self.model.scaler.input_count(), self.model.dims().2);
        let is_known = |row: &&[T]| T::all_finite(row);
        let mut known: Vec<T> = x.chunks_exact(d).filter(is_known).flatten().copied().collect();
        self.round_and_clip(&mut known, |_, _| {});
        let mut known_predictions = vec![0.0; known.len() / d * t];
        self.score_scaled_rows(&known, &mut known_predictions)?;
        let mut known_rows = known_predictions.chunks_exact(t);
        for row in x.chunks_exact(d) {
            match Some(row).filter(is_known).and_then(|_| known_rows.next()) {
                Some(outputs) => predictions.extend_from_slice(outputs),
                None => predictions.extend(std::iter::repeat_n(f64::NAN, t)),
            }
        }
        Ok(())
    }
}
