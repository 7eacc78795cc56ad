//! The factor of rows in memory that grows with the landmarks. Residuals are updated for each
//! landmark instead of recomputed by passes.
//!
//! Stores n·m numbers in f64, for n rows and at most m landmarks. Adding b landmarks to s landmarks
//! costs 2nbd + 2nsb flops. If a scheme adds one landmark at a time, its updates cost nm² flops in
//! total, whereas recomputing the residuals in a pass for each landmark would cost nm³/3.

use super::{TableScan, growth::GrowingLandmarks};
use crate::matrix::{CandidatePool, GrowingFactor};
use crate::{Error, Real, Result};
use faer::{Mat, MatRef};
use kpass::{LabelCodes, RowBlock, Workers};
use std::convert::Infallible;

/// Largest n·m for which the factor is stored: 512 MiB. The limit does not depend on the memory
/// budget. Updated and recomputed residuals round differently, and the choice of landmarks must not
/// depend on the available memory.
pub(super) const MAX_ENTRIES: u64 = 1 << 26;

/// Rows in memory, their factor F = K_nS L⁻ᵀ under the landmarks S so far, and the residuals r =
/// diag(K − F Fᵀ), all in f64. K_nS contains the columns of the kernel matrix K at the landmarks,
/// and L Lᵀ = K_SS.
pub(super) struct CandidateRows {
    /// Row numbers, ascending.
    pub(super) row_numbers: Vec<u64>,
    /// Inputs of the rows, n x d, row-major.
    x: Vec<f64>,
    d: usize,
    pub(super) growing_factor: GrowingFactor,
    /// Targets, n x t, if requested: centred values, or one column of ±1 codes per class.
    pub(super) targets: Mat<f64>,
}

/// Returns the memory of n rows with d inputs and m columns of the factor, in bytes: the inputs (in
/// a growing vector, at most twice as long), the columns, the residuals and the row numbers.
pub(super) fn bytes(n: u64, d: usize, m: usize) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX).saturating_mul((2 * d + m + 2) * size_of::<f64>())
}

impl CandidateRows {
    /// Reads all rows in one pass, and their targets if `needs_targets` is true. If the table has
    /// no targets, the matrix of targets has no columns. The factor has room for `m` columns.
    pub(super) fn read<T: Real>(
        growth: &mut GrowingLandmarks<'_, T>,
        scan: &TableScan<'_, T>,
        m: usize,
        needs_targets: bool,
    ) -> Result<Self> {
        let d = scan.source.shape().input_count;
        let mut collector = RowCollector::default();
        scan.pass.visit(scan.source, |block| {
            collector.push(block, needs_targets);
            Ok::<_, Error>(())
        })?;
        growth.landmarks.passes += 1;
        let mut residuals = vec![0.0; collector.row_numbers.len()];
        growth
            .kernel_f64
            .diag(MatRef::from_row_major_slice(&collector.x, collector.row_numbers.len(), d), &mut residuals);
        growth.landmarks.evaluations += collector.row_numbers.len() as u64;
        crate::kernel::check_finite::<T>(&growth.kernel_f64.spec(), &residuals)?;
        Ok(Self {
            targets: collector.centred_targets(),
            row_numbers: collector.row_numbers,
            x: collector.x,
            d,
            growing_factor: GrowingFactor::new(residuals, m),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.row_numbers.len()
    }

    /// Returns the first `landmark_count` columns of F.
    pub(super) fn factor_columns(&self, landmark_count: usize) -> MatRef<'_, f64> {
        self.growing_factor.factor.as_ref().subcols(0, landmark_count)
    }

    /// Returns a pool of the rows at positions `positions`, with their residuals under the
    /// landmarks so far.
    pub(super) fn build_pool<T: Real>(
        &self,
        growth: &mut GrowingLandmarks<'_, T>,
        positions: &[usize],
    ) -> CandidatePool {
        let x = positions.iter().flat_map(|i| &self.x[i * self.d..(i + 1) * self.d]).copied().collect();
        let phi = self.growing_factor.factor_rows(positions, growth.len());
        growth.build_pool_from_features(positions.iter().map(|i| self.row_numbers[*i]).collect(), x, phi)
    }

    pub(super) fn points(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.x, self.len(), self.d)
    }

    /// Adds to F the columns of all landmarks except the first `previous_count`.
    pub(super) fn add_columns<T: Real>(
        &mut self,
        growth: &mut GrowingLandmarks<'_, T>,
        previous_count: usize,
        workers: &Workers,
    ) {
        let (n, s) = (self.len(), growth.len());
        growth.landmarks.evaluations += (n * (s - previous_count)) as u64;
        let (kernel, new_factor_rows) =
            (&growth.kernel_f64, growth.lower().subrows(previous_count, s - previous_count));
        let z = MatRef::from_row_major_slice(&growth.points_f64[previous_count * self.d..], s - previous_count, self.d);
        let x = MatRef::from_row_major_slice(&self.x, n, self.d);
        let Ok(()) = self.growing_factor.add_columns(new_factor_rows, workers, |strip_rows, out| {
            kernel.block(x.subrows(strip_rows.start, strip_rows.len()), z, out);
            Ok::<_, Infallible>(())
        });
    }
}

#[derive(Default)]
struct RowCollector {
    row_numbers: Vec<u64>,
    x: Vec<f64>,
    y: Vec<f64>,
    codes: Vec<u32>,
    class_count: usize,
}

impl RowCollector {
    fn push<T: Real>(&mut self, block: &RowBlock<'_, T>, needs_targets: bool) {
        self.row_numbers.extend_from_slice(block.row_numbers);
        self.x.extend(block.x.iter().map(|value| value.to_f64()));
        match block.classes.filter(|_| needs_targets) {
            Some(LabelCodes { codes, labels }) => {
                self.codes.extend_from_slice(codes);
                self.class_count = labels.len();
            }
            None if needs_targets => self.y.extend_from_slice(block.y),
            None => {}
        }
    }

    fn centred_targets(&self) -> Mat<f64> {
        let n = self.row_numbers.len();
        if self.class_count > 0 {
            return Mat::from_fn(n, self.class_count, |i, j| if self.codes[i] as usize == j { 1.0 } else { -1.0 });
        }
        let t = self.y.len().checked_div(n).unwrap_or(0);
        let means: Vec<f64> = (0..t).map(|j| self.y.iter().skip(j).step_by(t).sum::<f64>() / n as f64).collect();
        Mat::from_fn(n, t, |i, j| self.y[i * t + j] - means[j])
    }
}
