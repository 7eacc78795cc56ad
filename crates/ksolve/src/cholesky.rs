//! Cholesky factors in f64 on one thread, and triangular systems with a fixed number of columns at a time: the same bits whatever the threads.

use crate::strips::row_strips;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::ReborrowMut;
use faer::{MatMut, MatRef, Par, Spec};
use kstore::Workers;

/// Columns of a triangular system that one thread solves at a time.
const COLUMNS: usize = 64;

/// Replaces the lower triangle of a matrix by its Cholesky factor, and the upper one by zeros; `None` where there is none.
pub(crate) fn factor(mut matrix: MatMut<'_, f64>) -> Option<()> {
    let (m, params) = (matrix.nrows(), Spec::default());
    let mut memory = MemBuffer::new(llt::cholesky_in_place_scratch::<f64>(m, Par::Seq, params));
    let stack = MemStack::new(&mut memory);
    llt::cholesky_in_place(matrix.rb_mut(), Default::default(), Par::Seq, stack, params).ok()?;
    (0..m).for_each(|j| matrix.rb_mut().col_mut(j).subrows_mut(0, j).fill(0.0));
    // overflow and NaN pass for a positive pivot
    (0..m).all(|i| matrix[(i, i)].is_finite() && matrix[(i, i)] > 0.0).then_some(())
}

/// Which triangular system: that of the factor, or that of its transpose.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Factor,
    Transpose,
}

/// Solves a triangular system in place, a fixed number of columns at a time.
pub(crate) fn solve(lower: MatRef<'_, f64>, side: Side, right: MatMut<'_, f64>, workers: &Workers) {
    workers.each(row_strips(right.transpose_mut(), COLUMNS), |(_, columns)| match side {
        Side::Factor => solve_lower_triangular_in_place(lower, columns.transpose_mut(), Par::Seq),
        Side::Transpose => solve_upper_triangular_in_place(lower.transpose(), columns.transpose_mut(), Par::Seq),
    });
}
