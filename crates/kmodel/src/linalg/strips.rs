//! Divides an output into pieces of a fixed size, and distributes them over threads.

use faer::MatMut;
use kstore::Workers;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls `visitor(i, piece)` for every piece of `strip_len` elements of `out` (the last may be
/// shorter).
///
/// Pieces are disjoint and depend on `strip_len` alone, so the result does not depend on the number
/// of threads.
pub fn for_each_strip<E: Send>(
    workers: &Workers,
    out: &mut [E],
    strip_len: usize,
    visitor: impl Fn(usize, &mut [E]) + Sync + Send,
) {
    workers.for_each(out.chunks_mut(strip_len).enumerate().collect(), |(i, piece)| visitor(i, piece));
}

/// Cuts a matrix into strips of `strip_rows` rows (the last may be shorter). Returns (index of the
/// first row, strip) pairs.
pub fn row_strips<E>(out: MatMut<'_, E>, strip_rows: usize) -> Vec<(usize, MatMut<'_, E>)> {
    let (row_count, mut remaining) = (out.nrows(), out);
    let mut strips = Vec::with_capacity(row_count.div_ceil(strip_rows));
    while remaining.nrows() > 0 {
        let first_row = row_count - remaining.nrows();
        let (strip, below) = remaining.split_at_row_mut(strip_rows.min(row_count - first_row));
        strips.push((first_row, strip));
        remaining = below;
    }
    strips
}

/// Locks a mutex, even if another thread panicked while holding it.
pub fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub use kapprox::map::par;
pub use kstore::BufferPool;
