//! Computes, in a pass over all n rows, the squared norms of some columns of E = K − ΦΦᵀ (n x n),
//! and sums over the diagonal of E.

use super::{MeasuredRows, PANEL_COLUMNS};
use crate::kernel::{KernelFunction, pieces};
use crate::map::FeatureMap;
use crate::map::factor::subtract_columns;
use crate::map::nystrom::{STRIP_ROWS, strips};
use crate::{Error, Real, Result};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul, unzip, zip};
use kpass::{Merge, Reduction, RowBlock, Workers};
use std::sync::Arc;

/// A reduction that computes the errors of an approximation. As a [`Reduction`] it computes the
/// features itself. [`ColumnReduction::add_block`] instead accepts features that are already
/// computed, for passes that also use the features for other results.
///
/// With c columns, p features and r ranks, a row costs c kernel evaluations and 2cp flops. The fold
/// stores c(d + p) numbers, and each state c(r + 1) numbers. For tiles of b rows, each lane stores
/// pb numbers, or 2pb numbers if it is used as a [`Reduction`].
#[derive(Debug)]
pub struct ColumnReduction<'a, T: Real> {
    pub(super) exact: Arc<dyn KernelFunction<f64>>,
    pub(super) map: &'a dyn FeatureMap<T>,
    /// Ranks, ascending; the leading r columns of Φ are the map of rank r.
    pub(super) ranks: &'a [usize],
    pub(super) measured: MeasuredRows,
    pub(super) tile: usize,
    /// True if E has no negative eigenvalue.
    pub(super) is_projection: bool,
}

/// Sums over the rows so far.
#[derive(Debug)]
pub struct ColumnSums {
    pub(super) rows: u64,
    /// tr K.
    pub(super) trace: f64,
    /// For each column j, Σ_i K_ij², followed by Σ_i E_ij² at each rank.
    pub(super) squares: Vec<f64>,
    /// One [`ResidualSums`] per rank.
    pub(super) residuals: Vec<f64>,
}

/// Sums over the diagonal of E at one rank, r_i = k(x_i, x_i) − ‖phi(x_i)‖²: Σ max(r_i, 0), Σ
/// max(−r_i, 0), Σ r_i² and max_i |r_i|.
pub(super) type ResidualSums = [f64; 4];

fn merge_residual_sums([positive, negative, squares, largest]: ResidualSums, later: ResidualSums) -> ResidualSums {
    [positive + later[0], negative + later[1], squares + later[2], largest.max(later[3])]
}

impl Merge for ColumnSums {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.squares.iter_mut().zip(&later.squares).for_each(|(sum, part)| *sum += part);
        self.trace += later.trace;
        let sums = self.residuals.as_chunks_mut().0.iter_mut().zip(later.residuals.as_chunks().0);
        sums.for_each(|(sum, part)| *sum = merge_residual_sums(*sum, *part));
    }
}

kpass::persist!(ColumnSums { one "rows": rows, fill "squares": squares, one "trace": trace, fill "left": residuals });

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
        (Mat::zeros(self.tile, self.map.dims().1), self.new_scratch())
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
        let (c, r) = (self.measured.phi.nrows(), self.ranks.len());
        ColumnSums { rows: 0, trace: 0.0, squares: vec![0.0; c * (r + 1)], residuals: vec![0.0; 4 * r] }
    }

    /// Returns the buffers for one lane.
    pub fn new_scratch(&self) -> ColumnScratch {
        let phi_f64 = Mat::zeros(self.tile, self.map.dims().1);
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
        self.exact.diag(x, diag);
        crate::kernel::check_finite::<f64>(&self.exact.spec(), diag)?;
        state.rows += b as u64;
        residuals.resize(b * self.ranks.len(), 0.0);
        let mut phi_f64 = phi_f64.as_mut().subrows_mut(0, b);
        self.widen(phi, phi_f64.as_mut(), diag, residuals, workers);
        state.trace += diag.iter().sum::<f64>();
        for (rank_index, sums) in state.residuals.as_chunks_mut().0.iter_mut().enumerate() {
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
        let panels = state.squares.chunks_mut(PANEL_COLUMNS * (self.ranks.len() + 1)).enumerate().collect();
        workers.for_each(panels, |(panel, squares): (usize, &mut [f64])| {
            self.add_panel(panel * PANEL_COLUMNS, x, phi_f64, squares)
        });
        Ok(())
    }

    /// Widens the features to f64 and computes the residual of k(x, x) at every rank, one strip of
    /// rows at a time.
    fn widen(
        &self,
        phi: MatRef<'_, T>,
        phi_f64: MatMut<'_, f64>,
        diag: &[f64],
        residuals: &mut [f64],
        workers: &Workers,
    ) {
        let r = self.ranks.len();
        let rows = diag.chunks(STRIP_ROWS).zip(residuals.chunks_mut((STRIP_ROWS * r).max(1)));
        workers.for_each(
            strips(phi, phi_f64).into_iter().zip(rows).collect(),
            |((phi, mut wide), (diag, residuals))| {
                zip!(wide.as_mut(), phi).for_each(|unzip!(to, from)| *to = kpass::Float::to_f64(*from));
                let (mut remaining, mut done) = (diag.to_vec(), 0);
                for (residuals, rank) in residuals.chunks_mut(diag.len()).zip(self.ranks) {
                    subtract_columns(phi.subcols(done, rank - done), &mut remaining);
                    residuals.copy_from_slice(&remaining);
                    done = *rank;
                }
            },
        );
    }

    /// Adds the columns from `first` on, for the rows of a tile, strip by strip.
    fn add_panel(&self, first: usize, x: MatRef<'_, f64>, phi: MatRef<'_, f64>, squares: &mut [f64]) {
        let (width, ranks) = (squares.len() / (self.ranks.len() + 1), self.ranks.len());
        let (z, phi_z) =
            (self.measured.points().subrows(first, width), self.measured.phi.as_ref().subrows(first, width));
        let mut e = Mat::zeros(STRIP_ROWS.min(x.nrows()), width);
        for (start, rows) in pieces(x.nrows(), STRIP_ROWS) {
            let mut e = e.as_mut().subrows_mut(0, rows);
            self.exact.block(x.subrows(start, rows), z, e.as_mut());
            for j in 0..width {
                squares[j * (ranks + 1)] += e.as_ref().col(j).squared_norm_l2();
            }
            let (phi, mut done) = (phi.subrows(start, rows), 0);
            for (rank_index, rank) in self.ranks.iter().enumerate() {
                let (left, right) = (phi.subcols(done, rank - done), phi_z.subcols(done, rank - done));
                matmul(e.as_mut(), Accum::Add, left, right.transpose(), -1.0, Par::Seq);
                done = *rank;
                for j in 0..width {
                    squares[j * (ranks + 1) + rank_index + 1] += e.as_ref().col(j).squared_norm_l2();
                }
            }
        }
    }
}
