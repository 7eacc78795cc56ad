//! The complete search: kernels, metrics, solvers and regularisation parameters on a sample, then
//! the fit of the winner on all rows.

use crate::error::to_py_err;
use crate::job::{Job, with_inputs, with_report};
use crate::model::Model;
use crate::run::parse_json;
use crate::table::Table;
use crate::watch::{Progress, run_watched};
use kapprox::{Kernel, Real};
use ksolve::Error;
use ksolve::job::StageObserver;
use ksolve::job::{ElementType, Fit, Fitted, Run};
use ksolve::tune::{FixedParts, SearchJournal, SearchListener, SearchPart, SelectionResult, TimeBudget, Tune};
use kstore::SelectedTable;
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The options of a search. The job defines the rows, and the options that the search must keep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Name of a solver, or `any`.
    solver: String,
    /// Time limit in seconds.
    time: Option<f64>,
    work: Option<String>,
    kernels: Option<Vec<String>>,
    score: String,
    select: Option<String>,
    sample: usize,
    /// Whether to try other scalings.
    scalings: bool,
}

/// A listener that shows the progress, handles Ctrl-C and checks the time.
struct Watch<'a> {
    progress: &'a Progress,
    time_budget: &'a TimeBudget,
    warnings: Mutex<Vec<String>>,
}

impl SearchListener for Watch<'_> {
    fn next(&self, what: &str) -> ksolve::Result<()> {
        match self.progress.stage(what, None).should_stop() {
            true => Err(kstore::Error::Interrupted.into()),
            false => Ok(()),
        }
    }

    fn is_late(&self, part: SearchPart, next: Duration) -> bool {
        self.time_budget.is_exceeded(part, next)
    }

    fn warn(&self, text: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_string());
    }
}

/// Chooses a model for a table and fits it; returns it with the reports of the fit and of the
/// choice as JSON.
#[pyfunction]
#[pyo3(signature = (job, search, table, landmarks=None, show=None))]
pub(crate) fn tune(
    py: Python<'_>,
    job: &str,
    search: &str,
    table: &Table,
    landmarks: Option<&Table>,
    show: Option<Py<PyAny>>,
) -> PyResult<(Model, String)> {
    let (job, search): (Job, Search) = (Job::parse(job)?, parse_json(search)?);
    let tune = search.tune(&job, landmarks.is_some()).map_err(to_py_err)?;
    let prepared = tune.fit_with_defaults();
    let selection = prepared.selection(prepared.row_selection()).map_err(to_py_err)?;
    let scratch = job.run.scratch()?;
    let run = job.run.run(scratch.as_ref())?;
    let (fitted, chosen, warnings) = run_watched(py, show, |progress| {
        let run = progress.attach_to(&run);
        let selected = run.resolve_categories(&table.0.select(&selection)?)?;
        let notes = progress.warnings();
        let time_budget = TimeBudget::new(search.time());
        let watch = Watch { progress, time_budget: &time_budget, warnings: Mutex::new(Vec::new()) };
        let fit = tune.for_features(prepared, selected.shape().inputs);
        let base = with_inputs(fit, &selected, landmarks)?;
        let (fitted, chosen) = match base.element_type() {
            ElementType::F32 => search_and_fit::<f32>(&tune, &base, &selected, &run, &watch),
            ElementType::F64 => search_and_fit::<f64>(&tune, &base, &selected, &run, &watch),
        }?;
        Ok(((fitted, notes), chosen, watch.warnings.into_inner().unwrap_or_else(PoisonError::into_inner)))
    })?;
    let test = chosen.test.as_ref().map(|test| serde_json::json!({"apart": test.score, "seconds": test.seconds}));
    let choice = serde_json::json!({
        "solver": chosen.fit.family().name,
        "kernels": chosen.search.rungs,
        "solvers": chosen.contenders,
        "metric": chosen.metric.is_some().then_some(&chosen.form),
        "scale": chosen.search.scaling.to_string(),
        "folds": chosen.search.folds.to_string(),
        "alike": chosen.search.alike,
        "at_random": chosen.random_fold_score,
        "elsewhere": chosen.shift_scores,
        "select": chosen.measure,
        "rarer": chosen.rarer_fraction,
        "test": test,
        "work": chosen.work.to_string(),
        "history": chosen.history,
        "warnings": warnings,
    });
    with_report(fitted, table, &run, job.run.threads(), Some(choice))
}

impl Search {
    /// Returns the time limit, if it is positive and finite.
    fn time(&self) -> Option<Duration> {
        self.time.filter(|time| time.is_finite() && *time > 0.0).map(Duration::from_secs_f64)
    }

    /// Returns the search; `has_landmarks` is true if the job has a table of landmarks.
    fn tune(&self, job: &Job, has_landmarks: bool) -> ksolve::Result<Tune> {
        let (metric, landmarks) = job.has;
        // a named kernel is passed as the only entry of `kernels`
        let landmarks = landmarks || has_landmarks;
        let fixed_parts = FixedParts { kernel: false, metric, landmarks, scaling: !self.scalings };
        let mut tune =
            Tune::new(&self.solver, job.fit.clone()).fixed(fixed_parts).score(self.score.parse()?).sample(self.sample);
        if let Some(kernels) = &self.kernels {
            tune = tune.kernels(kernels.iter().map(|text| Kernel::parse(text)).collect::<Result<_, _>>()?);
        }
        if let Some(measure) = &self.select {
            tune = tune.measure(measure.parse()?);
        }
        if let Some(work) = &self.work {
            tune = tune.work(work.parse().map_err(|why| Error::option("work", work, why))?);
        }
        if let Some(time) = self.time() {
            tune = tune.time(time);
        }
        Ok(tune)
    }
}

/// Runs the search and the fit.
fn search_and_fit<T: Real>(
    tune: &Tune,
    base: &Fit,
    selected: &SelectedTable,
    run: &Run<'_>,
    watch: &Watch<'_>,
) -> ksolve::Result<(Fitted, SelectionResult)> {
    let options = tune.options(base, selected)?;
    let written = |chosen: &SelectionResult| {
        tune.final_fit(chosen, Some(watch.time_budget), selected, run, &Ok).map(|(fit, _)| fit)
    };
    let choice = tune.model_selection((base, &options), (selected, run), watch, &written);
    let chosen = choice.run::<T>(&mut SearchJournal::open(None)?)?;
    Ok((chosen.fit.run(selected, run)?, chosen))
}
