//! Resources of jobs, and JSON from the Python side.

use crate::error::to_py_err;
use ksolve::job::Run;
use kstore::scratch::ScratchFolder;
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::path::PathBuf;

/// The resources of a job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ResourceRequest {
    /// Bytes, as a number or as text such as `2GiB`.
    memory: Option<String>,
    threads: Option<usize>,
    scratch: Option<PathBuf>,
}

impl ResourceRequest {
    /// Opens the scratch folder, if the job has a scratch folder. Only the disk limits the size of
    /// the folder.
    pub(crate) fn scratch(&self) -> PyResult<Option<ScratchFolder>> {
        self.scratch.as_deref().map(|folder| ScratchFolder::open(folder, u64::MAX)).transpose().map_err(to_py_err)
    }

    /// Returns the requested number of threads, by default one per core.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }

    /// Returns a run with these resources.
    pub(crate) fn run<'a>(&self, scratch: Option<&'a ScratchFolder>) -> PyResult<Run<'a>> {
        let memory = self.memory.as_deref().map(kstore::budget::parse_bytes).transpose().map_err(to_py_err)?;
        let mut run = Run::new();
        if let Some(memory) = memory {
            run = run.memory(memory);
        }
        if let Some(threads) = self.threads {
            if threads == 0 {
                return Err(PyValueError::new_err("`threads` 0: expected an integer of at least 1"));
            }
            run = run.threads(threads);
        }
        if let Some(scratch) = scratch {
            run = run.scratch(scratch);
        }
        Ok(run)
    }
}

/// Parses JSON from the Python side.
pub(crate) fn parse_json<V: DeserializeOwned>(text: &str) -> PyResult<V> {
    from_json(serde_json::from_str(text).map_err(|error| {
        let why = kstore::display::json_error(&error);
        PyValueError::new_err(format!(
            "the JSON of the job is invalid: {why}; check the arguments for NaN and infinity"
        ))
    })?)
}

/// Converts a JSON value; an error has the message of the engine.
pub(crate) fn from_json<V: DeserializeOwned>(value: Value) -> PyResult<V> {
    serde_json::from_value(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
