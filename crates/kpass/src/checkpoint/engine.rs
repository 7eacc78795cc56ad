//! The seam between a pass and the processes that share its rows.
//!
//! Every process runs the same job, with the same options on the same rows, as in an allreduce. What lies between passes
//! is pure and is computed by each of them, with the same bits. In a pass that has a name
//! ([`Pass::resume`](crate::Pass::resume)) a process claims lots of segments from the [`Engine`] for as long as there are
//! any, folds them, and gives their states. Then it takes the states of all segments in their order, and merges them along
//! the fixed [tree](crate::pass::STRETCH). So no fold is ever sent, only states are, and every process has the total that one
//! process would have, bit for bit. Processes may come and go: a lot of a process that has gone is claimed by another.
//!
//! A **node** of the tree is the part of a stretch from its beginning on that lies in a lot, or a single segment of a stretch that the
//! lot does not begin: [`nodes`](crate::pass) cuts a lot into them. Whoever takes a node need not know how others were cut.
//!
//! *Memory*: a process holds one state more than its sums while it merges, in the place of those of its lanes, which have
//! ended: the plan of a pass holds with an engine and without.

use super::{Cut, Manifest, Persist};
use crate::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Watches a pass, and may stop it.
pub trait Observer: Sync {
    /// `rows` more rows were folded.
    fn advance(&self, rows: u64);
    /// An earlier run has folded `rows` of the rows.
    fn restored(&self, rows: u64) {
        self.advance(rows);
    }
    /// True when the run should end with [`crate::Error::Interrupted`].
    fn stop(&self) -> bool {
        false
    }
    /// Reports the progress of a selection of rows that takes several passes: `count` rows chosen so far, after so many
    /// `passes` over the rows and `evaluations` of the criterion.
    fn reached(&self, _count: usize, _passes: u64, _evaluations: u64) {}
}

/// An observer that ignores all reports and never stops a pass.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn advance(&self, _rows: u64) {}
}

/// Rows that are in no state yet: those of a segment of which others are still to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsKey {
    /// The stored rows that they are of.
    pub stored: Range<u64>,
    /// How many of these were selected.
    pub rows: u64,
}

impl RowsKey {
    pub(super) fn name(&self) -> String {
        format!("rows.{}", self.stored.start)
    }
}

/// Where the rows of a lot are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotRows {
    /// All of them in the source.
    Whole,
    /// These of a single segment in the source: they are to be kept.
    Begun(Range<u64>),
    /// All of a single segment among those that were kept, in these tiles, with their places.
    Kept(Vec<(usize, RowsKey)>),
}

/// Keeps the rows of segments of which a process holds a part.
pub trait BegunRows: Sync {
    /// Where the rows of a lot are.
    fn of(&self, lot: &Range<u64>) -> LotRows;
    /// Takes over a tile of rows.
    ///
    /// # Errors
    /// Errors of the medium that carries the rows.
    fn keep(&self, key: RowsKey, tile: &[u8]) -> Result<()>;
    /// The tile at a place.
    ///
    /// # Errors
    /// Errors of the medium that carries the rows.
    fn load(&self, place: usize) -> Result<Vec<u8>>;
}

/// What tells a pass from every other of a run; equal in all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassKey {
    /// Number among the shared passes of the run, from 1.
    pub number: u64,
    /// What it finds.
    pub name: String,
    /// How it is cut.
    pub cut: Cut,
}

/// Segments whose states are one: a stretch, from its beginning on, or a segment of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Numbers of the segments among all of the stored rows.
    pub segments: Range<u64>,
    /// Rows that were folded; a node without rows has no state.
    pub rows: u64,
}

/// How a pass is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Everything by this process, without an exchange; the engine hears of the total.
    Whole,
    /// Lot by lot, as they are claimed.
    Lots,
}

/// What [`Engine::take`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The state of a node. One of all segments is the total, also where it begins before the segment that was asked for.
    State(Node),
    /// Whoever claimed these segments has gone: they are this process's to fold now.
    Lost(Range<u64>),
    /// The rows of these segments, which begin with the one that was asked for, are at hand ([`BegunRows`]): they are to be folded here and
    /// given to nobody.
    Here(Range<u64>),
}

/// Divides the passes of a run among processes and brings their states together.
///
/// The law: every segment is claimed by some process, and [`Engine::take`] gives each process the states that they gave.
pub trait Engine: Sync {
    /// Begins the job that the manifest describes. Called once, before the first pass.
    ///
    /// # Errors
    /// Where the other processes do another job.
    fn join(&self, _job: &Manifest) -> Result<()> {
        Ok(())
    }
    /// Begins the next pass: its key, and how it is folded.
    ///
    /// # Errors
    /// Where there is no such pass in the run.
    fn begin(&self, name: &str, cut: Cut) -> Result<(PassKey, Share)>;
    /// Claims segments that nobody has claimed; `None` where there are none. It may wait for a process that had them before.
    ///
    /// # Errors
    /// Errors of the medium that carries the states; [`crate::Error::Interrupted`] where the observer wants a stop.
    fn claim(&self, pass: &PassKey, observer: &dyn Observer) -> Result<Option<Range<u64>>>;
    /// Takes over a node of what this process has claimed; without a state where no row was folded.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn give(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()>;
    /// Waits for the node that begins at `segment`, and reads its state into `state`, which is that of no rows.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] where the observer wants a stop; those of the medium.
    fn take(&self, pass: &PassKey, segment: u64, state: &mut dyn Persist, observer: &dyn Observer) -> Result<Taken>;
    /// Hears the total of a pass, from every process that has it.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn total(&self, _pass: &PassKey, _rows: u64, _state: &dyn Persist) -> Result<()> {
        Ok(())
    }
    /// The rows of segments of which a process holds a part, where such are kept.
    fn begun(&self) -> Option<&dyn BegunRows> {
        None
    }
    /// Ends the job; `over` where nothing that was found is needed any more: it has succeeded, or fails again in whatever process.
    fn leave(&self, _over: bool) {}
}
