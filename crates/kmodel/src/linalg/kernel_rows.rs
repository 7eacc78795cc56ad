//! Products of a kernel matrix K_nm (n rows, m landmarks) and of its transpose with vectors, where
//! every row of the matrix is read only once.
//!
//! An iteration of conjugate gradient multiplies by K_nm and by K_nmᵀ. Separate products would read
//! the matrix twice, and reading dominates their cost. Here a few rows at a time are read from
//! memory, and both products are computed while these rows are in cache.
//!
//! The rows of K_nm are contiguous and of type `T`; sums are in f64. Strips of a fixed number of
//! rows are distributed over the threads. Each strip has its own sums, which are added in the order
//! of the strips, so the result does not depend on the number of threads.

use crate::linalg::strips::{BufferPool, for_each_strip};
use faer::{Mat, MatMut, MatRef, prelude::*};
use kapprox::map::{column_slice, column_slice_mut};
use kapprox::{KernelFunction, Real, map::nystrom::STRIP_ROWS};
use kstore::Workers;

/// Number of rows that are multiplied together: each entry of the vector is loaded once for all of
/// them. Eight rows are 1.4 times as fast as four, and reach the memory bandwidth.
const GROUP_ROWS: usize = 8;

/// Number of partial sums of a row: an AVX-512 register of f64.
const ROW_PARTIAL_SUMS: usize = 8;

/// A block of b rows of the kernel matrix, b x m.
#[derive(Clone, Copy, Debug)]
pub struct KernelBlock<'k, T> {
    /// Kernel values, row-major.
    pub k: &'k [T],
    /// Number of landmarks.
    pub m: usize,
}

/// Number of landmarks whose kernel values with a strip of rows are computed and transposed at a
/// time, so that they stay in the L2 cache.
const CHUNK_LANDMARKS: usize = 256;

/// Order of the squares that are transposed at a time: one cache line in f32.
const TRANSPOSE_SIDE: usize = 16;

/// Computes `k` (b x m row-major), the kernel values between the rows of `x` and the landmarks `z`.
/// Each task computes a strip of rows. The values of a row depend only on the row and the
/// landmarks.
pub fn compute_kernel_rows<T: Real>(
    kernel: &dyn KernelFunction<T>,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    k: &mut [T],
    workers: &Workers,
) {
    let (m, buffers) = (z.nrows(), BufferPool::<Vec<T>>::default());
    for_each_strip(workers, k, STRIP_ROWS * m, |strip, k| {
        let b = k.len() / m;
        let x = x.subrows(strip * STRIP_ROWS, b);
        buffers.with_buffer(
            || vec![T::ZERO; STRIP_ROWS * CHUNK_LANDMARKS],
            |columns| {
                for first_landmark in (0..m).step_by(CHUNK_LANDMARKS) {
                    let z = z.subrows(first_landmark, CHUNK_LANDMARKS.min(m - first_landmark));
                    let columns = &mut columns[..b * z.nrows()];
                    kernel.block(x, z, MatMut::from_column_major_slice_mut(columns, b, z.nrows()));
                    transpose(columns, b, &mut k[first_landmark..], m);
                }
            },
        );
    });
}

/// Transposes columns of `b` numbers to the beginnings of rows that are `stride` numbers apart.
fn transpose<T: Copy>(columns: &[T], b: usize, rows: &mut [T], stride: usize) {
    for (chunk_index, columns) in columns.chunks(TRANSPOSE_SIDE * b).enumerate() {
        for first_row in (0..b).step_by(TRANSPOSE_SIDE) {
            let height = TRANSPOSE_SIDE.min(b - first_row);
            for i in first_row..first_row + height {
                let row = &mut rows[i * stride + chunk_index * TRANSPOSE_SIDE..];
                row.iter_mut().zip(columns[i..].iter().step_by(b)).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

impl<T: Real> KernelBlock<'_, T> {
    /// Returns the bytes that the sums of the strips of a tile take, for t targets.
    pub fn sum_bytes(tile_rows: usize, m: usize, t: usize) -> usize {
        8 * (tile_rows.div_ceil(STRIP_ROWS) * m * t + tile_rows * t)
    }

    /// Returns the number of rows of the block.
    pub fn row_count(&self) -> usize {
        self.k.len().checked_div(self.m).unwrap_or(0)
    }

    /// Computes `s` (b x t row-major) = K v for v (m x t). Takes 2bmt flops.
    pub fn multiply(&self, v: MatRef<'_, f64>, s: &mut [f64], workers: &Workers) {
        let (m, t) = (self.m, v.ncols());
        for_each_strip(workers, s, STRIP_ROWS * t, |strip, s| {
            let k = &self.k[strip * STRIP_ROWS * m..][..s.len() / t * m];
            // here and below, plain loops: a closure that is passed to a function would be compiled
            // for the oldest supported CPU, without AVX
            kapprox::vectorised!({
                for (k, s) in k.chunks(GROUP_ROWS * m).zip(s.chunks_mut(GROUP_ROWS * t)) {
                    multiply_rows(k, v, s);
                }
            });
        });
    }

    /// Computes `out` (m x t) += Kᵀ s for `s` (b x t row-major). If `residual_operands` is (v,
    /// shift), the same pass over K first sets `s` to K v − 1 shiftᵀ; otherwise `s` is an input.
    /// Each product takes 2bmt flops.
    pub fn add_transposed_product(
        &self,
        residual_operands: Option<(MatRef<'_, f64>, &[f64])>,
        s: &mut [f64],
        mut out: MatMut<'_, f64>,
        workers: &Workers,
    ) {
        let (m, t) = (self.m, out.ncols());
        let strips: Vec<_> = self.k.chunks(STRIP_ROWS * m).zip(s.chunks_mut(STRIP_ROWS * t)).collect();
        let mut sums: Vec<Mat<f64>> = strips.iter().map(|_| Mat::zeros(m, t)).collect();
        workers.for_each(strips.into_iter().zip(&mut sums).collect(), |((k, s), sums)| {
            kapprox::vectorised!({
                for (k, s) in k.chunks(GROUP_ROWS * m).zip(s.chunks_mut(GROUP_ROWS * t)) {
                    if let Some((v, shift)) = residual_operands {
                        multiply_rows(k, v, s);
                        for s in s.chunks_exact_mut(t) {
                            s.iter_mut().zip(shift).for_each(|(s, shift)| *s -= shift);
                        }
                    }
                    add_transposed_rows(k, s, sums.as_mut());
                }
            });
        });
        for sums in &sums {
            for (out, sums) in out.rb_mut().col_iter_mut().zip(sums.col_iter()) {
                out.iter_mut().zip(sums.iter()).for_each(|(out, sum)| *out += sum);
            }
        }
    }
}

/// Computes `s` (row-major) = K v for up to [`GROUP_ROWS`] rows of K. The result of a row does not
/// depend on the other rows.
#[inline(always)]
fn multiply_rows<T: Real>(k: &[T], v: MatRef<'_, f64>, s: &mut [f64]) {
    let (m, t) = v.shape();
    for (j, column) in v.col_iter().enumerate() {
        let column = column_slice(column);
        if k.len() == GROUP_ROWS * m {
            let sums = dot_group(std::array::from_fn(|r| &k[r * m..][..m]), column);
            for (r, sum) in sums.iter().enumerate() {
                s[r * t + j] = *sum;
            }
        } else {
            for (r, k) in k.chunks_exact(m).enumerate() {
                s[r * t + j] = dot_row(k, column);
            }
        }
    }
}

/// Returns the dot products of a group of rows with one vector.
///
/// The rows are separate variables, not an indexed array: the compiler then keeps their sums in
/// registers, which is more than twice as fast.
#[inline(always)]
fn dot_group<T: Real>(rows: [&[T]; GROUP_ROWS], v: &[f64]) -> [f64; GROUP_ROWS] {
    let (chunks, _) = v.as_chunks::<ROW_PARTIAL_SUMS>();
    let chunk_count = chunks.len();
    let [a, b, c, d, e, f, g, h] = rows.map(|row| row.as_chunks::<ROW_PARTIAL_SUMS>().0);
    let (a, b, c, d, e, f, g, h) = (
        &a[..chunk_count],
        &b[..chunk_count],
        &c[..chunk_count],
        &d[..chunk_count],
        &e[..chunk_count],
        &f[..chunk_count],
        &g[..chunk_count],
        &h[..chunk_count],
    );
    let mut sums = [[0.0; ROW_PARTIAL_SUMS]; GROUP_ROWS];
    for (i, v) in chunks.iter().enumerate() {
        add_products(&mut sums[0], &a[i], v);
        add_products(&mut sums[1], &b[i], v);
        add_products(&mut sums[2], &c[i], v);
        add_products(&mut sums[3], &d[i], v);
        add_products(&mut sums[4], &e[i], v);
        add_products(&mut sums[5], &f[i], v);
        add_products(&mut sums[6], &g[i], v);
        add_products(&mut sums[7], &h[i], v);
    }
    std::array::from_fn(|r| finish_sum(&sums[r], rows[r], v))
}

/// Returns the dot product of a row with a vector, bit-identical to [`dot_group`].
#[inline(always)]
fn dot_row<T: Real>(row: &[T], v: &[f64]) -> f64 {
    let mut sums = [0.0; ROW_PARTIAL_SUMS];
    row.as_chunks::<ROW_PARTIAL_SUMS>()
        .0
        .iter()
        .zip(v.as_chunks::<ROW_PARTIAL_SUMS>().0)
        .for_each(|(k, v)| add_products(&mut sums, k, v));
    finish_sum(&sums, row, v)
}

#[inline(always)]
fn add_products<T: Real>(sums: &mut [f64; ROW_PARTIAL_SUMS], k: &[T; ROW_PARTIAL_SUMS], v: &[f64; ROW_PARTIAL_SUMS]) {
    for i in 0..ROW_PARTIAL_SUMS {
        sums[i] = k[i].to_f64().mul_add(v[i], sums[i]);
    }
}

/// Returns the sum of the partial sums and of the products after the last whole vector.
#[inline(always)]
fn finish_sum<T: Real>(sums: &[f64; ROW_PARTIAL_SUMS], row: &[T], v: &[f64]) -> f64 {
    let tail = row.as_chunks::<ROW_PARTIAL_SUMS>().1.iter().zip(v.as_chunks::<ROW_PARTIAL_SUMS>().1);
    sums.iter().sum::<f64>() + tail.map(|(k, v)| k.to_f64() * v).sum::<f64>()
}

/// Computes `sums` (m x t) += Kᵀ s for up to [`GROUP_ROWS`] rows of K.
#[inline(always)]
fn add_transposed_rows<T: Real>(k: &[T], s: &[f64], mut sums: MatMut<'_, f64>) {
    let (m, t) = sums.shape();
    for j in 0..t {
        let column = column_slice_mut(sums.rb_mut().col_mut(j));
        if k.len() == GROUP_ROWS * m {
            let (rows, s) = (std::array::from_fn(|r| &k[r * m..][..m]), std::array::from_fn(|r| s[r * t + j]));
            add_group::<T, GROUP_ROWS>(rows, s, column);
        } else {
            for (r, k) in k.chunks_exact(m).enumerate() {
                add_group([k], [s[r * t + j]], column);
            }
        }
    }
}

/// Computes `sums` += Σ_r s_r k_r.
#[inline(always)]
fn add_group<T: Real, const R: usize>(rows: [&[T]; R], s: [f64; R], sums: &mut [f64]) {
    let rows = rows.map(|row| &row[..sums.len()]);
    for (i, sum) in sums.iter_mut().enumerate() {
        for r in 0..R {
            *sum = rows[r][i].to_f64().mul_add(s[r], *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(i: usize, j: usize) -> f64 {
        ((i * 37 + j * 101) as f64 * 0.618).sin()
    }

    #[test]
    fn products_equal_the_dense_matrix_for_any_threads() {
        // numbers of rows and columns around the sizes of groups, vectors and strips
        for (b, m, t) in [(1, 1, 1), (3, 7, 2), (4, 8, 1), (290, 33, 3), (700, 64, 19)] {
            let k: Vec<f32> = (0..b * m).map(|i| number(i / m, i % m) as f32).collect();
            let rows = KernelBlock { k: &k, m };
            let k_f64 = Mat::<f64>::from_fn(b, m, |i, j| f64::from(k[i * m + j]));
            let v = Mat::<f64>::from_fn(m, t, |i, j| number(i + 3, j + 5));
            let shift: Vec<f64> = (0..t).map(|j| number(j, 9)).collect();
            let product = &k_f64 * &v;
            let expected = Mat::<f64>::from_fn(b, t, |i, j| product[(i, j)] - shift[j]);
            let sums = k_f64.transpose() * &expected;
            let is_close = |actual: f64, expected: f64| (actual - expected).abs() < 1e-12 * (b * m) as f64;
            let run = |workers: &Workers| {
                let (mut s, mut out) = (vec![f64::NAN; b * t], Mat::<f64>::from_fn(m, t, number));
                rows.multiply(v.as_ref(), &mut s, workers);
                for (i, s) in s.iter().enumerate() {
                    assert!(is_close(*s, product[(i / t, i % t)]), "{b} x {m}, {t}: {i}");
                }
                s.fill(f64::NAN);
                rows.add_transposed_product(Some((v.as_ref(), &shift)), &mut s, out.as_mut(), workers);
                let mut again = Mat::<f64>::from_fn(m, t, number);
                rows.add_transposed_product(None, &mut s, again.as_mut(), workers);
                assert_eq!(again, out, "{b} x {m}, {t}");
                (s, out)
            };
            let (s, out) = run(&Workers::sequential());
            for (i, s) in s.iter().enumerate() {
                assert!(is_close(*s, expected[(i / t, i % t)]), "{b} x {m}, {t}: {i}");
            }
            for (i, j) in (0..m).flat_map(|i| (0..t).map(move |j| (i, j))) {
                assert!(is_close(out[(i, j)], sums[(i, j)] + number(i, j)), "{b} x {m}, {t}: {i}, {j}");
            }
            assert!((s, out) == run(&Workers::new(3)), "{b} x {m}, {t}");
        }
    }
}
