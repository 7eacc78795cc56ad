//! The one loop over rows.
//!
//! ```text
//!              segment 0        segment 1        segment 2   …        fixed ranges of stored rows
//! feeder  ──▶ [tile][tile][t] │ [tile][tile]… │                      decodes ahead of its lane
//! lane    ──▶ step step step flush ─▶ deliver                        one state, made anew for each segment
//!                                       └── in segment order ──▶ merged total
//! ```
//!
//! A **tile** is the rows a fold sees at once, a **segment** the unit of reduction, a **lane** a thread with a state
//! of its own. Tiles and segments are functions of the shape of the work alone. Every segment starts from
//! [`Fold::init`] and segment states are delivered in segment order, so lanes and prefetch change when a number is
//! computed and never which: the result has the same bits for every number of threads and every budget.

use crate::{Error, Real, RowBlock, RowBuf, RowSource};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A state that can be merged with the state of later rows.
///
/// The law: for any split of the rows, merging the parts' states in row order gives the state of all rows, up to
/// rounding; for the same split, the same bits.
pub trait Merge: Send {
    /// Takes in the state of rows that come after this state's rows.
    fn merge(&mut self, later: &Self);
}

impl<A: Merge + Sync, B: Merge + Sync> Merge for (A, B) {
    fn merge(&mut self, later: &Self) {
        self.0.merge(&later.0);
        self.1.merge(&later.1);
    }
}

/// What is done with the rows of a pass.
pub trait Fold<T: Real>: Sync {
    /// What is known about the rows of a segment.
    type State: Send;
    /// Buffers of a lane, reused over its segments; holds nothing between [`Fold::flush`] and the next `step`.
    type Scratch: Send;
    /// The error of a step.
    type Error: From<Error> + Send;

    /// The state of no rows.
    fn init(&self) -> Self::State;
    /// Buffers for one lane.
    fn scratch(&self) -> Self::Scratch;
    /// Takes in one tile.
    fn step(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<(), Self::Error>;
    /// Ends a segment: whatever was held back in the scratch goes into the state.
    fn flush(
        &self,
        _state: &mut Self::State,
        _scratch: &mut Self::Scratch,
        _workers: &Workers,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Threads for the work inside one step.
///
/// The parts of [`Workers::run`] are cut by the caller, never by the number of threads, and write to separate places:
/// so one thread or many give the same bits.
#[derive(Clone, Debug, Default)]
pub struct Workers(Option<Arc<rayon::ThreadPool>>);

impl Workers {
    /// The calling thread only.
    pub fn sequential() -> Self {
        Self(None)
    }

    /// A pool of `threads` threads.
    pub fn new(threads: usize) -> Self {
        let pool = (threads > 1).then(|| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
        // a pool that cannot be started leaves the calling thread, which computes the same bits
        Self(pool.and_then(Result::ok).map(Arc::new))
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Runs `part(0)`, …, `part(parts - 1)`, started in this order, at the same time where there are threads.
    ///
    /// Threads take the next part as they become free: give large parts first and the threads end together.
    pub fn run(&self, parts: usize, part: impl Fn(usize) + Sync + Send) {
        match &self.0 {
            Some(pool) if parts > 1 => {
                let next = AtomicUsize::new(0);
                pool.broadcast(|_| {
                    loop {
                        let mine = next.fetch_add(1, Ordering::Relaxed);
                        if mine >= parts {
                            return;
                        }
                        part(mine);
                    }
                });
            }
            _ => (0..parts).for_each(part),
        }
    }

    /// Runs `work` once for each part, as [`Workers::run`]: for parts that own what they write, strips of rows or panels
    /// of columns.
    pub fn each<P: Send>(&self, parts: Vec<P>, work: impl Fn(P) + Sync + Send) {
        let parts: Vec<Mutex<Option<P>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
        self.run(parts.len(), |i| {
            if let Some(part) = parts[i].lock().unwrap_or_else(PoisonError::into_inner).take() {
                work(part);
            }
        });
    }

    /// Runs `work` on the pool, so that nested parallel routines find its threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// Watches a pass, and may stop it.
pub trait Observer: Sync {
    /// `rows` more rows were folded.
    fn advance(&self, rows: u64);
    /// True when the run should end with [`Error::Interrupted`].
    fn stop(&self) -> bool {
        false
    }
}

/// An observer that neither looks nor stops.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn advance(&self, _rows: u64) {}
}

/// How a pass is cut and who works on it.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// Rows per tile.
    pub tile: usize,
    /// Stored rows per segment.
    pub segment: u64,
    /// Segments folded at the same time, each with a state of its own.
    pub lanes: usize,
    /// Tiles decoded ahead, per lane, by a thread of their own. With 0 a lane decodes its own tiles: less work where all
    /// processors have a lane, because tiles stay in the processor's cache; nothing is decoded while a lane folds.
    pub prefetch: usize,
    /// Threads inside a step; sequential where there are several lanes.
    pub workers: &'a Workers,
    /// Progress and interruption.
    pub observer: &'a dyn Observer,
}

impl std::fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pass")
            .field("tile", &self.tile)
            .field("segment", &self.segment)
            .field("lanes", &self.lanes)
            .field("prefetch", &self.prefetch)
            .field("threads", &self.workers.threads())
            .finish_non_exhaustive()
    }
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// Rows folded.
    pub rows: u64,
    /// Time the lanes waited for the decoder, summed over lanes.
    pub starved: Duration,
}

impl Pass<'_> {
    /// Folds every selected row and merges the segments' states. `None` for a source without rows.
    ///
    /// Holds `lanes + 1` states at most.
    ///
    /// # Errors
    /// The first error in row order of the source, the fold, or [`Error::Interrupted`].
    pub fn fold<T, F>(&self, source: &dyn RowSource<T>, fold: &F) -> Result<(F::State, PassReport), F::Error>
    where
        T: Real,
        F: Fold<T>,
        F::State: Merge,
    {
        let mut total: Option<F::State> = None;
        let report = self.segments(source, fold, |_, state| {
            match &mut total {
                Some(total) => total.merge(&state),
                None => total = Some(state),
            }
            Ok(())
        })?;
        Ok((total.unwrap_or_else(|| fold.init()), report))
    }

    /// Folds every segment and hands its state to `deliver`, in segment order.
    ///
    /// A segment without selected rows delivers nothing.
    pub fn segments<T, F>(
        &self,
        source: &dyn RowSource<T>,
        fold: &F,
        deliver: impl FnMut(Range<u64>, F::State) -> Result<(), F::Error> + Send,
    ) -> Result<PassReport, F::Error>
    where
        T: Real,
        F: Fold<T>,
    {
        let segments = Segments::new(source.range(), self.segment);
        let lanes = self.lanes.clamp(1, usize::try_from(segments.count()).unwrap_or(usize::MAX).max(1));
        let sequential = Workers::sequential();
        let workers = if lanes > 1 { &sequential } else { self.workers };
        let run = Run {
            pass: self,
            source,
            fold,
            segments,
            next: AtomicU64::new(0),
            order: Mutex::new(Order { turn: 0, failed: None, deliver }),
            turned: Condvar::new(),
            failed: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            starved: AtomicU64::new(0),
        };
        std::thread::scope(|scope| {
            for _ in 0..lanes {
                if self.prefetch == 0 {
                    let run = &run;
                    scope.spawn(move || run.work_alone(workers));
                    continue;
                }
                let (full, tiles) = channel();
                let (free, buffers) = channel();
                for _ in 0..self.prefetch + 1 {
                    // cannot fail: the receiver is alive
                    let _ = free.send(RowBuf::new(self.tile));
                }
                let run = &run;
                scope.spawn(move || run.feed(&full, &buffers));
                scope.spawn(move || run.work(&tiles, &free, workers));
            }
        });
        let report = PassReport {
            rows: run.rows.load(Ordering::Relaxed),
            starved: Duration::from_nanos(run.starved.load(Ordering::Relaxed)),
        };
        let order = run.order.into_inner().unwrap_or_else(PoisonError::into_inner);
        match order.failed {
            Some((_, error)) => Err(error),
            None if order.turn < segments.count() => Err(Error::Worker.into()),
            None => Ok(report),
        }
    }
}

/// The cut of `range` at multiples of `size`: pruned rows never shift a segment.
#[derive(Clone, Copy, Debug)]
struct Segments {
    range: (u64, u64),
    size: u64,
    first: u64,
}

impl Segments {
    fn new(range: Range<u64>, size: u64) -> Self {
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

/// What passes from a feeder to its lane.
enum Item<T, E> {
    Tile(u64, RowBuf<T>),
    End(u64),
    Failed(u64, E),
}

/// Whose turn it is to deliver, and the first failure in row order.
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
    order: Mutex<Order<F::Error, D>>,
    turned: Condvar,
    failed: AtomicBool,
    rows: AtomicU64,
    starved: AtomicU64,
}

impl<T, F, D> Run<'_, T, F, D>
where
    T: Real,
    F: Fold<T>,
    D: FnMut(Range<u64>, F::State) -> Result<(), F::Error> + Send,
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
            if segment >= self.segments.count() || self.pointless(segment) {
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
        let mut state: Option<F::State> = None;
        loop {
            let waiting = Instant::now();
            let Ok(item) = tiles.recv() else { break };
            self.starved.fetch_add(waiting.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let (segment, outcome) = match item {
                Item::Tile(segment, buffer) => {
                    let outcome = self.step(&mut state, &mut scratch, &buffer, &shape, workers);
                    let _ = free.send(buffer); // the feeder may have ended already
                    (segment, outcome)
                }
                Item::End(segment) => (segment, self.end(segment, &mut state, &mut scratch, workers)),
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
            if segment >= self.segments.count() || self.pointless(segment) {
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
        let (shape, mut state) = (self.source.shape(), None);
        let mut cursor = self.source.open(self.segments.get(segment))?;
        loop {
            if self.pass.observer.stop() {
                return Err(Error::Interrupted.into());
            }
            if !cursor.next(buffer)? {
                break;
            }
            self.step(&mut state, scratch, buffer, &shape, workers)?;
            if self.pointless(segment) {
                return Ok(());
            }
        }
        self.end(segment, &mut state, scratch, workers)
    }

    fn step(
        &self,
        state: &mut Option<F::State>,
        scratch: &mut F::Scratch,
        buffer: &RowBuf<T>,
        shape: &crate::TableShape,
        workers: &Workers,
    ) -> Result<(), F::Error> {
        let block = buffer.block(shape);
        if block.is_empty() {
            return Ok(());
        }
        let state = state.get_or_insert_with(|| self.fold.init());
        self.fold.step(state, scratch, &block, workers)?;
        self.rows.fetch_add(block.len() as u64, Ordering::Relaxed);
        self.pass.observer.advance(block.len() as u64);
        Ok(())
    }

    /// Waits for the segment's turn and delivers its state.
    fn end(
        &self,
        segment: u64,
        state: &mut Option<F::State>,
        scratch: &mut F::Scratch,
        workers: &Workers,
    ) -> Result<(), F::Error> {
        let mut state = state.take();
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
            (order.deliver)(self.segments.get(segment), state)?;
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
    D: FnMut(Range<u64>, F::State) -> Result<(), F::Error> + Send;

impl<T, F, D> Drop for PanicAlarm<'_, '_, T, F, D>
where
    T: Real,
    F: Fold<T>,
    D: FnMut(Range<u64>, F::State) -> Result<(), F::Error> + Send,
{
    fn drop(&mut self) {
        self.0.fail(0, Error::Worker.into());
    }
}
