//! The forecast of a run: stages with their memory, passes, and bytes read per row. It contains no
//! times, because these depend on solver, map and computer; each stage shows its rate while it
//! runs.

use crate::features::FeatureTier;
use crate::request::{FitRequest, Forecast, PassShape, Resources, RowAccess, Stage, TrainOptions, fit};
use crate::{Error, FoldSpec, Result, metric, prepare::plan, solver::Solver, train::prepared};
use kapprox::Real;
use kstore::{Reading, RowBuf, RowSource, Selected, checkpoint::Journal};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Time spent reading rows to measure the bytes of a row.
const READING: Duration = Duration::from_millis(150);

/// Returns the options with the folds removed if the solver does not hold rows out.
///
/// # Errors
/// [`Error::Option`] for folds that the solver does not support.
pub(super) fn own_folds<'a, T: Real>(
    options: &'a TrainOptions,
    solver: &dyn Solver<T>,
) -> Result<Cow<'a, TrainOptions>> {
    let facts = solver.facts();
    if matches!(options.folds, FoldSpec::Forward { .. }) && facts.holds_out && !facts.forward {
        let why = "this solver trains on all folds but one; use blocks:6, or ridge, which predicts later rows from earlier ones";
        return Err(Error::option("folds", &options.folds, why));
    }
    Ok(match facts.holds_out || options.folds == FoldSpec::None {
        true => Cow::Borrowed(options),
        false => Cow::Owned(TrainOptions { folds: FoldSpec::None, ..options.clone() }),
    })
}

/// Returns the stages of a run: the solver's, with metric learning or the length scale search after
/// the statistics.
pub(super) fn all_stages<T: Real>(
    solver: &dyn Solver<T>,
    view: RowAccess,
    work: &FitRequest<'_>,
) -> Result<(PassShape, Vec<Stage>)> {
    let (cut, mut stages) = solver.stages(view, work)?;
    let found = metric::stage::<T>(work)?.or(metric::length_stage(work, cut)?);
    stages.splice(1..1, found);
    Ok((cut, stages))
}

/// Forecasts a run. Reads the labels, if any, and the first rows; writes nothing.
///
/// # Errors
/// Errors of reading these rows: missing files, bad values.
pub fn forecast<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<Forecast> {
    let options = own_folds(options, solver)?;
    let known = prepared::known(selected, &options, resources)?;
    let work = FitRequest::new::<T>(selected, &options, resources, known, solver)?;
    of(selected, solver, solver.view(&work)?, &work)
}

/// Reports the forecast to the observer, if it wants one and the run fits the budget.
pub(super) fn announce<T: Real>(
    selected: &Selected,
    solver: &dyn Solver<T>,
    view: RowAccess,
    work: &FitRequest<'_>,
) -> Result<()> {
    let Resources { stages, journal, .. } = *work.resources;
    // the forecast of one process does not describe a shared run, and the rows may be on other
    // computers
    if !stages.wants_plan() || journal.is_some_and(Journal::is_shared) {
        return Ok(());
    }
    let forecast = of(selected, solver, view, work)?;
    // a run that does not fit is rejected later, with a remedy
    if forecast.fits() {
        stages.planned(&forecast);
    }
    Ok(())
}

fn of<T: Real>(
    selected: &Selected,
    solver: &dyn Solver<T>,
    view: RowAccess,
    work: &FitRequest<'_>,
) -> Result<Forecast> {
    let (cut, stages) = all_stages(solver, view, work)?;
    // a plan that exceeds the budget reads no rows
    let row_bytes = if fit(&stages) { row_bytes(selected, cut)? } else { None };
    let add = |plan, cut| solver.plan(plan, &work.shape, cut);
    let kept_nowhere = || plan::last(&work.shape, &add, cut, work.resources).0 == FeatureTier::Recomputed;
    let repeats = view == RowAccess::Features && work.shape.keeps && kept_nowhere();
    Ok(Forecast { rows: work.shape.n, cut, stages, threads: work.shape.threads, row_bytes, repeats })
}

fn row_bytes(selected: &Selected, cut: PassShape) -> Result<Option<f64>> {
    let selected = selected.counting_apart();
    let (source, range) = (selected.rows::<f64>(Reading::default())?, selected.range());
    // read one segment only, because a condition that few rows satisfy would read the whole table
    let range = range.start..range.end.min(range.start + cut.segment);
    let mut cursor = RowSource::<f64>::open(&source, range.clone())?;
    let (mut buf, mut read) = (RowBuf::new(cut.tile), range.start);
    let started = Instant::now();
    while read < range.end && started.elapsed() < READING {
        read = if cursor.next(&mut buf)? { buf.rows.last().map_or(read, |last| last + 1) } else { range.end };
    }
    let rows = read - range.start;
    Ok((rows > 0).then(|| selected.table().bytes_read() as f64 / rows as f64))
}
