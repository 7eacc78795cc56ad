//! Cholesky factors in f64, and triangular solves. The work is split into pieces of fixed size, so
//! results are bit-identical for any number of threads.

use crate::linalg::strips::{par, row_strips};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Accum, MatMut, MatRef, Par, Spec};
use kstore::Workers;

/// Number of right sides (columns of B in L X = B) that one task solves.
const COLUMNS_PER_TASK: usize = 64;

/// Maximum order of a matrix that a single call factors. Such a call takes half a second and cannot
/// be interrupted, so larger matrices are factored panel by panel.
const MAX_UNBLOCKED_ORDER: usize = 4096;

/// Number of columns of a panel.
const PANEL_COLUMNS: usize = 512;

/// Replaces the lower triangle of a matrix by its Cholesky factor, on all threads. Overwrites the
/// upper triangle. Returns false if the matrix is not positive definite or the workers are
/// cancelled.
pub fn factor_parallel(mut matrix: MatMut<'_, f64>, workers: &Workers) -> bool {
    let order = matrix.nrows();
    let panel_columns = if order > MAX_UNBLOCKED_ORDER { PANEL_COLUMNS } else { order.max(1) };
    (0..order).step_by(panel_columns).all(|first_column| {
        factor_panel(matrix.rb_mut(), first_column, panel_columns.min(order - first_column), workers)
    })
}

/// Replaces the lower triangle of a matrix by its Cholesky factor, in one call. Overwrites the
/// upper triangle.
///
/// # Errors
/// The index of the failing pivot, if the matrix is not positive definite.
pub fn factor_unblocked(mut matrix: MatMut<'_, f64>, par: Par) -> Result<(), usize> {
    let (order, params) = (matrix.nrows(), Spec::default());
    let mut memory = MemBuffer::new(llt::cholesky_in_place_scratch::<f64>(order, par, params));
    let stack = MemStack::new(&mut memory);
    let result = llt::cholesky_in_place(matrix.rb_mut(), Default::default(), par, stack, params);
    if let Err(llt::LltError::NonPositivePivot { index }) = result {
        return Err(index);
    }
    // the library accepts infinite and NaN pivots as positive; reject them here
    (0..order).find(|i| !matrix[(*i, *i)].is_finite()).map_or(Ok(()), Err)
}

/// Solves L Lᵀ x = `right` in place, on one thread.
pub fn solve_cholesky(lower: MatRef<'_, f64>, mut right: MatMut<'_, f64>) {
    solve_lower_triangular_in_place(lower, right.rb_mut(), Par::Seq);
    solve_upper_triangular_in_place(lower.transpose(), right, Par::Seq);
}

/// Computes `panel_columns` columns of the factor, from column `first_column` on. The columns
/// before it must already be computed. Returns false as [`factor_parallel`].
fn factor_panel(matrix: MatMut<'_, f64>, first_column: usize, panel_columns: usize, workers: &Workers) -> bool {
    let (order, par) = (matrix.nrows(), par(workers));
    let (factored_columns, remaining_columns) = matrix.split_at_col_mut(first_column);
    let left = factored_columns.rb().subrows(first_column, order - first_column);
    let mut panel = remaining_columns.subrows_mut(first_column, order - first_column).subcols_mut(0, panel_columns);
    if workers.is_cancelled() {
        return false;
    }
    if first_column > 0 {
        let right = left.subrows(0, panel_columns).transpose();
        workers.install(|| matmul(panel.rb_mut(), Accum::Add, left, right, -1.0, par));
    }
    let (mut diagonal, below_diagonal) = panel.split_at_row_mut(panel_columns);
    let is_factored = workers.install(|| factor_unblocked(diagonal.rb_mut(), par).is_ok());
    if is_factored {
        let diagonal = diagonal.rb();
        workers.for_each(row_strips(below_diagonal, COLUMNS_PER_TASK), |(_, strip)| {
            solve_lower_triangular_in_place(diagonal, strip.transpose_mut(), Par::Seq);
        });
    }
    is_factored
}

/// Replaces the lower triangle of a matrix by its Cholesky factor and the upper triangle by zeros,
/// on one thread. Returns `None` if the matrix is not positive definite.
pub fn factor_sequential(mut matrix: MatMut<'_, f64>) -> Option<()> {
    factor_unblocked(matrix.rb_mut(), Par::Seq).ok()?;
    (0..matrix.nrows()).for_each(|j| matrix.rb_mut().col_mut(j).subrows_mut(0, j).fill(0.0));
    Some(())
}

/// The triangular system to solve: with the factor L, or with Lᵀ.
#[derive(Clone, Copy, Debug)]
pub enum TriangularSystem {
    Factor,
    Transpose,
}

/// Solves a triangular system with the factor `lower` in place. Each task solves a fixed number of
/// columns of `right`.
pub fn solve_triangular(lower: MatRef<'_, f64>, system: TriangularSystem, right: MatMut<'_, f64>, workers: &Workers) {
    workers.for_each(row_strips(right.transpose_mut(), COLUMNS_PER_TASK), |(_, columns)| match system {
        TriangularSystem::Factor => solve_lower_triangular_in_place(lower, columns.transpose_mut(), Par::Seq),
        TriangularSystem::Transpose => {
            solve_upper_triangular_in_place(lower.transpose(), columns.transpose_mut(), Par::Seq)
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use kstore::CancelToken;

    fn matrix(order: usize) -> Mat<f64> {
        Mat::from_fn(order, order, |i, j| {
            (-(i as f64 - j as f64).abs() / 7.0).exp() + f64::from(u8::from(i == j)) * 0.1
        })
    }

    /// Factors a matrix of any order by panels of `width` columns.
    fn factor_by_panels(order: usize, width: usize, workers: &Workers) -> Mat<f64> {
        let mut l = matrix(order);
        for first in (0..order).step_by(width) {
            assert!(factor_panel(l.as_mut(), first, width.min(order - first), workers));
        }
        Mat::from_fn(order, order, |i, j| if i >= j { l[(i, j)] } else { 0.0 })
    }

    #[test]
    fn panel_factors_are_identical_for_any_threads() {
        for (order, width) in [(1, 8), (40, 8), (203, 50), (600, 512)] {
            let l = factor_by_panels(order, width, &Workers::sequential());
            assert!((&l * l.transpose() - matrix(order)).norm_max() < 1e-13, "{order}");
            assert!(l == factor_by_panels(order, width, &Workers::new(3)), "{order}");
        }
    }

    #[test]
    fn indefinite_matrices_and_cancelled_workers_have_no_factor() {
        let token = CancelToken::new();
        let workers = Workers::sequential().with_cancel_token(token.clone());
        let mut l = matrix(30);
        l[(20, 20)] = -1.0;
        assert!(!factor_parallel(l.as_mut(), &workers));
        assert!(factor_parallel(matrix(30).as_mut(), &workers));
        token.cancel();
        assert!(!factor_parallel(matrix(30).as_mut(), &workers));
    }
}
