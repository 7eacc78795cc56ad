//! The checkpoint of a run: its folder, and how often it is saved.

use crate::Error;
use kstore::checkpoint::{Journal, Listener, ResumeMode};
use std::path::PathBuf;
use std::time::Duration;

/// Options of a checkpoint, which saves the results of passes to disk during a run.
#[derive(Clone)]
pub struct Checkpoint<'a> {
    /// Folder of the checkpoint.
    pub folder: PathBuf,
    /// Time between two saves of a pass.
    pub save_interval: Duration,
    /// Whether the run resumes from the checkpoint of an earlier run; without one it starts from
    /// the beginning.
    pub resume_mode: ResumeMode,
    /// Listener for messages about the checkpoint.
    pub listener: &'a dyn Listener,
    /// Further names and values that identify the run, in addition to its files and the options in
    /// the model file.
    pub identifying_values: Vec<(String, String)>,
}

impl std::fmt::Debug for Checkpoint<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("folder", &self.folder)
            .field("resume", &self.resume_mode)
            .finish_non_exhaustive()
    }
}

impl Checkpoint<'_> {
    /// Returns the error to report for a failed run: an interruption with a saved checkpoint
    /// becomes [`Error::Stopped`]. For other errors with saved work, notifies the listener.
    #[doc(hidden)]
    pub fn interruption_error(&self, journal: &Journal<'_>, error: Error) -> Error {
        match (journal.has_saved_state(), error.is_interrupted()) {
            (true, true) => Error::Stopped { checkpoint: journal.folder().to_path_buf() },
            (true, false) => {
                let folder = journal.folder().display();
                self.listener
                    .note(format!("the completed work is saved in {folder}; run the same command again to continue"));
                error
            }
            (false, _) => error,
        }
    }
}
