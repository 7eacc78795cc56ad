//! The complete search: kernels, metrics, solvers and regularisation parameters on a sample, then
//! the fit of the winner on all rows.

use crate::error::to_py_err;
use crate::job::{Job, TestedFit, with_inputs, with_report, without_test_rows};
use crate::model::Model;
use crate::run::parse_json;
use crate::table::Table;
use crate::watch::{Progress, run_watched};
use kapprox::{Kernel, Real};
use kreport::inspect::warn_of_group_features;
use ksolve::Error;
use ksolve::job::StageObserver;
use ksolve::job::{ElementType, Fit, Fitted, Run};
use ksolve::tune::{FixedParts, SearchJournal, SearchListener, SearchPart, SelectionResult, TimeBudget, Tune};
use kstore::{SelectedTable, Selection, TextOptions};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The options of a search, as JSON from Python. The rows, and the options that the search must not
/// change, are in the [`Job`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    /// Name of a solver, or `any`.
    solver: String,
    /// Time limit in seconds.
    time: Option<f64>,
    /// Numbers of steps, such as `4,12`, instead of a time limit.
    work: Option<String>,
    /// Kernels to compare; `None` for the default kernels.
    kernels: Option<Vec<String>>,
    /// Score by which kernels are compared.
    score: String,
    /// Measure by which solvers are compared; `None` for the default measure.
    select: Option<String>,
    /// Maximum number of rows of the sample.
    sample: usize,
    /// Whether to try other scalings.
    scalings: bool,
}

/// A listener that shows the progress, handles Ctrl-C and checks the time.
struct TuneListener<'a> {
    progress: &'a Progress,
    time_budget: &'a TimeBudget,
    warnings: Mutex<Vec<String>>,
}

impl SearchListener for TuneListener<'_> {
    fn begin_step(&self, what: &str) -> ksolve::Result<()> {
        match self.progress.start_stage(what, None).should_stop() {
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
    let job = Job::parse(job)?;
    let search: SearchRequest = parse_json(search)?;
    let tune = search.build_tune(&job, landmarks.is_some()).map_err(to_py_err)?;
    let default_fit = tune.fit_with_defaults();
    let row_selection = Selection { sparse: true, ..default_fit.requested_selection() };
    // a table of landmarks is dense, so the rows must be dense too
    let text_options = match landmarks {
        None => tune.text_options_for(&default_fit, &row_selection, TextOptions::default()),
        Some(_) => TextOptions::default(),
    };
    let column_selection = default_fit.complete_selection(row_selection).map_err(to_py_err)?;
    let scratch = job.run.scratch()?;
    let run = job.run.run(scratch.as_ref())?;
    let (fitted, selection_result, warnings) = run_watched(py, show, |progress| {
        let run = progress.attach_to(&run);
        let table = run.with_lags_of(table.reopen_for(&text_options)?, &column_selection)?;
        let test_part = job.choose_test_rows(&table, &column_selection, &run)?;
        let (default_fit, column_selection) = without_test_rows(test_part.as_ref(), default_fit, column_selection);
        let (default_fit, column_selection) = default_fit.with_default_folds(&table, column_selection, true, &run)?;
        let selected = run.resolve_categories(&table.select(&column_selection)?)?;
        warn_of_group_features(&column_selection, &selected, &run);
        let column_warnings = progress.warnings();
        let time_budget = TimeBudget::new(search.time_limit());
        let listener = TuneListener { progress, time_budget: &time_budget, warnings: Mutex::new(Vec::new()) };
        let fit = tune.with_metric_for(default_fit, &selected);
        let base = with_inputs(fit, &selected, landmarks)?;
        let (mut fitted, selection_result) = match base.requested_precision() {
            ElementType::F32 => search_and_fit::<f32>(&tune, &base, &selected, &run, &listener),
            ElementType::F64 => search_and_fit::<f64>(&tune, &base, &selected, &run, &listener),
        }?;
        fitted.report.warnings.splice(0..0, column_warnings);
        let fitted = TestedFit::new(fitted, test_part.as_ref(), &table, &run, progress)?;
        Ok((fitted, selection_result, listener.warnings.into_inner().unwrap_or_else(PoisonError::into_inner)))
    })?;
    let test =
        selection_result.test.as_ref().map(|test| serde_json::json!({"apart": test.score, "seconds": test.seconds}));
    let choice = serde_json::json!({
        "solver": selection_result.fit.family().name,
        "kernels": selection_result.search.rungs,
        "solvers": selection_result.contenders,
        "metric": selection_result.metric.is_some().then_some(&selection_result.form),
        "scale": selection_result.search.scaling.to_string(),
        "folds": selection_result.search.folds.to_string(),
        "alike": selection_result.search.target_correlation,
        "at_random": selection_result.random_fold_score,
        "elsewhere": selection_result.shift_scores,
        "select": selection_result.measure,
        "rarer": selection_result.rarer_fraction,
        "test": test,
        "outer_test": selection_result.outer_score,
        "work": selection_result.work.to_string(),
        "history": selection_result.history,
        "warnings": warnings,
    });
    with_report(fitted, table, &run, job.run.threads(), Some(choice))
}

impl SearchRequest {
    /// Returns the time limit, if it is positive and finite.
    fn time_limit(&self) -> Option<Duration> {
        self.time.filter(|time| time.is_finite() && *time > 0.0).map(Duration::from_secs_f64)
    }

    /// Returns the search; `has_landmark_table` is true if the job has a table of landmarks.
    fn build_tune(&self, job: &Job, has_landmark_table: bool) -> ksolve::Result<Tune> {
        // `kernel` is false, because a kernel that the caller fixes arrives as the only entry of
        // `kernels`
        let fixed_parts = FixedParts {
            kernel: false,
            metric: job.has_metric,
            landmarks: job.has_landmarks || has_landmark_table,
            scaling: !self.scalings,
        };
        let mut tune = Tune::new(&self.solver, job.fit.clone())
            .keep_fixed(fixed_parts)
            .score(self.score.parse()?)
            .sample(self.sample);
        if let Some(kernels) = &self.kernels {
            tune = tune.kernels(kernels.iter().map(|text| Kernel::parse(text)).collect::<Result<_, _>>()?);
        }
        if let Some(measure) = &self.select {
            tune = tune.measure(measure.parse()?);
        }
        if let Some(work) = &self.work {
            tune = tune.work(work.parse().map_err(|why| Error::option("work", work, why))?);
        }
        if let Some(time) = self.time_limit() {
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
    listener: &TuneListener<'_>,
) -> ksolve::Result<(Fitted, SelectionResult)> {
    let options = tune.options(base, selected)?;
    let build_final_fit = |selection_result: &SelectionResult| {
        tune.final_fit(selection_result, Some(listener.time_budget), selected, run, &Ok).map(|(fit, _)| fit)
    };
    let model_selection = tune.model_selection(base, &options, selected, run, listener, &build_final_fit);
    let selection_result = model_selection.run::<T>(&mut SearchJournal::open(None)?)?;
    Ok((selection_result.fit.run(selected, run)?, selection_result))
}
