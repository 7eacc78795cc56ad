//! The columns of the growing factor for rows held in memory: what is left of each row is updated, not computed anew.
//!
//! Holds n·m numbers in f64. Adding b landmarks to s costs 2nd·b + 2nsb flops; a scheme that takes one landmark at a
//! time so costs nm² over all, where passes that compute residuals anew would cost nm³/3.

use super::Rows;
use super::growth::{Growth, Pool};
use crate::map::nystrom::STRIP;
use crate::{Error, Real, Result};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::prelude::*;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kstore::{Fold, Merge, RowBlock, Workers};

/// Largest n·m that is held: 512 MiB. A bound on the shape and not on the budget, because residuals that are updated and
/// residuals computed anew round differently: whoever has memory for it and whoever has not get the same landmarks.
pub(super) const LARGEST: u64 = 1 << 26;

/// Rows in memory with F = K_nS L⁻ᵀ and r = diag(K − F Fᵀ), in f64.
pub(super) struct Columns {
    /// Stored row numbers, ascending.
    pub(super) rows: Vec<u64>,
    /// n x d, row-major.
    x: Vec<f64>,
    d: usize,
    /// n x m; the leading columns are F.
    factor: Mat<f64>,
    /// The residuals r_i.
    pub(super) residual: Vec<f64>,
}

/// Bytes of `n` rows of `d` features with room for `m` columns.
pub(super) fn bytes(n: u64, d: usize, m: usize) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX).saturating_mul((2 * d + m + 2) * size_of::<f64>())
}

impl Columns {
    /// Reads all rows: one pass.
    pub(super) fn read<T: Real>(growth: &mut Growth<'_, T>, data: &Rows<'_, T>, m: usize) -> Result<Self> {
        let d = data.source.shape().features;
        let Held { rows, x } = data.pass.fold(data.source, &Hold)?.0;
        growth.chosen.passes += 1;
        let mut residual = vec![0.0; rows.len()];
        growth.exact().diag(MatRef::from_row_major_slice(&x, rows.len(), d), &mut residual);
        growth.chosen.evaluations += rows.len() as u64;
        crate::kernel::check_finite::<T>(&growth.exact().spec(), &residual)?;
        Ok(Self { factor: Mat::zeros(rows.len(), m), rows, x, d, residual })
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// F, with as many columns as landmarks were added.
    pub(super) fn factor(&self, landmarks: usize) -> MatRef<'_, f64> {
        self.factor.as_ref().subcols(0, landmarks)
    }

    /// A pool of the rows at these places, with their residuals under the landmarks so far.
    pub(super) fn pool<T: Real>(&self, growth: &mut Growth<'_, T>, at: &[usize]) -> Pool {
        let x = at.iter().flat_map(|i| &self.x[i * self.d..(i + 1) * self.d]).copied().collect();
        let phi = Mat::from_fn(at.len(), growth.len(), |i, j| self.factor[(at[i], j)]);
        growth.pool_of(at.iter().map(|i| self.rows[*i]).collect(), x, phi)
    }

    /// All features, n x d.
    pub(super) fn points(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.x, self.len(), self.d)
    }

    /// Adds the columns of the landmarks beyond the first `before`: F_new = (K_n,new − F L_newᵀ) L_new,new⁻ᵀ.
    pub(super) fn extend<T: Real>(&mut self, growth: &mut Growth<'_, T>, before: usize, workers: &Workers) {
        let (n, s) = (self.len(), growth.len());
        growth.chosen.evaluations += (n * (s - before)) as u64;
        let z = MatRef::from_row_major_slice(&growth.wide()[before * self.d..], s - before, self.d);
        let x = MatRef::from_row_major_slice(&self.x, n, self.d);
        let mut parts = Vec::new();
        let (mut factor, mut residual) = (self.factor.as_mut().subcols_mut(0, s), &mut self.residual[..]);
        for start in (0..n).step_by(STRIP) {
            let rows = STRIP.min(n - start);
            let (head, tail) = factor.split_at_row_mut(rows);
            let (left, right) = residual.split_at_mut(rows);
            parts.push((x.subrows(start, rows), head, left));
            (factor, residual) = (tail, right);
        }
        let growth = &*growth;
        workers.each(parts, |(x, factor, residual)| extend_strip(growth, x, z, before, factor, residual));
    }
}

fn extend_strip<T: Real>(
    growth: &Growth<'_, T>,
    x: MatRef<'_, f64>,
    z: MatRef<'_, f64>,
    before: usize,
    factor: MatMut<'_, f64>,
    residual: &mut [f64],
) {
    let (s, lower) = (growth.len(), growth.lower());
    let (old, mut new) = factor.split_at_col_mut(before);
    growth.exact().block(x, z, new.rb_mut());
    let rows = lower.subrows(before, s - before);
    matmul(new.rb_mut(), Accum::Add, old.rb(), rows.subcols(0, before).transpose(), -1.0, Par::Seq);
    solve_lower_triangular_in_place(rows.subcols(before, s - before), new.rb_mut().transpose_mut(), Par::Seq);
    crate::map::residual::subtract_columns(new.rb(), residual);
}

/// A fold that keeps every row.
struct Hold;

struct Held {
    rows: Vec<u64>,
    x: Vec<f64>,
}

impl Merge for Held {
    fn merge(&mut self, later: &Self) {
        self.rows.extend_from_slice(&later.rows);
        self.x.extend_from_slice(&later.x);
    }
}

impl<T: Real> Fold<T> for Hold {
    type State = Held;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Held {
        Held { rows: Vec::new(), x: Vec::new() }
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Held, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        state.rows.extend_from_slice(block.rows);
        state.x.extend(block.x.iter().map(|value| kstore::Real::to_f64(*value)));
        Ok(())
    }
}
