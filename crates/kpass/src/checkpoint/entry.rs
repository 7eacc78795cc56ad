//! The entry of one pass in a journal: its state, saved from time to time.

use super::{Arrays, COST_SHARE, Journal, Persist, Stored, WORTH, file::Head};
use crate::Result;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Entry<'j> {
    pub(super) journal: &'j Journal<'j>,
    pub(super) path: PathBuf,
    pub(super) head: Head,
    /// Start of the unsaved work.
    pub(super) since: Instant,
    pub(super) unsaved: bool,
}

impl Entry<'_> {
    pub(crate) fn is_complete(&self) -> bool {
        self.head.complete
    }

    pub(crate) fn done(&self) -> u64 {
        self.head.done
    }

    pub(crate) fn rows(&self) -> u64 {
        self.head.rows
    }

    /// Records one more merged segment: `done` is their number so far, and `rows` the number of
    /// rows of this one. Saves the state if a save is due.
    pub(crate) fn merged(&mut self, done: u64, rows: u64, state: &impl Persist) {
        self.head.done = done;
        self.head.rows += rows;
        self.unsaved = true;
        self.save_after(self.journal.every, true, state);
    }

    /// Marks the pass as complete, and saves the state if the save is worth its cost.
    pub(crate) fn complete(&mut self, state: &impl Persist) {
        self.head.complete = true;
        self.unsaved = true;
        self.save_after(self.journal.every / WORTH, true, state);
    }

    /// Saves the state when the run stops before the end of the pass, if enough work would be lost.
    pub(crate) fn keep(&mut self, state: &impl Persist) {
        self.save_after(self.journal.every / WORTH, false, state);
    }

    /// Saves the state if it contains unsaved work of at least the given time and, if the flag is
    /// set, if saving takes only a small fraction of that time.
    fn save_after(&mut self, least: Duration, cheaply: bool, state: &impl Persist) {
        let elapsed = self.since.elapsed();
        if !self.unsaved || elapsed < least {
            return;
        }
        let mut arrays = Arrays::default();
        state.save(&mut arrays);
        let forced = self.journal.every.is_zero();
        if cheaply && !forced && elapsed < self.journal.cost(arrays.bytes()) * COST_SHARE {
            return;
        }
        match self.journal.write(&self.path, &self.head, &mut arrays) {
            Ok(()) => self.unsaved = false,
            // not an error of the run; the next save may succeed
            Err(error) => self.journal.listener.warn(format!("the checkpoint was not saved: {error}")),
        }
        self.since = Instant::now();
    }
}

/// Reads the arrays of an entry into `state`, and its progress into `head`.
pub(super) fn restore<S: Persist>(path: &Path, head: &mut Head, state: &mut S) -> Result<()> {
    let (mut stored, found) = open(path, head)?;
    state.load(&mut stored)?;
    *head = found;
    Ok(())
}

/// Returns an error if an entry cannot be read, or belongs to another pass than `head`.
pub(super) fn verify(path: &Path, head: &Head) -> Result<()> {
    open(path, head)?.0.verify()
}

/// Opens an entry of the pass of `head`, and returns its arrays and its own head.
fn open(path: &Path, head: &Head) -> Result<(Stored<'static>, Head)> {
    let stored = Stored::open(path)?;
    let found: Head = stored.head()?;
    let expected = Head { done: found.done, rows: found.rows, complete: found.complete, ..head.clone() };
    if found != expected {
        return Err(stored.damaged(format!("it belongs to the pass \"{}\" of another run", found.pass)));
    }
    Ok((stored, expected))
}
