//! Errors of the engine as Python exceptions, with the same message as the command.

use pyo3::exceptions::{PyException, PyFileNotFoundError, PyMemoryError, PyOSError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    kmill,
    KmillError,
    PyException,
    "Raised if a fit or a prediction fails for a reason other than an invalid argument."
);

/// Converts an error of the engine: `MemoryError` for a plan over the budget, `OSError` for files
/// that cannot be read or written, `ValueError` for errors that the caller can correct,
/// [`KmillError`] for all other errors.
pub(crate) fn to_py_err(error: impl Into<ksolve::Error>) -> PyErr {
    let error = error.into();
    let text = error.to_string();
    match error {
        ksolve::Error::Store(error) | ksolve::Error::Approx(kapprox::Error::Store(error)) => store_error(&error, text),
        ksolve::Error::Approx(_)
        | ksolve::Error::Option { .. }
        | ksolve::Error::MissingOption { .. }
        | ksolve::Error::UnsuitableFolds { .. }
        | ksolve::Error::TooFewRows { .. }
        | ksolve::Error::TooFewRowsFor { .. }
        | ksolve::Error::ColumnTooLarge { .. }
        | ksolve::Error::TooFewClasses { .. }
        | ksolve::Error::Shape { .. }
        | ksolve::Error::NotFiniteRow { .. } => PyValueError::new_err(text),
        _ => KmillError::new_err(text),
    }
}

fn store_error(error: &kstore::Error, text: String) -> PyErr {
    match error {
        kstore::Error::OverBudget { .. } | kstore::Error::LargeRow { .. } => PyMemoryError::new_err(text),
        kstore::Error::NotFound { .. } => PyFileNotFoundError::new_err(text),
        kstore::Error::Io { .. }
        | kstore::Error::Output { .. }
        | kstore::Error::NotAFile { .. }
        | kstore::Error::OverScratch { .. }
        | kstore::Error::ScratchFull { .. } => PyOSError::new_err(text),
        kstore::Error::Interrupted | kstore::Error::FileChanged { .. } | kstore::Error::Damaged { .. } => {
            KmillError::new_err(text)
        }
        _ => PyValueError::new_err(text),
    }
}
