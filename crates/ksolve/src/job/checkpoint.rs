//! The checkpoint of a job: its folder, and the manifest that tells which job it belongs to.

use super::fit::Fit;
use crate::request::{MetricSource, TrainOptions};
use crate::train::target_names;
use crate::{Error, Result};
use kstore::checkpoint::{Journal, Listener, Manifest, Resume};
use kstore::{Digest, Selected};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a checkpoint, which keeps the results of the passes of a run on disk while it runs.
#[derive(Clone)]
pub struct Checkpoint<'a> {
    /// The folder of the checkpoint.
    pub folder: PathBuf,
    /// Time between two saves of a pass.
    pub every: Duration,
    /// Whether the run continues from the checkpoint of an earlier run; without one it starts afresh.
    pub resume: Resume,
    /// The listener that is told about the checkpoint.
    pub listener: &'a dyn Listener,
    /// Further names and values that tell this run from others, beside the options in the model file and the files.
    pub notes: Vec<(String, String)>,
}

impl std::fmt::Debug for Checkpoint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("folder", &self.folder).field("resume", &self.resume).finish_non_exhaustive()
    }
}

impl<'a> Checkpoint<'a> {
    /// Opens the journal of a fit.
    ///
    /// # Errors
    /// A checkpoint of another run where this one is to go on, and anything else that has its name.
    pub fn open(&self, fit: &Fit, selected: &Selected, training: &TrainOptions) -> Result<Journal<'a>> {
        let manifest = manifest(fit, selected, training, &self.notes)?;
        Ok(Journal::open(&self.folder, &manifest, self.every, self.resume, self.listener)?)
    }
}

/// The manifest of a fit: the version, the instruction set, the options, the columns and the files.
pub(super) fn manifest(
    fit: &Fit,
    selected: &Selected,
    training: &TrainOptions,
    notes: &[(String, String)],
) -> Result<Manifest> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut options: Vec<(String, String)> = notes.to_vec();
    if let Value::Object(map) = fit.canonical(training)? {
        options.extend(map.into_iter().map(|(name, value)| (name, text(value))));
    }
    options.push(("features".to_string(), text(selected.feature_names().into())));
    if let Some(encoding) = selected.encoding() {
        // names do not tell 7 from the text 7
        let values = serde_json::to_vec(encoding)
            .map_err(|error| Error::Damaged { path: "the encoding".into(), detail: error.to_string() })?;
        options.push(("values of the columns".to_string(), Digest::of(&values)));
    }
    options.push(("target".to_string(), text(target_names(selected).into())));
    if let MetricSource::Given(given) = &training.metric {
        options.push(("numbers of the metric".to_string(), given.digest()));
    }
    let mut files = selected.table().identities();
    files.extend(training.landmarks.table().into_iter().flat_map(|table| table.table().identities()));
    Ok(Manifest {
        version: env!("CARGO_PKG_VERSION").to_string(),
        instruction_set: kapprox::instruction_set(),
        options: options.into_iter().collect(),
        files,
    })
}

impl Checkpoint<'_> {
    /// The error to report for a run that failed: an interruption with a saved checkpoint becomes [`Error::Stopped`], and of other
    /// errors the listener is told that work was saved.
    pub fn kept(&self, journal: &Journal<'_>, error: Error) -> Error {
        match (journal.holds_work(), error.is_interrupted()) {
            (true, true) => Error::Stopped { checkpoint: journal.folder().to_path_buf() },
            (true, false) => {
                let folder = journal.folder().display();
                self.listener.note(format!("what was done is kept in {folder}; the same command continues from there"));
                error
            }
            (false, _) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::KnownMetric;
    use kapprox::metric::Metric;
    use kstore::{Scaler, Selection, Table};
    use std::sync::Arc;

    #[test]
    fn a_job_with_another_metric_is_another_job() {
        let table = Table::from_rows(&[0.0, 1.0, 2.0, 3.0, 4.0, 7.0], 2, &[1.0, 2.0, 4.0]).unwrap();
        let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
        let selected = table.select(&selection).unwrap();
        let scaled = |scale: Vec<f64>| Scaler { centre: vec![0.0; 2], scale, mean: vec![0.0; 2], ..Scaler::default() };
        let mark = |factors: &[f64], scaler: Option<Scaler>| {
            let metric = Arc::new(Metric::diagonal(factors.to_vec()).unwrap());
            let fit = Fit::ridge().set("lambda", 1e-3).metric(MetricSource::Given(KnownMetric { metric, scaler }));
            manifest(&fit, &selected, &fit.training(&selected).unwrap(), &[]).unwrap().mark()
        };
        assert_eq!(mark(&[1.0, 2.0], None), mark(&[1.0, 2.0], None));
        assert_ne!(mark(&[1.0, 2.0], None), mark(&[1.0, 2.5], None));
        assert_ne!(mark(&[1.0, 2.0], None), mark(&[1.0, 2.0], Some(scaled(vec![1.0, 3.0]))));
    }
}
