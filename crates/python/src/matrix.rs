//! Kernel matrices from Python: precomputed, of distances, or of a callable. A few of their columns
//! determine coordinates of the rows.

use crate::error::to_py_err;
use crate::model::Model;
use crate::run::{ResourceRequest, parse_json};
use crate::watch::run_watched;
use faer::MatMut;
use kapprox::matrix::{PsdMatrix, rpcholesky};
use ksolve::AnyModel;
use ksolve::coordinates::{CoordinateOptions, MatrixKind, landmark_coordinates};
use ksolve::job::{Run, StageObserver};
use kstore::pass::Observer;
use kstore::{Selection, Table, Workers};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A matrix whose entries a Python callback computes: `block(first, last, columns)` returns the
/// array of the rows `first..last` and these columns.
struct CallbackMatrix<'a> {
    diagonal: Vec<f64>,
    block_callback: &'a Py<PyAny>,
    /// Relative rounding error of a value.
    rounding: f64,
    observer: &'a dyn Observer,
    /// Exception raised by the function.
    exception: Mutex<Option<PyErr>>,
}

impl CallbackMatrix<'_> {
    fn call_block(&self, rows: &Range<u64>, columns: &[u64], mut out: MatMut<'_, f64>) -> PyResult<()> {
        Python::attach(|py| {
            let columns = PyArray1::from_slice(py, columns);
            let values = self.block_callback.call1(py, (rows.start, rows.end, columns))?;
            let values = values.bind(py).extract::<PyReadonlyArray2<'_, f64>>()?;
            let values = values.as_array();
            if values.dim() != (out.nrows(), out.ncols()) {
                let (expected, got) = ((out.nrows(), out.ncols()), values.dim());
                let text = format!(
                    "the kernel returned an array of shape {got:?}, expected {expected:?}: a value for each pair of rows"
                );
                return Err(PyValueError::new_err(text));
            }
            values.indexed_iter().for_each(|((i, j), value)| out[(i, j)] = *value);
            Ok(())
        })
    }
}

impl PsdMatrix for CallbackMatrix<'_> {
    fn order(&self) -> u64 {
        self.diagonal.len() as u64
    }

    fn diagonal(&self, out: &mut [f64]) -> kapprox::Result<()> {
        out.copy_from_slice(&self.diagonal);
        Ok(())
    }

    fn block(&self, rows: Range<u64>, columns: &[u64], out: MatMut<'_, f64>) -> kapprox::Result<()> {
        if self.observer.should_stop() {
            return Err(kstore::Error::Interrupted.into());
        }
        self.call_block(&rows, columns, out).map_err(|error| {
            *self.exception.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            kstore::Error::Interrupted.into()
        })
    }

    fn rounding(&self) -> f64 {
        self.rounding
    }
}

/// Computes coordinates F of the rows of a matrix K, F Fᵀ ≈ K, by randomly pivoted Cholesky;
/// returns the pivots, F, the rows of F at the pivots, and the relative trace error. `rounding` is
/// the relative rounding error of a value.
#[pyfunction]
#[pyo3(signature = (diagonal, block, rounding, rank, tolerance, seed, run, show=None))]
pub(crate) fn factor<'py>(
    py: Python<'py>,
    diagonal: PyReadonlyArray1<'py, f64>,
    block: Py<PyAny>,
    rounding: f64,
    rank: usize,
    tolerance: f64,
    seed: u64,
    run: &str,
    show: Option<Py<PyAny>>,
) -> PyResult<Factor<'py>> {
    let threads = parse_json::<ResourceRequest>(run)?.threads();
    let diagonal = diagonal.as_slice()?.to_vec();
    let (factor, error) = run_watched(py, show, |progress| {
        let observer = progress.start_stage("pivots", None);
        let matrix = CallbackMatrix {
            diagonal,
            block_callback: &block,
            rounding,
            observer: &*observer,
            exception: Mutex::new(None),
        };
        let factor = rpcholesky(&matrix, rank, tolerance, seed, &Workers::new(threads));
        Ok((factor, matrix.exception.into_inner().unwrap_or_else(PoisonError::into_inner)))
    })?;
    let factor = error.map_or(Ok(factor), Err)?.map_err(to_py_err)?;
    let to_numpy = |values: faer::MatRef<'_, f64>| {
        let (n, r) = (values.nrows(), values.ncols());
        PyArray1::from_iter(py, (0..n).flat_map(|i| (0..r).map(move |j| values[(i, j)]))).reshape([n, r])
    };
    let pivots = PyArray1::from_iter(py, factor.pivots.iter().map(|pivot| *pivot as i64));
    Ok((pivots, to_numpy(factor.factor.as_ref())?, to_numpy(factor.lower().as_ref())?, factor.trace_error))
}

/// The pivots, the factor F, the rows of F at the pivots, and the relative trace error.
type Factor<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, f64);

/// Computes the model of landmark multidimensional scaling from the matrix of the distances, or
/// kernel values, among the landmarks. Returns the model, and a report as JSON: whether the
/// distances are Euclidean, the eigenvalues, and the relative trace error of the positive part.
#[pyfunction]
pub(crate) fn landmark_scaling(
    py: Python<'_>,
    matrix: PyReadonlyArray2<'_, f64>,
    of: &str,
    rank: usize,
    tolerance: f64,
) -> PyResult<(Model, String)> {
    let kind: MatrixKind = of.parse().map_err(to_py_err)?;
    let (values, m) = (matrix.as_slice()?.to_vec(), matrix.as_array().ncols());
    let fit = || -> ksolve::Result<_> {
        let row_count = values.len() / m.max(1);
        let table = Table::from_rows(&values, m, &vec![0.0; row_count])?;
        let selected = table.select(&Selection { features: vec!["x*".to_string()], ..Selection::default() })?;
        let options = CoordinateOptions { kind, rank, tolerance, seed: 0 };
        landmark_coordinates(&selected, &options, &Run::new())
    };
    let solution = py.detach(fit).map_err(to_py_err)?;
    let report = serde_json::json!({
        "trace_error": solution.trace_error,
        "euclidean": solution.is_euclidean(tolerance),
        "spectrum": solution.spectrum.map(ksolve::coordinates::SpectrumReport::new),
    });
    Ok((Model::new(AnyModel::F64(solution.model)).map_err(to_py_err)?, report.to_string()))
}
