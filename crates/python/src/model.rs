//! Fitted models: their files, metadata and predictions.

use crate::error::to_py_err;
use crate::foreign::BorrowedArray;
use crate::run::{ResourceRequest, parse_json};
use crate::table::Table;
use crate::watch::run_watched;
use kmodel::model::BasisTransform;
use ksolve::AnyModel;
use ksolve::growth::Growth;
use ksolve::predict::{Extras, Predictor};
use kstore::sparse::entries;
use kstore::{Float, Missing, Selection, TextOptions, Workers};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of rows that a thread predicts between two checks for signals, which takes some
/// milliseconds.
const CHUNK_ROWS: usize = 4096;

/// How to replace an outgrown model.
const NEW_FIT_REMEDY: &str = "call fit on old and new rows";

/// A model that can be shared by threads.
#[pyclass(frozen, module = "kmill._kmill")]
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) predictor: Predictor,
    /// Buffers for single rows.
    scratch: Mutex<ksolve::predict::RowScratch>,
}

impl Model {
    pub(crate) fn new(model: AnyModel) -> ksolve::Result<Self> {
        Ok(Self::from_predictor(Predictor::new(model)?))
    }

    pub(crate) fn from_predictor(predictor: Predictor) -> Self {
        Self { scratch: Mutex::new(predictor.scratch()), predictor }
    }

    fn to_model(&self) -> ksolve::Result<AnyModel> {
        AnyModel::from_bytes(&self.predictor.to_bytes()?)
    }

    /// Returns the model with its points in f64, which represents f32 exactly.
    fn to_f64_model(&self) -> PyResult<ksolve::Model<f64>> {
        Ok(match self.to_model().map_err(to_py_err)? {
            AnyModel::F32(model) => model.into_f64(),
            AnyModel::F64(model) => model,
        })
    }
}

#[pymethods]
impl Model {
    /// Opens a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| AnyModel::load(&path).and_then(Self::new)).map_err(to_py_err)
    }

    /// Returns the bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.predictor.to_bytes().map_err(to_py_err)?))
    }

    /// Pickles the model as the bytes of its file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.import("kmill._kmill")?.getattr("model_of_bytes")?, (self.to_bytes(py)?,)))
    }

    /// Returns the bytes of an ONNX file of the model.
    fn to_onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.to_model()?.to_onnx()).map_err(to_py_err)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes the model file, atomically.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.to_model()?.save(&path)).map_err(to_py_err)
    }

    /// Returns the metadata of the model as JSON: options, names, classes.
    fn card(&self) -> PyResult<String> {
        serde_json::to_string(self.predictor.metadata()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the contents of a page on the model, as JSON.
    fn contents(&self) -> PyResult<String> {
        crate::page::PageContents::of_metadata(self.predictor.metadata()).to_json()
    }

    /// Returns the importance of each feature in the metric, a fraction of 1, in descending order;
    /// None for a model without a metric.
    fn importance(&self) -> Option<Vec<(String, f64)>> {
        self.predictor.metric().map(|metric| metric.importance)
    }

    /// Number of outputs per row.
    #[getter]
    fn outputs(&self) -> usize {
        self.predictor.output_count()
    }

    /// Number of components in addition to the outputs; 0 for most models.
    #[getter]
    fn components(&self) -> usize {
        self.predictor.component_count()
    }

    /// Levels of the prediction intervals or sets, ascending; empty for models without them.
    #[getter]
    fn interval_levels(&self) -> Vec<f64> {
        self.predictor.interval_levels().to_vec()
    }

    /// Names of the columns of a table that have contributions to a prediction.
    #[getter]
    fn explained_columns(&self) -> Vec<String> {
        self.predictor.explained_columns()
    }

    /// Number of features per row.
    #[getter]
    fn features(&self) -> usize {
        self.predictor.feature_count()
    }

    /// Number of columns of the sparse rows of the model; None for a model of dense rows.
    #[getter]
    fn sparse(&self) -> Option<usize> {
        self.predictor.metadata().sparse_shape().map(|shape| shape.column_count)
    }

    /// Returns the landmarks of a model of sparse rows: the values, the column indices, the start
    /// of each landmark in these two arrays, and the row numbers of the landmarks.
    fn sparse_landmarks<'py>(&self, py: Python<'py>) -> PyResult<Option<SparseLandmarks<'py>>> {
        let model = self.to_f64_model()?;
        let Some((points, rows)) = model.basis.landmarks() else { return Ok(None) };
        let (mut all_values, mut indices, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for point in points.chunks_exact(model.dims().1) {
            let (columns, values) = entries(point);
            indices.extend(columns.iter().map(|column| *column as i64));
            all_values.extend_from_slice(values);
            starts.push(all_values.len() as i64);
        }
        let [indices, starts] = [indices, starts].map(|numbers| PyArray1::from_vec(py, numbers));
        Ok(Some((PyArray1::from_vec(py, all_values), indices, starts, PyArray1::from_slice(py, rows))))
    }

    /// Returns the scaled landmarks and their row numbers; None for a model without landmarks.
    fn landmarks<'py>(&self, py: Python<'py>) -> PyResult<Option<(Matrix<'py>, Bound<'py, PyArray1<u64>>)>> {
        let model = self.to_f64_model()?;
        let Some((points, rows)) = model.basis.landmarks() else { return Ok(None) };
        let points = PyArray1::from_slice(py, points).reshape([rows.len(), model.dims().1])?;
        Ok(Some((points, PyArray1::from_slice(py, rows))))
    }

    /// Returns the dual coefficients, landmarks x outputs, and the intercept of each output.
    fn coefficients<'py>(&self, py: Python<'py>) -> PyResult<(Matrix<'py>, Bound<'py, PyArray1<f64>>)> {
        let ksolve::Model { coefficients, intercept, .. } = &self.to_f64_model()?;
        let (m, t) = (coefficients.nrows(), coefficients.ncols());
        let numbers = (0..m).flat_map(|i| (0..t).map(move |j| coefficients[(i, j)]));
        Ok((PyArray1::from_iter(py, numbers).reshape([m, t])?, PyArray1::from_slice(py, intercept)))
    }

    /// Returns the weights of the columns, columns x outputs, and the intercept of each output, in
    /// the units of the rows, for a model that is linear in the columns; None for other models.
    fn linear<'py>(&self, py: Python<'py>) -> PyResult<Option<(Matrix<'py>, Bound<'py, PyArray1<f64>>)>> {
        let model = self.to_f64_model()?;
        let (scaler, (_, d, t)) = (&model.scaler, model.dims());
        let is_nonlinear = scaler.asinh
            || !scaler.knots.is_empty()
            || model.metric.is_some()
            || model.metadata.encoding.is_some()
            || model.transform != BasisTransform::Identity;
        let Some((points, _)) =
            model.basis.landmarks().filter(|_| model.metadata.kernel == "linear()" && !is_nonlinear)
        else {
            return Ok(None);
        };
        // weights of scaled features: Σ_i a_i z_i for the landmarks z_i with dual coefficients a_i;
        // then the scale and the centre are moved into the weights and the intercept
        let mut intercept = model.intercept.clone();
        let mut weights = vec![0.0; d * t];
        for (i, point) in points.chunks_exact(d.max(1)).enumerate() {
            for (index, weight) in weights.iter_mut().enumerate() {
                *weight += point[index / t] * model.coefficients[(i, index % t)];
            }
        }
        for (index, weight) in weights.iter_mut().enumerate() {
            let (j, scale) = (index / t, scaler.scale[index / t]);
            *weight = if scale == 0.0 { 0.0 } else { *weight / scale };
            intercept[index % t] -= *weight * scaler.centre[j];
        }
        Ok(Some((PyArray1::from_vec(py, weights).reshape([d, t])?, PyArray1::from_vec(py, intercept))))
    }

    /// Returns the scores of the rows of a C-ordered array of float32 or float64, n x outputs, in
    /// float64.
    fn predict<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Matrix<'py>> {
        if let Ok(x) = x.cast::<PyArray2<f64>>() {
            return self.scores_of(py, x);
        }
        match x.cast::<PyArray2<f32>>() {
            Ok(x) => self.scores_of(py, x),
            Err(_) => Err(PyTypeError::new_err("expected a two-dimensional array of float32 or float64")),
        }
    }

    /// Returns the class probabilities of rows with these scores, n x classes.
    fn probabilities<'py>(&self, py: Python<'py>, scores: PyReadonlyArray2<'py, f64>) -> PyResult<Matrix<'py>> {
        let class_count = self.predictor.metadata().classes.len();
        let (mut all_probabilities, mut row_probabilities) =
            (Vec::with_capacity(scores.shape()[0] * class_count), Vec::new());
        for scores in scores.as_array().rows() {
            self.predictor.probabilities(&scores.to_vec(), &mut row_probabilities);
            all_probabilities.extend_from_slice(&row_probabilities);
        }
        PyArray1::from_vec(py, all_probabilities).reshape([scores.shape()[0], class_count])
    }

    /// Returns the indices of the predicted classes among the classes of the metadata, for rows
    /// with these scores.
    fn decide<'py>(&self, py: Python<'py>, scores: PyReadonlyArray2<'py, f64>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let classes = self.predictor.classes().ok_or_else(|| {
            PyValueError::new_err("the model has no classes; only classifiers have predicted classes")
        })?;
        let scores = scores.as_array();
        let class_indices = scores.rows().into_iter().map(|row| classes.decide(row.iter().copied()) as i64);
        Ok(PyArray1::from_iter(py, class_indices))
    }

    /// True if the scores can be computed from an array directly: the model has no encoding and
    /// clips no value to a range.
    #[getter]
    fn plain(&self) -> bool {
        let metadata = self.predictor.metadata();
        metadata.encoding.is_none() && metadata.ranges.is_empty()
    }

    /// Returns the scores of the rows of a table (NaN for a row without a prediction), the values
    /// of an extra, and the warnings. The extra is std, interval, components, novelty, preimage,
    /// contributions or squares: the standard deviation of a new observation for each target, the
    /// prediction intervals or sets by level, the coordinates along the components, the squared
    /// distance from the components, the pre-images, the contributions of the columns and the mean
    /// of the background, or k(x, x). Contributions are relative to the rows of `background`.
    #[pyo3(signature = (table, request, background=None))]
    fn scores<'py>(
        &self,
        py: Python<'py>,
        table: &Table,
        request: &str,
        background: Option<&Table>,
    ) -> PyResult<(Matrix<'py>, Option<Matrix<'py>>, Vec<String>)> {
        let request: PredictRequest = parse_json(request)?;
        let (selection, run, extras) = (request.rows.clone(), request.run.run(None)?, request.extras()?);
        let (scores, extra_values, n, warnings) = run_watched(py, None, |progress| {
            let (mut scores, mut extra_values) = (Vec::new(), Vec::new());
            let (mut predictor, rows) = self.for_table(table)?;
            let run = progress.attach_to(&run);
            if let Some(background) = background {
                let rows = self.for_table(background)?.1;
                let (_, rows, _) = predictor.with_forecast(rows, Extras::default(), &run)?;
                predictor = predictor.clone().with_background_table(&predictor.select(&rows, Selection::default())?)?;
            }
            let (mut predictor, rows, _) = predictor.with_forecast(rows, extras, &run)?;
            let selected = predictor.select(&rows, selection)?.with_incomplete_rows();
            if extras.contributions {
                predictor = predictor.clone().with_background_or(&selected)?;
            }
            let n = predictor.score_table(&selected, extras, Vec::new(), &run, |block| {
                append_rows(&mut scores, &block.scores, &block.is_incomplete);
                let values = match extras {
                    Extras { std: true, .. } => &predictor.standard_deviations(block),
                    Extras { intervals: true, .. } => &predictor.intervals(block),
                    Extras { novelty: true, .. } => &block.quadratic,
                    Extras { squares: true, .. } => &block.residual,
                    Extras { contributions: true, .. } => &block.contributions,
                    Extras { components: true, .. } => &block.components,
                    _ => &block.preimages,
                };
                append_rows(&mut extra_values, values, &block.is_incomplete);
                Ok(())
            })?;
            Ok((scores, extra_values, n as usize, progress.warnings()))
        })?;
        let matrix = |values: Vec<f64>| {
            let width = values.len() / n.max(1);
            PyArray1::from_vec(py, values).reshape([n, width])
        };
        let extra_values = if extra_values.is_empty() { None } else { Some(matrix(extra_values)?) };
        Ok((matrix(scores)?, extra_values, warnings))
    }

    /// Returns a model updated with the rows of a table, the mean squared error of the rows before
    /// each update, and, as JSON, the comparison of the rows and of all rows learned since the fit
    /// with the rows of the fit.
    fn learn(
        &self,
        py: Python<'_>,
        table: &Table,
        request: &str,
        forgetting: f64,
    ) -> PyResult<(Self, f64, String, String)> {
        let request: PredictRequest = parse_json(request)?;
        let (selection, run) = (request.rows.clone(), request.run.run(None)?);
        let update = run_watched(py, None, |progress| {
            let (predictor, rows) = self.for_table(table)?;
            predictor.learn(&predictor.select(&rows, selection)?, forgetting, &progress.attach_to(&run))
        })?;
        let all = update.model.metadata().growth.clone().unwrap_or_default();
        let json = |growth: &Growth| serde_json::to_string(&growth.report(NEW_FIT_REMEDY)).unwrap_or_default();
        let (growth, all) = (json(&update.growth), json(&all));
        Ok((Self::new(update.model).map_err(to_py_err)?, update.running_mse, growth, all))
    }

    /// Writes the predictions for a table to a file; returns the number of rows, and the warnings.
    #[pyo3(signature = (table, request, output, show=None))]
    fn write(
        &self,
        py: Python<'_>,
        table: &Table,
        request: &str,
        output: PathBuf,
        show: Option<Py<PyAny>>,
    ) -> PyResult<(u64, Vec<String>)> {
        let request: PredictRequest = parse_json(request)?;
        let (selection, extras, scratch) = (request.rows.clone(), request.extras()?, request.run.scratch()?);
        let run = request.run.run(scratch.as_ref())?;
        let written = run_watched(py, show, |progress| {
            let (predictor, table) = self.for_table(table)?;
            let (predictor, table, _) = predictor.with_forecast(table, extras, &progress.attach_to(&run))?;
            let copied_selection = Selection { without_features: true, missing: Missing::Mean, ..selection.clone() };
            let copied_table =
                (!copied_selection.keep.is_empty()).then(|| table.select(&copied_selection)).transpose()?;
            let keeps_incomplete = selection.missing == Missing::Fitted;
            let selected = predictor.select(&table, Selection { keep: Vec::new(), ..selection })?;
            let selected = if keeps_incomplete { selected.with_incomplete_rows() } else { selected };
            let written =
                predictor.write(&selected, copied_table.as_ref(), extras, &output, &progress.attach_to(&run))?;
            Ok((written.rows, progress.warnings()))
        })?;
        Ok(written)
    }
}

fn lock<V>(value: &Mutex<V>) -> MutexGuard<'_, V> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends the values of some rows; NaN for incomplete rows.
fn append_rows(out: &mut Vec<f64>, values: &[f64], incomplete: &[bool]) {
    let (start, width) = (out.len(), values.len() / incomplete.len().max(1));
    out.extend_from_slice(values);
    let rows = out[start..].chunks_exact_mut(width.max(1)).zip(incomplete).filter(|(_, is_incomplete)| **is_incomplete);
    rows.for_each(|(row, _)| row.fill(f64::NAN));
}

/// A numpy matrix.
type Matrix<'py> = Bound<'py, PyArray2<f64>>;

/// The rows to predict, the resources, and the extra outputs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PredictRequest {
    rows: Selection,
    run: ResourceRequest,
    extras: Vec<String>,
}

impl PredictRequest {
    fn extras(&self) -> PyResult<Extras> {
        let mut extras = Extras::default();
        for name in &self.extras {
            match name.as_str() {
                "probabilities" => extras.probabilities = true,
                "std" => extras.std = true,
                "interval" => extras.intervals = true,
                "components" => extras.components = true,
                "novelty" => extras.novelty = true,
                "preimage" => extras.preimages = true,
                "contributions" => extras.contributions = true,
                "squares" => extras.squares = true,
                other => {
                    let text = format!(
                        "`extras` {other:?}: expected probabilities, std, interval, components, contributions, novelty or preimage"
                    );
                    return Err(PyValueError::new_err(text));
                }
            }
        }
        Ok(extras)
    }
}

/// Reads a model from the bytes of its file.
#[pyfunction]
pub(crate) fn model_of_bytes(bytes: &[u8]) -> PyResult<Model> {
    AnyModel::from_bytes(bytes).and_then(Model::new).map_err(to_py_err)
}

/// Values, column indices, starts and row numbers of sparse landmarks.
type SparseLandmarks<'py> =
    (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u64>>);

impl Model {
    /// Returns the predictor with space for the rows of a table, and the table in the form that the
    /// model requires.
    pub(crate) fn for_table(&self, table: &Table) -> ksolve::Result<(Predictor, kstore::Table)> {
        let table = table.reopen_for(&self.predictor.text_options(TextOptions::default()))?;
        if self.predictor.metadata().sparse_shape().is_none() {
            return Ok((self.predictor.clone(), table));
        }
        Ok((self.predictor.clone().with_capacity_for(&table)?, table))
    }

    fn scores_of<'py, V: Float + numpy::Element>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyArray2<V>>,
    ) -> PyResult<Matrix<'py>> {
        let (d, t) = (self.predictor.feature_count(), self.predictor.output_count());
        let [n, columns] = [x.shape()[0], x.shape()[1]];
        if columns != d {
            return Err(PyValueError::new_err(format!("{columns} columns: the model has {d} features")));
        }
        let x = BorrowedArray::values(x)?;
        let x = x.as_slice();
        let mut out = vec![0.0; n * t];
        if n == 1 {
            let mut scratch = lock(&self.scratch);
            self.predictor.predict_with_scratch(x, &mut out, &mut scratch).map_err(to_py_err)?;
        } else {
            let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let mut first_row = 0;
            while first_row < n {
                let rows = (n - first_row).min(threads * CHUNK_ROWS);
                let (x, out) =
                    (&x[first_row * d..(first_row + rows) * d], &mut out[first_row * t..(first_row + rows) * t]);
                py.detach(|| self.predict_parallel(x, out, rows.div_ceil(threads))).map_err(to_py_err)?;
                py.check_signals()?;
                first_row += rows;
            }
        }
        PyArray1::from_vec(py, out).reshape([n, t])
    }

    /// Predicts parts of `part_rows` rows on threads. The threads end with the call, so that a
    /// later fork loses none of them.
    fn predict_parallel<V: Float>(&self, x: &[V], out: &mut [f64], part_rows: usize) -> ksolve::Result<()> {
        let (d, t) = (self.predictor.feature_count(), self.predictor.output_count());
        // for few rows, starting threads takes longer than predicting
        if out.len() <= 256 * t {
            return self.predictor.predict(x, out);
        }
        let parts: Vec<_> = x.chunks(part_rows * d).zip(out.chunks_mut(part_rows * t)).enumerate().collect();
        let (part_count, parts, errors) = (parts.len(), Mutex::new(parts), Mutex::new(BTreeMap::new()));
        Workers::sequential().run_lanes(part_count, || {
            loop {
                // a guard in the loop condition would live through the loop body
                let Some((index, (x, out))) = lock(&parts).pop() else { break };
                if let Err(error) = self.predictor.predict(x, out) {
                    lock(&errors).insert(index, error);
                }
            }
        });
        // report the error of the first part, independent of thread timing
        let first_error = errors.into_inner().unwrap_or_else(PoisonError::into_inner).pop_first();
        first_error.map_or(Ok(()), |(_, error)| Err(error))
    }
}
