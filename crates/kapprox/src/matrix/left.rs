//! What an approximation leaves of a few columns of a matrix.

use super::{Entries, PartialCholesky};
use crate::map::nystrom::STRIP;
use crate::{Error, Result};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kstore::Workers;

impl PartialCholesky {
    /// Refuses a matrix of which more is left in these columns, R = K − F Fᵀ, than R_ij² ≤ R_ii R_jj allows, as it does where the matrix is
    /// positive semi-definite. Entries may be off by the share `slack` of the largest of its `diagonal`.
    pub(super) fn check_columns(
        &self,
        matrix: &dyn Entries,
        (diagonal, slack): (&[f64], f64),
        columns: &[u64],
        workers: &Workers,
    ) -> Result<()> {
        let largest = diagonal.iter().copied().fold(0.0, f64::max);
        if largest == 0.0 {
            // there is no pivot then, and whoever asked says so
            return Ok(());
        }
        let near = matrix.rounding().sqrt();
        let bound = |i: usize| self.residual[i].max(0.0) + near * diagonal[i] + slack * largest;
        let theirs = Mat::from_fn(columns.len(), self.factor.ncols(), |j, k| self.factor[(columns[j] as usize, k)]);
        let n = self.residual.len();
        let mut results: Vec<Result<()>> = Vec::new();
        results.resize_with(n.div_ceil(STRIP), || Ok(()));
        workers.each(results.iter_mut().enumerate().collect(), |(strip, result): (usize, &mut Result<()>)| {
            let (start, end) = (strip * STRIP, n.min((strip + 1) * STRIP));
            let mut found = Mat::zeros(end - start, columns.len());
            *result = matrix.block(start as u64..end as u64, columns, found.as_mut());
            if result.is_err() {
                return;
            }
            let ours = self.factor.subrows(start, end - start);
            matmul(&mut found, Accum::Add, ours, theirs.transpose(), -1.0, Par::Seq);
            for (j, column) in columns.iter().enumerate() {
                for (i, value) in (start..end).zip(found.col(j).iter()) {
                    if value.is_nan() {
                        *result = Err(super::not_finite(i as u64));
                    } else if value * value > bound(i) * bound(*column as usize) {
                        let why = format!(
                            "the pivots leave {value:e} of the entry in column {column}, and less of the diagonal"
                        );
                        *result = Err(Error::Indefinite { row: i as u64, why });
                    }
                }
            }
        });
        results.into_iter().collect()
    }
}
