//! The interface between a pass and the processes that share its rows. [`pass`](crate::pass)
//! defines segments, stretches and lots.
//!
//! Every process runs the same job, with the same options on the same rows, as in an allreduce. The
//! computation between passes is pure, and every process repeats it with the same bits. In a pass
//! that has a name ([`Pass::resume`](crate::Pass::resume)) a process claims lots (work units,
//! ranges of segments) from the [`Engine`] until none are left, reduces them, and passes their
//! states to the engine. Then it reads the states of all segments in order and merges them along
//! the fixed [tree](crate::pass::STRETCH_SEGMENTS). Only states are exchanged, never reductions,
//! and every process gets the total that a single process would compute, bit for bit. Processes may
//! join and leave: another process claims the lots of a process that has left.
//!
//! A **node** is a range of segments with a common state. If a lot contains the beginning of a
//! stretch (a reduction block), the part of the stretch that is in the lot is one node. If a lot
//! contains a part of a stretch without its beginning, each segment of this part is a node.
//! [`nodes`](crate::pass) cuts a lot into nodes. A process that reads a node need not know how
//! other processes have cut their lots.
//!
//! *Memory*: while it merges, a process needs one state in addition to its sums. The states of its
//! lanes are free by then, so the memory plan of a pass is the same with and without an engine.

use super::{Cut, Manifest, Persist};
use crate::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// An observer of the progress of a pass, which may also stop the pass.
pub trait Observer: Sync {
    /// Reports that `rows` more rows were reduced.
    fn advance(&self, rows: u64);
    /// Reports that `rows` rows were reduced by an earlier run.
    fn report_restored(&self, rows: u64) {
        self.advance(rows);
    }
    /// Returns true if the run should end with [`crate::Error::Interrupted`].
    fn should_stop(&self) -> bool {
        false
    }
    /// Reports the progress of a selection of rows that takes several passes: `count` rows chosen
    /// so far, after `passes` passes over the rows and `evaluations` evaluations of the criterion.
    fn report_selection(&self, _count: usize, _passes: u64, _evaluations: u64) {}
}

/// An observer that ignores all reports and never stops a pass.
#[derive(Clone, Copy, Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn advance(&self, _rows: u64) {}
}

/// Identifies rows that are not in a state yet, because other rows of their segment are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsKey {
    /// Range of stored rows from which the rows were selected.
    #[serde(rename = "stored")]
    pub stored_range: Range<u64>,
    /// Number of selected rows.
    #[serde(rename = "rows")]
    pub row_count: u64,
}

impl RowsKey {
    pub(super) fn array_name(&self) -> String {
        format!("rows.{}", self.stored_range.start)
    }
}

/// Location of the rows of a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotRows {
    /// All rows are in the source.
    Whole,
    /// The source has only these rows of a single segment, and the process must store them.
    Partial(Range<u64>),
    /// All rows of a single segment were stored, in these tiles with their positions.
    Stored(Vec<(usize, RowsKey)>),
}

/// A store for the rows of segments that a process has only in part.
pub trait PartialRows: Sync {
    /// Returns the location of the rows of a lot.
    fn lot_rows(&self, lot: &Range<u64>) -> LotRows;
    /// Stores a tile of rows.
    ///
    /// # Errors
    /// Errors of the medium that carries the rows.
    fn store(&self, key: RowsKey, tile: &[u8]) -> Result<()>;
    /// Returns the tile at a position that [`LotRows::Stored`] contains.
    ///
    /// # Errors
    /// Errors of the medium that carries the rows.
    fn load(&self, position: usize) -> Result<Vec<u8>>;
    /// Receives the state of the rows of `stored_range`, which were stored. It is not a part of the
    /// total: the process with all rows of the segment reduces these rows again.
    fn inspect(&self, _stored_range: &Range<u64>, _state: &dyn Persist) {}
}

/// Identifies a pass within a run; equal in all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassKey {
    /// Number among the shared passes of the run, from 1.
    pub number: u64,
    /// Name of the pass.
    pub name: String,
    /// Cut of the rows into tiles and segments.
    pub cut: Cut,
}

/// Segments with one common state: the beginning of a stretch, a whole stretch, or a single
/// segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Numbers of the segments among all stored rows.
    pub segments: Range<u64>,
    /// Number of reduced rows; a node without rows has no state.
    #[serde(rename = "rows")]
    pub row_count: u64,
}

/// How the rows of a pass are divided among processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReductionMode {
    /// This process reduces all rows, and only passes the total to the engine.
    Whole,
    /// Each process reduces the lots that it claims.
    Lots,
}

/// The result of [`Engine::wait_for_node`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    /// A node whose state was read. If the node contains all segments, its state is the total of
    /// the pass, and the node may begin before the requested segment.
    Received(Node),
    /// The process that claimed these segments has left: this process must reduce them now.
    Lost(Range<u64>),
    /// The [`PartialRows`] of this process have the rows of these segments, which begin with the
    /// requested segment. The process reduces the rows, and does not pass the states to the engine.
    Local(Range<u64>),
}

/// Divides the passes of a run among processes and collects their states.
///
/// Contract: every segment is claimed by some process, and [`Engine::wait_for_node`] returns the
/// states of all processes to every process.
pub trait Engine: Sync {
    /// Joins the job that the manifest describes. Called once, before the first pass.
    ///
    /// # Errors
    /// If the other processes run another job.
    fn join(&self, _job: &Manifest) -> Result<()> {
        Ok(())
    }
    /// Begins the next pass; returns its key, and how its rows are divided.
    ///
    /// # Errors
    /// If the run has no such pass.
    fn begin_pass(&self, name: &str, cut: Cut) -> Result<(PassKey, ReductionMode)>;
    /// Claims segments that no process has claimed; returns `None` if no segment is left. The call
    /// may wait, so that a process can claim again the segments that it reduced in an earlier pass.
    ///
    /// # Errors
    /// Errors of the medium that carries the states; [`crate::Error::Interrupted`] if the observer
    /// requests a stop.
    fn claim_lot(&self, pass: &PassKey, observer: &dyn Observer) -> Result<Option<Range<u64>>>;
    /// Receives the state of a segment that this process has claimed, before it is merged into its
    /// node.
    fn inspect_segment(&self, _segment: u64, _state: &dyn Persist) {}
    /// Stores a node that this process has claimed; `state` is `None` if no row was reduced.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn store_node(&self, pass: &PassKey, node: &Node, state: Option<&dyn Persist>) -> Result<()>;
    /// Waits for the node that begins at `segment`, and reads its state into `state`, which must be
    /// an initial state.
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] if the observer requests a stop; errors of the medium.
    fn wait_for_node(
        &self,
        pass: &PassKey,
        segment: u64,
        state: &mut dyn Persist,
        observer: &dyn Observer,
    ) -> Result<NodeOutcome>;
    /// Receives the total of a pass from every process that has it.
    ///
    /// # Errors
    /// Errors of the medium that carries the states.
    fn store_total(&self, _pass: &PassKey, _rows: u64, _state: &dyn Persist) -> Result<()> {
        Ok(())
    }
    /// Returns the store for rows of incomplete segments, if the engine has such a store.
    fn partial_rows(&self) -> Option<&dyn PartialRows> {
        None
    }
    /// Leaves the job. The flag is true if the states of the job are not needed any more, because
    /// the job has succeeded or would fail again in any process.
    fn leave(&self, _is_final: bool) {}
}
