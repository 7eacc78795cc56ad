//! The extension module of the Python package `kmill`: jobs of `ksolve` on numpy arrays, Arrow
//! streams and files.
//!
//! The module defines no algorithms and no defaults: a job comes as JSON from the Python side
//! ([`ksolve::job::Fit`]), which builds it from the registries. Everything here is private to the
//! package; users see `kmill/*.py`.

mod curve;
mod error;
mod evaluate;
mod foreign;
mod job;
mod matrix;
mod medium;
mod model;
mod page;
mod registry;
mod rows;
mod run;
mod table;
mod tune;
mod watch;

use pyo3::prelude::*;

/// The engine of kmill.
#[pymodule]
fn _kmill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // addresses such as s3://bucket/rows.parquet
    #[cfg(feature = "cloud")]
    kcloud::register().map_err(error::to_py_err)?;
    module.add("Error", module.py().get_type::<error::KmillError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<table::Table>()?;
    module.add_class::<model::Model>()?;
    module.add_function(wrap_pyfunction!(job::fit, module)?)?;
    module.add_function(wrap_pyfunction!(tune::tune, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(page::page, module)?)?;
    module.add_function(wrap_pyfunction!(page::plot, module)?)?;
    module.add_function(wrap_pyfunction!(model::model_of_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(curve::curve, module)?)?;
    module.add_function(wrap_pyfunction!(matrix::factor, module)?)?;
    module.add_function(wrap_pyfunction!(matrix::landmark_scaling, module)?)?;
    module.add_function(wrap_pyfunction!(registry::grid, module)?)?;
    module.add_function(wrap_pyfunction!(registry::registries, module)?)
}
