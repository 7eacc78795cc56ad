//! Fits: jobs that the Python side passes as JSON.

use crate::run::{ResourceRequest, from_json, parse_json};
use crate::{error::to_py_err, medium::engine, model::Model, page::PageContents, table::Table, watch::run_watched};
use ksolve::job::LandmarkSource;
use ksolve::job::{Fit, Fitted, Run};
use kstore::{SelectedTable, Selection, TextOptions};
use pyo3::prelude::*;
use serde_json::Value;

/// A fit with its resources.
pub(crate) struct Job {
    pub(crate) fit: Fit,
    pub(crate) run: ResourceRequest,
    /// True if the job sets a metric.
    pub(crate) has_metric: bool,
    /// True if the job sets a landmark scheme.
    pub(crate) has_landmarks: bool,
}

impl Job {
    /// Parses a job from JSON: the fields of [`Fit`], and its resources under `run`.
    pub(crate) fn parse(text: &str) -> PyResult<Self> {
        let mut fields: serde_json::Map<String, Value> = parse_json(text)?;
        let has = |name| fields.get(name).is_some_and(|value: &Value| !value.is_null());
        let (has_metric, has_landmarks) = (has("metric"), has("landmarks"));
        let run = fields.remove("run").map_or(Ok(ResourceRequest::default()), from_json)?;
        Ok(Self { fit: from_json(fields.into())?, run, has_metric, has_landmarks })
    }
}

/// Returns the fit with the rows of `landmarks` as its landmarks, and with its files opened.
pub(crate) fn with_inputs(mut fit: Fit, selected: &SelectedTable, landmarks: Option<&Table>) -> ksolve::Result<Fit> {
    let columns = Selection { features: selected.feature_names(), ..Selection::default() };
    if let Some(table) = landmarks {
        fit = fit.landmarks(LandmarkSource::Rows(Box::new(table.table.select(&columns)?)));
    }
    fit.with_open_files(selected, &TextOptions::default())
}

/// Fits a model on a table; returns it with the report as JSON.
///
/// `landmarks` is a table of landmark rows, instead of a scheme; `show` is called with the
/// progress. Processes that share the passes exchange their sums through `states`. A process that
/// shows no activity for `patience` seconds counts as lost.
#[pyfunction]
#[pyo3(signature = (job, table, landmarks=None, show=None, states=None, patience=90.0))]
pub(crate) fn fit(
    py: Python<'_>,
    job: &str,
    table: &Table,
    landmarks: Option<&Table>,
    show: Option<Py<PyAny>>,
    states: Option<&Bound<'_, PyAny>>,
    patience: f64,
) -> PyResult<(Model, String)> {
    let job = Job::parse(job)?;
    let row_selection = Selection { sparse: true, ..job.fit.requested_selection() };
    // a table of landmarks is dense, so the rows must be dense too
    let text_options = match landmarks {
        None => job.fit.text_options_for(&row_selection, TextOptions::default()),
        Some(_) => TextOptions::default(),
    };
    let selection = job.fit.complete_selection(row_selection).map_err(to_py_err)?;
    let scratch = job.run.scratch()?;
    let run = job.run.run(scratch.as_ref())?;
    let engine = states.map(|states| engine(states, patience)).transpose()?;
    let run = engine.iter().fold(run, |run, engine| run.engine(engine));
    let fitted = run_watched(py, show, |progress| {
        let run = progress.attach_to(&run);
        let table = run.with_lags(table.reopen_for(&text_options)?, selection.lags.as_ref())?;
        let selected = run.resolve_categories(&table.select(&selection)?)?;
        let column_warnings = progress.warnings();
        let mut fitted = with_inputs(job.fit.clone(), &selected, landmarks)?.run(&selected, &run)?;
        fitted.report.warnings.splice(0..0, column_warnings);
        Ok(fitted)
    })?;
    with_report(fitted, table, &run, job.run.threads(), None)
}

/// Returns the model of a fit, and the reports of the fit and of the choice as JSON.
pub(crate) fn with_report(
    fitted: Fitted,
    table: &Table,
    run: &Run<'_>,
    threads: usize,
    choice: Option<serde_json::Value>,
) -> PyResult<(Model, String)> {
    let report = &fitted.report;
    let page = PageContents::of_fit(report, table.table.bytes_read(), run.memory_budget(), threads);
    let text = serde_json::json!({
        "report": report,
        "seconds": report.seconds,
        "warnings": report.warnings,
        "certificates": report.certificates,
        "page": page.to_json()?,
        "choice": choice,
    });
    Ok((Model::new(fitted.model).map_err(to_py_err)?, text.to_string()))
}
