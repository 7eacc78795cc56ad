//! Products with the kernel matrix of n points, whose entries are computed on demand and cached up
//! to a memory limit.
//!
//! The points are cut into strips, and K_IJ, the kernel values between strips I and J, is called a
//! tile. Every block of 288 x 288 values of a tile is computed once and used twice, for K_IJ v_J
//! and for K_IJᵀ v_I = K_JI v_I. This halves the number of kernel evaluations, and makes the matrix
//! exactly symmetric. Two threads must not add to the same strip, and sums must not depend on the
//! timing. So the pairs of strips are scheduled like a round-robin tournament (circle method): in
//! each round, every strip is in at most one pair.
//!
//! *Cost* of a product with t columns: n²/2 kernel values, without those of cached blocks, and
//! 4·n²/2·t flops. *Bytes*: the points, one block per thread, and the cached blocks.

use crate::linalg::strips::{BufferPool, row_strips};
use faer::{Mat, MatMut, MatRef, prelude::*};
use kapprox::map::{column_slice, column_slice_mut};
use kapprox::{KernelFunction, Real};
use kstore::Workers;
use std::array::from_fn;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Number of rows and of columns of a block. It is the number of rows that
/// [`KernelFunction::block`] processes at a time, and the values of a block in f64 (650 KiB) stay
/// in the L2 cache.
const BLOCK_SIDE: usize = 288;

/// Maximum number of strips. With 64 strips, a round has 32 pairs, enough for the threads of a
/// large machine, and each pair has enough work.
const MAX_STRIPS: usize = 64;

/// The kernel matrix K of n points, in tiles.
#[derive(Debug)]
pub struct KernelTiles<'a, T: Real> {
    kernel: &'a dyn KernelFunction<T>,
    x: MatRef<'a, T>,
    workers: &'a Workers,
    strip_rows: usize,
    /// Blocks of the lower triangle, ordered by block row; each is computed at its first use.
    cache: Vec<OnceLock<Vec<T>>>,
}

impl<'a, T: Real> KernelTiles<'a, T> {
    /// Returns the kernel matrix of the rows of `x` (n x d row-major).
    pub fn new(kernel: &'a dyn KernelFunction<T>, x: MatRef<'a, T>, workers: &'a Workers) -> Self {
        let strip_rows = BLOCK_SIDE * x.nrows().div_ceil(BLOCK_SIDE * MAX_STRIPS).max(1);
        Self { kernel, x, workers, strip_rows, cache: Vec::new() }
    }

    /// Lets products cache as many blocks as fit into `bytes`, for later products.
    pub fn with_cache(mut self, bytes: usize) -> Self {
        let blocks_per_side = self.x.nrows().div_ceil(BLOCK_SIDE);
        let cached_block_count =
            (bytes / (BLOCK_SIDE * BLOCK_SIDE * size_of::<T>())).min(blocks_per_side * (blocks_per_side + 1) / 2);
        self.cache.resize_with(cached_block_count, OnceLock::new);
        self
    }

    /// Returns the bytes of a cache of all blocks.
    pub fn full_cache_bytes(n: usize) -> usize {
        let blocks_per_side = n.div_ceil(BLOCK_SIDE);
        (blocks_per_side * (blocks_per_side + 1) / 2).saturating_mul(BLOCK_SIDE * BLOCK_SIDE * size_of::<T>())
    }

    /// Returns the bytes of the buffers for a product with t columns on `threads` threads.
    pub fn buffer_bytes(threads: usize, t: usize) -> usize {
        threads.max(1) * BLOCK_SIDE * (BLOCK_SIDE * size_of::<T>() + 16 * t)
    }

    /// Returns K v, n x t.
    pub fn product(&self, v: MatRef<'_, f64>) -> Mat<f64> {
        let mut out = Mat::zeros(v.nrows(), v.ncols());
        self.apply(v, out.as_mut());
        out
    }

    /// Computes `out` = K v, both n x t with contiguous columns.
    pub fn apply(&self, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
        out.fill(0.0);
        let strips: Vec<Mutex<MatMut<'_, f64>>> =
            row_strips(out, self.strip_rows).into_iter().map(|(_, strip)| Mutex::new(strip)).collect();
        let block_buffers = BufferPool::default();
        let lock_strip = |i: usize| strips[i].lock().unwrap_or_else(PoisonError::into_inner);
        self.workers.run(strips.len(), |i| {
            block_buffers.with_buffer(Vec::new, |block| self.add_diagonal_tile(i, v, lock_strip(i).rb_mut(), block));
        });
        for pairs in tournament_rounds(strips.len()) {
            self.workers.run(pairs.len(), |k| {
                let (i, j) = pairs[k];
                block_buffers.with_buffer(Vec::new, |block| {
                    self.add_off_diagonal_tile(i, j, v, lock_strip(i).rb_mut(), lock_strip(j).rb_mut(), block)
                });
            });
        }
    }

    fn row_range(&self, strip: usize) -> std::ops::Range<usize> {
        strip * self.strip_rows..((strip + 1) * self.strip_rows).min(self.x.nrows())
    }

    /// Adds to `out`, the rows of strip `i` of the result, the product with the diagonal tile K_ii.
    fn add_diagonal_tile(&self, i: usize, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>, block: &mut Vec<T>) {
        let rows = self.row_range(i);
        for a in rows.clone().step_by(BLOCK_SIDE) {
            let height = BLOCK_SIDE.min(rows.end - a);
            for b in (rows.start..=a).step_by(BLOCK_SIDE) {
                let k = self.cached_block(a, height, b, BLOCK_SIDE.min(rows.end - b), block);
                let (_, tail) = out.rb_mut().split_at_row_mut(b - rows.start);
                if a == b {
                    multiply_symmetric(k, v.subrows(a, height), tail.subrows_mut(0, height));
                } else {
                    let (upper, lower) = tail.split_at_row_mut(a - b);
                    let lower = lower.subrows_mut(0, height);
                    multiply_both(
                        k,
                        v.subrows(a, height),
                        v.subrows(b, k.ncols()),
                        lower,
                        upper.subrows_mut(0, k.ncols()),
                    );
                }
            }
        }
    }

    /// Adds the products with the tile K_ij to the rows of strips `i` and `j` of the result.
    fn add_off_diagonal_tile(
        &self,
        i: usize,
        j: usize,
        v: MatRef<'_, f64>,
        mut out_i: MatMut<'_, f64>,
        mut out_j: MatMut<'_, f64>,
        block: &mut Vec<T>,
    ) {
        let (rows_i, rows_j) = (self.row_range(i), self.row_range(j));
        for a in rows_i.clone().step_by(BLOCK_SIDE) {
            let height = BLOCK_SIDE.min(rows_i.end - a);
            for b in rows_j.clone().step_by(BLOCK_SIDE) {
                let width = BLOCK_SIDE.min(rows_j.end - b);
                let k = self.cached_block(a, height, b, width, block);
                let upper = out_i.rb_mut().subrows_mut(a - rows_i.start, height);
                let lower = out_j.rb_mut().subrows_mut(b - rows_j.start, width);
                multiply_both(k, v.subrows(a, height), v.subrows(b, width), upper, lower);
            }
        }
    }

    /// Returns the block of kernel values that begins at row `a` and column `b`, from the cache if
    /// the cache has room for it, and otherwise computed in the buffer `block`.
    fn cached_block<'b>(
        &'b self,
        a: usize,
        height: usize,
        b: usize,
        width: usize,
        block: &'b mut Vec<T>,
    ) -> MatRef<'b, T> {
        let compute = |block: &mut Vec<T>| {
            block.resize(height * width, T::default());
            let out = MatMut::from_column_major_slice_mut(block, height, width);
            self.kernel.block(self.x.subrows(a, height), self.x.subrows(b, width), out);
        };
        let (row, column) = (a.max(b) / BLOCK_SIDE, a.min(b) / BLOCK_SIDE);
        let values = match self.cache.get(row * (row + 1) / 2 + column) {
            Some(cell) => cell.get_or_init(|| {
                let mut block = Vec::new();
                compute(&mut block);
                block
            }),
            None => {
                compute(block);
                block
            }
        };
        MatRef::from_column_major_slice(values, height, width)
    }
}

/// Computes `rows` += K v_columns and `columns` += Kᵀ v_rows.
fn multiply_both<T: Real>(
    k: MatRef<'_, T>,
    v_rows: MatRef<'_, f64>,
    v_columns: MatRef<'_, f64>,
    mut rows: MatMut<'_, f64>,
    mut columns: MatMut<'_, f64>,
) {
    for t in 0..v_rows.ncols() {
        let (right, sums) = (column_slice(v_rows.col(t)), column_slice_mut(rows.rb_mut().col_mut(t)));
        for j in 0..k.ncols() {
            columns[(j, t)] += axpy_and_dot(column_slice(k.col(j)), right, v_columns[(j, t)], sums);
        }
    }
}

/// Computes `out` += K v for a diagonal block K. Reads only its lower triangle.
fn multiply_symmetric<T: Real>(k: MatRef<'_, T>, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
    let height = k.nrows();
    for t in 0..v.ncols() {
        let (right, sums) = (column_slice(v.col(t)), column_slice_mut(out.rb_mut().col_mut(t)));
        for j in 0..height {
            let (column, below_diagonal, v_j) = (column_slice(k.col(j)), j + 1..height, right[j]);
            let dot_below = axpy_and_dot(
                &column[below_diagonal.clone()],
                &right[below_diagonal.clone()],
                v_j,
                &mut sums[below_diagonal],
            );
            sums[j] += kstore::Float::to_f64(column[j]) * v_j + dot_below;
        }
    }
}

/// Number of partial sums: two AVX-512 registers of f64.
const TILE_PARTIAL_SUMS: usize = 16;

/// Computes `sums` += `weight`·`k` and returns Σ k·`right`, in f64, in one pass over the column
/// `k`.
fn axpy_and_dot<T: Real>(k: &[T], right: &[f64], weight: f64, sums: &mut [f64]) -> f64 {
    kapprox::vectorised!({
        let mut partial_sums = [0.0; TILE_PARTIAL_SUMS];
        let (k_whole, k_tail) = k.as_chunks::<TILE_PARTIAL_SUMS>();
        let (right_whole, right_tail) = right.as_chunks::<TILE_PARTIAL_SUMS>();
        let (sums_whole, sums_tail) = sums.as_chunks_mut::<TILE_PARTIAL_SUMS>();
        for ((k, right), sums) in k_whole.iter().zip(right_whole).zip(sums_whole) {
            // three loops: in a single loop over lanes, each store to `sums` would precede the next
            // load, which prevents vectorisation
            let k: [f64; TILE_PARTIAL_SUMS] = from_fn(|i| k[i].to_f64());
            partial_sums = from_fn(|i| partial_sums[i] + k[i] * right[i]);
            *sums = from_fn(|i| sums[i] + k[i] * weight);
        }
        let mut tail = 0.0;
        for ((k, right), sum) in k_tail.iter().zip(right_tail).zip(sums_tail) {
            let k = k.to_f64();
            *sum += k * weight;
            tail += k * right;
        }
        partial_sums.iter().sum::<f64>() + tail
    })
}

/// Returns all pairs of `count` strips, in rounds that contain each strip at most once, by the
/// circle method: the first strip keeps its seat, and the others rotate.
fn tournament_rounds(count: usize) -> Vec<Vec<(usize, usize)>> {
    let seat_count = count + count % 2;
    let strip_at = |round: usize, seat: usize| if seat == 0 { 0 } else { 1 + (round + seat - 1) % (seat_count - 1) };
    let pairs = |round: usize| {
        let seats =
            (0..seat_count / 2).map(move |seat| (strip_at(round, seat), strip_at(round, seat_count - 1 - seat)));
        // if the number of strips is odd, one strip rests in each round
        seats.map(|(a, b)| (a.min(b), a.max(b))).filter(|(_, b)| *b < count).collect()
    };
    (0..seat_count.saturating_sub(1)).map(pairs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kapprox::Kernel;

    #[test]
    fn every_pair_of_strips_meets_once() {
        for count in [0, 1, 2, 3, 7, 12] {
            let rounds = tournament_rounds(count);
            let mut pairs: Vec<(usize, usize)> = rounds.iter().flatten().copied().collect();
            for round in &rounds {
                let mut strips: Vec<usize> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
                strips.sort_unstable();
                assert!(strips.windows(2).all(|w| w[0] < w[1]), "{count}: {round:?}");
            }
            pairs.sort_unstable();
            let expected: Vec<(usize, usize)> = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
            assert_eq!(pairs, expected, "{count}");
        }
    }

    #[test]
    fn products_equal_the_dense_matrix_for_any_threads() {
        let kernel = Kernel::parse("gaussian(sigma=1.5)").unwrap().build().unwrap().typed::<f64>();
        // numbers of rows: less than a block, more than a block, and several blocks in each of many
        // strips
        for n in [5, 300, 1000, 20_000] {
            let x: Vec<f64> = (0..n * 2).map(|i| ((i * i) as f64 * 0.37).sin() * 2.0).collect();
            let x = MatRef::from_row_major_slice(&x, n, 2);
            let v = Mat::from_fn(n, 2, |i, j| ((i + 3 * j) as f64).cos());
            let product = |threads: usize, room: usize| {
                let workers = Workers::new(threads);
                let tiles = KernelTiles::new(&*kernel, x, &workers).with_cache(room);
                let result = tiles.product(v.as_ref());
                assert!(result == tiles.product(v.as_ref()), "{n} {threads} {room}: made and kept");
                result
            };
            let sequential = product(1, 0);
            // with no, some and, for small n, all blocks cached
            for (threads, room) in [(3, 0), (1, 1 << 21), (3, KernelTiles::<f64>::full_cache_bytes(n).min(1 << 24))] {
                assert!(sequential == product(threads, room), "{n} {threads} {room}");
            }
            for i in (0..n).step_by(n.div_ceil(17)) {
                let mut row = Mat::zeros(1, n);
                kernel.block(x.subrows(i, 1), x, row.as_mut());
                let expected = &row * &v;
                assert!((sequential.row(i) - expected.row(0)).norm_max() < 1e-11 * n as f64, "{n} {i}");
            }
        }
    }
}
