//! Passes without a state: they write rows to a file or to memory, or only check the rows.

use super::{Pass, PassReport, Reduction, executor::run_pass};
use crate::{Error, Float, RowBlock, RowSource, Workers};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

impl Pass<'_> {
    /// Passes every tile to `visitor`, one after the other in row order, for writing or keeping
    /// rows. Uses one lane, whatever the value of `lane_count`; `visitor` may use all workers of
    /// the pass. Nothing is saved in the journal.
    ///
    /// ```
    /// use kpass::{MemoryRows, Pass, Workers};
    /// let rows = MemoryRows::new(vec![1.0f64, 2.0, 3.0], 1)?;
    /// let (workers, mut seen) = (Workers::sequential(), Vec::new());
    /// Pass::new(2, 64, &workers).visit(&rows, |block| {
    ///     seen.extend_from_slice(block.x);
    ///     Ok::<(), kpass::Error>(())
    /// })?;
    /// assert_eq!(seen, [1.0, 2.0, 3.0]);
    /// # Ok::<(), kpass::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error, in row order, of the source or of `visitor`, or [`Error::Interrupted`].
    pub fn visit<T: Float, E: From<Error> + Send + 'static>(
        &self,
        source: &dyn RowSource<T>,
        mut visitor: impl FnMut(&RowBlock<'_, T>) -> Result<(), E> + Send,
    ) -> Result<PassReport, E> {
        self.visit_segments(source, 0..u64::MAX, &mut visitor)
    }

    /// Visits tiles as [`Pass::visit`] does, but only the tiles of the segments of a lot. The
    /// segments are numbered among all stored rows.
    ///
    /// # Errors
    /// The errors of [`Pass::visit`].
    pub fn visit_lot<T: Float, E: From<Error> + Send + 'static>(
        &self,
        source: &dyn RowSource<T>,
        lot: &Range<u64>,
        mut visitor: impl FnMut(&RowBlock<'_, T>) -> Result<(), E> + Send,
    ) -> Result<PassReport, E> {
        let first_segment = source.range().start / self.segment_rows;
        self.visit_segments(
            source,
            lot.start.saturating_sub(first_segment)..lot.end.saturating_sub(first_segment),
            &mut visitor,
        )
    }

    /// Visits a part of the segments. The visitor is a trait object, so that this code is compiled
    /// once.
    fn visit_segments<T: Float, E: From<Error> + Send + 'static>(
        &self,
        source: &dyn RowSource<T>,
        positions: Range<u64>,
        visitor: Visitor<'_, T, E>,
    ) -> Result<PassReport, E> {
        let visitor = Mutex::new(visitor);
        let visit_block = |(): &mut (), block: &RowBlock<'_, T>, _: &Workers| {
            (*visitor.lock().unwrap_or_else(PoisonError::into_inner))(block)
        };
        run_pass(
            &Pass { lane_count: 1, ..*self },
            source,
            &VisitReduction { new_buffers: || (), visitor: visit_block },
            positions,
            |_| Ok(()),
        )
    }

    /// Passes every tile to `visitor`, in all lanes at once and in no particular order, for checks.
    /// `new_buffers` creates the buffers of a lane.
    ///
    /// # Errors
    /// The errors of [`Pass::visit`].
    pub fn for_each_tile<T: Float, E: From<Error> + Send + 'static, B: Send>(
        &self,
        source: &dyn RowSource<T>,
        new_buffers: impl Fn() -> B + Sync,
        visitor: impl Fn(&mut B, &RowBlock<'_, T>, &Workers) -> Result<(), E> + Sync,
    ) -> Result<PassReport, E> {
        run_pass(self, source, &VisitReduction { new_buffers, visitor }, 0..u64::MAX, |_| Ok(()))
    }
}

type Visitor<'w, T, E> = &'w mut (dyn FnMut(&RowBlock<'_, T>) -> Result<(), E> + Send);

struct VisitReduction<B, W> {
    new_buffers: B,
    visitor: W,
}

impl<T: Float, E: From<Error> + Send + 'static, S: Send, B, W> Reduction<T> for VisitReduction<B, W>
where
    B: Fn() -> S + Sync,
    W: Fn(&mut S, &RowBlock<'_, T>, &Workers) -> Result<(), E> + Sync,
{
    type State = ();
    type Scratch = S;
    type Error = E;

    fn init(&self) {}
    fn scratch(&self) -> S {
        (self.new_buffers)()
    }
    fn step(&self, (): &mut (), buffers: &mut S, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), E> {
        (self.visitor)(buffers, block, workers)
    }
}
