//! Learns the length scales of kernels by marginal likelihood: the likelihood of a Gaussian process
//! whose kernel is a sum, and the search for its maximum on a sample of rows.

mod consecutive_rows;
mod dense_likelihood;
mod kernel_sum;
mod log_link;
mod sample;

pub use consecutive_rows::learn_from_consecutive_rows;
pub use kernel_sum::{KernelSum, LikelihoodReport, StageResult, bytes, learn, round_to_four_digits};
pub use log_link::{Logarithms, learn_with_log_link};
pub use sample::{MIN_STAGED_ROWS, SampledRows, Stage};

use crate::{Error, Result};
use faer::{Mat, MatRef};

/// Checks that a sample has rows x (n x d) and targets y (n x t), all finite.
///
/// # Errors
/// Other numbers of rows, no column, fewer than two rows, or [`Error::NotFinite`].
pub fn check_sample(x: MatRef<'_, f64>, y: MatRef<'_, f64>) -> Result<()> {
    Error::check_dimension("rows of y", x.nrows(), y.nrows())?;
    Error::check_dimension("columns of x", x.ncols().max(1), x.ncols())?;
    Error::check_dimension("columns of y", y.ncols().max(1), y.ncols())?;
    if x.nrows() < 2 {
        return Err(Error::TooFewRows { rows: x.nrows() as u64 });
    }
    if x.is_all_finite() && y.is_all_finite() {
        return Ok(());
    }
    Err(Error::NotFinite { what: "a feature or target of the sample", remedy: "clean the rows" })
}

/// Returns the mean variance of the target columns, and the targets, centred and divided by the
/// square root of this variance.
pub fn standardise(y: MatRef<'_, f64>) -> (f64, Mat<f64>) {
    let (n, t) = (y.nrows(), y.ncols());
    let mut centred = y.to_owned();
    let mut square_sum = 0.0;
    for j in 0..t {
        let mean = y.col(j).iter().sum::<f64>() / n as f64;
        let is_constant = y.col(j).iter().all(|v| *v == y[(0, j)]);
        // the rounded mean of a constant column may differ from its values; exact zeros make the
        // variance exactly 0
        centred.col_mut(j).iter_mut().for_each(|v| *v = if is_constant { 0.0 } else { *v - mean });
        square_sum += centred.col(j).squared_norm_l2();
    }
    let variance = square_sum / (n * t) as f64;
    if variance > 0.0 {
        let std_dev = variance.sqrt();
        (0..t).for_each(|j| centred.col_mut(j).iter_mut().for_each(|v| *v /= std_dev));
    }
    (variance, centred)
}

#[cfg(test)]
fn random_numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
