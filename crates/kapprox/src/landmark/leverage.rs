//! Recursive ridge leverage scores: landmarks drawn in proportion to the leverage of a row at a
//! ridge that m landmarks resolve.
//!
//! The rows are halved repeatedly, down to a set as small as the sample. A uniform sample of the
//! smallest set estimates the leverage scores of the set twice its size; a sample drawn by these
//! scores estimates the scores of the next larger set. At the top, landmarks are drawn from all
//! rows, without replacement, in proportion to their scores. A random key of each row decides which
//! of the sets contain it.
//!
//! The ridge of a level is the mean of the eigenvalues beyond the k-th, μ = (1/k) Σ_{i>k} λ_i, with
//! k = s/(4 ln s). The scores then sum to at most 2k and, multiplied by ln s, draw about s rows. A
//! smaller ridge is worse: the score of a row unlike all rows of the sample is estimated as 1,
//! however many similar rows there are. (With k = s/2 the trace error on "smile" is four times the
//! trace error of uniform landmarks.)
//!
//! Reference: Musco, Musco, "Recursive sampling for the Nyström method", NIPS 2017, Algorithm 3 and
//! Theorem 8.

use super::residual_pass::{ResidualPass, Residuals, RowRule};
use super::{LandmarkRule, LandmarkSet, Scan, dictionary::Dictionary};
use crate::{Real, Result, kernel::AnyKernel};
use kpass::key::{Purpose, Stream};
use std::sync::Arc;

/// Landmarks by recursive ridge leverage scores.
///
/// log₂(n/m) passes. The number of rows that take part doubles from pass to pass, so kernels and
/// solves cost 2n(s² + 2sd) flops in total. No memory per row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leverage;

/// Smallest sample; below it ln s is not a useful oversampling factor.
const MIN_SAMPLE: usize = 16;

impl<T: Real> LandmarkRule<T> for Leverage {
    fn select(&self, data: &Scan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>> {
        crate::kernel::require_positive_definite(&*kernel.typed::<T>(), "leverage scores")?;
        let s = m.max(MIN_SAMPLE);
        let oversampling = (s as f64).ln();
        let k = ((s as f64 / (4.0 * oversampling)).ceil() as usize).max(1);
        let set_keys = Stream::new(seed, Purpose::Candidates, 0);
        // a level contains the rows whose uniform number is below 2^-level
        let levels = (data.count as f64 / s as f64).log2().ceil().max(0.0) as u32;
        let level_stream = |level: u32| Stream::new(seed, Purpose::Proposals, u64::from(level));
        let (mut passes, mut evaluations) = (0, 0);
        let set_at = |level: u32| Some((set_keys, 0.5f64.powi(level as i32)));
        let (keys, mut deepest) = (level_stream(levels), levels);
        let mut residual_floor;
        let mut dictionary = loop {
            let uniform = RowRule { subsample: set_at(deepest), ..RowRule::new(|row, _| Some(keys.uniform(row))) };
            // twice the expected number, because the size of the set is random
            let residuals = ResidualPass::run(kernel, None, &uniform, 2 * s, "a uniform sample", data)?;
            (passes, evaluations) = (passes + 1, evaluations + residuals.rows);
            // without a map residuals are k(x, x)
            residual_floor = rounding_floor::<T>(residuals.sum / residuals.rows.max(1) as f64);
            // each participating row represents itself, unless there were more than 2s of them
            let size = residuals.rows.min(2 * s as u64).max(1) as f64;
            let participants = residuals.rows as f64;
            let dictionary = into_dictionary(residuals, 2 * s, |_| participants / size);
            // an unlucky draw may leave the smallest set empty
            if !dictionary.members.is_empty() || deepest == 0 {
                break dictionary;
            }
            deepest -= 1;
        };
        for level in (0..deepest).rev() {
            let mu = dictionary.ridge(kernel, k)?;
            let scale = oversampling / mu;
            let residuals = if level == 0 {
                dictionary.round(
                    mu,
                    kernel,
                    &RowRule { residual_floor, ..RowRule::new(score_keys(level_stream(0), mu)) },
                    m,
                    data,
                )?
            } else {
                // rows are drawn independently; random key order keeps the draw fair if it is
                // truncated
                let (keys, chance) = (level_stream(level), |residual: f64| residual * scale);
                let key = |row, residual| {
                    let u = keys.uniform(row);
                    (u < chance(residual)).then(|| -u / chance(residual).min(1.0))
                };
                // the expected number is at most 2k ln s = s/2
                dictionary.round(mu, kernel, &RowRule { subsample: set_at(level), residual_floor, key }, 2 * s, data)?
            };
            passes += 1;
            evaluations += residuals.rows * (dictionary.members.len() as u64 + 1);
            let next = into_dictionary(residuals, 2 * s, |residual| 1.0 / (residual * scale).min(1.0));
            // if no row has a residual left, the members span all rows
            if !next.members.is_empty() {
                dictionary = next;
            }
        }
        let mut landmarks = dictionary.members;
        let leading: Vec<usize> = (0..landmarks.len().min(m)).collect();
        landmarks = landmarks.subset(&leading);
        Ok(LandmarkSet { passes, evaluations, ..landmarks })
    }
}

/// Returns the largest residual that rounding in `T` may leave for a row with k(x, x) = `diagonal`.
/// As a lower bound of residuals it makes all rows at the level of rounding equally likely.
pub(super) fn rounding_floor<T: Real>(diagonal: f64) -> f64 {
    T::EPSILON * diagonal
}

/// Returns the best rows of a round as a dictionary, best key first.
pub(super) fn into_dictionary<T: Real>(
    mut residuals: Residuals<T>,
    capacity: usize,
    multiplicity: impl Fn(f64) -> f64,
) -> Dictionary<T> {
    let mut entries = residuals.best.sorted();
    entries.truncate(capacity);
    let multiplicities = entries.iter().map(|entry| multiplicity(entry.weight)).collect();
    Dictionary { members: residuals.best.sample(&entries).into(), multiplicities }
}

impl<T: Real> Dictionary<T> {
    /// Returns μ = (1/k) Σ_{i>k} λ_i of the weighted sample, but at least the rounding error of its
    /// trace.
    fn ridge(&self, kernel: &Arc<dyn AnyKernel>, k: usize) -> Result<f64> {
        let values = self.spectrum(kernel)?;
        let trace: f64 = values.iter().map(|value| value.max(0.0)).sum();
        let tail: f64 = values.iter().skip(k).map(|value| value.max(0.0)).sum();
        Ok((tail / k as f64).max(T::EPSILON * trace / values.len().max(1) as f64))
    }
}

/// Returns the keys of a draw without replacement, in proportion to the score min(1, residual/μ).
pub(super) fn score_keys(keys: Stream, mu: f64) -> impl Fn(u64, f64) -> Option<f64> + Sync {
    move |row, residual| Some(keys.uniform(row).ln() / (residual / mu).min(1.0))
}
