//! What an approximation leaves of a few columns of a matrix.

use super::{Entries, PartialCholesky};
use crate::{Error, Result, kernel::pieces, map::nystrom::STRIP};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kpass::Workers;

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
        workers.try_each(pieces(n, STRIP).collect(), |(start, rows)| {
            let (mut found, mut last) = (Mat::zeros(rows, columns.len()), Ok(()));
            matrix.block(start as u64..(start + rows) as u64, columns, found.as_mut())?;
            matmul(&mut found, Accum::Add, self.factor.subrows(start, rows), theirs.transpose(), -1.0, Par::Seq);
            for (j, column) in columns.iter().enumerate() {
                for (i, value) in (start..).zip(found.col(j).iter()) {
                    if value.is_nan() {
                        last = Err(super::not_finite(i as u64));
                    } else if value * value > bound(i) * bound(*column as usize) {
                        let why = format!(
                            "the pivots leave {value:e} of the entry in column {column}, and less of the diagonal"
                        );
                        last = Err(Error::Indefinite { row: i as u64, why });
                    }
                }
            }
            last
        })
    }
}
