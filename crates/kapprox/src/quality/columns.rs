//! Computes, in a pass over all n rows, the squared norms of some columns of E = K − ΦΦᵀ (n x n),
//! and sums over the diagonal of E.

use super::{MEASURED_PANEL_COLUMNS, MeasuredRows};
use crate::kernel::{KernelFunction, index_chunks};
use crate::map::FeatureMap;
use crate::map::factor::subtract_squared_columns;
use crate::map::nystrom::{STRIP_ROWS, strips};
use crate::{Error, Real, Result};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul, unzip, zip};
use kpass::{Merge, Reduction, RowBlock, Workers};
use std::sync::Arc;

/// A reduction that computes the errors of an approximation. As a [`Reduction`] it computes the
/// features itself. [`ColumnReduction::add_block`] instead accepts features that are already
/// computed, for passes that also use the features for other results.
///
/// With c columns, p features and r ranks, a row costs c kernel evaluations and 2cp flops. The
/// reduction stores c(d + p) numbers, and each state c(r + 1) numbers. For tiles of b rows, each
/// lane stores pb numbers, or 2pb numbers if it is used as a [`Reduction`].
#[derive(Debug)]
pub struct ColumnReduction<'a, T: Real> {
    pub(super) kernel_f64: Arc<dyn KernelFunction<f64>>,
    pub(super) map: &'a dyn FeatureMap<T>,
    /// Ranks, ascending; the leading r columns of Φ are the map of rank r.
    pub(super) ranks: &'a [usize],
    pub(super) measured_rows: MeasuredRows,
    pub(super) tile_rows: usize,
    /// True if E has no negative eigenvalue.
    pub(super) is_projection: bool,
}

/// Sums over the rows so far.
#[derive(Debug)]
pub struct ColumnSums {
    pub(super) row_count: u64,
    /// tr K.
    pub(super) trace: f64,
    /// For each column j, Σ_i K_ij², followed by Σ_i E_ij² at each rank.
    pub(super) squared_column_norms: Vec<f64>,
    /// One [`ResidualSums`] per rank.
    pub(super) residual_sums: Vec<f64>,
}

/// Sums over the diagonal of E at one rank, r_i = k(x_i, x_i) − ‖phi(x_i)‖²: Σ max(r_i, 0), Σ
/// max(−r_i, 0), Σ r_i² and max_i |r_i|.
pub(super) type ResidualSums = [f64; 4];

fn merge_residual_sums([positive, negative, squares, largest]: ResidualSums, later: ResidualSums) -> ResidualSums {
    [positive + later[0], negative + later[1], squares + later[2], largest.max(later[3])]
}

impl Merge for ColumnSums {
    fn merge(&mut self, later: &Self) {
        self.row_count += later.row_count;
        self.squared_column_norms.iter_mut().zip(&later.squared_column_norms).for_each(|(sum, part)| *sum += part);
        self.trace += later.trace;
        let sums = self.residual_sums.as_chunks_mut().0.iter_mut().zip(later.residual_sums.as_chunks().0);
        sums.for_each(|(sum, part)| *sum = merge_residual_sums(*sum, *part));
    }
}

kpass::persist!(ColumnSums { one "rows": row_count, fill "squares": squared_column_norms, one "trace": trace, fill "left": residual_sums });

/// Buffers of a lane.
#[derive(Debug)]
pub struct ColumnScratch {
    phi_f64: Mat<f64>,
    x: Vec<f64>,
    diag: Vec<f64>,
    /// Residuals of the diagonal, ordered by strip, then by rank.
    residuals: Vec<f64>,
}

impl<T: Real> Reduction<T> for ColumnReduction<'_, T> {
    type State = ColumnSums;
    type Scratch = (Mat<T>, ColumnScratch);
    type Error = Error;

    fn init(&self) -> ColumnSums {
        self.new_sums()
    }

    fn scratch(&self) -> Self::Scratch {
        (Mat::zeros(self.tile_rows, self.map.dims().1), self.new_scratch())
    }

    fn step(
        &self,
        state: &mut ColumnSums,
        (phi, scratch): &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let mut phi = phi.as_mut().subrows_mut(0, block.len());
        self.map.apply(MatRef::from_row_major_slice(block.x, block.len(), block.d), phi.as_mut(), workers);
        self.add_block(state, scratch, block, phi.as_ref(), workers)
    }
}

impl<T: Real> ColumnReduction<'_, T> {
    /// Returns the state before any row.
    pub fn new_sums(&self) -> ColumnSums {
        let (c, r) = (self.measured_rows.phi.nrows(), self.ranks.len());
        ColumnSums {
            row_count: 0,
            trace: 0.0,
            squared_column_norms: vec![0.0; c * (r + 1)],
            residual_sums: vec![0.0; 4 * r],
        }
    }

    /// Returns the buffers for one lane.
    pub fn new_scratch(&self) -> ColumnScratch {
        let phi_f64 = Mat::zeros(self.tile_rows, self.map.dims().1);
        ColumnScratch { phi_f64, x: Vec::new(), diag: Vec::new(), residuals: Vec::new() }
    }

    /// Adds the rows of a block, at most a tile, with their features.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if the kernel overflows.
    pub fn add_block(
        &self,
        state: &mut ColumnSums,
        scratch: &mut ColumnScratch,
        block: &RowBlock<'_, T>,
        phi: MatRef<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let (b, d) = (block.len(), block.d);
        let ColumnScratch { phi_f64, x, diag, residuals } = scratch;
        x.clear();
        x.extend(block.x.iter().map(|value| kpass::Float::to_f64(*value)));
        let x = MatRef::from_row_major_slice(x, b, d);
        diag.resize(b, 0.0);
        self.kernel_f64.diag(x, diag);
        crate::kernel::check_finite::<f64>(&self.kernel_f64.spec(), diag)?;
        state.row_count += b as u64;
        residuals.resize(b * self.ranks.len(), 0.0);
        let mut phi_f64 = phi_f64.as_mut().subrows_mut(0, b);
        self.compute_residuals(phi, phi_f64.as_mut(), diag, residuals, workers);
        state.trace += diag.iter().sum::<f64>();
        for (rank_index, sums) in state.residual_sums.as_chunks_mut().0.iter_mut().enumerate() {
            for (diag, residuals) in
                diag.chunks(STRIP_ROWS).zip(residuals.chunks((STRIP_ROWS * self.ranks.len()).max(1)))
            {
                for &r in &residuals[rank_index * diag.len()..(rank_index + 1) * diag.len()] {
                    // if r is NaN, it enters the positive sum
                    let (positive, negative) = if r < 0.0 { (0.0, -r) } else { (r, 0.0) };
                    *sums = merge_residual_sums(*sums, [positive, negative, r * r, r.abs()]);
                }
            }
        }
        let phi_f64 = phi_f64.as_ref();
        let panels = state
            .squared_column_norms
            .chunks_mut(MEASURED_PANEL_COLUMNS * (self.ranks.len() + 1))
            .enumerate()
            .collect();
        workers.for_each(panels, |(panel_index, squared_norms): (usize, &mut [f64])| {
            self.add_panel(panel_index * MEASURED_PANEL_COLUMNS, x, phi_f64, squared_norms)
        });
        Ok(())
    }

    /// Converts the features to f64 and computes the residual of k(x, x) at every rank, one strip
    /// of rows at a time.
    fn compute_residuals(
        &self,
        phi: MatRef<'_, T>,
        phi_f64: MatMut<'_, f64>,
        diag: &[f64],
        residuals: &mut [f64],
        workers: &Workers,
    ) {
        let r = self.ranks.len();
        let diagonal_strips = diag.chunks(STRIP_ROWS).zip(residuals.chunks_mut((STRIP_ROWS * r).max(1)));
        workers.for_each(
            strips(phi, phi_f64).into_iter().zip(diagonal_strips).collect(),
            |((phi, mut phi_f64), (diag, residuals))| {
                zip!(phi_f64.as_mut(), phi).for_each(|unzip!(to, from)| *to = kpass::Float::to_f64(*from));
                let (mut rank_residuals, mut subtracted_columns) = (diag.to_vec(), 0);
                for (residuals, rank) in residuals.chunks_mut(diag.len()).zip(self.ranks) {
                    subtract_squared_columns(
                        phi.subcols(subtracted_columns, rank - subtracted_columns),
                        &mut rank_residuals,
                    );
                    residuals.copy_from_slice(&rank_residuals);
                    subtracted_columns = *rank;
                }
            },
        );
    }

    /// Adds the squares of the entries in the rows of a tile to `squared_norms`, for the columns
    /// from `first_column` on, one strip of rows at a time.
    fn add_panel(&self, first_column: usize, x: MatRef<'_, f64>, phi: MatRef<'_, f64>, squared_norms: &mut [f64]) {
        let (column_count, rank_count) = (squared_norms.len() / (self.ranks.len() + 1), self.ranks.len());
        let (z, phi_z) = (
            self.measured_rows.points().subrows(first_column, column_count),
            self.measured_rows.phi.as_ref().subrows(first_column, column_count),
        );
        let mut e = Mat::zeros(STRIP_ROWS.min(x.nrows()), column_count);
        for (start, row_count) in index_chunks(x.nrows(), STRIP_ROWS) {
            let mut e = e.as_mut().subrows_mut(0, row_count);
            self.kernel_f64.block(x.subrows(start, row_count), z, e.as_mut());
            for j in 0..column_count {
                squared_norms[j * (rank_count + 1)] += e.as_ref().col(j).squared_norm_l2();
            }
            let (phi, mut subtracted_columns) = (phi.subrows(start, row_count), 0);
            for (rank_index, rank) in self.ranks.iter().enumerate() {
                let (left, right) = (
                    phi.subcols(subtracted_columns, rank - subtracted_columns),
                    phi_z.subcols(subtracted_columns, rank - subtracted_columns),
                );
                matmul(e.as_mut(), Accum::Add, left, right.transpose(), -1.0, Par::Seq);
                subtracted_columns = *rank;
                for j in 0..column_count {
                    squared_norms[j * (rank_count + 1) + rank_index + 1] += e.as_ref().col(j).squared_norm_l2();
                }
            }
        }
    }
}
