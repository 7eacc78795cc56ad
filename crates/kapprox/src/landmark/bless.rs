//! BLESS: ridge leverage scores along a path of decreasing ridges.
//!
//! A *dictionary* is a weighted sample of rows that estimates the scores of all rows. At a large
//! ridge, a few arbitrary rows suffice as a dictionary. Each level halves the ridge μ, draws R
//! uniform rows, and estimates their scores with the dictionary of the preceding level. From these
//! R rows it draws its own dictionary, with probabilities proportional to the scores. The number of
//! members M is twice the estimated effective dimension, which is the sum of the scores of all
//! rows. The path ends at the first level whose dictionary would have at least as many members as
//! landmarks are requested. At this level the landmarks are drawn without replacement.
//!
//! This implementation differs from the paper in two ways: the bound κ² on k(x,x) is replaced by
//! the mean of k(x,x), and a dictionary is drawn without replacement.
//!
//! Reference: Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and optimal
//! learning", NeurIPS 2018, Algorithm 1.

use super::leverage::{into_dictionary, rounding_floor, score_keys};
use super::residual_pass::{ResidualPass, RowRule};
use super::{LandmarkRule, LandmarkSet, TableScan};
use crate::{Real, Result, kernel::AnyKernel};
use kpass::key::{Purpose, Stream};
use std::sync::Arc;

/// Landmarks by bottom-up leverage score sampling.
///
/// Makes about log₂(effective dimension) passes, each on R = min(n, 2 tr K / μ) rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bless;

/// Factor by which the ridge shrinks from level to level.
const RIDGE_FACTOR: f64 = 2.0;
/// Number of uniform rows R as a multiple of tr K / μ, and number of members M as a multiple of the
/// effective dimension: q₁ and q₂ of the paper.
const OVERSAMPLING: f64 = 2.0;
/// The value of tr K / μ at the first level, chosen: the first sample then has 32 rows.
const FIRST_TRACE_RATIO: f64 = 16.0;

impl<T: Real> LandmarkRule<T> for Bless {
    fn select(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        crate::kernel::require_positive_definite(&*kernel.typed::<T>(), "leverage scores")?;
        let n = scan.row_count as f64;
        let stream = |purpose, level| Stream::new(seed, purpose, level);
        let (key_stream, first_sample_size) =
            (stream(Purpose::Proposals, 0), (OVERSAMPLING * FIRST_TRACE_RATIO).ceil() as usize);
        let uniform_rule = RowRule::new(|row, _| Some(key_stream.uniform(row)));
        let residuals = ResidualPass::run(kernel, None, &uniform_rule, first_sample_size, "a uniform sample", scan)?;
        let (mut passes, mut evaluations, trace) = (1, residuals.row_count, residuals.residual_sum);
        let rows_per_member = n / first_sample_size as f64;
        let mut dictionary = into_dictionary(residuals, first_sample_size, |_| rows_per_member);
        let mut mu = trace / FIRST_TRACE_RATIO;
        let min_mu = T::EPSILON * trace / n;
        let mut landmarks = dictionary.members.clone();
        for level in 1.. {
            mu /= RIDGE_FACTOR;
            let candidate_count = (OVERSAMPLING * trace / mu).min(n);
            let rule = RowRule {
                subsample: Some((stream(Purpose::Candidates, level), candidate_count / n)),
                residual_floor: rounding_floor::<T>(trace / n),
                key: score_keys(stream(Purpose::Proposals, level), mu),
            };
            let residuals = dictionary.run_round(mu, kernel, &rule, m, scan)?;
            (passes, evaluations) =
                (passes + 1, evaluations + residuals.row_count * (dictionary.members.len() as u64 + 1));
            let (participant_count, score_sum) = (residuals.row_count as f64, residuals.residual_sum / mu);
            let effective_dimension = score_sum * n / participant_count.max(1.0);
            let member_count = ((OVERSAMPLING * effective_dimension).ceil() as usize).clamp(1, m);
            // member j represents n/(R M p_j) rows, where p_j is its score divided by the sum of
            // the scores of the R rows
            let next_dictionary = into_dictionary(residuals, member_count, |residual| {
                n / (participant_count * member_count as f64 * (residual / mu) / score_sum)
            });
            if next_dictionary.members.is_empty() {
                break;
            }
            landmarks = next_dictionary.members.clone();
            let is_exhausted = mu <= min_mu || (participant_count >= n && landmarks.len() as f64 >= n);
            if member_count == m || is_exhausted {
                break;
            }
            dictionary = next_dictionary;
        }
        Ok(LandmarkSet { passes, evaluations, ..landmarks })
    }
}
