//! Error curves: the error of approximations against their rank.

use crate::run::{ResourceRequest, parse_json};
use crate::table::Table;
use crate::watch::run_watched;
use kapprox::Real;
use kfit::request::Resources;
use ksolve::curve::{CurveCell, CurveOptions, Method, Setting};
use ksolve::job::ElementType;
use ksolve::job::Scaling;
use ksolve::{Intercept, Task};
use kstore::{SelectedTable, Selection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;

/// The options of an error curve.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveRequest {
    methods: Vec<String>,
    ranks: Vec<usize>,
    repeats: u64,
    kernel: String,
    scale: String,
    sample: Option<usize>,
    seed: u64,
    precision: String,
    #[serde(default)]
    rows: Selection,
    #[serde(default)]
    run: ResourceRequest,
}

/// Computes the errors and costs of landmark schemes and maps at every rank, and returns them as
/// JSON, one cell for each method, rank and repeat.
#[pyfunction]
#[pyo3(signature = (curve, table, show=None))]
pub(crate) fn curve(py: Python<'_>, curve: &str, table: &Table, show: Option<Py<PyAny>>) -> PyResult<String> {
    let request: CurveRequest = parse_json(curve)?;
    let run = request.run.run(None)?;
    let cells = run_watched(py, show, |progress| {
        let selected = run.resolve_categories(&table.table.select(&request.rows)?)?;
        let (options, precision) = (curve_options(&request, &selected)?, request.precision.parse::<ElementType>()?);
        let run = progress.attach_to(&run);
        match precision {
            ElementType::F32 => compute_cells::<f32>(&selected, &options, &run.resources()),
            ElementType::F64 => compute_cells::<f64>(&selected, &options, &run.resources()),
        }
    })?;
    serde_json::to_string(&cells).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn curve_options(request: &CurveRequest, selected: &SelectedTable) -> ksolve::Result<CurveOptions> {
    let mut ranks = request.ranks.clone();
    ranks.sort_unstable();
    ranks.dedup();
    Ok(CurveOptions {
        methods: request.methods.iter().map(|text| text.parse::<Method>()).collect::<Result<_, _>>()?,
        ranks,
        repeats: request.repeats,
        landmark_scheme: kapprox::landmark::default_scheme(),
        sample_rows: request.sample,
        scaling: request.scale.parse::<Scaling>()?,
        kernel: request.kernel.parse::<kapprox::Kernel>()?.resolve_columns(&selected.feature_names())?,
        task: Task::Regression,
        lambda: 1e-6,
        intercept: Intercept::default(),
        seed: request.seed,
    })
}

fn compute_cells<T: Real>(
    selected: &SelectedTable,
    options: &CurveOptions,
    resources: &Resources<'_>,
) -> ksolve::Result<Vec<CurveCell>> {
    let setting = Setting::<T>::open(selected, None, options, resources)?;
    let mut cells = Vec::new();
    for run in options.runs() {
        cells.extend(setting.run(&run)?);
    }
    Ok(cells)
}
