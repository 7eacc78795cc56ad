//! Threads for the work inside a step.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

    /// The threads of a pool that is there already, such as that of the program around: lanes and the parts of steps run
    /// on it, and only files are read by threads beside it.
    ///
    /// ```
    /// use kstore::{Workers, rayon};
    /// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    /// assert_eq!(Workers::of(std::sync::Arc::new(pool)).threads(), 2);
    /// ```
    pub fn of(pool: Arc<rayon::ThreadPool>) -> Self {
        Self(Some(pool))
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Runs `part(0)`, …, `part(parts - 1)`, started in this order, at the same time where there are threads.
    ///
    /// Threads take the next part as they become free: give large parts first and the threads end together.
    pub fn run(&self, parts: usize, part: impl Fn(usize) + Sync + Send) {
        self.run_parts(parts, &part);
    }

    /// [`Workers::run`], compiled once for all kinds of parts.
    fn run_parts(&self, parts: usize, part: &(dyn Fn(usize) + Sync)) {
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

    /// Runs `lane` so many times, at once as far as there are threads; without a pool each time on a thread of its own.
    ///
    /// A lane may wait for others that have begun, never for one that has not: a pool's threads may be taken.
    pub(super) fn lanes(&self, lanes: usize, lane: impl Fn() + Sync) {
        let lane = &lane;
        match &self.0 {
            Some(pool) => pool.in_place_scope(|scope| (0..lanes).for_each(|_| scope.spawn(move |_| lane()))),
            None => std::thread::scope(|scope| {
                (0..lanes).for_each(|_| {
                    scope.spawn(lane);
                });
            }),
        }
    }

    /// Runs `work` on the pool, so that nested parallel routines find its threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}
