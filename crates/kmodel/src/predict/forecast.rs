//! Lags of the rows that a model predicts, and forecasts of several steps.

use super::forecast_paths::{self, ForecastIntervals, PATH_COUNT};
use super::{AnyPreparedModel, Extras, Predictor, prepared_model::PreparedModel};
use crate::run::{Run, StageObserver};
use crate::{Result, Task, model::match_precision};
use kapprox::Real;
use kstore::budget::MemoryTerm;
use kstore::pass::Observer;
use kstore::{FutureRows, Lags, MemoryPlan, Missing, ReadSettings, RowSource, SelectedTable, Selection, Table};
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
    /// Number of first rows of each series whose past values of the target are all known.
    pub known_steps: usize,
    /// Intervals of the later rows.
    pub later_intervals: LaterIntervals,
}

/// The intervals of the rows of a forecast whose past values of the target are forecasts.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterIntervals {
    /// Intervals are not requested, or all past values are known.
    None,
    /// Quantiles of this many sample paths.
    Paths(usize),
    /// Intervals of one step, which are too narrow: the model predicts a quantile, or past values
    /// of the target are not features as numbers.
    OneStep,
}

impl Predictor {
    /// Returns the table with the lags of the model, if it has any. Past values after the last
    /// target of a series are missing.
    ///
    /// *Cost*: one pass over the columns of the lags.
    ///
    /// # Errors
    /// Columns of the lags that do not exist; rows of a series that are not in order; the errors of
    /// reading.
    #[doc(hidden)]
    pub fn with_lags(&self, table: Table, run: &Run<'_>) -> Result<Table> {
        match self.missing_lags(&table) {
            Some(lags) => run.with_lags(table, Some(&lags)),
            None => Ok(table),
        }
    }

    /// Returns the lags of the model, unless the table has them or the model has none.
    fn missing_lags(&self, table: &Table) -> Option<Lags> {
        self.metadata().lags().filter(|lags| table.lags() != Some(lags))
    }

    /// Returns the table with the lags of the model, as [`Predictor::with_lags`] does, with a
    /// forecast if lags of the target are features.
    ///
    /// The rows after the last target of each series are a forecast of several steps. They are
    /// predicted one after the other, and a missing past value of the target is the prediction of
    /// its row (a recursive forecast). If `extras` has intervals, the returned predictor has
    /// intervals of the forecast from sample paths; it must predict this table.
    ///
    /// *Cost*: one pass over the columns of the lags; for a forecast, one reading of its rows, and
    /// another one with 1,000 predictions for each row for intervals.
    ///
    /// # Errors
    /// The errors of [`Predictor::with_lags`] and [`Predictor::predict`].
    #[doc(hidden)]
    pub fn with_forecast(
        &self,
        table: Table,
        extras: Extras,
        run: &Run<'_>,
    ) -> Result<(Self, Table, Option<ForecastSummary>)> {
        let mut predictor = Self { forecast_intervals: None, ..self.clone() };
        let Some(lags) = self.missing_lags(&table) else { return Ok((predictor, table, None)) };
        let metadata = self.metadata();
        let has_forecast = metadata.task == Task::Regression
            && self.output_count() == metadata.targets.len()
            && metadata.targets.iter().any(|target| lags.reads(target));
        if !has_forecast {
            return Ok((predictor, run.with_lags(table, Some(&lags))?, None));
        }
        let (table, mut future_rows) = run.compute_lags(&table, &lags, &metadata.targets)?;
        let (rows, steps) = (future_rows.row_count(), future_rows.step_count());
        if rows == 0 {
            return Ok((predictor, table, None));
        }
        let known_steps = future_rows.steps_per_round();
        let rule = self.interval_rule().filter(|_| extras.intervals && steps > known_steps);
        let features = match_precision!(AnyPreparedModel: &self.model, prepared => forecast_paths::path_features(prepared, &lags, &future_rows));
        let simulated = rule.as_ref().zip(features.as_deref());
        // a row that the fit would drop or reject has no prediction; the rows between the rows of a
        // round are also read
        let missing = match metadata.missing() {
            missing @ (Missing::Mean | Missing::Indicator) => missing,
            _ => Missing::Keep,
        };
        let selected = self.select(&table, Selection { missing, ..Selection::default() })?;
        let source = selected.rows::<f64>(ReadSettings::default())?;
        let tile_bytes = source.footprint().bytes_for(4 * FORECAST_TILE_ROWS);
        let few_rows = "forecast fewer rows at a time";
        let mut plan =
            MemoryPlan::for_process("the forecast", run.memory_budget(), 1, RowSource::metadata_bytes(&source))
                .term("rows of a tile", tile_bytes, "")
                .term("past values and rows", future_rows.bytes(), few_rows);
        plan.terms.push(self.plan_term(self.scratch_bytes()));
        if let Some((rule, _)) = simulated {
            let scratch_bytes = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.path_scratch_bytes(run.workers().threads()));
            let path_bytes = future_rows.path_bytes(PATH_COUNT) + scratch_bytes;
            plan = plan
                .term("past values and rows before the forecast", future_rows.bytes(), few_rows)
                .term("sample paths of a series", path_bytes, "predict without intervals")
                .term("intervals", ForecastIntervals::peak_bytes(rows, rule.value_count()), few_rows);
        }
        plan.check()?;
        let recorder = run.stage_recorder();
        let first_rows = simulated.map(|_| future_rows.clone());
        let observer = recorder.start_stage("forecast", Some(rows));
        match_precision!(AnyPreparedModel: &self.model, prepared => prepared.forecast(&selected, &mut future_rows, &*observer))?;
        drop(observer);
        if let Some(((rule, features), first_rows)) = simulated.zip(first_rows) {
            let observer = recorder.start_stage("intervals", Some(rows));
            let intervals = match_precision!(AnyPreparedModel: &self.model, prepared => prepared.forecast_intervals(&selected, &first_rows, (rule, features), run, &*observer))?;
            predictor.forecast_intervals = Some(Arc::new(intervals));
        }
        let later_intervals = match (rule.is_some(), &predictor.forecast_intervals) {
            (false, _) => LaterIntervals::None,
            (true, Some(_)) => LaterIntervals::Paths(PATH_COUNT),
            (true, None) => LaterIntervals::OneStep,
        };
        Ok((predictor, table, Some(ForecastSummary { rows, steps, known_steps, later_intervals })))
    }

    /// Returns the plan term of the intervals of a forecast, if there are any.
    pub(super) fn forecast_terms(&self) -> Vec<MemoryTerm> {
        let intervals = self.forecast_intervals.iter();
        let term = |intervals: &Arc<ForecastIntervals>| {
            MemoryTerm::new("intervals of the forecast", intervals.bytes(), "forecast fewer rows at a time")
        };
        intervals.map(term).collect()
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
