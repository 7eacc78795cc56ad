//! The implementation of a pass: feeders decode, lanes fold, and states are delivered in order.
//!
//! The code is large and there are many folds. It therefore uses folds only as trait objects
//! ([`LaneFold`]), and is compiled once per element type instead of once per fold.

use super::{Fold, Pass, PassReport, Workers};
use crate::checkpoint::Cut;
use crate::{Error, Real, RowBlock, RowBuf, RowSource, TableShape};
use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a segment on its way to the merge.
pub(super) struct Delivery<S> {
    /// Number of segments of the pass up to and including this one.
    pub(super) done: u64,
    /// Number of the segment among all stored rows.
    pub(super) segment: u64,
    /// Number of selected rows that were folded.
    pub(super) folded: u64,
    pub(super) state: S,
}

/// Folds the segments of the pass at the given positions, and passes each state to
/// `deliver`, in order.
pub(super) fn run<T: Real, F: Fold<T>>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    fold: &F,
    part: Range<u64>,
    deliver: impl FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
) -> Result<PassReport, F::Error> {
    let deliver = Mutex::new(deliver);
    let lane = || {
        let folding = Folding { fold, deliver: &deliver, state: None, folded: 0, scratch: fold.scratch() };
        Box::new(folding) as Box<dyn LaneFold<T> + '_>
    };
    work(pass, source, part, &lane).map_err(|failure| match failure.downcast::<F::Error>() {
        Ok(error) => *error,
        // failures come only from the lanes and from the source
        Err(other) => other.downcast::<Error>().map_or(Error::Worker, |error| *error).into(),
    })
}

/// An error of a fold or of the source, whose type the caller knows.
type Failure = Box<dyn Any + Send>;

/// A fold and its state in one lane, as a trait object.
trait LaneFold<T> {
    fn step(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), Failure>;
    fn flush(&mut self, workers: &Workers) -> Result<(), Failure>;
    /// Delivers the state of a segment, if it had rows. `segment` is its number among all stored
    /// rows, and `done` the number of segments of the pass up to and including it.
    fn deliver(&mut self, done: u64, segment: u64) -> Result<(), Failure>;
}

/// A fold and the state of the lane's current segment; `None` before the first row.
struct Folding<'a, T: Real, F: Fold<T>, D> {
    fold: &'a F,
    deliver: &'a Mutex<D>,
    state: Option<F::State>,
    folded: u64,
    scratch: F::Scratch,
}

impl<T: Real, F: Fold<T>, D> LaneFold<T> for Folding<'_, T, F, D>
where
    D: FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
{
    fn step(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<(), Failure> {
        let state = self.state.get_or_insert_with(|| self.fold.init());
        self.folded += block.len() as u64;
        self.fold.step(state, &mut self.scratch, block, workers).map_err(boxed)
    }

    fn flush(&mut self, workers: &Workers) -> Result<(), Failure> {
        let Some(state) = &mut self.state else { return Ok(()) };
        self.fold.flush(state, &mut self.scratch, workers).map_err(boxed)
    }

    fn deliver(&mut self, done: u64, segment: u64) -> Result<(), Failure> {
        let (state, folded) = (self.state.take(), std::mem::take(&mut self.folded));
        let Some(state) = state else { return Ok(()) };
        let mut deliver = self.deliver.lock().unwrap_or_else(PoisonError::into_inner);
        (*deliver)(Delivery { done, segment, folded, state }).map_err(boxed)
    }
}

fn boxed<E: Send + 'static>(error: E) -> Failure {
    Box::new(error)
}

type MakeLane<'a, T> = &'a (dyn Fn() -> Box<dyn LaneFold<T> + 'a> + Sync);

fn work<T: Real>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    part: Range<u64>,
    lane: MakeLane<'_, T>,
) -> Result<PassReport, Failure> {
    let cut = pass.cut(&source.range());
    let all = cut.segments();
    let Range { start: first, end } = part.start..part.end.min(all.end - all.start);
    let left = end.saturating_sub(first);
    let lanes = pass.lanes.clamp(1, usize::try_from(left).unwrap_or(usize::MAX).max(1));
    let sequential = pass.workers.alone();
    let run = Run {
        pass,
        source,
        lane,
        workers: if lanes > 1 { &sequential } else { pass.workers },
        shape: source.shape(),
        cut,
        next: AtomicU64::new(first),
        end,
        order: Mutex::new(Order { turn: first, failed: None }),
        turned: Condvar::new(),
        failed: AtomicBool::new(false),
        folded: AtomicU64::new(0),
        starved: AtomicU64::new(0),
    };
    pass.workers.lanes(lanes, || if pass.prefetch == 0 { run.work_alone() } else { run.work_fed() });
    let report = PassReport {
        rows: run.folded.load(Ordering::Relaxed),
        starved: Duration::from_nanos(run.starved.load(Ordering::Relaxed)),
    };
    let order = run.order.into_inner().unwrap_or_else(PoisonError::into_inner);
    match order.failed {
        Some((_, failure)) => Err(failure),
        None if order.turn < end => Err(boxed(Error::Worker)),
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
struct Order {
    turn: u64,
    failed: Option<(u64, Failure)>,
}

struct Run<'a, 'f, T> {
    pass: &'a Pass<'a>,
    source: &'a dyn RowSource<T>,
    lane: MakeLane<'f, T>,
    workers: &'a Workers,
    shape: TableShape,
    cut: Cut,
    next: AtomicU64,
    /// Position after the last segment to fold.
    end: u64,
    order: Mutex<Order>,
    turned: Condvar,
    failed: AtomicBool,
    folded: AtomicU64,
    starved: AtomicU64,
}

impl<T: Real> Run<'_, '_, T> {
    /// Returns the stored rows of a segment, by its position in the pass.
    fn rows(&self, segment: u64) -> Range<u64> {
        let number = self.cut.segments().start + segment;
        self.cut.rows(&(number..number + 1))
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a segment before `segment` failed: work on this one would be discarded.
    fn pointless(&self, segment: u64) -> bool {
        self.failed.load(Ordering::Relaxed) && self.lock().failed.as_ref().is_some_and(|(at, _)| *at < segment)
    }

    fn fail(&self, segment: u64, failure: Failure) {
        let mut order = self.lock();
        if order.failed.as_ref().is_none_or(|(at, _)| segment < *at) {
            order.failed = Some((segment, failure));
        }
        self.failed.store(true, Ordering::Relaxed);
        self.turned.notify_all();
    }

    /// Folds the tiles that the lane's own feeder decodes ahead. The feeder starts together with
    /// its lane, because other lanes wait for the segments that it claims.
    fn work_fed(&self) {
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
                return self.work_alone();
            }
            // both ends are dropped with the lane, which also ends a feeder that waits for them
            let (tiles, free) = (tiles, free);
            self.work(&tiles, &free);
        });
    }

    /// Folds the tiles that the feeder sends, and delivers each segment in its turn.
    fn work(&self, tiles: &Receiver<Item<T>>, free: &Sender<RowBuf<T>>) {
        let alarm = PanicAlarm(self);
        let mut lane = (self.lane)();
        loop {
            let waiting = Instant::now();
            let Ok(item) = tiles.recv() else { break };
            self.starved.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
            // ignored: the feeder may have ended already
            if !self.take(item, &mut *lane, |buffer| drop(free.send(buffer))) {
                break;
            }
        }
        std::mem::forget(alarm);
    }

    /// Decodes and folds segment after segment with one buffer: a lane without a feeder.
    fn work_alone(&self) {
        let alarm = PanicAlarm(self);
        let (mut lane, spare) = ((self.lane)(), Cell::new(Some(RowBuf::new(self.pass.tile))));
        self.feed(&mut |item| self.take(item, &mut *lane, |buffer| spare.set(Some(buffer))), &mut || spare.take());
        std::mem::forget(alarm);
    }

    /// Decodes segment after segment until none is left, or until the lane, which receives them
    /// through `send`, has ended.
    fn feed(&self, send: &mut dyn FnMut(Item<T>) -> bool, buffers: &mut dyn FnMut() -> Option<RowBuf<T>>) {
        let mut spare = None;
        loop {
            let segment = self.next.fetch_add(1, Ordering::Relaxed);
            if segment >= self.end || self.pointless(segment) {
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
        let mut cursor = self.source.open(self.rows(segment))?;
        loop {
            let Some(mut buffer) = spare.take().or_else(&mut *buffers) else { return Ok(false) };
            if self.pass.observer.stop() {
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
    fn take(&self, item: Item<T>, lane: &mut (dyn LaneFold<T> + '_), free: impl FnOnce(RowBuf<T>)) -> bool {
        let (segment, outcome) = match item {
            Item::Tile(segment, buffer) => {
                let outcome = self.step(lane, &buffer);
                free(buffer);
                (segment, outcome)
            }
            Item::End(segment) => (segment, self.end(segment, lane)),
            Item::Failed(segment, error) => (segment, Err(boxed(error))),
        };
        match outcome {
            Ok(()) => !self.pointless(segment),
            Err(failure) => {
                self.fail(segment, failure);
                false
            }
        }
    }

    fn step(&self, lane: &mut (dyn LaneFold<T> + '_), buffer: &RowBuf<T>) -> Result<(), Failure> {
        debug_assert!(buffer.rows.len() <= buffer.capacity, "a cursor forgets what was in the buffer");
        let block = buffer.block(&self.shape);
        if block.is_empty() {
            return Ok(());
        }
        lane.step(&block, self.workers)?;
        self.workers.check().map_err(boxed)?;
        self.folded.fetch_add(block.len() as u64, Ordering::Relaxed);
        self.pass.observer.advance(block.len() as u64);
        Ok(())
    }

    /// Waits for the segment's turn and delivers its state.
    fn end(&self, segment: u64, lane: &mut (dyn LaneFold<T> + '_)) -> Result<(), Failure> {
        lane.flush(self.workers)?;
        // the state of a step that ended early is invalid
        self.workers.check().map_err(boxed)?;
        let mut order = self.lock();
        while order.turn < segment {
            if order.failed.as_ref().is_some_and(|(at, _)| *at < segment) {
                return Ok(());
            }
            order = self.turned.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        lane.deliver(segment + 1, self.cut.segments().start + segment)?;
        // a delivery that ended early does not count
        self.workers.check().map_err(boxed)?;
        order.turn += 1;
        self.turned.notify_all();
        Ok(())
    }
}

/// A guard that wakes the other lanes if this one panics: otherwise they would wait forever for its
/// segment.
struct PanicAlarm<'r, 'a, 'f, T: Real>(&'r Run<'a, 'f, T>);

impl<T: Real> Drop for PanicAlarm<'_, '_, '_, T> {
    fn drop(&mut self) {
        self.0.fail(0, boxed(Error::Worker));
    }
}
