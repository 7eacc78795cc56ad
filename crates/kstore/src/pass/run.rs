//! The machine behind a pass: feeders that decode, lanes that fold, states that are delivered in order.

use super::{Fold, Pass, PassReport, Workers};
use crate::{Error, Real, RowBuf, RowSource, TableShape};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of a segment on its way to whoever merges it.
pub(super) struct Delivery<S> {
    /// Stored rows of the segment.
    pub(super) rows: Range<u64>,
    /// Number of segments of the pass up to this one, itself included.
    pub(super) done: u64,
    /// Number of the segment among all of the stored rows.
    pub(super) segment: u64,
    /// Selected rows that were folded.
    pub(super) folded: u64,
    /// The state of these rows.
    pub(super) state: S,
}

/// The segments of `range`, cut at multiples of `size`: pruned rows never shift a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments {
    range: (u64, u64),
    size: u64,
    first: u64,
}

impl Segments {
    pub(super) fn new(range: Range<u64>, size: u64) -> Self {
        let size = size.max(1);
        Self { first: range.start / size, range: (range.start, range.end), size }
    }
    fn count(&self) -> u64 {
        if self.range.0 >= self.range.1 { 0 } else { self.range.1.div_ceil(self.size) - self.first }
    }
    fn get(&self, index: u64) -> Range<u64> {
        let start = (self.first + index) * self.size;
        start.max(self.range.0)..(start + self.size).min(self.range.1)
    }
}

/// Folds the segments of the pass whose places among its segments are in `part`, and hands each state to `deliver`, in
/// order.
pub(super) fn run<T, F>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    fold: &F,
    part: Range<u64>,
    deliver: impl FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
) -> Result<PassReport, F::Error>
where
    T: Real,
    F: Fold<T>,
{
    let segments = Segments::new(source.range(), pass.segment);
    let Range { start: first, end } = part.start..part.end.min(segments.count());
    let left = end.saturating_sub(first);
    let lanes = pass.lanes.clamp(1, usize::try_from(left).unwrap_or(usize::MAX).max(1));
    let sequential = Workers::sequential();
    let workers = if lanes > 1 { &sequential } else { pass.workers };
    let run = Run {
        pass,
        source,
        fold,
        segments,
        next: AtomicU64::new(first),
        end,
        order: Mutex::new(Order { turn: first, failed: None, deliver }),
        turned: Condvar::new(),
        failed: AtomicBool::new(false),
        folded: AtomicU64::new(0),
        starved: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            let run = &run;
            if pass.prefetch == 0 {
                scope.spawn(move || run.work_alone(workers));
                continue;
            }
            let (full, tiles) = channel();
            let (free, buffers) = channel();
            for _ in 0..pass.prefetch + 1 {
                // cannot fail: the receiver is alive
                let _ = free.send(RowBuf::new(pass.tile));
            }
            scope.spawn(move || run.feed(&full, &buffers));
            scope.spawn(move || run.work(&tiles, &free, workers));
        }
    });
    let report = PassReport {
        rows: run.folded.load(Ordering::Relaxed),
        starved: Duration::from_nanos(run.starved.load(Ordering::Relaxed)),
    };
    let order = run.order.into_inner().unwrap_or_else(PoisonError::into_inner);
    match order.failed {
        Some((_, error)) => Err(error),
        None if order.turn < end => Err(Error::Worker.into()),
        None => Ok(report),
    }
}

/// A message from a feeder to its lane.
enum Item<T, E> {
    Tile(u64, RowBuf<T>),
    End(u64),
    Failed(u64, E),
}

/// The part of a segment that a lane has folded; without a state before the first row.
struct Part<S> {
    state: Option<S>,
    folded: u64,
}

/// The segment whose turn it is to be delivered, and the first failure in row order.
struct Order<E, D> {
    turn: u64,
    failed: Option<(u64, E)>,
    deliver: D,
}

struct Run<'a, T, F: Fold<T>, D>
where
    T: Real,
{
    pass: &'a Pass<'a>,
    source: &'a dyn RowSource<T>,
    fold: &'a F,
    segments: Segments,
    next: AtomicU64,
    /// The place after the last segment to fold.
    end: u64,
    order: Mutex<Order<F::Error, D>>,
    turned: Condvar,
    failed: AtomicBool,
    folded: AtomicU64,
    starved: AtomicU64,
}

impl<T, F, D> Run<'_, T, F, D>
where
    T: Real,
    F: Fold<T>,
    D: FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
{
    fn lock(&self) -> MutexGuard<'_, Order<F::Error, D>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when a segment before `segment` failed: work on it would be thrown away.
    fn pointless(&self, segment: u64) -> bool {
        self.failed.load(Ordering::Relaxed) && self.lock().failed.as_ref().is_some_and(|(at, _)| *at < segment)
    }

    fn fail(&self, segment: u64, error: F::Error) {
        let mut order = self.lock();
        if order.failed.as_ref().is_none_or(|(at, _)| segment < *at) {
            order.failed = Some((segment, error));
        }
        self.failed.store(true, Ordering::Relaxed);
        self.turned.notify_all();
    }

    /// Decodes segment after segment until there are none left or the lane has gone.
    fn feed(&self, full: &Sender<Item<T, F::Error>>, buffers: &Receiver<RowBuf<T>>) {
        let mut spare = None;
        loop {
            let segment = self.next.fetch_add(1, Ordering::Relaxed);
            if segment >= self.end || self.pointless(segment) {
                return;
            }
            let last = match self.decode(segment, full, buffers, &mut spare) {
                Ok(true) => Item::End(segment),
                Ok(false) => return,
                Err(error) => Item::Failed(segment, error.into()),
            };
            let failed = matches!(last, Item::Failed(..));
            if full.send(last).is_err() || failed {
                return;
            }
        }
    }

    /// Sends the tiles of one segment; false when the lane has gone.
    fn decode(
        &self,
        segment: u64,
        full: &Sender<Item<T, F::Error>>,
        buffers: &Receiver<RowBuf<T>>,
        spare: &mut Option<RowBuf<T>>,
    ) -> Result<bool, Error> {
        let mut cursor = self.source.open(self.segments.get(segment))?;
        loop {
            let Some(mut buffer) = spare.take().or_else(|| buffers.recv().ok()) else { return Ok(false) };
            if self.pass.observer.stop() {
                return Err(Error::Interrupted);
            }
            if !cursor.next(&mut buffer)? {
                *spare = Some(buffer);
                return Ok(true);
            }
            if full.send(Item::Tile(segment, buffer)).is_err() {
                return Ok(false);
            }
        }
    }

    /// Folds what the feeder sends and delivers each segment in its turn.
    fn work(&self, tiles: &Receiver<Item<T, F::Error>>, free: &Sender<RowBuf<T>>, workers: &Workers) {
        let alarm = PanicAlarm(self);
        let shape = self.source.shape();
        let mut scratch = self.fold.scratch();
        let mut part = Part { state: None, folded: 0 };
        loop {
            let waiting = Instant::now();
            let Ok(item) = tiles.recv() else { break };
            self.starved.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let (segment, outcome) = match item {
                Item::Tile(segment, buffer) => {
                    let outcome = self.step(&mut part, &mut scratch, &buffer, &shape, workers);
                    let _ = free.send(buffer); // the feeder may have ended already
                    (segment, outcome)
                }
                Item::End(segment) => (segment, self.end(segment, &mut part, &mut scratch, workers)),
                Item::Failed(segment, error) => (segment, Err(error)),
            };
            if let Err(error) = outcome {
                self.fail(segment, error);
                break;
            }
            if self.pointless(segment) {
                break;
            }
        }
        std::mem::forget(alarm);
    }

    /// Decodes and folds segment after segment, as [`Run::feed`] and [`Run::work`] do together.
    fn work_alone(&self, workers: &Workers) {
        let alarm = PanicAlarm(self);
        let mut scratch = self.fold.scratch();
        let mut buffer = RowBuf::new(self.pass.tile);
        loop {
            let segment = self.next.fetch_add(1, Ordering::Relaxed);
            if segment >= self.end || self.pointless(segment) {
                break;
            }
            if let Err(error) = self.whole_segment(segment, &mut buffer, &mut scratch, workers) {
                self.fail(segment, error);
                break;
            }
        }
        std::mem::forget(alarm);
    }

    fn whole_segment(
        &self,
        segment: u64,
        buffer: &mut RowBuf<T>,
        scratch: &mut F::Scratch,
        workers: &Workers,
    ) -> Result<(), F::Error> {
        let (shape, mut part) = (self.source.shape(), Part { state: None, folded: 0 });
        let mut cursor = self.source.open(self.segments.get(segment))?;
        loop {
            if self.pass.observer.stop() {
                return Err(Error::Interrupted.into());
            }
            if !cursor.next(buffer)? {
                break;
            }
            self.step(&mut part, scratch, buffer, &shape, workers)?;
            if self.pointless(segment) {
                return Ok(());
            }
        }
        self.end(segment, &mut part, scratch, workers)
    }

    fn step(
        &self,
        part: &mut Part<F::State>,
        scratch: &mut F::Scratch,
        buffer: &RowBuf<T>,
        shape: &TableShape,
        workers: &Workers,
    ) -> Result<(), F::Error> {
        debug_assert!(buffer.rows.len() <= buffer.capacity, "a cursor forgets what was in the buffer");
        let block = buffer.block(shape);
        if block.is_empty() {
            return Ok(());
        }
        let state = part.state.get_or_insert_with(|| self.fold.init());
        self.fold.step(state, scratch, &block, workers)?;
        part.folded += block.len() as u64;
        self.folded.fetch_add(block.len() as u64, Ordering::Relaxed);
        self.pass.observer.advance(block.len() as u64);
        Ok(())
    }

    /// Waits for the segment's turn and delivers its state.
    fn end(
        &self,
        segment: u64,
        part: &mut Part<F::State>,
        scratch: &mut F::Scratch,
        workers: &Workers,
    ) -> Result<(), F::Error> {
        let (mut state, folded) = (part.state.take(), std::mem::take(&mut part.folded));
        if let Some(state) = &mut state {
            self.fold.flush(state, scratch, workers)?;
        }
        let mut order = self.lock();
        while order.turn < segment {
            if order.failed.as_ref().is_some_and(|(at, _)| *at < segment) {
                return Ok(());
            }
            order = self.turned.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(state) = state {
            let rows = self.segments.get(segment);
            let number = self.segments.first + segment;
            (order.deliver)(Delivery { rows, done: segment + 1, segment: number, folded, state })?;
        }
        order.turn += 1;
        self.turned.notify_all();
        Ok(())
    }
}

/// Wakes the other lanes when this one unwinds, so that they do not wait for a turn that never comes.
struct PanicAlarm<'r, 'a, T, F, D>(&'r Run<'a, T, F, D>)
where
    T: Real,
    F: Fold<T>,
    D: FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send;

impl<T, F, D> Drop for PanicAlarm<'_, '_, T, F, D>
where
    T: Real,
    F: Fold<T>,
    D: FnMut(Delivery<F::State>) -> Result<(), F::Error> + Send,
{
    fn drop(&mut self) {
        self.0.fail(0, Error::Worker.into());
    }
}
