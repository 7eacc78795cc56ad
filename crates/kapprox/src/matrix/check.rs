//! Checks of the residual of an approximation in a few columns of the matrix.

use super::{PartialCholesky, PsdMatrix};
use crate::{Error, Result, kernel::index_chunks, map::nystrom::STRIP_ROWS};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kpass::Workers;

impl PartialCholesky {
    /// Rejects a matrix K if an entry of the given columns of R = K − F Fᵀ violates R_ij² ≤ R_ii
    /// R_jj. If K is positive semi-definite, R is too, and no entry violates this. Allows errors of
    /// `slack` times the largest entry of `diagonal`.
    pub(super) fn check_columns(
        &self,
        matrix: &dyn PsdMatrix,
        diagonal: &[f64],
        slack: f64,
        columns: &[u64],
        workers: &Workers,
    ) -> Result<()> {
        let largest_diagonal = diagonal.iter().copied().fold(0.0, f64::max);
        if largest_diagonal == 0.0 {
            // if no diagonal entry is positive, there is no pivot; the caller reports this
            return Ok(());
        }
        let relative_slack = matrix.rounding().sqrt();
        let residual_bound =
            |i: usize| self.residuals[i].max(0.0) + relative_slack * diagonal[i] + slack * largest_diagonal;
        let column_factors =
            Mat::from_fn(columns.len(), self.factor.ncols(), |j, k| self.factor[(columns[j] as usize, k)]);
        let n = self.residuals.len();
        workers.try_for_each(index_chunks(n, STRIP_ROWS).collect(), |(start, row_count)| {
            let (mut residuals, mut outcome) = (Mat::zeros(row_count, columns.len()), Ok(()));
            matrix.block(start as u64..(start + row_count) as u64, columns, residuals.as_mut())?;
            matmul(&mut residuals, Accum::Add, self.factor.subrows(start, row_count), column_factors.transpose(), -1.0, Par::Seq);
            for (j, column) in columns.iter().enumerate() {
                for (i, value) in (start..).zip(residuals.col(j).iter()) {
                    if value.is_nan() {
                        outcome = Err(super::not_finite(i as u64));
                    } else if value * value > residual_bound(i) * residual_bound(*column as usize) {
                        let why = format!(
                            "the residual {value:e} of the entry in column {column} exceeds the bound of the residual diagonal"
                        );
                        outcome = Err(Error::Indefinite { row: i as u64, why });
                    }
                }
            }
            outcome
        })
    }
}
