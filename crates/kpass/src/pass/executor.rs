//! The implementation of a pass: feeders decode, lanes reduce, and states are delivered in order.
//!
//! This code is large, and there are many types of reductions. It therefore uses reductions only as
//! trait objects ([`LaneReduction`]), so that it is compiled once per element type instead of once
//! per type of reduction.

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
    /// Index of the segment, counted over the stored rows of the whole table.
    pub(super) segment: u64,
    /// Number of selected rows that were reduced.
    pub(super) row_count: u64,
    pub(super) state: S,
}

/// Reduces the segments of the pass at the given positions, and passes each state to `deliver`, in
/// order.
pub(super) fn run_pass<T: Float, F: Reduction<T>>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    reduction: &F,
    positions: Range<u64>,
    deliver: impl FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
) -> Result<PassReport, F::Error> {
    let deliver = Mutex::new(deliver);
    let make_lane = || {
        let lane_state =
            LaneState { reduction, deliver: &deliver, state: None, reduced_rows: 0, scratch: reduction.scratch() };
        Box::new(lane_state) as Box<dyn LaneReduction<T> + '_>
    };
    run_lanes(pass, source, positions, &make_lane).map_err(|failure| match failure.downcast::<F::Error>() {
        Ok(error) => *error,
        // failures come only from the lanes and from the source
        Err(failure) => failure.downcast::<Error>().map_or(Error::WorkerPanicked, |error| *error).into(),
    })
}

/// An error of a reduction or of the source, whose type the caller knows.
type Failure = Box<dyn Any + Send>;

/// A reduction and its state in one lane, as a trait object.
trait LaneReduction<T> {
    /// Adds the rows of a tile to the state of the current segment.
    fn step(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), Failure>;
    /// Completes the state of a segment, if it had rows: see [`Reduction::flush`].
    fn flush(&mut self, workers: &Workers) -> Result<(), Failure>;
    /// Delivers the state of a segment, if it had rows. `segment` is its number among all stored
    /// rows, and `segments_done` the number of segments of the pass up to and including it.
    fn deliver(&mut self, segments_done: u64, segment: u64) -> Result<(), Failure>;
}

/// A reduction and its state in the lane's current segment; `state` is `None` before the first row.
struct LaneState<'a, T: Float, F: Reduction<T>, D> {
    reduction: &'a F,
    deliver: &'a Mutex<D>,
    state: Option<F::State>,
    reduced_rows: u64,
    scratch: F::Scratch,
}

impl<T: Float, F: Reduction<T>, D> LaneReduction<T> for LaneState<'_, T, F, D>
where
    D: FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
{
    fn step(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), Failure> {
        let state = self.state.get_or_insert_with(|| self.reduction.init());
        self.reduced_rows += block.len() as u64;
        self.reduction.step(state, &mut self.scratch, block, workers).map_err(into_failure)
    }

    fn flush(&mut self, workers: &Workers) -> Result<(), Failure> {
        let Some(state) = &mut self.state else { return Ok(()) };
        self.reduction.flush(state, &mut self.scratch, workers).map_err(into_failure)
    }

    fn deliver(&mut self, segments_done: u64, segment: u64) -> Result<(), Failure> {
        let (state, reduced_rows) = (self.state.take(), std::mem::take(&mut self.reduced_rows));
        let Some(state) = state else { return Ok(()) };
        let mut deliver = self.deliver.lock().unwrap_or_else(PoisonError::into_inner);
        (*deliver)(Delivery { segments_done, segment, row_count: reduced_rows, state }).map_err(into_failure)
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
    make_lane: MakeLane<'_, T>,
) -> Result<PassReport, Failure> {
    let cut = pass.cut(&source.range());
    let all_segments = cut.segments();
    let Range { start: first_position, end } =
        positions.start..positions.end.min(all_segments.end - all_segments.start);
    let segment_count = end.saturating_sub(first_position);
    let lane_count = pass.lane_count.clamp(1, usize::try_from(segment_count).unwrap_or(usize::MAX).max(1));
    let sequential = pass.workers.to_sequential();
    let pass_run = PassRun {
        pass,
        source,
        make_lane,
        workers: if lane_count > 1 { &sequential } else { pass.workers },
        table_shape: source.shape(),
        cut,
        next_to_claim: AtomicU64::new(first_position),
        end_position: end,
        order: Mutex::new(DeliveryOrder { next_to_deliver: first_position, first_failure: None }),
        order_changed: Condvar::new(),
        has_failed: AtomicBool::new(false),
        reduced_row_count: AtomicU64::new(0),
        decoder_wait_nanoseconds: AtomicU64::new(0),
    };
    pass.workers.run_lanes(lane_count, || {
        if pass.prefetch_tiles == 0 { pass_run.run_without_feeder() } else { pass_run.run_with_feeder() }
    });
    let report = PassReport {
        rows: pass_run.reduced_row_count.load(Ordering::Relaxed),
        decoder_wait: Duration::from_nanos(pass_run.decoder_wait_nanoseconds.load(Ordering::Relaxed)),
    };
    let order = pass_run.order.into_inner().unwrap_or_else(PoisonError::into_inner);
    match order.first_failure {
        Some((_, failure)) => Err(failure),
        None if order.next_to_deliver < end => Err(into_failure(Error::WorkerPanicked)),
        None => Ok(report),
    }
}

/// A message from a feeder to its lane, with the position of its segment in the pass.
enum FeederMessage<T> {
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
    table_shape: TableShape,
    cut: Cut,
    next_to_claim: AtomicU64,
    /// Position after the last segment to reduce.
    end_position: u64,
    order: Mutex<DeliveryOrder>,
    order_changed: Condvar,
    has_failed: AtomicBool,
    reduced_row_count: AtomicU64,
    decoder_wait_nanoseconds: AtomicU64,
}

impl<T: Float> PassRun<'_, '_, T> {
    /// Returns the stored rows of a segment, by its position in the pass.
    fn segment_range(&self, position: u64) -> Range<u64> {
        let segment = self.cut.segments().start + position;
        self.cut.rows(&(segment..segment + 1))
    }

    fn lock_order(&self) -> MutexGuard<'_, DeliveryOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a segment before `position` failed, so that work on the segment at
    /// `position` would be discarded.
    fn is_discarded(&self, position: u64) -> bool {
        self.has_failed.load(Ordering::Relaxed)
            && self.lock_order().first_failure.as_ref().is_some_and(|(failed_position, _)| *failed_position < position)
    }

    fn record_failure(&self, position: u64, failure: Failure) {
        let mut order = self.lock_order();
        if order.first_failure.as_ref().is_none_or(|(failed_position, _)| position < *failed_position) {
            order.first_failure = Some((position, failure));
        }
        self.has_failed.store(true, Ordering::Relaxed);
        self.order_changed.notify_all();
    }

    /// Reduces the tiles that the lane's own feeder decodes ahead. A feeder must not run without
    /// its lane: other lanes wait for the states of the segments that it has claimed.
    fn run_with_feeder(&self) {
        let (tile_sender, tile_receiver) = channel();
        let (buffer_sender, buffer_receiver) = channel();
        for _ in 0..self.pass.prefetch_tiles + 1 {
            // cannot fail: the receiver is alive
            let _ = buffer_sender.send(RowBuf::new(self.pass.tile_rows));
        }
        std::thread::scope(|scope| {
            let feed = move || {
                self.feed(&mut |message| tile_sender.send(message).is_ok(), &mut || buffer_receiver.recv().ok())
            };
            if std::thread::Builder::new().spawn_scoped(scope, feed).is_err() {
                // if the system refuses another thread, the lane decodes its own tiles
                return self.run_without_feeder();
            }
            // moved here, so that both are dropped when the lane finishes: a feeder that waits at a
            // channel then stops
            let (tile_receiver, buffer_sender) = (tile_receiver, buffer_sender);
            self.reduce_messages(&tile_receiver, &buffer_sender);
        });
    }

    /// Reduces the tiles that the feeder sends, and delivers each segment in its turn.
    fn reduce_messages(&self, tile_receiver: &Receiver<FeederMessage<T>>, buffer_sender: &Sender<RowBuf<T>>) {
        let alarm = PanicAlarm { pass_run: self };
        let mut lane = (self.make_lane)();
        loop {
            let wait_start = Instant::now();
            let Ok(message) = tile_receiver.recv() else { break };
            self.decoder_wait_nanoseconds.fetch_add(wait_start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            // a failed `send` is ignored, because the feeder may have finished already
            if !self.process_message(message, &mut *lane, |buffer| drop(buffer_sender.send(buffer))) {
                break;
            }
        }
        std::mem::forget(alarm);
    }

    /// Decodes and reduces segment after segment with one buffer: a lane without a feeder.
    fn run_without_feeder(&self) {
        let alarm = PanicAlarm { pass_run: self };
        let (mut lane, spare_buffer) = ((self.make_lane)(), Cell::new(Some(RowBuf::new(self.pass.tile_rows))));
        self.feed(
            &mut |message| self.process_message(message, &mut *lane, |buffer| spare_buffer.set(Some(buffer))),
            &mut || spare_buffer.take(),
        );
        std::mem::forget(alarm);
    }

    /// Decodes segment after segment until none is left, or until the lane has ended. `send` passes
    /// a message to the lane, and returns false if the lane has ended. `next_buffer` waits for a
    /// free buffer, and returns `None` if the lane has ended.
    fn feed(&self, send: &mut dyn FnMut(FeederMessage<T>) -> bool, next_buffer: &mut dyn FnMut() -> Option<RowBuf<T>>) {
        let mut spare_buffer = None;
        loop {
            let position = self.next_to_claim.fetch_add(1, Ordering::Relaxed);
            if position >= self.end_position || self.is_discarded(position) {
                return;
            }
            let final_message = match self.send_segment(position, send, next_buffer, &mut spare_buffer) {
                Ok(true) => FeederMessage::End(position),
                Ok(false) => return,
                Err(error) => FeederMessage::Failed(position, error),
            };
            let is_failure = matches!(final_message, FeederMessage::Failed(..));
            if !send(final_message) || is_failure {
                return;
            }
        }
    }

    /// Sends the tiles of one segment; returns false if the lane has ended. `send` and
    /// `next_buffer` are the functions of [`Self::feed`]. `spare_buffer` holds an unused buffer
    /// between segments.
    fn send_segment(
        &self,
        position: u64,
        send: &mut dyn FnMut(FeederMessage<T>) -> bool,
        next_buffer: &mut dyn FnMut() -> Option<RowBuf<T>>,
        spare_buffer: &mut Option<RowBuf<T>>,
    ) -> Result<bool, Error> {
        let mut cursor = self.source.open(self.segment_range(position))?;
        loop {
            let Some(mut buffer) = spare_buffer.take().or_else(&mut *next_buffer) else { return Ok(false) };
            if self.pass.observer.should_stop() {
                return Err(Error::Interrupted);
            }
            if !cursor.next(&mut buffer)? {
                *spare_buffer = Some(buffer);
                return Ok(true);
            }
            if !send(FeederMessage::Tile(position, buffer)) {
                return Ok(false);
            }
        }
    }

    /// Passes a message of the feeder to the lane. `release_buffer` receives the buffer of a
    /// reduced tile. Returns false if the lane has nothing more to do.
    fn process_message(
        &self,
        message: FeederMessage<T>,
        lane: &mut (dyn LaneReduction<T> + '_),
        release_buffer: impl FnOnce(RowBuf<T>),
    ) -> bool {
        let (position, outcome) = match message {
            FeederMessage::Tile(position, buffer) => {
                let outcome = self.step(lane, &buffer);
                release_buffer(buffer);
                (position, outcome)
            }
            FeederMessage::End(position) => (position, self.finish_segment(position, lane)),
            FeederMessage::Failed(position, error) => (position, Err(into_failure(error))),
        };
        match outcome {
            Ok(()) => !self.is_discarded(position),
            Err(failure) => {
                self.record_failure(position, failure);
                false
            }
        }
    }

    fn step(&self, lane: &mut (dyn LaneReduction<T> + '_), buffer: &RowBuf<T>) -> Result<(), Failure> {
        debug_assert!(buffer.row_numbers.len() <= buffer.capacity, "a cursor forgets what was in the buffer");
        let block = buffer.block(&self.table_shape);
        if block.is_empty() {
            return Ok(());
        }
        lane.step(&block, self.workers)?;
        self.workers.check().map_err(into_failure)?;
        self.reduced_row_count.fetch_add(block.len() as u64, Ordering::Relaxed);
        self.pass.observer.advance(block.len() as u64);
        Ok(())
    }

    /// Waits for the segment's turn and delivers its state.
    fn finish_segment(&self, position: u64, lane: &mut (dyn LaneReduction<T> + '_)) -> Result<(), Failure> {
        lane.flush(self.workers)?;
        // after a stop request, a step may have ended early, and its state is invalid
        self.workers.check().map_err(into_failure)?;
        let mut order = self.lock_order();
        while order.next_to_deliver < position {
            if order.first_failure.as_ref().is_some_and(|(failed_position, _)| *failed_position < position) {
                return Ok(());
            }
            order = self.order_changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        lane.deliver(position + 1, self.cut.segments().start + position)?;
        // after a stop request, a delivery may have ended early, and does not count
        self.workers.check().map_err(into_failure)?;
        order.next_to_deliver += 1;
        self.order_changed.notify_all();
        Ok(())
    }
}

/// A guard that wakes the other lanes if this one panics: otherwise they would wait forever for its
/// segment.
struct PanicAlarm<'r, 'a, 'f, T: Float> {
    pass_run: &'r PassRun<'a, 'f, T>,
}

impl<T: Float> Drop for PanicAlarm<'_, '_, '_, T> {
    fn drop(&mut self) {
        // position 0 is before every other segment, so no lane continues to wait or to work
        self.pass_run.record_failure(0, into_failure(Error::WorkerPanicked));
    }
}
