//! The checkpoint of a job: the folder with its saved state, and the manifest (version, instruction
//! set, options, files) that identifies the job.

use super::{Checkpoint, Run, fit::Fit};
use crate::request::{MetricSource, TrainOptions};
use crate::train::target_names;
use crate::{Error, Result};
use kstore::checkpoint::{Journal, Manifest, ResumeMode};
use kstore::{Digest, SelectedTable};
use serde_json::Value;

impl Fit {
    /// Opens the journal of this fit in the checkpoint folder. The journal stores the results of
    /// the passes.
    ///
    /// # Errors
    /// A checkpoint of a different run, if this run resumes; a file with the name of the
    /// folder.
    #[doc(hidden)]
    pub fn open_checkpoint<'a>(
        &self,
        checkpoint: &Checkpoint<'a>,
        selected: &SelectedTable,
        train_options: &TrainOptions,
    ) -> Result<Journal<'a>> {
        let manifest = manifest(self, selected, train_options, &checkpoint.identifying_values)?;
        Ok(Journal::open(
            &checkpoint.folder,
            &manifest,
            checkpoint.save_interval,
            checkpoint.resume_mode,
            checkpoint.listener,
        )?)
    }
}

/// Returns the journal of a run's passes. The processes of a shared run have a common journal; for
/// any other run, the journal comes from its checkpoint, and is `None` if the run has no
/// checkpoint.
///
/// # Errors
/// Errors of opening the checkpoint or of joining the processes; a request to resume a shared run
/// from a checkpoint.
pub(super) fn open_journal<'a>(
    run: &Run<'a>,
    fit: &Fit,
    selected: &SelectedTable,
    train_options: &TrainOptions,
) -> Result<Option<Journal<'a>>> {
    let Some(engine) = run.engine else {
        return run
            .checkpoint
            .as_ref()
            .map(|checkpoint| fit.open_checkpoint(checkpoint, selected, train_options))
            .transpose();
    };
    if run.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.resume_mode == ResumeMode::Required) {
        let why = "processes that share a run always resume from the states in their folder; leave it out";
        return Err(Error::option("resume", "", why));
    }
    engine.join(&manifest(fit, selected, train_options, &[])?)?;
    Ok(Some(Journal::with_engine(engine)))
}

/// Returns the manifest of a fit: version, instruction set, options, columns and files.
pub(super) fn manifest(
    fit: &Fit,
    selected: &SelectedTable,
    train_options: &TrainOptions,
    identifying_values: &[(String, String)],
) -> Result<Manifest> {
    let format_value = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut options: Vec<(String, String)> = identifying_values.to_vec();
    if let Value::Object(map) = fit.canonical_options(train_options)? {
        options.extend(map.into_iter().map(|(name, value)| (name, format_value(value))));
    }
    options.push(("features".to_string(), format_value(selected.feature_names().into())));
    if let Some(encoding) = selected.encoding() {
        // the names alone do not distinguish the integer 7 from the text "7"
        let values = serde_json::to_vec(encoding)
            .map_err(|error| Error::Damaged { path: "the encoding".into(), detail: error.to_string() })?;
        options.push(("values of the columns".to_string(), Digest::hex_of(&values)));
    }
    options.push(("target".to_string(), format_value(target_names(selected).into())));
    if let MetricSource::Provided(provided) = &train_options.metric {
        options.push(("numbers of the metric".to_string(), provided.digest()));
    }
    let mut files = selected.table().identities();
    files.extend(train_options.landmarks.table().into_iter().flat_map(|table| table.table().identities()));
    Ok(Manifest {
        version: env!("CARGO_PKG_VERSION").to_string(),
        instruction_set: kapprox::instruction_set(),
        options: options.into_iter().collect(),
        files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ProvidedMetric;
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
            let fit =
                Fit::ridge().set("lambda", 1e-3).metric(MetricSource::Provided(ProvidedMetric { metric, scaler }));
            manifest(&fit, &selected, &fit.train_options(&selected).unwrap(), &[]).unwrap().job_digest()
        };
        assert_eq!(mark(&[1.0, 2.0], None), mark(&[1.0, 2.0], None));
        assert_ne!(mark(&[1.0, 2.0], None), mark(&[1.0, 2.5], None));
        assert_ne!(mark(&[1.0, 2.0], None), mark(&[1.0, 2.0], Some(scaled(vec![1.0, 3.0]))));
    }
}
