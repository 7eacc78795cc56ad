//! Passes over the features that compute a state (sums over rows).
//!
//! A segment is a fixed number of consecutive stored rows. A pass computes one state for each
//! segment, and always merges the states along the same tree. The result is therefore
//! bit-identical, wherever the features are stored. If several processes share a run, they also
//! share these passes and exchange the states.

use crate::Result;
use crate::features::{StoredFeatures, Tile};
use kapprox::Real;
use kstore::Merge;
use kstore::checkpoint::{Cut, Number, Persist};
use kstore::pass::{Deliver, Engine, Observer, reduce_lots};
use std::ops::Range;

/// Delivers the states of the segments of a work unit one after the other. A work unit is a range
/// of consecutive segments that one worker processes.
pub(super) struct SegmentStates<'d, S> {
    current: Option<CurrentSegment<S>>,
    deliver: Deliver<'d, S, crate::Error>,
}

struct CurrentSegment<S> {
    number: u64,
    /// Number of rows added so far.
    row_count: u64,
    state: S,
}

impl<'d, S> SegmentStates<'d, S> {
    pub(super) fn new(deliver: Deliver<'d, S, crate::Error>) -> Self {
        Self { current: None, deliver }
    }

    /// Adds `added_row_count` to the row count of segment `segment_number`, and returns the
    /// segment's state. If the segment is new, delivers the state of the segment before it, and
    /// starts with the state `init()`.
    pub(super) fn state_mut(
        &mut self,
        segment_number: u64,
        added_row_count: u64,
        init: &(dyn Fn() -> S + Sync),
    ) -> Result<&mut S> {
        if let Some(previous) = self.current.take_if(|current| current.number != segment_number) {
            (self.deliver)(previous.number, previous.row_count, previous.state)?;
        }
        let new_segment = || CurrentSegment { number: segment_number, row_count: 0, state: init() };
        let current = self.current.get_or_insert_with(new_segment);
        current.row_count += added_row_count;
        Ok(&mut current.state)
    }

    pub(super) fn finish(self) -> Result<()> {
        self.current.map_or(Ok(()), |last| (self.deliver)(last.number, last.row_count, last.state))
    }
}

impl<T: Real> StoredFeatures<'_, T> {
    /// Reduces all tiles to one state: `init` returns the initial state of a segment, and `step`
    /// adds a tile to a state. The name identifies the pass.
    ///
    /// # Errors
    /// Errors of reading the rows, of the scratch folder, of `step`, and of other processes.
    /// [`kstore::Error::Interrupted`].
    pub(crate) fn reduce<S: Merge + Persist>(
        &self,
        name: &str,
        observer: &dyn Observer,
        init: &(dyn Fn() -> S + Sync),
        mut step: impl FnMut(&mut S, &Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<S> {
        let Range { start, end } = self.range.clone();
        let cut = Cut {
            tile_rows: self.context.pass_shape.tile_rows,
            segment_rows: self.context.pass_shape.segment_rows,
            start_row: start,
            end_row: end,
        };
        let mut reduce_lot = |unit: Range<u64>, deliver: Deliver<'_, S, crate::Error>| {
            let mut segments = SegmentStates::new(deliver);
            self.visit_unit(Some(&unit), observer, &mut |tile| {
                step(segments.state_mut(self.segment_of(tile.first_row), tile.row_count() as u64, init)?, tile)
            })?;
            segments.finish()
        };
        Ok(reduce_lots(self.engine(), name, cut, observer, &|| init(), &mut reduce_lot)?.0)
    }

    /// Computes Σ φ(x), the sum of the features over all rows, in one pass. `name` is the name of
    /// the pass and of its stage.
    pub(crate) fn sum_features(&self, name: &str) -> Result<Vec<f64>> {
        let stage = self.context.resources.stage_observer.start_stage(name, Some(self.n as u64));
        let Sums(sums) = self.reduce(name, &*stage, &|| Sums::new(self.p), |sums, tile| {
            tile.add_transposed_product(&vec![T::ONE; tile.row_count()], &mut sums.0, self.workers());
            Ok(())
        })?;
        Ok(sums)
    }

    pub(crate) fn shares_passes(&self) -> bool {
        self.engine().is_some()
    }

    /// Returns the engine of the processes that share the passes over these rows. Returns `None` if
    /// the run has one process, or if these are only selected rows.
    fn engine(&self) -> Option<&dyn Engine> {
        self.context.engine().filter(|_| self.has_all_rows)
    }

    pub(super) fn segment_of(&self, position: usize) -> u64 {
        let next_index = self.segments.partition_point(|segment| segment.position <= position);
        next_index.checked_sub(1).map_or(0, |index| self.segments[index].number)
    }

    /// Returns the position of the first row of a segment. If the segment has no rows, returns the
    /// position of the first row after it.
    pub(super) fn segment_start(&self, segment_number: u64) -> usize {
        let index = self.segments.partition_point(|segment| segment.number < segment_number);
        self.segments.get(index).map_or(self.n, |segment| segment.position)
    }
}

/// Sums over the rows.
#[derive(Clone, Debug)]
pub struct Sums(pub Vec<f64>);

impl Sums {
    /// Returns `count` sums, all 0.
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![0.0; count])
    }
}

kstore::summed!(Sums { fill "sums": 0 });

/// Values of the rows, in row order.
#[derive(Clone, Debug, Default)]
pub struct RowValues<V>(pub Vec<V>);

kstore::summed!(where [V: Number + Send + Sync] RowValues<V> { read "values": 0 });
