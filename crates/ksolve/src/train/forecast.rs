//! The forecast of a run: its stages with their memory, its passes, and the bytes that a pass reads
//! per row. It contains no times, because times depend on solver, map and computer; each stage
//! shows its rate while it runs.

use super::column_sample::{self, described_features};
use crate::features::FeatureTier;
use crate::request::{FitRequest, Forecast, PassShape, Resources, RowAccess, Stage, TrainOptions, all_fit};
use crate::{Error, FoldSpec, Result, metric, prepare::stage_plans, prepare::target_counts, solver::Solver};
use kapprox::Real;
use kstore::{ReadSettings, RowBuf, RowSource, SelectedTable, checkpoint::Journal};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Maximum time for reading the first rows, from which the number of bytes per row is estimated.
const MAX_READ_TIME: Duration = Duration::from_millis(150);

/// Returns `options`. If the solver uses no validation rows, removes the folds.
///
/// # Errors
/// [`Error::Option`] for folds that the solver does not support.
pub(super) fn resolve_folds<'a, T: Real>(
    options: &'a TrainOptions,
    solver: &dyn Solver<T>,
) -> Result<Cow<'a, TrainOptions>> {
    let properties = solver.properties();
    if matches!(options.folds, FoldSpec::Forward { .. })
        && properties.uses_validation_rows
        && !properties.supports_forward_folds
    {
        let why = "this solver trains on all folds but one; use blocks:6, or ridge, which predicts later rows from earlier ones";
        return Err(Error::option("folds", &options.folds, why));
    }
    Ok(match properties.uses_validation_rows || options.folds == FoldSpec::None {
        true => Cow::Borrowed(options),
        false => Cow::Owned(TrainOptions { folds: FoldSpec::None, ..options.clone() }),
    })
}

/// Returns the stages of a run: the stages of the solver, with metric learning or the search for
/// the length scale inserted after the statistics.
pub(super) fn all_stages<T: Real>(
    selected: &SelectedTable,
    solver: &dyn Solver<T>,
    access: RowAccess,
    request: &FitRequest<'_>,
) -> Result<(PassShape, Vec<Stage>)> {
    let (pass_shape, mut stages) = solver.stages(access, request)?;
    let learning_stage = metric::learning_stage::<T>(request)?.or(metric::length_scale_stage(request, pass_shape)?);
    let linear_stage = metric::linear::linear_stage(selected, request, pass_shape);
    stages.splice(1..1, linear_stage.into_iter().chain(learning_stage));
    if solver.properties().stores_distributions && !described_features(selected).is_empty() {
        let plan = column_sample::plan(&request.size, pass_shape, request.resources.memory);
        stages.push(Stage { plan, passes: 1 });
    }
    Ok((pass_shape, stages))
}

/// Forecasts a run. Reads the labels (if there are labels) and the first rows; writes nothing.
///
/// # Errors
/// Errors of reading these rows: missing files, bad values.
pub fn forecast<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<Forecast> {
    let selected = &metric::linear::with_unit_factors(selected, options)?;
    let options = resolve_folds(options, solver)?;
    let (t, fold_count) = target_counts::count_targets_and_folds(selected, &options, resources)?;
    let request = FitRequest::new::<T>(selected, &options, resources, t, fold_count, solver)?;
    build_forecast(selected, solver, solver.access(&request)?, &request)
}

/// If the observer wants a forecast and the run fits in the budget, reports the forecast to the
/// observer.
pub(super) fn report_forecast<T: Real>(
    selected: &SelectedTable,
    solver: &dyn Solver<T>,
    access: RowAccess,
    request: &FitRequest<'_>,
) -> Result<()> {
    let Resources { stage_observer, journal, .. } = *request.resources;
    // a forecast describes one process, not a shared run; and the rows of a shared run may be on
    // other computers
    if !stage_observer.wants_forecast() || journal.is_some_and(Journal::is_shared) {
        return Ok(());
    }
    let forecast = build_forecast(selected, solver, access, request)?;
    // a run that exceeds the budget is rejected later, by an error that names a remedy
    if forecast.fits() {
        stage_observer.report_forecast(&forecast);
    }
    Ok(())
}

fn build_forecast<T: Real>(
    selected: &SelectedTable,
    solver: &dyn Solver<T>,
    access: RowAccess,
    request: &FitRequest<'_>,
) -> Result<Forecast> {
    let (pass_shape, mut stages) = all_stages(selected, solver, access, request)?;
    let lag_plan = selected.table().lag_plan().cloned();
    stages.splice(0..0, lag_plan.map(|plan| Stage { plan, passes: 1 }));
    // if the plan exceeds the budget, no rows are read
    let row_bytes = if all_fit(&stages) { row_bytes(selected, pass_shape)? } else { None };
    let plan_solver = |plan, pass_shape| solver.plan(plan, &request.size, pass_shape);
    let recomputes_features = || {
        stage_plans::plan_last_stage(&request.size, &plan_solver, pass_shape, request.resources).0
            == FeatureTier::Recomputed
    };
    let rereads_table = access == RowAccess::Features && request.size.stores_features && recomputes_features();
    Ok(Forecast {
        stored_rows: request.size.n,
        pass_shape,
        stages,
        threads: request.size.threads,
        row_bytes,
        rereads_table,
    })
}

fn row_bytes(selected: &SelectedTable, pass_shape: PassShape) -> Result<Option<f64>> {
    let selected = selected.with_new_byte_counter();
    let (source, range) = (selected.rows::<f64>(ReadSettings::default())?, selected.range());
    // at most one segment is read: if few rows pass the filter, reading on could read the whole
    // table
    let range = range.start..range.end.min(range.start + pass_shape.segment_rows);
    let mut cursor = RowSource::<f64>::open(&source, range.clone())?;
    let (mut buf, mut next_row) = (RowBuf::new(pass_shape.tile_rows), range.start);
    let started = Instant::now();
    while next_row < range.end && started.elapsed() < MAX_READ_TIME {
        next_row =
            if cursor.next(&mut buf)? { buf.row_numbers.last().map_or(next_row, |last| last + 1) } else { range.end };
    }
    let row_count = next_row - range.start;
    Ok((row_count > 0).then(|| selected.table().bytes_read() as f64 / row_count as f64))
}
