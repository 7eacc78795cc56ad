//! The entry of one pass in a journal: its state, saved from time to time.

use super::{Arrays, Journal, MIN_LOSS_DIVISOR, Persist, SAVE_COST_FACTOR, StoredArrays, file::EntryHeader};
use crate::Result;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Entry<'j> {
    pub(super) journal: &'j Journal<'j>,
    pub(super) path: PathBuf,
    pub(super) header: EntryHeader,
    /// Start of the unsaved work.
    pub(super) unsaved_since: Instant,
    pub(super) has_unsaved_work: bool,
}

impl Entry<'_> {
    pub(crate) fn is_complete(&self) -> bool {
        self.header.is_complete
    }

    pub(crate) fn merged_segments(&self) -> u64 {
        self.header.merged_segments
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.header.row_count
    }

    /// Records one more merged segment. `merged_segments` is the number of merged segments so far,
    /// and `segment_rows` the number of rows of this segment. Saves the state if a save is due.
    pub(crate) fn record_segment(&mut self, merged_segments: u64, segment_rows: u64, state: &impl Persist) {
        self.header.merged_segments = merged_segments;
        self.header.row_count += segment_rows;
        self.has_unsaved_work = true;
        self.save_if_due(self.journal.save_interval, true, state);
    }

    /// Marks the pass as complete, and saves the state if the save is worth its cost.
    pub(crate) fn complete(&mut self, state: &impl Persist) {
        self.header.is_complete = true;
        self.has_unsaved_work = true;
        self.save_if_due(self.journal.save_interval / MIN_LOSS_DIVISOR, true, state);
    }

    /// Saves the state when the run stops before the end of the pass, if enough work would be lost.
    pub(crate) fn save_before_stop(&mut self, state: &impl Persist) {
        self.save_if_due(self.journal.save_interval / MIN_LOSS_DIVISOR, false, state);
    }

    /// Saves the state if at least `min_elapsed` of work is unsaved. If `only_if_cheap` is true,
    /// saving must also take only a small fraction of the time of that work.
    fn save_if_due(&mut self, min_elapsed: Duration, only_if_cheap: bool, state: &impl Persist) {
        let elapsed = self.unsaved_since.elapsed();
        if !self.has_unsaved_work || elapsed < min_elapsed {
            return;
        }
        let mut arrays = Arrays::default();
        state.save(&mut arrays);
        let always_saves = self.journal.save_interval.is_zero();
        if only_if_cheap && !always_saves && elapsed < self.journal.save_cost(arrays.bytes()) * SAVE_COST_FACTOR {
            return;
        }
        match self.journal.write_entry(&self.path, &self.header, &mut arrays) {
            Ok(()) => self.has_unsaved_work = false,
            // not an error of the run; the next save may succeed
            Err(error) => self.journal.listener.warn(format!("the checkpoint was not saved: {error}")),
        }
        self.unsaved_since = Instant::now();
    }
}

/// Reads the arrays of an entry into `state`, and its progress into `header`.
pub(super) fn restore<S: Persist>(path: &Path, header: &mut EntryHeader, state: &mut S) -> Result<()> {
    let (mut stored, stored_header) = open_entry(path, header)?;
    state.load(&mut stored)?;
    *header = stored_header;
    Ok(())
}

/// Returns an error if an entry cannot be read, or belongs to another pass than `header`.
pub(super) fn verify(path: &Path, header: &EntryHeader) -> Result<()> {
    open_entry(path, header)?.0.verify()
}

/// Opens an entry of the pass of `header`, and returns its arrays and its own header.
fn open_entry(path: &Path, header: &EntryHeader) -> Result<(StoredArrays<'static>, EntryHeader)> {
    let stored = StoredArrays::open(path)?;
    let stored_header: EntryHeader = stored.description()?;
    let expected = EntryHeader {
        merged_segments: stored_header.merged_segments,
        row_count: stored_header.row_count,
        is_complete: stored_header.is_complete,
        ..header.clone()
    };
    if stored_header != expected {
        return Err(stored.damaged_error(format!("it belongs to the pass \"{}\" of another run", stored_header.pass)));
    }
    Ok((stored, expected))
}
