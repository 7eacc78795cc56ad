//! Kernel values between the rows of an SVM: the whole matrix, or a cache with the matrix rows of
//! the working set.
//!
//! The values are bit-identical for any cache size, because a row of the matrix is always computed
//! by the same product of one point and all rows of the SVM.

use crate::{linalg::kernel_rows::compute_kernel_rows, linalg::strips::for_each_strip};
use faer::{MatMut, MatRef, prelude::*};
use kapprox::{KernelFunction, Real};
use kstore::Workers;
use std::ops::Range;

/// Maximum number of rows of an SVM whose whole kernel matrix is stored: 67 MB in f32. With more
/// rows, working sets were faster (measured on the data set `dsa`).
pub(super) const MAX_MATRIX_ROWS: usize = 4096;

/// Number of rows of the working set, if the whole matrix is not stored.
pub(super) const WORKING_SET: usize = 1024;

/// Order of the square blocks in which a matrix is mirrored.
const MIRROR_BLOCK: usize = 64;

/// Number of rows whose kernel values are computed together.
const BATCH_ROWS: usize = 128;

/// The n x n kernel matrix between the rows of an SVM, or a cache of its rows.
pub(super) enum StoredKernel<'a, T: Real> {
    Matrix(Vec<T>),
    /// The most recently used rows of the matrix.
    Cache(RowCache<'a, T>),
}

#[derive(Clone, Copy)]
pub(super) struct KernelPoints<'a, T: Real> {
    pub(super) kernel: &'a dyn KernelFunction<T>,
    /// n x d.
    pub(super) x: MatRef<'a, T>,
    /// Number added to every kernel value: 1 for a penalised intercept, else 0.
    pub(super) shift: T,
}

/// Returns the minimum bytes of the kernel values of an SVM on n rows.
pub(super) fn bytes(n: usize, d: usize, element_bytes: usize) -> usize {
    match n <= MAX_MATRIX_ROWS {
        true => n * n * element_bytes,
        false => element_bytes * ((WORKING_SET + BATCH_ROWS) * n + WORKING_SET * WORKING_SET + BATCH_ROWS * d) + 16 * n,
    }
}

/// Returns the maximum bytes of the kernel values that an SVM on n rows stores in addition to
/// [`bytes`], if the budget allows.
pub(super) fn optional_bytes(n: usize, element_bytes: usize) -> usize {
    if n <= MAX_MATRIX_ROWS { 0 } else { (n - WORKING_SET).saturating_mul(n).saturating_mul(element_bytes) }
}

/// Returns the number of rounds that make up a sweep: those in which as many rows enter the working
/// set as the SVM has.
pub(super) fn rounds_per_sweep(n: usize) -> usize {
    if n <= MAX_MATRIX_ROWS { 1 } else { n.div_ceil(WORKING_SET / 2) }
}

impl<'a, T: Real> StoredKernel<'a, T> {
    /// If the SVM has at most [`MAX_MATRIX_ROWS`] rows, builds their kernel matrix in
    /// `matrix_buffer`. Otherwise creates a cache of `cache_bytes` bytes for rows of the matrix.
    /// The SVM's rows consist of consecutive parts of the sizes `part_sizes`. If the kernel matrix
    /// of a part is already computed, `part_matrices` contains it.
    pub(super) fn new(
        points: KernelPoints<'a, T>,
        (part_sizes, part_matrices): (&[usize], &[Option<&[T]>]),
        mut matrix_buffer: Vec<T>,
        cache_bytes: usize,
        workers: &Workers,
    ) -> Self {
        let n = points.x.nrows();
        match n <= MAX_MATRIX_ROWS {
            true => {
                fill_matrix(points, part_sizes, part_matrices, &mut matrix_buffer, workers);
                Self::Matrix(matrix_buffer)
            }
            false => Self::Cache(RowCache::new(points, cache_bytes / (n * size_of::<T>()))),
        }
    }

    /// Returns the buffer of the matrix for the next SVM. The operating system would have to clear
    /// the pages of a new buffer.
    pub(super) fn into_matrix_buffer(self) -> Vec<T> {
        match self {
            Self::Matrix(matrix) => matrix,
            Self::Cache(_) => Vec::new(),
        }
    }
}

/// Computes the n x n kernel matrix `k` between the rows, one part of columns at a time. Evaluates
/// the entries below the diagonal and copies them to the entries above it. `part_matrices` may
/// contain the diagonal blocks of some parts.
pub(super) fn fill_matrix<T: Real>(
    KernelPoints { kernel, x, shift }: KernelPoints<'_, T>,
    part_sizes: &[usize],
    part_matrices: &[Option<&[T]>],
    k: &mut Vec<T>,
    workers: &Workers,
) {
    let n = x.nrows();
    k.resize(n * n, T::ZERO);
    let (mut columns, mut remaining_columns) = (Vec::new(), &mut k[..]);
    let ranges = part_sizes.iter().scan(0, |end, count| {
        *end += count;
        Some(*end - count..*end)
    });
    let parts: Vec<Range<usize>> = ranges.collect();
    for (j, part) in parts.iter().enumerate() {
        let (part_columns, remaining) = remaining_columns.split_at_mut(part.len() * n);
        columns.push((part, part_matrices.get(j).copied().flatten(), part_columns));
        remaining_columns = remaining;
    }
    workers.for_each(columns, |(part, part_matrix, columns)| {
        let mut out = MatMut::from_column_major_slice_mut(columns, n, part.len());
        let z = x.subrows(part.start, part.len());
        let first_row = match part_matrix {
            Some(part_matrix) => {
                let diagonal_block = MatRef::from_column_major_slice(part_matrix, part.len(), part.len());
                out.rb_mut().subrows_mut(part.start, part.len()).copy_from(diagonal_block);
                part.end
            }
            None => part.start,
        };
        let mut computed_rows = out.subrows_mut(first_row, n - first_row);
        kernel.block(x.subrows(first_row, n - first_row), z, computed_rows.rb_mut());
        if shift != T::ZERO {
            computed_rows.col_iter_mut().for_each(|column| column.iter_mut().for_each(|value| *value += shift));
        }
    });
    for (j, part) in parts.iter().enumerate() {
        let has_matrix = part_matrices.get(j).is_some_and(Option::is_some);
        mirror(k, n, part, if has_matrix { part.end } else { part.start });
    }
}

/// Mirrors a column-major matrix: copies the entries below the diagonal of `columns`, from row
/// `top` on, to the entries above the diagonal.
fn mirror<T: Copy>(k: &mut [T], n: usize, columns: &Range<usize>, top: usize) {
    for left in columns.clone().step_by(MIRROR_BLOCK) {
        for top in (top..n).step_by(MIRROR_BLOCK) {
            for j in left..columns.end.min(left + MIRROR_BLOCK) {
                for i in top.max(j + 1)..n.min(top + MIRROR_BLOCK) {
                    k[i * n + j] = k[j * n + i];
                }
            }
        }
    }
}

/// A slot of the cache, for one row of the kernel matrix.
#[derive(Clone, Copy)]
struct Slot {
    row_index: usize,
    /// Value of `clock` when a working set last contained the row.
    last_use: u64,
}

/// The most recently used rows of an SVM's kernel matrix.
pub(super) struct RowCache<'a, T: Real> {
    points: KernelPoints<'a, T>,
    capacity: usize,
    /// Stored rows, n numbers each.
    stored_rows: Vec<Vec<T>>,
    slots: Vec<Slot>,
    slot_of_row: Vec<Option<u32>>,
    clock: u64,
}

impl<'a, T: Real> RowCache<'a, T> {
    pub(super) fn new(points: KernelPoints<'a, T>, capacity: usize) -> Self {
        let n = points.x.nrows();
        let capacity = capacity.clamp(WORKING_SET, n);
        Self { points, capacity, stored_rows: Vec::new(), slots: Vec::new(), slot_of_row: vec![None; n], clock: 0 }
    }

    /// Loads the rows of a working set into the cache. Returns false if `stop` returned true before
    /// all rows were loaded.
    pub(super) fn load(&mut self, row_indices: &[usize], workers: &Workers, stop: &dyn Fn() -> bool) -> bool {
        self.clock += 1;
        for row in row_indices {
            if let Some(slot) = self.slot_of_row[*row] {
                self.slots[slot as usize].last_use = self.clock;
            }
        }
        let missing_rows: Vec<usize> =
            row_indices.iter().copied().filter(|row| self.slot_of_row[*row].is_none()).collect();
        let n = self.points.x.nrows();
        let mut replaceable_slots: Vec<usize> =
            (0..self.slots.len()).filter(|slot| self.slots[*slot].last_use < self.clock).collect();
        // the least recently used row last
        replaceable_slots.sort_by_key(|slot| std::cmp::Reverse(self.slots[*slot].last_use));
        let (mut new_rows, mut x) = (Vec::new(), Vec::new());
        for batch in missing_rows.chunks(BATCH_ROWS) {
            if stop() {
                return false;
            }
            x.clear();
            batch.iter().for_each(|row| x.extend(self.points.x.row(*row).iter().copied()));
            new_rows.resize(batch.len() * n, T::ZERO);
            let batch_points = MatRef::from_row_major_slice(&x, batch.len(), self.points.x.ncols());
            kernel_with_rows(self.points, batch_points, &mut new_rows, workers);
            for (row, values) in batch.iter().zip(new_rows.chunks_exact(n)) {
                let slot = if self.slots.len() < self.capacity {
                    self.stored_rows.push(values.to_vec());
                    self.slots.push(Slot { row_index: *row, last_use: self.clock });
                    self.slots.len() - 1
                } else {
                    let Some(slot) = replaceable_slots.pop() else { continue };
                    self.slot_of_row[self.slots[slot].row_index] = None;
                    self.stored_rows[slot].copy_from_slice(values);
                    self.slots[slot] = Slot { row_index: *row, last_use: self.clock };
                    slot
                };
                self.slot_of_row[*row] = Some(slot as u32);
            }
        }
        true
    }

    pub(super) fn row(&self, row: usize) -> &[T] {
        self.slot_of_row[row].map_or(&[], |slot| &self.stored_rows[slot as usize])
    }

    /// Returns the kernel matrix between rows that are in the cache.
    pub(super) fn submatrix(&self, row_indices: &[usize], workers: &Workers) -> Vec<T> {
        let mut k = vec![T::ZERO; row_indices.len() * row_indices.len()];
        for_each_strip(workers, &mut k, row_indices.len(), |i, values| {
            let row = self.row(row_indices[i]);
            values.iter_mut().zip(row_indices).for_each(|(to, j)| *to = row[*j]);
        });
        k
    }
}

/// Computes the kernel values between b `queries` and all rows, b x n. Each thread computes a strip
/// of the queries.
pub(super) fn kernel_with_rows<T: Real>(
    points: KernelPoints<'_, T>,
    queries: MatRef<'_, T>,
    values: &mut [T],
    workers: &Workers,
) {
    let (KernelPoints { kernel, x, shift }, n) = (points, points.x.nrows());
    let strip_rows = queries.nrows().div_ceil(workers.threads()).max(1);
    for_each_strip(workers, values, strip_rows * n, |strip, strip_values| {
        let strip_queries = queries.subrows(strip * strip_rows, strip_values.len() / n);
        compute_kernel_rows(kernel, strip_queries, x, strip_values, &Workers::sequential());
        if shift != T::ZERO {
            strip_values.iter_mut().for_each(|value| *value += shift);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(n: usize) -> Vec<f64> {
        (0..n * 3).map(|i| ((i * 37 % 101) as f64 * 0.618).sin()).collect()
    }

    #[test]
    fn a_matrix_of_parts_equals_the_symmetric_kernel_matrix() {
        let kernel = kapprox::Kernel::parse("gaussian(sigma=1.5)").unwrap().build().unwrap().typed::<f64>();
        let (n, all) = (150, points(150));
        let x = MatRef::from_row_major_slice(&all, n, 3);
        let kernel_points = |shift: f64, x| KernelPoints { kernel: &*kernel, x, shift };
        let (mut part_matrix, mut k) = (Vec::new(), vec![f64::NAN; 7]);
        fill_matrix(kernel_points(1.0, x.subrows(0, 70)), &[70], &[], &mut part_matrix, &Workers::sequential());
        fill_matrix(kernel_points(1.0, x), &[70, 80], &[Some(&part_matrix), None], &mut k, &Workers::new(2));
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let square: f64 = (0..3).map(|c| (x[(i, c)] - x[(j, c)]).powi(2)).sum();
            assert!((k[i * n + j] - 1.0 - (-square / 4.5).exp()).abs() < 1e-14, "{i}, {j}");
            assert_eq!(k[i * n + j], k[j * n + i]);
        }
    }

    #[test]
    fn a_small_cache_returns_the_rows_of_a_large_one() {
        let kernel = kapprox::Kernel::parse("gaussian(sigma=1.5)").unwrap().build().unwrap().typed::<f64>();
        let (n, all) = (WORKING_SET + 300, points(WORKING_SET + 300));
        let points = KernelPoints { kernel: &*kernel, x: MatRef::from_row_major_slice(&all, n, 3), shift: 0.0 };
        let (mut small, mut large) = (RowCache::new(points, 0), RowCache::new(points, n));
        for (first, step, count) in [(0, 1, WORKING_SET), (300, 1, WORKING_SET), (1, 3, 400), (0, 1, WORKING_SET)] {
            let rows: Vec<usize> = (0..count).map(|i| first + i * step).collect();
            assert!(small.load(&rows, &Workers::sequential(), &|| false));
            assert!(large.load(&rows, &Workers::new(2), &|| false));
            assert!(small.slots.len() <= WORKING_SET);
            for row in &rows {
                assert_eq!((small.row(*row).len(), small.row(*row)), (n, large.row(*row)), "{row}");
            }
            let k = small.submatrix(&rows[..5], &Workers::sequential());
            assert_eq!(k[7], large.row(rows[1])[rows[2]]);
        }
    }
}
