//! Threads for the work inside a step.

use crate::{Error, budget};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval between two checks of the token while work runs on another thread.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum number of arithmetic operations that several threads share. One core computes 10¹⁰ per
/// second or more; it takes about 10 µs to wake a thread and as long until that thread sleeps
/// again. In a logistic fit at rank 60, waking threads took a third of the processor time.
const MIN_SHARED_OPERATIONS: usize = 1 << 19;

thread_local! {
    /// True while this thread runs one of several lanes.
    static IN_LANE: Cell<bool> = const { Cell::new(false) };
}

/// A guard that restores [`IN_LANE`] when a lane ends, even if it panics.
struct InLaneGuard {
    was_in_lane: bool,
}

impl Drop for InLaneGuard {
    fn drop(&mut self) {
        IN_LANE.set(self.was_in_lane);
    }
}

/// A stop request that another thread may make. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    is_cancelled: Arc<AtomicBool>,
}

impl CancelToken {
    /// Returns a token without a stop request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every run that has this token to stop.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true once the token asks to stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// A pool of buffers that threads borrow and return. It holds at most as many buffers as were in
/// use at the same time.
#[derive(Debug)]
pub struct BufferPool<B> {
    spare_buffers: Mutex<Vec<B>>,
}

impl<B> Default for BufferPool<B> {
    fn default() -> Self {
        Self { spare_buffers: Mutex::new(Vec::new()) }
    }
}

impl<B> BufferPool<B> {
    /// Runs `work` with a buffer that no other thread uses; `new_buffer` creates one if all are in
    /// use.
    ///
    /// ```
    /// let pool = kpass::BufferPool::default();
    /// pool.with_buffer(|| vec![0; 3], |buffer: &mut Vec<i32>| buffer[1] = 7);
    /// assert_eq!(pool.with_buffer(Vec::new, |buffer| buffer.clone()), [0, 7, 0]);
    /// ```
    pub fn with_buffer<R>(&self, new_buffer: impl FnOnce() -> B, work: impl FnOnce(&mut B) -> R) -> R {
        let lock = || self.spare_buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = lock().pop();
        let mut buffer = spare.unwrap_or_else(new_buffer);
        let result = work(&mut buffer);
        lock().push(buffer);
        result
    }
}

/// Threads for the work inside one step, and the stop request that long steps check.
///
/// The parts of [`Workers::run`] do not depend on the number of threads, and they write to separate
/// places. Any number of threads therefore gives the same bits.
#[derive(Clone, Debug, Default)]
pub struct Workers {
    pool: Option<Arc<rayon::ThreadPool>>,
    cancel_token: CancelToken,
}

impl Workers {
    /// Returns workers that use only the calling thread.
    pub fn sequential() -> Self {
        Self::default()
    }

    /// Returns a pool of `threads` threads, or of fewer if the limits of the process
    /// ([`budget::allowed_threads`]) or the system refuse some.
    ///
    /// The results do not depend on the number. If no pool can start, the calling thread does all
    /// work.
    pub fn new(threads: usize) -> Self {
        let halve = |threads: &usize| (*threads > 2).then_some(threads / 2);
        let initial_threads = Some(budget::allowed_threads(threads)).filter(|threads| *threads > 1);
        let pool = std::iter::successors(initial_threads, halve)
            .find_map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok());
        Self { pool: pool.map(Arc::new), ..Self::default() }
    }

    /// Returns workers that use the threads of an existing pool, such as the pool of the caller:
    /// lanes and the parts of steps run on it, and only files are read by additional threads.
    ///
    /// ```
    /// use kpass::{Workers, rayon};
    /// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    /// assert_eq!(Workers::from_pool(std::sync::Arc::new(pool)).threads(), 2);
    /// ```
    pub fn from_pool(pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool: Some(pool), ..Self::default() }
    }

    /// Returns the same threads with another token: long steps end early once it asks to stop.
    #[must_use]
    pub fn with_cancel_token(self, cancel_token: CancelToken) -> Self {
        Self { cancel_token, ..self }
    }

    /// Returns workers of a single thread with the same token.
    pub(super) fn to_sequential(&self) -> Self {
        Self { pool: None, cancel_token: self.cancel_token.clone() }
    }

    /// Returns these workers for this many arithmetic operations, or the calling thread alone if it
    /// completes them before another thread wakes up.
    #[doc(hidden)]
    #[must_use]
    pub fn for_operations(&self, operations: usize) -> Self {
        if operations < MIN_SHARED_OPERATIONS { self.to_sequential() } else { self.clone() }
    }

    /// Returns true once the token asks to stop. A step may then end early and leave any state: a
    /// pass calls [`Workers::check`] after every step, and discards the state.
    pub fn is_cancelled(&self) -> bool {
        self.cancel_token.is_cancelled()
    }

    /// Returns an error once the token asks to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Returns the pool, unless this thread runs one of several lanes: the other lanes occupy the
    /// threads of the pool while they wait for their turn.
    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_deref().filter(|_| !IN_LANE.get())
    }

    /// Returns the number of threads that work at the same time: 1 in one of several lanes.
    pub fn threads(&self) -> usize {
        self.pool().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Runs `run_part(0)`, …, `run_part(part_count - 1)`, started in this order, at the same time
    /// if there are threads.
    ///
    /// Each thread takes the next part as soon as it is free. If the large parts come first, all
    /// threads end at about the same time.
    pub fn run(&self, part_count: usize, run_part: impl Fn(usize) + Sync + Send) {
        self.run_parts(part_count, &run_part);
    }

    /// Implements [`Workers::run`] without type parameters, so that it is compiled only once.
    fn run_parts(&self, part_count: usize, run_part: &(dyn Fn(usize) + Sync)) {
        match self.pool() {
            Some(pool) if part_count > 1 => {
                let next_index = AtomicUsize::new(0);
                pool.broadcast(|_| {
                    loop {
                        let index = next_index.fetch_add(1, Ordering::Relaxed);
                        if index >= part_count {
                            return;
                        }
                        run_part(index);
                    }
                });
            }
            _ => (0..part_count).for_each(run_part),
        }
    }

    /// Runs `work` once for each part, as [`Workers::run`] does. Parts own the memory that they
    /// write, such as strips of rows or panels of columns.
    pub fn for_each<P: Send>(&self, parts: Vec<P>, work: impl Fn(P) + Sync + Send) {
        let parts: Vec<Mutex<Option<P>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
        self.run(parts.len(), |i| {
            if let Some(part) = parts[i].lock().unwrap_or_else(PoisonError::into_inner).take() {
                work(part);
            }
        });
    }

    /// Runs work that may fail, as [`Workers::for_each`] does: all parts run, even if some fail.
    ///
    /// # Errors
    /// The first error in the order of the parts.
    pub fn try_for_each<P: Send, E: Send>(
        &self,
        parts: Vec<P>,
        work: impl Fn(P) -> Result<(), E> + Sync + Send,
    ) -> Result<(), E> {
        let mut outcomes: Vec<Result<(), E>> = parts.iter().map(|_| Ok(())).collect();
        self.for_each(parts.into_iter().zip(&mut outcomes).collect(), |(part, outcome)| *outcome = work(part));
        outcomes.into_iter().collect()
    }

    /// Runs work that cannot be interrupted, such as a decomposition, on a new thread, or on the
    /// calling thread if the system refuses a new thread. Once the token asks to stop, the call
    /// returns without waiting: the work continues to its end, and holds its memory until then.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; [`Error::WorkerPanicked`] if the thread panicked.
    pub fn run_detached<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Result<R, Error> {
        let (sender, receiver) = channel();
        let work = Arc::new(Mutex::new(Some(move || drop(sender.send(work())))));
        let take_work = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let shared_work = work.clone();
        let spawn_result = std::thread::Builder::new().spawn(move || take_work(&shared_work).map(|work| work()));
        if spawn_result.is_err()
            && let Some(work) = take_work(&work)
        {
            work();
        }
        loop {
            match receiver.recv_timeout(CANCEL_POLL_INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::WorkerPanicked),
            }
        }
    }

    /// Runs `lane` the given number of times, in parallel if there are threads. If the system
    /// refuses threads, `lane` runs fewer times, which suffices because all lanes take their work
    /// from one queue. One lane without a pool runs on the calling thread.
    ///
    /// A lane may wait for lanes that have started, but never for one that has not, because all
    /// threads of the pool may be in use.
    pub fn run_lanes(&self, lane_count: usize, lane: impl Fn() + Sync) {
        let lane = &|| {
            let _guard = InLaneGuard { was_in_lane: IN_LANE.replace(lane_count > 1 || IN_LANE.get()) };
            lane();
        };
        match self.pool() {
            Some(pool) => pool.in_place_scope(|scope| (0..lane_count).for_each(|_| scope.spawn(move |_| lane()))),
            None => std::thread::scope(|scope| {
                let start = || std::thread::Builder::new().spawn_scoped(scope, lane);
                let _started_lanes = (1..lane_count).map_while(|_| start().ok()).count();
                lane();
            }),
        }
    }

    /// Runs `work` on the pool, so that nested parallel routines find its threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.pool() {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_work_is_awaited_until_the_token_asks_to_stop() {
        let token = CancelToken::new();
        let workers = Workers::sequential().with_cancel_token(token.clone());
        assert_eq!(workers.run_detached(|| 6 * 7).unwrap(), 42);
        assert!(matches!(workers.run_detached(|| panic!("on purpose")).map(|()| 0), Err(Error::WorkerPanicked)));
        // this work is still running when the caller stops waiting
        let (release, receiver) = channel::<()>();
        token.cancel();
        assert!(matches!(workers.run_detached(move || receiver.recv().is_ok()), Err(Error::Interrupted)));
        drop(release);
    }
}
