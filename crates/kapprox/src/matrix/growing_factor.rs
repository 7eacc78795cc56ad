//! A factor F of K ≈ F Fᵀ whose columns are added one pivot after the other, for rows in memory.

use crate::map::factor::subtract_columns;
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
    pub(crate) residual: Vec<f64>,
}

impl GrowingFactor {
    pub(crate) fn new(diagonal: Vec<f64>, max_pivots: usize) -> Self {
        Self { factor: Mat::zeros(diagonal.len(), max_pivots), residual: diagonal }
    }

    /// Returns the rows of F at positions `positions`, with `s` columns.
    pub(crate) fn rows(&self, positions: &[usize], s: usize) -> Mat<f64> {
        Mat::from_fn(positions.len(), s, |i, j| self.factor[(positions[i], j)])
    }

    /// Adds t columns for new pivots to the s columns of F: (K_new − F Aᵀ) B⁻ᵀ. K_new (n x t)
    /// contains the columns of K at the new pivots; `fill` computes it for a range of rows. `lower`
    /// (t x (s + t)) contains the rows of L at the new pivots; A is its first s columns, and B its
    /// last t columns.
    pub(crate) fn extend<E: Send>(
        &mut self,
        lower: MatRef<'_, f64>,
        workers: &Workers,
        fill: impl Fn(Range<usize>, MatMut<'_, f64>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let (t, width) = lower.shape();
        let s = width - t;
        let (mut parts, mut factor) = (Vec::new(), self.factor.as_mut().subcols_mut(0, width));
        for (i, residual) in self.residual.chunks_mut(STRIP_ROWS).enumerate() {
            let (head, tail) = factor.split_at_row_mut(residual.len());
            parts.push((i * STRIP_ROWS, head, residual));
            factor = tail;
        }
        workers.try_for_each(parts, |(start, factor, residual)| {
            let (old, mut new) = factor.split_at_col_mut(s);
            fill(start..start + residual.len(), new.rb_mut())?;
            matmul(new.rb_mut(), Accum::Add, old.rb(), lower.subcols(0, s).transpose(), -1.0, Par::Seq);
            solve_lower_triangular_in_place(lower.subcols(s, t), new.rb_mut().transpose_mut(), Par::Seq);
            subtract_columns(new.rb(), residual);
            Ok(())
        })
    }
}
