//! Recursive ridge leverage scores: rows become landmarks with probabilities proportional to their
//! ridge leverage scores, at a ridge that matches the number of landmarks.
//!
//! Let m be the requested number of landmarks, and s = max(m, 16), which bounds the expected size
//! of every sample. The rows are halved at random repeatedly, which gives nested sets, until a set
//! has at most about s rows. The smallest set itself is the first sample. The sample of each set
//! estimates the leverage scores of the rows of the next larger set, which is about twice as large.
//! Rows drawn by these scores are the sample of the larger set. In the set of all rows, the
//! landmarks are drawn without replacement, with probabilities proportional to the scores. A random
//! key of each row decides which of the sets contain the row.
//!
//! The ridge of each set is μ = (1/k) Σ_{i>k} λ_i with k = s/(4 ln s), where λ_i are the
//! eigenvalues of the kernel matrix in descending order, estimated from the sample. At this ridge
//! the sum of the scores is at most 2k. Each row is drawn with probability (score · ln s), so that
//! at most about s/2 rows are drawn. A smaller ridge is worse: the score of a row unlike all rows
//! of the sample is then estimated as 1, however many similar rows there are. (With k = s/2 the
//! trace error on "smile" is four times the trace error of uniform landmarks.)
//!
//! Reference: Musco, Musco, "Recursive sampling for the Nyström method", NIPS 2017, Algorithm 3 and
//! Theorem 8.

use super::residual_pass::{ResidualPass, Residuals, RowRule};
use super::{LandmarkRule, LandmarkSet, TableScan, dictionary::Dictionary};
use crate::{Real, Result, kernel::AnyKernel};
use kpass::key::{Purpose, Stream};
use std::sync::Arc;

/// Landmarks by recursive ridge leverage scores.
///
/// Makes log₂(n/m) passes. The number of rows that take part doubles from pass to pass, so kernel
/// values and triangular solves cost 2n(s² + 2sd) flops in total, with samples of s rows. Stores
/// nothing per row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leverage;

/// Minimum of s, which bounds the expected size of a sample; for smaller s, ln s is not a useful
/// oversampling factor.
const MIN_SAMPLE: usize = 16;

impl<T: Real> LandmarkRule<T> for Leverage {
    fn select(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        crate::kernel::require_positive_definite(&*kernel.typed::<T>(), "leverage scores")?;
        let s = m.max(MIN_SAMPLE);
        let oversampling = (s as f64).ln();
        let k = ((s as f64 / (4.0 * oversampling)).ceil() as usize).max(1);
        let set_stream = Stream::new(seed, Purpose::Candidates, 0);
        // the set of a level contains the rows whose uniform number is below 2^-level
        let level_count = (scan.row_count as f64 / s as f64).log2().ceil().max(0.0) as u32;
        let level_stream = |level: u32| Stream::new(seed, Purpose::Proposals, u64::from(level));
        let (mut passes, mut evaluations) = (0, 0);
        let level_subsample = |level: u32| Some((set_stream, 0.5f64.powi(level as i32)));
        let (key_stream, mut deepest_level) = (level_stream(level_count), level_count);
        let mut residual_floor;
        let mut dictionary = loop {
            let uniform_rule = RowRule {
                subsample: level_subsample(deepest_level),
                ..RowRule::new(|row, _| Some(key_stream.uniform(row)))
            };
            // twice the expected number, because the size of the set is random
            let residuals = ResidualPass::run(kernel, None, &uniform_rule, 2 * s, "a uniform sample", scan)?;
            (passes, evaluations) = (passes + 1, evaluations + residuals.row_count);
            // without a map, the residuals are k(x, x)
            residual_floor = rounding_floor::<T>(residuals.residual_sum / residuals.row_count.max(1) as f64);
            // each participating row represents only itself, unless more than 2s rows participate
            let sample_size = residuals.row_count.min(2 * s as u64).max(1) as f64;
            let participant_count = residuals.row_count as f64;
            let dictionary = into_dictionary(residuals, 2 * s, |_| participant_count / sample_size);
            // an unlucky draw may leave the smallest set empty
            if !dictionary.members.is_empty() || deepest_level == 0 {
                break dictionary;
            }
            deepest_level -= 1;
        };
        for level in (0..deepest_level).rev() {
            let mu = dictionary.ridge(kernel, k)?;
            let probability_scale = oversampling / mu;
            let residuals = if level == 0 {
                dictionary.run_round(
                    mu,
                    kernel,
                    &RowRule { residual_floor, ..RowRule::new(score_keys(level_stream(0), mu)) },
                    m,
                    scan,
                )?
            } else {
                // rows are drawn independently; if more than 2s are drawn, the keys decide at
                // random which are kept
                let (key_stream, probability) = (level_stream(level), |residual: f64| residual * probability_scale);
                let key = |row, residual| {
                    let u = key_stream.uniform(row);
                    (u < probability(residual)).then(|| -u / probability(residual).min(1.0))
                };
                // the expected number is at most 2k ln s = s/2
                dictionary.run_round(
                    mu,
                    kernel,
                    &RowRule { subsample: level_subsample(level), residual_floor, key },
                    2 * s,
                    scan,
                )?
            };
            passes += 1;
            evaluations += residuals.row_count * (dictionary.members.len() as u64 + 1);
            let next_dictionary =
                into_dictionary(residuals, 2 * s, |residual| 1.0 / (residual * probability_scale).min(1.0));
            // if no row has a residual left, the members span all rows
            if !next_dictionary.members.is_empty() {
                dictionary = next_dictionary;
            }
        }
        let mut landmarks = dictionary.members;
        let leading_members: Vec<usize> = (0..landmarks.len().min(m)).collect();
        landmarks = landmarks.subset(&leading_members);
        Ok(LandmarkSet { passes, evaluations, ..landmarks })
    }
}

/// Returns the largest residual that rounding in `T` may leave for a row with k(x, x) = `diagonal`.
/// Smaller residuals are raised to this bound, so that rows whose residuals are rounding errors are
/// all equally likely.
pub(super) fn rounding_floor<T: Real>(diagonal: f64) -> f64 {
    T::EPSILON * diagonal
}

/// Returns the `capacity` best rows of a round as a dictionary, best key first.
/// `multiplicity(residual)` returns the number of rows that a row with this residual represents.
pub(super) fn into_dictionary<T: Real>(
    mut residuals: Residuals<T>,
    capacity: usize,
    multiplicity: impl Fn(f64) -> f64,
) -> Dictionary<T> {
    let mut entries = residuals.best_rows.sorted_entries();
    entries.truncate(capacity);
    let multiplicities = entries.iter().map(|entry| multiplicity(entry.weight)).collect();
    Dictionary { members: residuals.best_rows.sample(&entries).into(), multiplicities }
}

impl<T: Real> Dictionary<T> {
    /// Returns the ridge μ = (1/k) Σ_{i>k} λ_i, with the eigenvalues λ of the weighted sample. It
    /// is at least the rounding error of Σ λ_i.
    fn ridge(&self, kernel: &Arc<dyn AnyKernel>, k: usize) -> Result<f64> {
        let eigenvalues = self.spectrum(kernel)?;
        let trace: f64 = eigenvalues.iter().map(|value| value.max(0.0)).sum();
        let tail_sum: f64 = eigenvalues.iter().skip(k).map(|value| value.max(0.0)).sum();
        Ok((tail_sum / k as f64).max(T::EPSILON * trace / eigenvalues.len().max(1) as f64))
    }
}

/// Returns the keys of a draw without replacement, in proportion to the score min(1, residual/μ).
pub(super) fn score_keys(key_stream: Stream, mu: f64) -> impl Fn(u64, f64) -> Option<f64> + Sync {
    move |row, residual| Some(key_stream.uniform(row).ln() / (residual / mu).min(1.0))
}
