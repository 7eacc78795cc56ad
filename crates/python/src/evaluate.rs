//! The scores of a model on rows with true values, as `kmill evaluate` computes them.

use crate::model::Model;
use crate::page::PageContents;
use crate::run::{ResourceRequest, parse_json};
use crate::table::Table;
use crate::watch::run_watched;
use kreport::evaluate::EvaluateReport;
use kreport::fit::TestSetReport;
use ksolve::predict::{ChartData, Predictor};
use ksolve::{Error, Task};
use kstore::{Part, Selection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// The rows and options of an evaluation, as JSON from Python.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EvaluationRequest {
    /// Rows, and the target columns.
    rows: Selection,
    run: ResourceRequest,
    /// Name of the model on the page.
    name: String,
    /// Whether only the test rows of the model are scored.
    test_rows: bool,
    weights: Option<String>,
    group: Option<String>,
    /// Positive class, of two.
    positive: Option<String>,
    /// Costs of a false positive and of a false negative.
    cost: Option<[f64; 2]>,
    threshold: Option<f64>,
    top: Option<u64>,
}

/// The scores of an evaluation, their text, and the points of the charts.
#[derive(Debug, Serialize)]
pub(crate) struct EvaluationJson<'a> {
    scores: &'a EvaluateReport,
    text: String,
    points: Vec<(f64, f64)>,
    roc: Option<Vec<(f64, f64)>>,
    roc_by_class: Vec<Vec<(f64, f64)>>,
    precision: Option<Vec<(f64, f64)>>,
    /// Predicted probability, observed fraction and number of rows of each bin.
    calibration: Option<Vec<(f64, f64, f64)>>,
}

impl<'a> EvaluationJson<'a> {
    fn new(scores: &'a EvaluateReport, text: String, chart_data: &ChartData) -> Self {
        let ChartData { points, roc, roc_by_class, precision, calibration, .. } = chart_data.clone();
        let calibration =
            calibration.map(|bins| bins.into_iter().map(|bin| (bin.predicted, bin.observed, bin.rows)).collect());
        Self { scores, text, points, roc, roc_by_class, precision, calibration }
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(self).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Returns the description of the test rows of a fit, the scores of its model on them, and the
/// contents of their page.
pub(crate) fn describe_test_set(test_set: &TestSetReport, solver: &str) -> PyResult<serde_json::Value> {
    let TestSetReport { spec, description, seed, rows, training_rows, scores, chart_data } = test_set;
    let page = PageContents::from(scores.page(chart_data, Path::new(solver), Vec::new()));
    let evaluation = EvaluationJson::new(scores, test_set.to_string(), chart_data);
    Ok(serde_json::json!({
        "test_rows": {
            "spec": spec.to_string(),
            "selects": description,
            "seed": seed,
            "rows": rows,
            "training_rows": training_rows,
        },
        "evaluation": evaluation.to_json()?,
        "page": page.to_json()?,
    }))
}

/// Scores a model on the rows of a table with true values. Returns the scores with the points of
/// their charts and the contents of the page, both as JSON, and the warnings.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    model: &Model,
    table: &Table,
    request: &str,
) -> PyResult<(String, String, Vec<String>)> {
    let request: EvaluationRequest = parse_json(request)?;
    let run = request.run.run(None)?;
    let (report, chart_data, warnings) = run_watched(py, None, |progress| {
        let run = progress.attach_to(&run);
        let (predictor, table) = model.for_table(table)?;
        let predictor = request.configure(predictor)?;
        let table = predictor.with_lags(table, &run)?;
        let selected = predictor.select(&table, request.selection(&predictor)?)?;
        let (report, chart_data) = EvaluateReport::compute(&predictor, &selected, request.top, true, &run)?;
        Ok((report, chart_data, progress.warnings()))
    })?;
    let page = PageContents::from(report.page(&chart_data, Path::new(&request.name), warnings.clone()));
    let evaluation = EvaluationJson::new(&report, report.to_string(), &chart_data);
    Ok((evaluation.to_json()?, page.to_json()?, warnings))
}

impl EvaluationRequest {
    /// Sets the positive class, the threshold, the costs and the number of rows with the highest
    /// scores.
    fn configure(&self, mut predictor: Predictor) -> ksolve::Result<Predictor> {
        if let Some(label) = &self.positive {
            predictor = predictor.with_positive_class(label)?;
        }
        if let Some(threshold) = self.threshold {
            predictor = predictor.with_threshold(threshold)?;
        }
        if let Some(costs) = self.cost {
            predictor = predictor.with_costs(costs)?;
        }
        let orders_rows = predictor.scores_anomalies() || predictor.metadata().task == Task::Ranking;
        match self.top {
            Some(top) if self.group.is_none() && !orders_rows => predictor.with_top(top),
            _ => Ok(predictor),
        }
    }

    fn selection(&self, predictor: &Predictor) -> ksolve::Result<Selection> {
        let metadata = predictor.metadata();
        let part = match (self.test_rows, metadata.test_rows()) {
            (true, Some(test_rows)) => Some(Part::Test(Arc::new(test_rows))),
            (true, None) => {
                let why = "the model was fitted without `test`, so that it has no test rows; select rows with `rows` or `where`";
                return Err(Error::option("test", "same", why));
            }
            (false, _) => None,
        };
        let weight = self.weights.clone().or_else(|| metadata.exposure_column().map(str::to_string));
        Ok(Selection { part, weight, group: self.group.clone(), ..self.rows.clone() })
    }
}
