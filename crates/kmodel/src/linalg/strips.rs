//! Cutting an output into pieces of a fixed size and giving them to threads.

use faer::MatMut;
use kstore::Workers;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls `work(i, piece)` for every piece of `size` elements of `out`.
///
/// The cut depends on `size` alone and pieces are disjoint: one thread or many give the same bits.
pub fn for_each_strip<E: Send>(
    workers: &Workers,
    out: &mut [E],
    size: usize,
    work: impl Fn(usize, &mut [E]) + Sync + Send,
) {
    workers.each(out.chunks_mut(size).enumerate().collect(), |(i, piece)| work(i, piece));
}

/// Cuts a matrix into strips of `height` rows, the last one shorter, and returns each with the row it begins at.
pub fn row_strips<E>(out: MatMut<'_, E>, height: usize) -> Vec<(usize, MatMut<'_, E>)> {
    let (rows, mut rest) = (out.nrows(), out);
    let mut strips = Vec::with_capacity(rows.div_ceil(height));
    while rest.nrows() > 0 {
        let first = rows - rest.nrows();
        let (strip, below) = rest.split_at_row_mut(height.min(rows - first));
        strips.push((first, strip));
        rest = below;
    }
    strips
}

/// What a mutex holds, whatever has happened to another thread.
pub fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub use kapprox::map::par;
pub use kstore::Pool;
