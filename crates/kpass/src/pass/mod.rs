//! The one loop over rows, which all crates of the workspace use.
//!
//! ```text
//!              segment 0        segment 1        segment 2   …        fixed ranges of stored rows
//! feeder  ──▶ [tile][tile][t] │ [tile][tile]… │                      decodes ahead of its lane
//! lane    ──▶ step step step flush ─▶ deliver                        one state for each segment
//!                                       └── in segment order ──▶ stretch of 32 ──▶ total
//! ```
//!
//! A [`Reduction`] computes a state, such as a sum, from rows. A **tile** is the set of rows that a
//! reduction receives at once. A **segment** is a range of stored rows for which one partial state
//! is computed. A **lane** is a worker thread with its own state. A **stretch** is a reduction
//! block of 32 segments. If several processes share a pass, a **lot** is a work unit of some
//! segments that one process claims. How rows are cut into tiles and segments depends only on the
//! sizes of the problem, not on the machine. Every segment starts from [`Reduction::init`], and
//! segment states are merged in segment order along a fixed [tree](STRETCH_SEGMENTS). The number of
//! lanes and of prefetched tiles therefore changes when a number is computed, but not its value:
//! the result has the same bits for every number of threads and every memory budget.

mod executor;
mod heartbeat;
pub mod lanes;
mod member;
mod partial_rows;
mod shared_engine;
pub mod shared_pass;
mod tree;
mod visit;
mod workers;

pub use crate::checkpoint::{
    Engine, Folder, LotRows, Medium, MediumFile, Merge, NoObserver, Node, NodeOutcome, Observer, PartialRows, PassKey,
    ReductionMode,
};
pub use shared_engine::SharedEngine;
pub use shared_pass::{Deliver, LotReduction, reduce_lots};
pub use tree::{STRETCH_SEGMENTS, state_count};
pub use workers::{BufferPool, CancelToken, Workers};

use crate::checkpoint::{Cut, Journal, Persist};
use crate::{Error, Float, RowBlock, RowSource};
use executor::{Delivery, run_pass};
use std::ops::Range;
use std::time::Duration;
use tree::Tree;

/// The computation that a pass does on its rows.
pub trait Reduction<T: Float>: Sync {
    /// The result for the rows of a segment, which is merged with the results of other segments.
    type State: Send;
    /// Buffers of a lane, reused over its segments; empty between [`Reduction::flush`] and the next
    /// `step`.
    type Scratch: Send;
    /// The error of a step.
    type Error: From<Error> + Send + 'static;

    /// Returns the state before any row.
    fn init(&self) -> Self::State;
    /// Returns the buffers for one lane.
    fn scratch(&self) -> Self::Scratch;
    /// Adds the rows of one tile to the state. Parallel work must use `workers`, because lanes may
    /// hold the threads of any other pool.
    fn step(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<(), Self::Error>;
    /// Ends a segment: adds the remaining contents of the scratch to the state.
    fn flush(
        &self,
        _state: &mut Self::State,
        _scratch: &mut Self::Scratch,
        _workers: &Workers,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A pass over rows: the sizes of its tiles and segments, and its threads.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// Number of rows per tile.
    pub tile_rows: usize,
    /// Number of stored rows per segment.
    pub segment_rows: u64,
    /// Number of segments reduced at the same time, each with its own state.
    pub lane_count: usize,
    /// Number of tiles decoded ahead, per lane, by a separate thread. With 0 a lane decodes its own
    /// tiles: the tiles stay in the processor's cache, but decoding and reducing do not overlap.
    /// This is faster if every processor has a lane.
    pub prefetch_tiles: usize,
    /// Threads inside a step; sequential if there are several lanes.
    pub workers: &'a Workers,
    /// Observer that receives the progress and may stop the pass.
    pub observer: &'a dyn Observer,
    /// Journal in which [`Pass::resume`] saves its progress and finds the progress of earlier runs
    /// or other processes; `None` for passes that are short or whose rows are in memory.
    pub journal: Option<&'a Journal<'a>>,
}

impl std::fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pass")
            .field("tile", &self.tile_rows)
            .field("segment", &self.segment_rows)
            .field("lanes", &self.lane_count)
            .field("prefetch", &self.prefetch_tiles)
            .field("threads", &self.workers.threads())
            .finish_non_exhaustive()
    }
}

/// Counts and times of a finished pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassReport {
    /// Number of rows reduced.
    pub rows: u64,
    /// Time the lanes waited for the decoder, summed over lanes.
    pub decoder_wait: Duration,
}

impl<'a> Pass<'a> {
    /// Returns a pass with one lane and all workers, no observer and no journal. Change the fields
    /// for more.
    pub fn new(tile_rows: usize, segment_rows: u64, workers: &'a Workers) -> Self {
        Self {
            tile_rows,
            segment_rows,
            lane_count: 1,
            prefetch_tiles: 2,
            workers,
            observer: &NoObserver,
            journal: None,
        }
    }

    /// Returns the cut of the stored rows `range`. Segments begin at multiples of the segment size,
    /// so that leaving out rows at the start never shifts a segment.
    fn cut(&self, range: &Range<u64>) -> Cut {
        Cut { tile_rows: self.tile_rows, segment_rows: self.segment_rows, start_row: range.start, end_row: range.end }
    }

    /// Reduces every selected row and merges the segments' states; returns [`Reduction::init`] for
    /// a source without rows.
    ///
    /// Holds [`state_count`] states at once.
    ///
    /// # Errors
    /// The first error, in row order, of the source or the reduction, or [`Error::Interrupted`].
    pub fn reduce<T: Float, F: Reduction<T, State: Merge>>(
        &self,
        source: &dyn RowSource<T>,
        reduction: &F,
    ) -> Result<(F::State, PassReport), F::Error> {
        let mut tree = Tree::default();
        let report = run_pass(self, source, reduction, 0..u64::MAX, |Delivery { segment, state, .. }| {
            tree.add(segment, state);
            Ok(())
        })?;
        Ok((tree.finish().unwrap_or_else(|| reduction.init()), report))
    }

    /// Reduces like [`Pass::reduce`], but continues where the journal's entry ends: a complete pass
    /// is not read again, and an incomplete pass continues at the segment where it stopped. The
    /// result has the same bits, and the report also counts the restored rows.
    ///
    /// `name` describes the result of the pass. Passes that share a journal must come in the same
    /// order in every run, because entries are numbered in this order. Without a journal this is
    /// [`Pass::reduce`]; with a journal that uses an [`Engine`], several processes reduce the rows.
    ///
    /// # Errors
    /// The errors of [`Pass::reduce`]. The state before an error is first saved in the journal. A
    /// checkpoint that cannot be written or read is not an error: the journal's listener gets a
    /// warning, and the rows are reduced again.
    pub fn resume<T: Float, F: Reduction<T, State: Merge + Persist>>(
        &self,
        name: &str,
        source: &dyn RowSource<T>,
        reduction: &F,
    ) -> Result<(F::State, PassReport), F::Error> {
        let Some(journal) = self.journal else { return self.reduce(source, reduction) };
        if let Some(engine) = journal.engine() {
            return self.reduce_shared(engine, name, source, reduction);
        }
        let cut = self.cut(&source.range());
        let (mut entry, tree) =
            journal.next_entry_and_state(name, cut, "rows", || Tree::for_loading(|| reduction.init()));
        let mut tree = tree.unwrap_or_default();
        let restored_rows = entry.row_count();
        self.observer.report_restored(restored_rows);
        if entry.is_complete() {
            let report = PassReport { rows: restored_rows, ..PassReport::default() };
            return Ok((tree.finish().unwrap_or_else(|| reduction.init()), report));
        }
        let outcome = run_pass(
            self,
            source,
            reduction,
            entry.merged_segments()..u64::MAX,
            |Delivery { segments_done, segment, row_count: reduced_rows, state, .. }| {
                tree.add(segment, state);
                entry.record_segment(segments_done, reduced_rows, &tree);
                Ok(())
            },
        );
        match outcome {
            Ok(report) => {
                entry.complete(&tree);
                let total = tree.finish().unwrap_or_else(|| reduction.init());
                Ok((total, PassReport { rows: restored_rows + report.rows, ..report }))
            }
            Err(error) => {
                entry.save_before_stop(&tree);
                Err(error)
            }
        }
    }

    /// Reduces every segment and passes its state to `deliver`, in segment order.
    ///
    /// A segment without selected rows delivers nothing.
    ///
    /// # Errors
    /// The errors of [`Pass::reduce`] and of `deliver`.
    pub fn for_each_segment<T: Float, F: Reduction<T>>(
        &self,
        source: &dyn RowSource<T>,
        reduction: &F,
        mut deliver: impl FnMut(F::State) -> Result<(), F::Error> + Send,
    ) -> Result<PassReport, F::Error> {
        run_pass(self, source, reduction, 0..u64::MAX, |Delivery { state, .. }| deliver(state))
    }
}
