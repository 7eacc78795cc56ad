//! The medium through which the processes of a run exchange sums: a folder, or a Python object with
//! the methods of a medium.

use crate::error::to_py_err;
use kstore::pass::{Medium, MediumFile, SharedEngine};
use kstore::{Error, Result};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};
use std::io::{self, Write};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// A Python object with the methods `create`, `replace`, `read`, `has`, `remove`, `names`, `put`
/// and `get`, which exchange texts and files as bytes.
struct PythonMedium(Py<PyAny>);

impl PythonMedium {
    /// Calls a method with a name and optional bytes.
    fn call<R: for<'a, 'py> FromPyObject<'a, 'py>>(
        &self,
        method: &'static str,
        name: &str,
        bytes: Option<&[u8]>,
    ) -> Result<R> {
        let answer = Python::attach(|py| -> PyResult<R> {
            let object = self.0.bind(py);
            let returned_object = match bytes {
                Some(bytes) => object.call_method1(method, (name, PyBytes::new(py, bytes)))?,
                None => object.call_method1(method, (name,))?,
            };
            returned_object.extract::<R>().map_err(Into::into)
        });
        // the message of the exception, without its class name
        let message = |error: &PyErr| Python::attach(|py| error.value(py).to_string());
        answer.map_err(|error| Error::Engine {
            folder: self.location(),
            why: format!("{method} {name}: {}", message(&error)),
        })
    }
}

impl Medium for PythonMedium {
    fn location(&self) -> PathBuf {
        Python::attach(|py| self.0.bind(py).str().map_or("states".into(), |text| text.to_string().into()))
    }

    fn create(&self, name: &str, text: &[u8]) -> Result<bool> {
        self.call("create", name, Some(text))
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<()> {
        self.call::<Option<bool>>("replace", name, Some(text)).map(drop)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.call::<Option<PyBackedBytes>>("read", name, None)?.map(|bytes| bytes.to_vec()))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        self.call("has", name, None)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.call::<Option<bool>>("remove", name, None).map(drop)
    }

    fn names(&self) -> Result<Vec<String>> {
        self.call("names", "", None)
    }

    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut bytes = Vec::new();
        write(&mut bytes).map_err(Error::io("write", name))?;
        self.call::<Option<bool>>("put", name, Some(&bytes)).map(drop)
    }

    fn get(&self, name: &str) -> Result<Option<MediumFile>> {
        self.call::<Option<PyBackedBytes>>("get", name, None)?.map(|bytes| MediumFile::from_bytes(&bytes)).transpose()
    }
}

/// Returns the engine that shares passes through a folder, if `states` is a path, or through an
/// object. A process without activity for `patience` seconds counts as lost.
pub(crate) fn engine(states: &Bound<'_, PyAny>, patience: f64) -> PyResult<SharedEngine> {
    let engine = match states.extract::<PathBuf>() {
        Ok(folder) => SharedEngine::in_folder(folder).map_err(to_py_err)?,
        Err(_) => SharedEngine::new(Arc::new(PythonMedium(states.clone().unbind()))),
    };
    Ok(engine.with_heartbeat_timeout(Duration::try_from_secs_f64(patience).unwrap_or(Duration::MAX)))
}
