//! Fits: jobs that the Python side passes as JSON.

use crate::evaluate::describe_test_set;
use crate::run::{ResourceRequest, from_json, parse_json};
use crate::watch::{Progress, run_watched};
use crate::{error::to_py_err, medium::engine, model::Model, page::PageContents, table::Table};
use kreport::fit::{TestPart, TestSetReport};
use kreport::inspect::warn_of_group_features;
use kreport::row_names::name_typical_rows;
use ksolve::job::LandmarkSource;
use ksolve::job::{Fit, FitReport, Fitted, Run};
use ksolve::predict::Predictor;
use kstore::{SelectedTable, Selection, TestSpec, TextOptions};
use pyo3::prelude::*;
use serde_json::Value;

/// A fit with its resources.
pub(crate) struct Job {
    pub(crate) fit: Fit,
    pub(crate) run: ResourceRequest,
    /// Test rows, which the fit does not read, and the seed of their choice.
    pub(crate) test_request: Option<(TestSpec, u64)>,
    /// True if the job sets a metric.
    pub(crate) has_metric: bool,
    /// True if the job sets a landmark scheme.
    pub(crate) has_landmarks: bool,
}

impl Job {
    /// Parses a job from JSON: the fields of [`Fit`], its resources under `run`, and its test rows
    /// under `test`.
    pub(crate) fn parse(text: &str) -> PyResult<Self> {
        let mut fields: serde_json::Map<String, Value> = parse_json(text)?;
        let has = |name| fields.get(name).is_some_and(|value: &Value| !value.is_null());
        let (has_metric, has_landmarks) = (has("metric"), has("landmarks"));
        let run = fields.remove("run").map_or(Ok(ResourceRequest::default()), from_json)?;
        let seed = fields.get("seed").and_then(Value::as_u64).unwrap_or_default();
        let test_spec = fields.remove("test").map(from_json::<TestSpec>).transpose()?;
        let test_request = test_spec.map(|spec| (spec, seed));
        Ok(Self { fit: from_json(fields.into())?, run, test_request, has_metric, has_landmarks })
    }

    /// Chooses the test rows, if they are requested, among the rows of a selection.
    pub(crate) fn choose_test_rows(
        &self,
        table: &kstore::Table,
        selection: &Selection,
        run: &Run<'_>,
    ) -> ksolve::Result<Option<TestPart>> {
        let choose = |(spec, seed): &(TestSpec, u64)| TestPart::choose(table, selection, spec, *seed, run);
        self.test_request.as_ref().map(choose).transpose()
    }
}

/// Returns a fit and a selection without the test rows.
pub(crate) fn without_test_rows(test_part: Option<&TestPart>, fit: Fit, selection: Selection) -> (Fit, Selection) {
    let Some(test_part) = test_part else { return (fit, selection) };
    let requested = test_part.without_test_rows(fit.requested_selection());
    (fit.with_selection(requested), test_part.without_test_rows(selection))
}

/// A fitted model, its report, and its scores on the test rows.
pub(crate) struct TestedFit {
    pub(crate) predictor: Predictor,
    pub(crate) report: FitReport,
    pub(crate) test_set: Option<TestSetReport>,
}

impl TestedFit {
    /// Scores a fitted model on the test rows, if there are any. The warnings of the evaluation
    /// follow the warnings of the fit.
    pub(crate) fn new(
        fitted: Fitted,
        test_part: Option<&TestPart>,
        table: &kstore::Table,
        run: &Run<'_>,
        progress: &Progress,
    ) -> ksolve::Result<Self> {
        let (predictor, mut report) = (Predictor::new(fitted.model)?, fitted.report);
        let warning_count = progress.warnings().len();
        let evaluate = |part: &TestPart| part.evaluate(predictor.clone(), &report, table, true, run);
        let test_set = test_part.map(evaluate).transpose()?;
        report.warnings.extend(progress.warnings().drain(warning_count..).map(|text| format!("test rows: {text}")));
        Ok(Self { predictor, report, test_set })
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
    let shared_run = engine.iter().fold(run.clone(), |run, engine| run.engine(engine));
    let fitted = run_watched(py, show, |progress| {
        // every process chooses and scores the test rows itself
        let (run, shared_run) = (progress.attach_to(&run), progress.attach_to(&shared_run));
        let table = shared_run.with_lags_of(table.reopen_for(&text_options)?, &selection)?;
        let test_part = job.choose_test_rows(&table, &selection, &run)?;
        let (fit, selection) = without_test_rows(test_part.as_ref(), job.fit.clone(), selection);
        let (fit, selection) = fit.with_default_folds(&table, selection, false, &run)?;
        let selected = shared_run.resolve_categories(&table.select(&selection)?)?;
        warn_of_group_features(&selection, &selected, &run);
        let column_warnings = progress.warnings();
        let mut fitted = with_inputs(fit, &selected, landmarks)?.run(&selected, &shared_run)?;
        fitted.report.warnings.splice(0..0, column_warnings);
        name_typical_rows(&mut fitted.report, &selected)?;
        TestedFit::new(fitted, test_part.as_ref(), &table, &run, progress)
    })?;
    with_report(fitted, table, &run, job.run.threads(), None)
}

/// Returns the model of a fit, and the reports of the fit and of the choice as JSON.
pub(crate) fn with_report(
    fitted: TestedFit,
    table: &Table,
    run: &Run<'_>,
    threads: usize,
    choice: Option<serde_json::Value>,
) -> PyResult<(Model, String)> {
    let TestedFit { predictor, report, test_set } = fitted;
    let test = test_set.as_ref().map(|test_set| describe_test_set(test_set, report.solver)).transpose()?;
    let text = serde_json::json!({
        "report": report,
        "seconds": report.seconds,
        "warnings": report.warnings,
        "certificates": report.certificates,
        "test": test,
        "page": PageContents::of_fit(&report, test_set, table.table.bytes_read(), run.memory_budget(), threads).to_json()?,
        "choice": choice,
    });
    Ok((Model::from_predictor(predictor), text.to_string()))
}
