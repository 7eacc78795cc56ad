//! The checkpoint of a fit: where it lies, what it belongs to, and what is said about it.

use crate::args::DiskArgs;
use crate::fit::FitOptions;
use crate::pipeline::{instruction_set, target_names};
use crate::progress::Progress;
use crate::{Error, Result};
use kstore::Selected;
use kstore::checkpoint::{Journal, Listener, Manifest};
use serde_json::Value;
use std::path::{Path, PathBuf};

impl Listener for Progress {
    fn note(&self, text: String) {
        Self::note(self, &format!("note: {text}"));
    }
    fn warn(&self, text: String) {
        Self::warn(self, text);
    }
}

/// `model.safetensors.checkpoint`, beside the model.
fn folder(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".checkpoint");
    name.into()
}

/// The journal of a fit.
///
/// # Errors
/// A checkpoint of another run under `--resume`, and anything else that has its name.
pub(crate) fn open<'a>(
    options: &FitOptions,
    selected: &Selected,
    landmarks: Option<&Selected>,
    output: &Path,
    args: &DiskArgs,
    progress: &'a Progress,
) -> Result<Journal<'a>> {
    let manifest = manifest(options, selected, landmarks);
    Ok(Journal::open(folder(output), &manifest, args.checkpoint_every, args.resume, progress)?)
}

/// What defines the passes: the options of the model file, and the columns, which that holds elsewhere.
fn manifest(options: &FitOptions, selected: &Selected, landmarks: Option<&Selected>) -> Manifest {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut named: Vec<(String, Value)> = match options.canonical() {
        Value::Object(map) => map.into_iter().collect(),
        _ => Vec::new(),
    };
    named.push(("features".to_string(), selected.feature_names().into()));
    named.push(("target".to_string(), target_names(selected).into()));
    named.push(("reading of text files".to_string(), format!("{:?}", options.text).into()));
    let mut files = selected.table().identities();
    if let Some(landmarks) = landmarks {
        files.extend(landmarks.table().identities());
    }
    Manifest {
        version: env!("CARGO_PKG_VERSION").to_string(),
        instruction_set: instruction_set(),
        options: named.into_iter().map(|(name, value)| (name, text(value))).collect(),
        files,
    }
}

/// The error of a fit, once it is known whether anything is left to go on from.
pub(crate) fn kept(journal: &Journal<'_>, error: Error, progress: &Progress) -> Error {
    let checkpoint = journal.folder();
    match (journal.holds_work(), error.is_interruption()) {
        (true, true) => Error::Stopped { checkpoint: checkpoint.to_path_buf() },
        (true, false) => {
            let folder = checkpoint.display();
            progress.note(&format!("note: what was done is kept in {folder}; --resume goes on from there"));
            error
        }
        (false, _) => error,
    }
}
