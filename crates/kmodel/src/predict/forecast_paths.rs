//! Intervals of a forecast of several steps, from sample paths.
//!
//! The interval of one step comes from held-out rows (see [`crate::intervals`]). For later steps,
//! the errors of the earlier steps add up. So the forecast is repeated [`PATH_COUNT`] times, each
//! time with random errors (bootstrapped residuals):
//!
//! ```text
//! y*_h = f(x*_h) ± s(x*_h) E
//! ```
//!
//! where the past values of the target in x*_h are values y* of the path, E is the score of a
//! random held-out row of any fold, and s the standard deviation if the model stores it, 1
//! otherwise. Each path draws its own errors for each series, step and target. As in the intervals
//! of one step, errors of both signs are equally likely; the paths come in pairs with opposite
//! signs. With r = ⌈(1 − α/2)(B + 1)⌉, the interval of a step lies between the r-th largest and the
//! r-th smallest of the B values.
//!
//! *Cost*: B predictions for each row whose past values are forecasts.
//!
//! Reference: Hyndman, Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, 2021,
//! section 5.5.

use super::interval_rule::IntervalRule;
use super::prepared_model::PreparedModel;
use crate::intervals::ScoreDistribution;
use crate::model::Outputs;
use crate::run::Run;
use crate::{Error, Result};
use faer::{MatMut, MatRef};
use kapprox::{KernelFunction, Real};
use kstore::encoding::ColumnEncoding;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use kstore::{FuturePaths, FutureRows, Lags, ReadSettings, SelectedTable, Workers};
use std::sync::Arc;

/// Number of sample paths of each series. The standard error of the width of a 90 % interval is
/// about 3 %.
pub(super) const PATH_COUNT: usize = 1000;

/// Number of future rows that are read together.
const TILE_ROWS: usize = 1024;

/// Relative rounding error of the rank of an end, which must not demand another path.
const RANK_EPSILON: f64 = 1e-12;

/// The intervals of the rows of a forecast whose past values are forecasts.
#[derive(Debug, Default)]
pub(super) struct ForecastIntervals {
    /// Row numbers, ascending.
    rows: Vec<u64>,
    /// Ends of the intervals in the order of [`IntervalRule::values`], row-major.
    ends: Vec<f64>,
}

impl ForecastIntervals {
    /// Returns the ends of the interval of a row; `None` if the row has the interval of one step.
    pub(super) fn ends(&self, row: u64) -> Option<&[f64]> {
        let position = self.rows.binary_search(&row).ok()?;
        let width = self.ends.len() / self.rows.len();
        self.ends.get(position * width..(position + 1) * width)
    }

    pub(super) fn bytes(&self) -> usize {
        8 * (self.rows.len() + self.ends.len())
    }

    /// Returns the bytes of the intervals of this many rows while they are computed and sorted.
    pub(super) fn peak_bytes(rows: u64, value_count: usize) -> usize {
        usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(2 * 8 * (1 + value_count) + size_of::<usize>())
    }

    /// Sorts the rows.
    fn sorted(self) -> Self {
        let width = self.ends.len() / self.rows.len().max(1);
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_unstable_by_key(|position| self.rows[*position]);
        let ends = order.iter().flat_map(|position| &self.ends[position * width..(position + 1) * width]);
        Self { ends: ends.copied().collect(), rows: order.iter().map(|position| self.rows[*position]).collect() }
    }
}

/// Returns the features that depend on forecasts: for each column of
/// [`FutureRows::column_positions`] its feature, or `None` if it is the base of a difference.
/// Returns no list if a column has another encoding than its number, or if errors are not
/// symmetrical around the forecast because the model predicts a quantile other than the median.
pub(super) fn path_features<T: Real>(
    prepared: &PreparedModel<T>,
    lags: &Lags,
    future_rows: &FutureRows,
) -> Option<Vec<Option<usize>>> {
    let metadata = &prepared.model.metadata;
    if metadata.loss.as_ref().is_some_and(|loss| loss.levels().iter().any(|level| *level != 0.5)) {
        return None;
    }
    let (names, features) = (lags.names(), lags.feature_names());
    let is_number = |name: &str| {
        let encoding = metadata.encoding.as_ref();
        encoding.is_none_or(|encoding| {
            let mut columns = encoding.columns().iter();
            columns.any(|column| column.name == name && column.encoding == ColumnEncoding::Number)
        })
    };
    let feature_of = |position: usize| {
        let name = &names[position];
        if !features.contains(name) {
            return Some(None);
        }
        let feature = metadata.features.iter().position(|feature| feature == name)?;
        is_number(name).then_some(Some(feature))
    };
    future_rows.column_positions().map(feature_of).collect()
}

/// The simulation of the paths of a forecast.
struct PathSimulation<'a, T: Real> {
    prepared: &'a PreparedModel<T>,
    rule: &'a IntervalRule,
    /// The kernel, if the model has standard deviations.
    kernel: Option<Arc<dyn KernelFunction<T>>>,
    /// Feature of each column that depends on forecasts.
    features: &'a [Option<usize>],
    /// Errors of held-out rows of all folds, for each target.
    errors: Vec<ScoreDistribution>,
    workers: &'a Workers,
    /// Scaled features of the paths.
    x: Vec<T>,
    /// Values of the paths at the current step, by target.
    values: Vec<Vec<f64>>,
}

impl<T: Real> PathSimulation<'_, T> {
    /// Appends the next row to each path. `base_row` has the scaled features of the row in the
    /// forecast, and `row` is its number. If `past_is_known`, the paths do not differ before it.
    fn step(&mut self, paths: &mut FuturePaths<'_>, base_row: &[T], row: u64, past_is_known: bool) -> Result<()> {
        let (t, d) = (self.values.len(), base_row.len());
        let distinct_rows = if past_is_known { 1 } else { PATH_COUNT };
        self.x.clear();
        for path in 0..distinct_rows {
            self.x.extend_from_slice(base_row);
            for (feature, value) in self.features.iter().zip(paths.past_values(path)) {
                // a missing past value is missing in the forecast, too
                if let Some(feature) = feature.filter(|_| value.is_finite()) {
                    let scaled = self.prepared.model.scaler.apply(feature, value);
                    self.x[path * d + feature] = T::from_f64(scaled);
                }
            }
        }
        let (scores, variances) = self.outputs(distinct_rows, row)?;
        let streams = (0..PATH_COUNT.div_ceil(2) as u64)
            .map(|pair| Stream::new(self.prepared.model.metadata.seed, Purpose::ForecastPaths, pair));
        let streams: Vec<Stream> = streams.collect();
        let mut outputs = vec![0.0; t];
        for path in 0..PATH_COUNT {
            let distinct_row = path % distinct_rows;
            for (target, output) in outputs.iter_mut().enumerate() {
                let signed_rank = 2.0 * streams[path / 2].uniform(row * t as u64 + target as u64) - 1.0;
                let error = self.errors[target].at_fraction(signed_rank.abs());
                let sign = if (signed_rank < 0.0) == (path % 2 == 0) { -1.0 } else { 1.0 };
                let scale = self.rule.scale(target, variances.get(distinct_row).copied());
                *output = scores[distinct_row * t + target] + sign * scale * error;
            }
            paths.push(path, &outputs, |target, value| self.values[target][path] = value);
        }
        Ok(())
    }

    /// Returns the scores and variances of the rows in `x`; NaN if a feature is missing.
    fn outputs(&mut self, row_count: usize, row: u64) -> Result<(Vec<f64>, Vec<f64>)> {
        let (t, model) = (self.values.len(), &self.prepared.model);
        let mut scores = vec![f64::NAN; row_count * t];
        let mut variances = vec![f64::NAN; if self.kernel.is_some() { row_count } else { 0 }];
        if !T::all_finite(&self.x) {
            return Ok((scores, variances));
        }
        self.prepared.round_and_clip(&mut self.x, |_, _| {});
        let mut after_metric = Vec::new();
        let rows = self.prepared.basis_rows(&self.x, &mut after_metric);
        let rows = MatRef::from_row_major_slice(rows, row_count, model.row_length());
        let quadratic_columns = variances.len() / row_count;
        let kernel = match (&self.kernel, model.quadratic_in_scores()) {
            (None, Some(_)) => Some(model.kernel()?),
            (kernel, _) => kernel.clone(),
        };
        let outputs = Outputs {
            scores: MatMut::from_row_major_slice_mut(&mut scores, row_count, t),
            components: MatMut::from_row_major_slice_mut(&mut [], row_count, 0),
            quadratic: MatMut::from_row_major_slice_mut(&mut variances, row_count, quadratic_columns),
        };
        model.predict_outputs(&self.prepared.basis_functions, kernel.as_deref(), rows, outputs, self.workers);
        match scores.iter().chain(&variances).find(|value| !value.is_finite()) {
            Some(value) => Err(Error::NotFiniteRow { row, what: "the prediction".to_string(), value: *value }),
            None => Ok((scores, variances)),
        }
    }

    /// Appends the ends of the intervals of the current step: lower and upper for each level and
    /// target.
    fn append_ends(&mut self, ends: &mut Vec<f64>) {
        self.values.iter_mut().for_each(|values| values.sort_unstable_by(f64::total_cmp));
        for level in self.rule.levels() {
            let rank = 0.5 * (1.0 + level) * (PATH_COUNT + 1) as f64;
            let upper = ((rank * (1.0 - RANK_EPSILON)).ceil() as usize).clamp(1, PATH_COUNT) - 1;
            ends.extend(self.values.iter().flat_map(|values| [values[PATH_COUNT - 1 - upper], values[upper]]));
        }
    }
}

impl<T: Real> PreparedModel<T> {
    /// Returns the bytes of the simulation in addition to the paths: features, streams, and values.
    pub(super) fn path_scratch_bytes(&self, threads: usize) -> usize {
        let (_, d, t) = self.model.dims();
        let input_count = self.model.scaler.input_count() + d;
        self.model.scratch_bytes(threads) + PATH_COUNT * (size_of::<T>() * input_count + 8 * (2 * t + 2))
    }

    /// Returns the intervals of the rows whose past values are forecasts. The past values of the
    /// forecast have been written to the table; `future_rows` is the state before the first round.
    pub(super) fn forecast_intervals(
        &self,
        selected: &SelectedTable,
        future_rows: &FutureRows,
        (rule, features): (&IntervalRule, &[Option<usize>]),
        run: &Run<'_>,
        observer: &dyn Observer,
    ) -> Result<ForecastIntervals> {
        let scaler = Some(Arc::new(self.model.scaler.clone()));
        let source = selected.rows::<T>(ReadSettings { scaler, ..ReadSettings::default() })?;
        let (d, t) = (self.model.scaler.input_count(), self.model.dims().2);
        let kernel = if rule.needs_variances() { Some(self.model.kernel()?) } else { None };
        let (errors, workers) = ((0..t).map(|target| rule.pooled_scores(target)).collect(), run.workers());
        let values = vec![vec![f64::NAN; PATH_COUNT]; t];
        let mut simulation =
            PathSimulation { prepared: self, rule, kernel, features, errors, workers, x: Vec::new(), values };
        let mut future = future_rows
            .rows_by_series()
            .enumerate()
            .flat_map(|(series, rows)| rows.iter().enumerate().map(move |(step, row)| (series, step, *row)));
        let (mut paths, mut intervals) = (None, ForecastIntervals::default());
        loop {
            let tile: Vec<(usize, usize, u64)> = future.by_ref().take(TILE_ROWS).collect();
            if tile.is_empty() {
                return Ok(intervals.sorted());
            }
            let rows: Vec<u64> = tile.iter().map(|(_, _, row)| *row).collect();
            let gathered = source.gather(&rows)?;
            for ((series, step, row), base_row) in tile.into_iter().zip(gathered.x().chunks_exact(d)) {
                if observer.should_stop() {
                    return Err(kstore::Error::Interrupted.into());
                }
                if step == 0 {
                    paths = Some(future_rows.paths(series, PATH_COUNT));
                }
                let Some(paths) = &mut paths else { continue };
                let past_is_known = step < future_rows.steps_per_round();
                simulation.step(paths, base_row, row, past_is_known)?;
                if !past_is_known {
                    intervals.rows.push(row);
                    simulation.append_ends(&mut intervals.ends);
                }
                observer.advance(1);
            }
        }
    }
}
