//! A factor F of K ≈ F Fᵀ whose columns are added one pivot after the other, for rows in memory.

use crate::map::factor::subtract_squared_columns;
use crate::map::nystrom::STRIP_ROWS;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par, prelude::*};
use kpass::Workers;
use std::ops::Range;

/// F and the diagonal of K − F Fᵀ (the residuals), for rows in memory. Residuals are updated for
/// each new column instead of recomputed.
pub(crate) struct GrowingFactor {
    /// Matrix of n x (maximum number of pivots), whose leading columns are F.
    pub(crate) factor: Mat<f64>,
    pub(crate) residuals: Vec<f64>,
}

impl GrowingFactor {
    pub(crate) fn new(diagonal: Vec<f64>, max_pivots: usize) -> Self {
        Self { factor: Mat::zeros(diagonal.len(), max_pivots), residuals: diagonal }
    }

    /// Returns the rows of F at positions `positions`, with `s` columns.
    pub(crate) fn factor_rows(&self, positions: &[usize], s: usize) -> Mat<f64> {
        Mat::from_fn(positions.len(), s, |i, j| self.factor[(positions[i], j)])
    }

    /// Adds t columns for new pivots to the s columns of F: (K_new − F Aᵀ) B⁻ᵀ. K_new (n x t)
    /// contains the columns of K at the new pivots; `fill_columns` computes it for a range of rows.
    /// `lower` (t x (s + t)) contains the rows of L at the new pivots; A is its first s columns,
    /// and B its last t columns.
    pub(crate) fn add_columns<E: Send>(
        &mut self,
        lower: MatRef<'_, f64>,
        workers: &Workers,
        fill_columns: impl Fn(Range<usize>, MatMut<'_, f64>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let (t, column_count) = lower.shape();
        let s = column_count - t;
        let (mut strips, mut factor) = (Vec::new(), self.factor.as_mut().subcols_mut(0, column_count));
        for (i, residuals) in self.residuals.chunks_mut(STRIP_ROWS).enumerate() {
            let (head, tail) = factor.split_at_row_mut(residuals.len());
            strips.push((i * STRIP_ROWS, head, residuals));
            factor = tail;
        }
        workers.try_for_each(strips, |(start, factor, residuals)| {
            let (old_columns, mut new_columns) = factor.split_at_col_mut(s);
            fill_columns(start..start + residuals.len(), new_columns.rb_mut())?;
            matmul(new_columns.rb_mut(), Accum::Add, old_columns.rb(), lower.subcols(0, s).transpose(), -1.0, Par::Seq);
            solve_lower_triangular_in_place(lower.subcols(s, t), new_columns.rb_mut().transpose_mut(), Par::Seq);
            subtract_squared_columns(new_columns.rb(), residuals);
            Ok(())
        })
    }
}
