//! The implementation of a pass: feeders decode, lanes fold, and states are delivered in order.
//!
//! This code is large, and there are many types of reductions. It therefore uses reductions only as
//! trait objects ([`LaneReduction`]), so that it is compiled once per element type instead of once
//! per type of fold.

use super::{Pass, PassReport, Reduction, Workers};
use crate::checkpoint::Cut;
use crate::{Error, Float, RowBlock, RowBuf, RowSource, TableShape};
use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a segment on its way to the merge.
pub(super) struct Delivery<S> {
    /// Number of segments of the pass up to and including this segment.
    pub(super) segments_done: u64,
    /// Number of the segment among all stored rows.
    pub(super) segment: u64,
    /// Number of selected rows that were folded.
    pub(super) rows: u64,
    pub(super) state: S,
}

/// Folds the segments of the pass at the given positions, and passes each state to
/// `deliver`, in order.
pub(super) fn run_pass<T: Float, F: Reduction<T>>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    reduction: &F,
    positions: Range<u64>,
    deliver: impl FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
) -> Result<PassReport, F::Error> {
    let deliver = Mutex::new(deliver);
    let lane = || {
        let lane_state = LaneState { reduction, deliver: &deliver, state: None, rows: 0, scratch: reduction.scratch() };
        Box::new(lane_state) as Box<dyn LaneReduction<T> + '_>
    };
    run_lanes(pass, source, positions, &lane).map_err(|failure| match failure.downcast::<F::Error>() {
        Ok(error) => *error,
        // failures come only from the lanes and from the source
        Err(other) => other.downcast::<Error>().map_or(Error::WorkerPanicked, |error| *error).into(),
    })
}

/// An error of a reduction or of the source, whose type the caller knows.
type Failure = Box<dyn Any + Send>;

/// A fold and its state in one lane, as a trait object.
trait LaneReduction<T> {
    fn step(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), Failure>;
    fn flush(&mut self, workers: &Workers) -> Result<(), Failure>;
    /// Delivers the state of a segment, if it had rows. `segment` is its number among all stored
    /// rows, and `done` the number of segments of the pass up to and including it.
    fn deliver(&mut self, done: u64, segment: u64) -> Result<(), Failure>;
}

/// A fold and the state of the lane's current segment; `None` before the first row.
struct LaneState<'a, T: Float, F: Reduction<T>, D> {
    reduction: &'a F,
    deliver: &'a Mutex<D>,
    state: Option<F::State>,
    rows: u64,
    scratch: F::Scratch,
}

impl<T: Float, F: Reduction<T>, D> LaneReduction<T> for LaneState<'_, T, F, D>
where
    D: FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
{
    fn step(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), Failure> {
        let state = self.state.get_or_insert_with(|| self.reduction.init());
        self.rows += block.len() as u64;
        self.reduction.step(state, &mut self.scratch, block, workers).map_err(into_failure)
    }

    fn flush(&mut self, workers: &Workers) -> Result<(), Failure> {
        let Some(state) = &mut self.state else { return Ok(()) };
        self.reduction.flush(state, &mut self.scratch, workers).map_err(into_failure)
    }

    fn deliver(&mut self, done: u64, segment: u64) -> Result<(), Failure> {
        let (state, reduced_rows) = (self.state.take(), std::mem::take(&mut self.rows));
        let Some(state) = state else { return Ok(()) };
        let mut deliver = self.deliver.lock().unwrap_or_else(PoisonError::into_inner);
        (*deliver)(Delivery { segments_done: done, segment, rows: reduced_rows, state }).map_err(into_failure)
    }
}

fn into_failure<E: Send + 'static>(error: E) -> Failure {
    Box::new(error)
}

type MakeLane<'a, T> = &'a (dyn Fn() -> Box<dyn LaneReduction<T> + 'a> + Sync);

fn run_lanes<T: Float>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    positions: Range<u64>,
    lane: MakeLane<'_, T>,
) -> Result<PassReport, Failure> {
    let cut = pass.cut(&source.range());
    let all = cut.segments();
    let Range { start: first, end } = positions.start..positions.end.min(all.end - all.start);
    let segment_count = end.saturating_sub(first);
    let lanes = pass.lanes.clamp(1, usize::try_from(segment_count).unwrap_or(usize::MAX).max(1));
    let sequential = pass.workers.to_sequential();
    let run = PassRun {
        pass,
        source,
        make_lane: lane,
        workers: if lanes > 1 { &sequential } else { pass.workers },
        shape: source.shape(),
        cut,
        next_to_reduce: AtomicU64::new(first),
        end,
        order: Mutex::new(DeliveryOrder { next_to_deliver: first, first_failure: None }),
        delivered: Condvar::new(),
        has_failed: AtomicBool::new(false),
        rows_reduced: AtomicU64::new(0),
        starved_nanoseconds: AtomicU64::new(0),
    };
    pass.workers.run_lanes(lanes, || if pass.prefetch == 0 { run.run_without_feeder() } else { run.run_with_feeder() });
    let report = PassReport {
        rows: run.rows_reduced.load(Ordering::Relaxed),
        decoder_wait: Duration::from_nanos(run.starved_nanoseconds.load(Ordering::Relaxed)),
    };
    let order = run.order.into_inner().unwrap_or_else(PoisonError::into_inner);
    match order.first_failure {
        Some((_, failure)) => Err(failure),
        None if order.next_to_deliver < end => Err(into_failure(Error::WorkerPanicked)),
        None => Ok(report),
    }
}

/// A message from a feeder to its lane.
enum Item<T> {
    Tile(u64, RowBuf<T>),
    End(u64),
    Failed(u64, Error),
}

/// The segment to deliver next, and the first failure in row order.
struct DeliveryOrder {
    next_to_deliver: u64,
    first_failure: Option<(u64, Failure)>,
}

struct PassRun<'a, 'f, T> {
    pass: &'a Pass<'a>,
    source: &'a dyn RowSource<T>,
    make_lane: MakeLane<'f, T>,
    workers: &'a Workers,
    shape: TableShape,
    cut: Cut,
    next_to_reduce: AtomicU64,
    /// Position after the last segment to fold.
    end: u64,
    order: Mutex<DeliveryOrder>,
    delivered: Condvar,
    has_failed: AtomicBool,
    rows_reduced: AtomicU64,
    starved_nanoseconds: AtomicU64,
}

impl<T: Float> PassRun<'_, '_, T> {
    /// Returns the stored rows of a segment, by its position in the pass.
    fn segment_rows(&self, segment: u64) -> Range<u64> {
        let number = self.cut.segments().start + segment;
        self.cut.rows(&(number..number + 1))
    }

    fn lock_order(&self) -> MutexGuard<'_, DeliveryOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a segment before `segment` failed, so that work on `segment` would be
    /// discarded.
    fn is_discarded(&self, segment: u64) -> bool {
        self.has_failed.load(Ordering::Relaxed)
            && self.lock_order().first_failure.as_ref().is_some_and(|(failed_segment, _)| *failed_segment < segment)
    }

    fn fail(&self, segment: u64, failure: Failure) {
        let mut order = self.lock_order();
        if order.first_failure.as_ref().is_none_or(|(failed_segment, _)| segment < *failed_segment) {
            order.first_failure = Some((segment, failure));
        }
        self.has_failed.store(true, Ordering::Relaxed);
        self.delivered.notify_all();
    }

    /// Folds the tiles that the lane's own feeder decodes ahead. The feeder starts together with
    /// its lane, because other lanes wait for the segments that it claims.
    fn run_with_feeder(&self) {
        let (full, tiles) = channel();
        let (free, buffers) = channel();
        for _ in 0..self.pass.prefetch + 1 {
            // cannot fail: the receiver is alive
            let _ = free.send(RowBuf::new(self.pass.tile));
        }
        std::thread::scope(|scope| {
            let feed = move || self.feed(&mut |item| full.send(item).is_ok(), &mut || buffers.recv().ok());
            if std::thread::Builder::new().spawn_scoped(scope, feed).is_err() {
                // the system refuses another thread
                return self.run_without_feeder();
            }
            // both ends are dropped with the lane, which also ends a feeder that waits for them
            let (tiles, free) = (tiles, free);
            self.reduce_items(&tiles, &free);
        });
    }

    /// Folds the tiles that the feeder sends, and delivers each segment in its turn.
    fn reduce_items(&self, tiles: &Receiver<Item<T>>, free: &Sender<RowBuf<T>>) {
        let alarm = PanicAlarm(self);
        let mut lane = (self.make_lane)();
        loop {
            let wait_start = Instant::now();
            let Ok(item) = tiles.recv() else { break };
            self.starved_nanoseconds.fetch_add(wait_start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            // ignored: the feeder may have ended already
            if !self.process(item, &mut *lane, |buffer| drop(free.send(buffer))) {
                break;
            }
        }
        std::mem::forget(alarm);
    }

    /// Decodes and reduces segment after segment with one buffer: a lane without a feeder.
    fn run_without_feeder(&self) {
        let alarm = PanicAlarm(self);
        let (mut lane, spare) = ((self.make_lane)(), Cell::new(Some(RowBuf::new(self.pass.tile))));
        self.feed(&mut |item| self.process(item, &mut *lane, |buffer| spare.set(Some(buffer))), &mut || spare.take());
        std::mem::forget(alarm);
    }

    /// Decodes segment after segment until none is left, or until the lane, which receives them
    /// through `send`, has ended.
    fn feed(&self, send: &mut dyn FnMut(Item<T>) -> bool, buffers: &mut dyn FnMut() -> Option<RowBuf<T>>) {
        let mut spare = None;
        loop {
            let segment = self.next_to_reduce.fetch_add(1, Ordering::Relaxed);
            if segment >= self.end || self.is_discarded(segment) {
                return;
            }
            let last = match self.decode(segment, send, buffers, &mut spare) {
                Ok(true) => Item::End(segment),
                Ok(false) => return,
                Err(error) => Item::Failed(segment, error),
            };
            let failed = matches!(last, Item::Failed(..));
            if !send(last) || failed {
                return;
            }
        }
    }

    /// Sends the tiles of one segment; returns false if the lane has ended.
    fn decode(
        &self,
        segment: u64,
        send: &mut dyn FnMut(Item<T>) -> bool,
        buffers: &mut dyn FnMut() -> Option<RowBuf<T>>,
        spare: &mut Option<RowBuf<T>>,
    ) -> Result<bool, Error> {
        let mut cursor = self.source.open(self.segment_rows(segment))?;
        loop {
            let Some(mut buffer) = spare.take().or_else(&mut *buffers) else { return Ok(false) };
            if self.pass.observer.should_stop() {
                return Err(Error::Interrupted);
            }
            if !cursor.next(&mut buffer)? {
                *spare = Some(buffer);
                return Ok(true);
            }
            if !send(Item::Tile(segment, buffer)) {
                return Ok(false);
            }
        }
    }

    /// Passes a decoded item to the lane, and frees its buffer; returns false if the lane has
    /// nothing more to do.
    fn process(&self, item: Item<T>, lane: &mut (dyn LaneReduction<T> + '_), free: impl FnOnce(RowBuf<T>)) -> bool {
        let (segment, outcome) = match item {
            Item::Tile(segment, buffer) => {
                let outcome = self.step(lane, &buffer);
                free(buffer);
                (segment, outcome)
            }
            Item::End(segment) => (segment, self.finish_segment(segment, lane)),
            Item::Failed(segment, error) => (segment, Err(into_failure(error))),
        };
        match outcome {
            Ok(()) => !self.is_discarded(segment),
            Err(failure) => {
                self.fail(segment, failure);
                false
            }
        }
    }

    fn step(&self, lane: &mut (dyn LaneReduction<T> + '_), buffer: &RowBuf<T>) -> Result<(), Failure> {
        debug_assert!(buffer.rows.len() <= buffer.capacity, "a cursor forgets what was in the buffer");
        let block = buffer.block(&self.shape);
        if block.is_empty() {
            return Ok(());
        }
        lane.step(&block, self.workers)?;
        self.workers.check().map_err(into_failure)?;
        self.rows_reduced.fetch_add(block.len() as u64, Ordering::Relaxed);
        self.pass.observer.advance(block.len() as u64);
        Ok(())
    }

    /// Waits for the segment's turn and delivers its state.
    fn finish_segment(&self, segment: u64, lane: &mut (dyn LaneReduction<T> + '_)) -> Result<(), Failure> {
        lane.flush(self.workers)?;
        // the state of a step that ended early is invalid
        self.workers.check().map_err(into_failure)?;
        let mut order = self.lock_order();
        while order.next_to_deliver < segment {
            if order.first_failure.as_ref().is_some_and(|(at, _)| *at < segment) {
                return Ok(());
            }
            order = self.delivered.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        lane.deliver(segment + 1, self.cut.segments().start + segment)?;
        // a delivery that ended early does not count
        self.workers.check().map_err(into_failure)?;
        order.next_to_deliver += 1;
        self.delivered.notify_all();
        Ok(())
    }
}

/// A guard that wakes the other lanes if this one panics: otherwise they would wait forever for its
/// segment.
struct PanicAlarm<'r, 'a, 'f, T: Float>(&'r PassRun<'a, 'f, T>);

impl<T: Float> Drop for PanicAlarm<'_, '_, '_, T> {
    fn drop(&mut self) {
        self.0.fail(0, into_failure(Error::WorkerPanicked));
    }
}
