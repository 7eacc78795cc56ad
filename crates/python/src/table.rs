//! Tables passed from Python: an array, an Arrow stream, or files.

use crate::error::to_py_err;
use crate::foreign::{BorrowedArray, read_batches};
use crate::rows::{ArrayRows, CompressedRows, Features};
use crate::run::{ResourceRequest, parse_json};
use crate::watch::run_watched;
use ksolve::job::StageObserver;
use kstore::arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use kstore::arrow::datatypes::{Field, Float64Type, Schema};
use kstore::source::Element;
use kstore::{
    ColumnType, Kind, Missing, Pass, ReadSettings, RowSource, SelectedTable, Selection, Statistics,
    StatisticsReduction, TextOptions, Workers,
};
use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Rows for training or prediction: an array, an Arrow stream, or files.
#[pyclass(frozen, module = "kmill._kmill")]
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) table: kstore::Table,
    source: Source,
}

/// Names of the feature columns, number of features, number of rows or the sum of their weights,
/// and the variance.
type TableSummary = (Vec<String>, usize, Option<f64>, Option<f64>);

/// The origin of a table, from which it can be read again with other columns or in another form.
#[derive(Debug)]
enum Source {
    Array,
    Stream(Vec<RecordBatch>),
    Files(Vec<PathBuf>),
    /// Rows of a sparse matrix, a table of these rows in sparse form, and the further columns.
    Sparse(Arc<CompressedRows>, kstore::Table, Vec<(String, ArrayRef)>),
}

#[pymethods]
impl Table {
    /// Returns a table of a C-ordered array of float32 or float64, read in place, and further
    /// columns.
    ///
    /// `names` has a name for each feature; `more` is a list of (name, values), with values an
    /// array of float64, int64 or bool, or a list of strings.
    #[staticmethod]
    #[pyo3(signature = (x, names, more=Vec::new()))]
    fn from_array(x: &Bound<'_, PyAny>, names: Vec<String>, more: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let (bytes, element, shape) = if let Ok(x) = x.cast::<PyArray2<f32>>() {
            (BorrowedArray::bytes(x)?, Element::F32, x.shape().to_vec())
        } else if let Ok(x) = x.cast::<PyArray2<f64>>() {
            (BorrowedArray::bytes(x)?, Element::F64, x.shape().to_vec())
        } else {
            return Err(PyTypeError::new_err("expected a two-dimensional array of float32 or float64"));
        };
        if names.len() != shape[1] {
            return Err(PyValueError::new_err(format!(
                "{} names for {} features; expected one name for each feature",
                names.len(),
                shape[1]
            )));
        }
        let x = Features::Dense(bytes, element);
        let extra_columns = convert_columns(&more, shape[0])?;
        Ok(Self { table: Self::from_features(x, names, shape[0], extra_columns), source: Source::Array })
    }

    /// Returns a table of compressed sparse rows, read in place, and further columns as in
    /// `from_array`. Column indices ascend within a row.
    ///
    /// The table has a column for each of `names`, like an array; fits and models of sparse rows
    /// use a single column `x` of sparse rows instead.
    #[staticmethod]
    #[pyo3(signature = (values, places, starts, names, more=Vec::new()))]
    fn from_sparse(
        values: &Bound<'_, PyArray1<f64>>,
        places: &Bound<'_, PyArray1<i32>>,
        starts: PyReadonlyArray1<'_, i64>,
        names: Vec<String>,
        more: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let (values, indices) = (BorrowedArray::values(values)?, BorrowedArray::indices(places)?);
        let rows = CompressedRows::new(starts.as_slice()?, indices, values, names.len()).ok_or_else(|| {
            PyValueError::new_err(
                "the sparse matrix has entries outside its rows or columns, or not in ascending order; call sum_duplicates",
            )
        })?;
        let (rows, extra_columns) = (Arc::new(rows), convert_columns(&more, starts.len().saturating_sub(1))?);
        let sparse = Features::Sparse(Arc::clone(&rows));
        let sparse = Self::from_features(sparse, vec!["x".to_string()], rows.len(), extra_columns.clone());
        let dense = match rows.shape().must_be_sparse() {
            true => sparse.clone(),
            false => Self::from_features(
                Features::SparseAsDense(Arc::clone(&rows)),
                names,
                rows.len(),
                extra_columns.clone(),
            ),
        };
        Ok(Self { table: dense, source: Source::Sparse(rows, sparse, extra_columns) })
    }

    /// Returns a table of an object with `__arrow_c_stream__`. Its batches are kept, because a
    /// stream can be read only once and a fit takes several passes.
    ///
    /// The batches may take at most `memory` bytes; by default, at most the free memory.
    #[staticmethod]
    #[pyo3(signature = (stream, memory=None))]
    fn from_stream(stream: &Bound<'_, PyAny>, memory: Option<&str>) -> PyResult<Self> {
        let memory = memory.map(kstore::budget::parse_bytes).transpose().map_err(to_py_err)?;
        Self::from_record_batches(read_batches(stream, memory)?)
    }

    /// Returns the table of a stream with further columns.
    fn with_columns(&self, more: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let Source::Stream(batches) = &self.source else {
            return Err(PyTypeError::new_err("columns can be added to the table of a stream only"));
        };
        let extra_columns = convert_columns(&more, batches.iter().map(RecordBatch::num_rows).sum())?;
        let mut first_row = 0;
        let extend_batch = |batch: &RecordBatch| {
            let fields = batch.schema().fields().iter().cloned().collect::<Vec<_>>();
            let new_fields =
                extra_columns.iter().map(|(name, array)| Arc::new(Field::new(name, array.data_type().clone(), false)));
            let schema = Schema::new(fields.into_iter().chain(new_fields).collect::<Vec<_>>());
            let slices = extra_columns.iter().map(|(_, array)| array.slice(first_row, batch.num_rows()));
            let columns = batch.columns().iter().cloned().chain(slices).collect();
            first_row += batch.num_rows();
            RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| PyValueError::new_err(error.to_string()))
        };
        Self::from_record_batches(batches.iter().map(extend_batch).collect::<PyResult<_>>()?)
    }

    /// Returns a table of files, folders and glob patterns, with the types of some columns of text
    /// files, and words that stand for missing values.
    #[staticmethod]
    #[pyo3(signature = (paths, types=BTreeMap::new(), missing_words=Vec::new()))]
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        types: BTreeMap<String, String>,
        missing_words: Vec<String>,
    ) -> PyResult<Self> {
        let types = types.into_iter().map(|(name, kind)| Ok((name, kind.parse::<ColumnType>().map_err(to_py_err)?)));
        let options = TextOptions::default().types(types.collect::<PyResult<_>>()?).missing_words(missing_words);
        let table = py.detach(|| kstore::Table::open_with(&paths, &options)).map_err(to_py_err)?;
        Ok(Self { table, source: Source::Files(paths) })
    }

    /// Returns the names of the feature columns of a selection, the number of features, and the
    /// number of rows if it is known in advance. With `variance`, which takes a pass, also returns
    /// the variance of all feature values together. With a column `weights`, rows are weighted, and
    /// the sum of the weights takes a pass.
    #[pyo3(signature = (rows, run, variance=false, weights=None))]
    fn survey(
        &self,
        py: Python<'_>,
        rows: &str,
        run: &str,
        variance: bool,
        weights: Option<String>,
    ) -> PyResult<TableSummary> {
        let selection = Selection { sparse: true, weight: weights, ..parse_json(rows)? };
        let run = parse_json::<ResourceRequest>(run)?;
        let (threads, run) = (run.threads(), run.run(None)?);
        let lags = selection.lags.as_ref();
        let table = py.detach(|| run.with_lags(self.table.clone(), lags)).map_err(to_py_err)?;
        let selected = table.select(&selection).map_err(to_py_err)?;
        let selected = py.detach(|| run.resolve_categories(&selected)).map_err(to_py_err)?;
        let variance = match &self.source {
            _ if !variance => None,
            Source::Sparse(rows, _, extra_columns)
                if TextOptions::default().prefer_sparse().keeps_sparse(rows.shape()) =>
            {
                let column = extra_columns.iter().find(|(name, _)| Some(name) == selection.weight.as_ref());
                let weights = column.and_then(|(_, column)| column.as_primitive_opt::<Float64Type>());
                Some(rows.variance(|i| weights.map_or(1.0, |weights| weights.value(i))))
            }
            _ if selected.sparse_shape().is_some() => {
                let why = "gamma 'scale' needs the variance of X, which is not supported for sparse rows and texts of files and streams; \
                           set gamma to a number";
                return Err(PyValueError::new_err(why));
            }
            _ => Some(run_watched(py, None, |progress| Ok(overall_variance(&selected, threads, progress)?))?),
        };
        let names = selected.feature_names();
        let feature_count = selected.sparse_shape().map_or(names.len(), |shape| shape.column_count);
        let sums_weights = selected.is_weighted() && !selected.is_filtered() && selected.missing() != Missing::Drop;
        let total_weight = match selected.row_count_if_known() {
            None if sums_weights => {
                let weights = table.select(&Selection { without_features: true, ..selection }).map_err(to_py_err)?;
                let weight_statistics = run_watched(py, None, |progress| Ok(statistics(&weights, threads, progress)?))?;
                weight_statistics.weights.first().map(|weights| weights.weight_sum)
            }
            rows => rows.map(|rows| rows as f64),
        };
        Ok((names, feature_count, total_weight, variance))
    }

    /// Number of rows.
    #[getter]
    fn rows(&self) -> u64 {
        self.table.stored_rows()
    }

    /// Name and kind of each column, and whether it is a feature by default.
    #[getter]
    fn columns(&self) -> Vec<(String, String, bool)> {
        let is_feature = |kind: &Kind| kind.is_direct_feature() || *kind == Kind::Text;
        let columns = self.table.schema().columns.iter();
        columns.map(|column| (column.name.clone(), column.kind.to_string(), is_feature(&column.kind))).collect()
    }
}

impl Table {
    fn from_features(
        x: Features,
        names: Vec<String>,
        row_count: usize,
        extra_columns: Vec<(String, ArrayRef)>,
    ) -> kstore::Table {
        kstore::Table::from_file("X", Arc::new(ArrayRows::new(x, names, row_count as u64, extra_columns)))
    }

    fn from_record_batches(batches: Vec<RecordBatch>) -> PyResult<Self> {
        let table = kstore::Table::from_batches(batches.clone()).map_err(to_py_err)?;
        Ok(Self { table, source: Source::Stream(batches) })
    }

    /// Returns the table in the form that these options require: with sparse or dense rows, or with
    /// files read again.
    pub(crate) fn reopen_for(&self, options: &TextOptions) -> kstore::Result<kstore::Table> {
        match &self.source {
            Source::Sparse(rows, sparse, _) if options.keeps_sparse(rows.shape()) => Ok(sparse.clone()),
            // files that are read again lose the types and missing words of `open`: svmlight files
            // have none, and a model brings its own
            Source::Files(paths)
                if options.has_reading() || self.table.format() == "svmlight" && *options != TextOptions::default() =>
            {
                kstore::Table::open_with(paths, options)
            }
            _ => Ok(self.table.clone()),
        }
    }
}

/// Converts further columns, by name, of `rows` values each.
fn convert_columns(columns: &[(String, Bound<'_, PyAny>)], rows: usize) -> PyResult<Vec<(String, ArrayRef)>> {
    columns.iter().map(|(name, values)| Ok((name.clone(), convert_column(values, rows)?))).collect()
}

/// Returns the variance of all feature values together, like numpy's `X.var()`.
fn overall_variance(
    selected: &SelectedTable,
    threads: usize,
    stage_observer: &dyn StageObserver,
) -> kstore::Result<f64> {
    let features = statistics(selected, threads, stage_observer)?.inputs;
    let (d, n) = (features.len() as f64, features.first().map_or(0.0, |feature| feature.weight_sum));
    let mean = features.iter().map(|feature| feature.mean).sum::<f64>() / d.max(1.0);
    let between: f64 = features.iter().map(|feature| (feature.mean - mean).powi(2)).sum();
    let within: f64 = features.iter().map(|feature| feature.m2).sum();
    // mean variance within features, plus variance of the means of features; n is a sum of weights
    Ok(within / (n * d).max(f64::MIN_POSITIVE) + between / d.max(1.0))
}

fn statistics(
    selected: &SelectedTable,
    threads: usize,
    stage_observer: &dyn StageObserver,
) -> kstore::Result<Statistics> {
    let rows = selected.rows::<f64>(ReadSettings::default())?;
    let workers = Workers::new(threads);
    let observer = stage_observer.start_stage("variance", selected.row_count_if_known());
    let reduction = StatisticsReduction::new(RowSource::shape(&rows));
    Ok(Pass { observer: &*observer, ..Pass::new(1024, 65_536, &workers) }.reduce(&rows, &reduction)?.0)
}

/// Converts values to a column of `rows` values.
fn convert_column(values: &Bound<'_, PyAny>, rows: usize) -> PyResult<ArrayRef> {
    let array: ArrayRef = if let Ok(values) = values.extract::<PyReadonlyArray1<'_, f64>>() {
        Arc::new(Float64Array::from_iter_values(values.as_array().iter().copied()))
    } else if let Ok(values) = values.extract::<PyReadonlyArray1<'_, i64>>() {
        Arc::new(Int64Array::from_iter_values(values.as_array().iter().copied()))
    } else if let Ok(values) = values.extract::<PyReadonlyArray1<'_, bool>>() {
        Arc::new(BooleanArray::from_iter(values.as_array().iter().copied().map(Some)))
    } else if let Ok(values) = values.extract::<Vec<String>>() {
        Arc::new(StringViewArray::from_iter_values(values))
    } else {
        return Err(PyTypeError::new_err("expected values of float64, int64 or bool, or strings"));
    };
    match array.len() == rows {
        true => Ok(array),
        false => Err(PyValueError::new_err(format!(
            "{} values for {rows} rows; expected one value for each row",
            array.len()
        ))),
    }
}
