//! The checkpoint of a run: its folder, and how often it is saved.

use crate::Error;
use kstore::checkpoint::{Journal, Listener, Resume};
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
