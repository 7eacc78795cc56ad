//! A symmetric positive definite matrix of order m, stored as panels of its lower triangle, and its
//! Cholesky factor L in the same storage.
//!
//! Panel j contains columns `256j..256(j + 1)`, from row 256j down, column-major. This takes half
//! the bytes of the square matrix, and the factorisation needs almost no further memory. It has the
//! left-looking blocked form (Golub and Van Loan, *Matrix Computations*, 4th ed., 4.2.6), in which
//! every product is a dense product of panels.
//!
//! The work is split into parts of constant size, and every part runs on one thread. So results do
//! not depend on the number of threads.

use crate::linalg::strips::{for_each_strip, row_strips};
use crate::{linalg::cholesky::factor_unblocked, linalg::dot_products::dot};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve as triangular;
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kapprox::Real;
use kapprox::map::{column_slice, column_slice_mut};
use kstore::Workers;

/// Number of columns of a panel. Products with this inner dimension run at the full rate, and a
/// square block of this order (512 KiB) stays in the L2 cache.
pub const PANEL_COLUMNS: usize = 256;

/// Number of rows of a panel that one thread updates at a time.
const PANEL_STRIP_ROWS: usize = 512;

/// Number of rows of b whose product b·L⁻ᵀ one thread computes at a time.
const SOLVE_ROWS: usize = 96;

/// Number of columns of an inverse that one thread computes at a time. Must divide
/// [`PANEL_COLUMNS`].
pub const INVERSE_COLUMNS: usize = 64;

/// Number of rows of a product Kᵀs that one thread computes at a time. K is a block of kernel
/// values, or a panel.
const TRANSPOSED_PRODUCT_COLUMNS: usize = 32;

/// The lower triangle of a symmetric matrix of order m, or its factor.
#[derive(Clone, Debug)]
pub struct PackedLower {
    order: usize,
    panels: Vec<Vec<f64>>,
}

impl PackedLower {
    /// Returns the bytes of a matrix of order m.
    pub fn bytes(m: usize) -> usize {
        4 * m * (m + PANEL_COLUMNS)
    }

    /// Returns the additional bytes while `threads` threads factor the matrix.
    pub fn scratch_bytes(threads: usize) -> usize {
        // the diagonal block and the buffers of the products
        8 * PANEL_COLUMNS * PANEL_COLUMNS + threads * (4 << 20)
    }

    /// Returns the zero matrix of this order.
    pub fn zeros(order: usize) -> Self {
        let panel = |first_column: usize| vec![0.0; (order - first_column) * PANEL_COLUMNS.min(order - first_column)];
        Self { order, panels: (0..order).step_by(PANEL_COLUMNS).map(panel).collect() }
    }

    fn panel_columns(&self, panel: usize) -> usize {
        PANEL_COLUMNS.min(self.order - panel * PANEL_COLUMNS)
    }

    /// Returns panel j: columns 256j and up to 255 more, from row 256j down.
    fn panel(&self, j: usize) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.panels[j], self.order - j * PANEL_COLUMNS, self.panel_columns(j))
    }

    /// Returns the strips of all panels as (first column, first row, entries), the longest panels
    /// first.
    fn strips(&mut self) -> Vec<(usize, usize, MatMut<'_, f64>)> {
        let order = self.order;
        let panels = self.panels.iter_mut().enumerate();
        panels
            .flat_map(|(j, panel)| {
                let (first_column, width) = (j * PANEL_COLUMNS, PANEL_COLUMNS.min(order - j * PANEL_COLUMNS));
                let panel = MatMut::from_column_major_slice_mut(panel, order - first_column, width);
                row_strips(panel, PANEL_STRIP_ROWS)
                    .into_iter()
                    .map(move |(row, strip)| (first_column, first_column + row, strip))
            })
            .collect()
    }

    /// Fills the matrix. `block(row, column, out)` must set `out` to the block of the matrix that
    /// begins at `(row, column)` and has the shape of `out`. Its entries above the diagonal are not
    /// used.
    pub fn fill(&mut self, workers: &Workers, block: impl Fn(usize, usize, MatMut<'_, f64>) + Sync + Send) {
        workers.for_each(self.strips(), |(column, row, out)| block(row, column, out));
    }

    /// Adds a number to each diagonal entry.
    pub fn add_diagonal(&mut self, value: f64) {
        let order = self.order;
        for (j, panel) in self.panels.iter_mut().enumerate() {
            let (height, width) = (order - j * PANEL_COLUMNS, PANEL_COLUMNS.min(order - j * PANEL_COLUMNS));
            (0..width).for_each(|c| panel[c * height + c] += value);
        }
    }

    /// Returns the largest diagonal entry; 0 if none is positive.
    pub fn largest_diagonal(&self) -> f64 {
        let diagonal = |j: usize| (0..self.panel_columns(j)).map(move |c| self.panel(j)[(c, c)]);
        (0..self.panels.len()).flat_map(diagonal).fold(0.0, f64::max)
    }

    /// Adds `scale`·BᵀB for a matrix `b` of m columns, each of them contiguous. Takes m² flops per
    /// row of `b`.
    pub fn add_gram(&mut self, b: MatRef<'_, f64>, scale: f64, workers: &Workers) {
        workers.for_each(self.strips(), |(column, row, out)| {
            let (left, right) = (b.subcols(row, out.nrows()), b.subcols(column, out.ncols()));
            matmul(out, Accum::Add, left.transpose(), right, scale, Par::Seq);
        });
    }

    /// Replaces the matrix by the lower triangular L such that L Lᵀ is the matrix. Works in place
    /// and takes m³/3 flops.
    ///
    /// # Errors
    /// Returns the index of the column whose pivot is not positive. The matrix is then partly
    /// overwritten.
    pub fn factor(&mut self, workers: &Workers) -> Result<(), usize> {
        for j in 0..self.panels.len() {
            let (first_column, width, order) = (j * PANEL_COLUMNS, self.panel_columns(j), self.order);
            let (factored_panels, remaining_panels) = self.panels.split_at_mut(j);
            let Some(panel) = remaining_panels.first_mut() else { return Ok(()) };
            let mut panel = MatMut::from_column_major_slice_mut(panel, order - first_column, width);
            let earlier_panel = |k: usize| {
                MatRef::from_column_major_slice(&factored_panels[k], order - k * PANEL_COLUMNS, PANEL_COLUMNS)
            };
            workers.for_each(row_strips(panel.rb_mut(), PANEL_STRIP_ROWS), |(row, mut out)| {
                for k in 0..j {
                    let columns = earlier_panel(k);
                    let left = columns.subrows(first_column + row - k * PANEL_COLUMNS, out.nrows());
                    let right = columns.subrows(first_column - k * PANEL_COLUMNS, width);
                    matmul(out.rb_mut(), Accum::Add, left, right.transpose(), -1.0, Par::Seq);
                }
            });
            let (mut diagonal, below_diagonal) = panel.split_at_row_mut(width);
            factor_unblocked(diagonal.rb_mut(), Par::Seq).map_err(|column| first_column + column)?;
            let diagonal = diagonal.rb();
            workers.for_each(row_strips(below_diagonal, PANEL_STRIP_ROWS), |(_, strip)| {
                triangular::solve_lower_triangular_in_place(diagonal, strip.transpose_mut(), Par::Seq);
            });
        }
        Ok(())
    }

    /// Replaces x by L⁻¹x for a factor L, where x is m x t, column-major. Takes m²·t flops.
    pub fn solve_lower(&self, x: MatMut<'_, f64>, workers: &Workers) {
        self.solve_lower_from_panel(0, x, workers);
    }

    /// Replaces x by L⁻¹x. The rows of x before panel `first_panel` are zero and not stored.
    fn solve_lower_from_panel(&self, first_panel: usize, mut x: MatMut<'_, f64>, workers: &Workers) {
        for j in first_panel..self.panels.len() {
            let (width, panel) = (self.panel_columns(j), self.panel(j));
            let (_, tail) = x.rb_mut().split_at_row_mut((j - first_panel) * PANEL_COLUMNS);
            let (mut head, rows_below) = tail.split_at_row_mut(width);
            triangular::solve_lower_triangular_in_place(panel.subrows(0, width), head.rb_mut(), Par::Seq);
            let head = head.rb();
            workers.for_each(row_strips(rows_below, PANEL_STRIP_ROWS), |(row, out)| {
                let left = panel.subrows(width + row, out.nrows());
                matmul(out, Accum::Add, left, head, -1.0, Par::Seq);
            });
        }
    }

    /// Computes the diagonal of (L Lᵀ)⁻¹ for a factor L: the squared norms of the columns of L⁻¹.
    /// Takes m³/3 flops, and `8·m·`[`INVERSE_COLUMNS`] bytes for each thread.
    pub fn inverse_diagonal(&self, workers: &Workers) -> Vec<f64> {
        let mut diagonal = vec![0.0; self.order];
        for_each_strip(workers, &mut diagonal, INVERSE_COLUMNS, |block, out| {
            // a block lies within a panel
            let (first_column, panel) = (block * INVERSE_COLUMNS, block * INVERSE_COLUMNS / PANEL_COLUMNS);
            let mut columns = Mat::<f64>::zeros(self.order - panel * PANEL_COLUMNS, out.len());
            (0..out.len()).for_each(|j| columns[(first_column - panel * PANEL_COLUMNS + j, j)] = 1.0);
            self.solve_lower_from_panel(panel, columns.as_mut(), &Workers::sequential());
            out.iter_mut().zip(columns.col_iter()).for_each(|(out, column)| *out = column.squared_norm_l2());
        });
        diagonal
    }

    /// Replaces x by L⁻ᵀx for a factor L.
    pub fn solve_transposed(&self, mut x: MatMut<'_, f64>, workers: &Workers) {
        for j in (0..self.panels.len()).rev() {
            let (first_column, width, panel) = (j * PANEL_COLUMNS, self.panel_columns(j), self.panel(j));
            let (_, tail) = x.rb_mut().split_at_row_mut(first_column);
            let (mut head, rows_below) = tail.split_at_row_mut(width);
            let rows_below = rows_below.rb();
            if rows_below.nrows() > 0 {
                workers.for_each(row_strips(head.rb_mut(), TRANSPOSED_PRODUCT_COLUMNS), |(column, out)| {
                    let left = panel.submatrix(width, column, rows_below.nrows(), out.nrows());
                    matmul(out, Accum::Add, left.transpose(), rows_below, -1.0, Par::Seq);
                });
            }
            triangular::solve_upper_triangular_in_place(panel.subrows(0, width).transpose(), head, Par::Seq);
        }
    }

    /// Replaces the matrix b, of m columns, by b·L⁻ᵀ for a factor L. If b contains the kernel
    /// values between rows and landmarks, and L is the factor of the kernel matrix of the
    /// landmarks, the result contains Nyström features. Takes m² flops per row. Each thread
    /// computes strips of rows.
    pub fn solve_rows(&self, b: MatMut<'_, f64>, workers: &Workers) {
        workers.for_each(row_strips(b, SOLVE_ROWS), |(_, mut strip)| {
            for j in 0..self.panels.len() {
                let (first_column, width, panel) = (j * PANEL_COLUMNS, self.panel_columns(j), self.panel(j));
                let (_, tail) = strip.rb_mut().split_at_col_mut(first_column);
                let (mut head, later_columns) = tail.split_at_col_mut(width);
                let diagonal = panel.subrows(0, width);
                triangular::solve_lower_triangular_in_place(diagonal, head.rb_mut().transpose_mut(), Par::Seq);
                let below_diagonal = panel.subrows(width, panel.nrows() - width);
                matmul(later_columns, Accum::Add, head.rb(), below_diagonal.transpose(), -1.0, Par::Seq);
            }
        });
    }
}

/// Computes `out` (b x t) = K v for a block K (b x m) in `T` and v (m x t) in f64. Sums in f64.
/// Each thread computes strips of rows of `out`.
pub fn product<T: Real>(k: MatRef<'_, T>, v: MatRef<'_, f64>, out: MatMut<'_, f64>, workers: &Workers) {
    workers.for_each(row_strips(out, PANEL_STRIP_ROWS), |(row, mut out)| {
        out.fill(0.0);
        let k = k.subrows(row, out.nrows());
        for t in 0..v.ncols() {
            add_columns(k, v, t, column_slice_mut(out.rb_mut().col_mut(t)));
        }
    });
}

/// Adds K v_t to `sums`, where v_t is column t of v.
fn add_columns<T: Real>(k: MatRef<'_, T>, v: MatRef<'_, f64>, t: usize, sums: &mut [f64]) {
    kapprox::vectorised!({
        for j in 0..k.ncols() {
            let weight = v[(j, t)];
            sums.iter_mut().zip(column_slice(k.col(j))).for_each(|(s, k)| *s += k.to_f64() * weight);
        }
    });
}

/// Adds Kᵀ s to `out` (m x t) for a block K (b x m) in `T` and s (b x t) in f64. Sums in f64. Each
/// thread computes strips of rows of `out`, which are columns of K.
pub fn add_transposed_product<T: Real>(k: MatRef<'_, T>, s: MatRef<'_, f64>, out: MatMut<'_, f64>, workers: &Workers) {
    workers.for_each(row_strips(out, TRANSPOSED_PRODUCT_COLUMNS), |(column, mut out)| {
        kapprox::vectorised!({
            for t in 0..s.ncols() {
                let right = column_slice(s.col(t));
                for j in 0..out.nrows() {
                    out[(j, t)] += dot(column_slice(k.col(column + j)), right);
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::dot_products::to_f64_matrix;

    fn matrix(m: usize) -> Mat<f64> {
        let b = Mat::<f64>::from_fn(m + 3, m, |i, j| ((i * 37 + j * 101) as f64 * 0.618).sin());
        let mut a = b.transpose() * &b;
        (0..m).for_each(|i| a[(i, i)] += 1.0 + i as f64 * 0.01);
        a
    }

    fn packed(a: &Mat<f64>, workers: &Workers) -> PackedLower {
        let mut packed = PackedLower::zeros(a.nrows());
        packed.fill(workers, |row, column, mut out| {
            let block = a.submatrix(row, column, out.nrows(), out.ncols());
            out.copy_from(block);
        });
        packed
    }

    #[test]
    fn factors_and_solves_at_sizes_around_the_panel_with_the_same_bits_on_any_threads() {
        for m in [1, 2, 95, 255, 256, 257, 700] {
            let a = matrix(m);
            let x = Mat::<f64>::from_fn(m, 2, |i, j| (i + 2 * j) as f64 - 5.0);
            let solve = |workers: &Workers| {
                let mut factor = packed(&a, workers);
                factor.factor(workers).unwrap();
                let mut solution = &a * &x;
                factor.solve_lower(solution.as_mut(), workers);
                factor.solve_transposed(solution.as_mut(), workers);
                let inverse = packed_inverse(&a, &Mat::identity(m, m));
                for (i, d) in factor.inverse_diagonal(workers).iter().enumerate() {
                    assert!((d / inverse[(i, i)] - 1.0).abs() < 1e-9, "{m} {i}");
                }
                let mut rows = x.transpose().to_owned();
                factor.solve_rows(rows.as_mut(), workers);
                (solution, rows)
            };
            let (solution, rows) = solve(&Workers::sequential());
            assert!((&solution - &x).norm_max() < 1e-10 * m as f64, "{m}");
            // the Gram matrix of the rows times L⁻ᵀ is rows A⁻¹ rowsᵀ
            let inverse = packed_inverse(&a, &x);
            let gram = &rows * rows.transpose();
            assert!((gram - x.transpose() * inverse).norm_max() < 1e-9 * (m * m) as f64, "{m}");
            assert!((solution, rows) == solve(&Workers::new(3)), "{m}");
        }
    }

    fn packed_inverse(a: &Mat<f64>, x: &Mat<f64>) -> Mat<f64> {
        use faer::prelude::Solve;
        a.llt(faer::Side::Lower).unwrap().solve(x)
    }

    #[test]
    fn a_gram_matrix_is_the_sum_over_rows() {
        let workers = Workers::new(2);
        let b = Mat::<f64>::from_fn(40, 300, |i, j| ((i * 7 + j * 3) as f64).cos());
        let mut gram = PackedLower::zeros(300);
        gram.add_gram(b.as_ref().subrows(0, 25), 2.0, &workers);
        gram.add_gram(b.as_ref().subrows(25, 15), 2.0, &workers);
        gram.add_diagonal(1.0);
        let expected = b.transpose() * &b;
        for j in 0..300 {
            for i in j..300 {
                let diagonal_term = if i == j { 1.0 } else { 0.0 };
                let actual = gram.panel(j / PANEL_COLUMNS)[(i - j / PANEL_COLUMNS * PANEL_COLUMNS, j % PANEL_COLUMNS)];
                assert!((actual - 2.0 * expected[(i, j)] - diagonal_term).abs() < 1e-11, "{i} {j}");
            }
        }
        assert!(gram.largest_diagonal() > 1.0);
        let mut indefinite = PackedLower::zeros(2);
        indefinite.add_diagonal(-1.0);
        assert_eq!(indefinite.factor(&workers), Err(0));
    }

    #[test]
    fn mixed_products_equal_dense_products() {
        let workers = Workers::new(2);
        let k = Mat::<f32>::from_fn(1100, 70, |i, j| ((i * 3 + j) as f32 * 0.1).sin());
        let k_f64 = to_f64_matrix(k.as_ref());
        let v = Mat::<f64>::from_fn(70, 3, |i, j| (i as f64 - 30.0) * (j as f64 + 0.5));
        let mut s = Mat::zeros(1100, 3);
        product(k.as_ref(), v.as_ref(), s.as_mut(), &workers);
        assert!((&s - &k_f64 * &v).norm_max() < 1e-9);
        let mut u = v.clone();
        add_transposed_product(k.as_ref(), s.as_ref(), u.as_mut(), &workers);
        assert!((&u - (&v + k_f64.transpose() * &s)).norm_max() < 1e-7);
    }
}
