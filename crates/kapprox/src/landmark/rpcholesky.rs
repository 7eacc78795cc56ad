//! Randomly pivoted Cholesky: rows become landmarks with probabilities proportional to their
//! residuals. The residual of row i is r_i = k(x_i,x_i) − ‖L⁻¹k_S(x_i)‖², where k_S(x_i) are its
//! kernel values with the landmarks S so far, and L Lᵀ = K_SS.
//!
//! * **Plain**: draws one row per pass; row i is drawn with probability r_i / Σ_j r_j.
//! * **Accelerated**: works in rounds. A round proposes a block of rows, drawn independently with
//!   probabilities proportional to the residuals at the start of the round. It then accepts each
//!   proposal, one after the other, with probability (its current residual)/(its residual at the
//!   start of the round). This is rejection sampling. The landmarks have exactly the same
//!   distribution as in the plain form, whatever the number of proposals.
//!
//! A round makes one pass over the rows and stores nothing per row, because the residuals are
//! recomputed from L. Residuals at the level of rounding carry no information about the rows. If
//! the residuals are at this level and nearly all proposals of a round are rejected, the selection
//! stops.
//!
//! References: Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv 2207.06503;
//! Epperly, Tropp, Webber, "Embrace rejection: kernel matrix approximation by accelerated randomly
//! pivoted Cholesky", arXiv 2410.03969.

use super::residual_pass::{Residuals, RowRule};
use super::sample::{BestRows, KeyedRow};
use super::{LandmarkRule, LandmarkSet, Scheme, TableScan, growth::GrowingLandmarks};
use crate::{Real, Result, kernel::AnyKernel};
use kpass::key::{Purpose, Stream};
use std::sync::Arc;

/// Accelerated randomly pivoted Cholesky in blocks that grow with the landmarks.
///
/// A round that starts with s landmarks costs n(s² + 2sd) flops for its pass over n rows, and s²
/// flops for each proposal. A pass therefore costs as much as n proposals, and proposals are cheap.
/// A round proposes twice as many rows as there are landmarks. With these blocks, m = 2,000
/// landmarks take about 5 rounds, and the sum of s² over the rounds is about m²/3; with blocks of
/// m/5 it is 4m². If the residuals decrease fast and most proposals are rejected, there are more
/// rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RpCholesky;

pub(super) const SCHEME: Scheme = Scheme {
    is_nested: true,
    ..Scheme::new(
        "rpcholesky",
        "randomly pivoted Cholesky, accelerated: rows are drawn in proportion to their residual",
        &RpCholesky,
    )
};

/// Minimum number of proposals of a round. With fewer proposals, the passes cost more than is saved
/// on proposals.
const MIN_PROPOSALS: usize = 40;

/// Number of proposals in a pool, in which accepted rows are eliminated. The residual matrix of the
/// pool stays in the second-level cache.
const POOL_ROWS: usize = 256;

/// The selection ends if the residuals are at the level of rounding and a round accepts fewer than
/// one proposal in `RARE_ACCEPTANCE`.
const RARE_ACCEPTANCE: usize = 4;

/// Number of consecutive rounds that may reject every proposal before the rows count as exhausted.
/// A proposal with a genuine residual is accepted with probability near 1, so even one such round
/// is unusual.
const MAX_EMPTY_ROUNDS: usize = 3;

/// Returns the number of proposals of a round that starts with s of m landmarks: at most m + 40.
fn growing_proposal_count(m: usize, s: usize) -> usize {
    // twice the number of landmarks still to be chosen leaves room for rejections
    (m / 5).max(2 * s).clamp(MIN_PROPOSALS, 2 * (m - s) + MIN_PROPOSALS)
}

/// Returns the number of proposals of a round that starts with s of at most m landmarks, if a
/// tolerance may end the selection early. It is never much larger than s.
fn doubling_proposal_count(m: usize, s: usize) -> usize {
    s.clamp(MIN_PROPOSALS, 2 * (m - s) + MIN_PROPOSALS)
}

impl RpCholesky {
    /// Returns the bytes of the proposals and of their pool, for m landmarks of d inputs and passes
    /// with the given number of lanes.
    #[doc(hidden)]
    pub fn proposal_bytes(m: usize, d: usize, element_bytes: usize, lane_count: usize) -> usize {
        let (max_proposals, row_bytes) = (m + MIN_PROPOSALS, d * element_bytes + 40);
        // each lane, the merged state and the selection hold up to twice the number of proposals;
        // 40 bytes per row are its key, weight, slot and row numbers
        POOL_ROWS * (POOL_ROWS + m + 3 * d) * 8 + (lane_count + 2) * 2 * max_proposals * (row_bytes + 8 * d)
    }
}

impl<T: Real> LandmarkRule<T> for RpCholesky {
    fn select(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        self.select_within(0.0, scan, kernel, m, seed)
    }

    fn select_within(
        &self,
        tolerance: f64,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        let mut growth = GrowingLandmarks::new(kernel, scan.source.shape().input_count, m)?;
        let (mut empty_round_count, mut trace, mut is_acceptance_rare) = (0, None, false);
        for round in 0.. {
            // the rows with the largest ln(u)/r are a sample without replacement, with
            // probabilities proportional to r, in the order in which they were drawn
            let key_stream = Stream::new(seed, Purpose::Proposals, round);
            let rule = RowRule::new(|row, residual| Some(key_stream.uniform(row).ln() / residual));
            let proposal_count = if tolerance > 0.0 {
                doubling_proposal_count(m, growth.len())
            } else {
                growing_proposal_count(m, growth.len())
            };
            let mut residuals = growth.compute_residuals(&rule, proposal_count, scan)?;
            let kernel_trace = *trace.get_or_insert(residuals.residual_sum);
            if residuals.residual_sum <= tolerance * kernel_trace
                || (is_acceptance_rare && residuals.is_rounding_error(kernel_trace, growth.len()))
            {
                break;
            }
            let acceptance_stream = Stream::new(seed, Purpose::Acceptance, round);
            let Some(proposals) = residuals.propose(proposal_count, &acceptance_stream) else { break };
            let previous_count = growth.len();
            let has_genuine_residual =
                accept_proposals(&mut growth, &residuals.best_rows, &proposals, &acceptance_stream);
            growth.report_progress(scan);
            is_acceptance_rare = (growth.len() - previous_count) * RARE_ACCEPTANCE < proposal_count;
            empty_round_count = if growth.len() == previous_count { empty_round_count + 1 } else { 0 };
            if growth.is_full()
                || empty_round_count > MAX_EMPTY_ROUNDS
                || (empty_round_count > 0 && !has_genuine_residual)
            {
                break;
            }
        }
        Ok(growth.landmarks)
    }
}

/// Accepts each proposal with probability (its current residual)/(its residual at the start of the
/// round). Returns whether any proposal had a residual above its floor.
fn accept_proposals<T: Real>(
    growth: &mut GrowingLandmarks<'_, T>,
    best_rows: &BestRows<T>,
    proposals: &[KeyedRow],
    stream: &Stream,
) -> bool {
    let mut has_genuine_residual = false;
    // the random numbers with indices below 2b draw the proposals
    for (first_counter, chunk) in (2 * proposals.len()..).step_by(POOL_ROWS).zip(proposals.chunks(POOL_ROWS)) {
        // the current residuals of these rows, under the landmarks of earlier chunks too
        let mut pool = growth.build_pool(best_rows.sample(chunk));
        for (i, proposal) in chunk.iter().enumerate() {
            if growth.is_full() {
                return true;
            }
            let Some(residual) = pool.residual(i) else { continue };
            has_genuine_residual = true;
            if stream.uniform((first_counter + i) as u64) * proposal.weight < residual {
                growth.accept(&mut pool, i);
            }
        }
    }
    has_genuine_residual
}

impl<T: Real> Residuals<T> {
    /// Returns whether the residual trace after s landmarks is below the rounding error of the
    /// certificate.
    fn is_rounding_error(&self, trace: f64, s: usize) -> bool {
        self.residual_sum <= T::EPSILON * (s as f64 + 1.0).sqrt() * trace
    }

    /// Returns `b` proposals, drawn independently, or `None` if all residuals are zero. Row i is
    /// drawn with probability r_i / Σ_j r_j, and rows may repeat.
    ///
    /// The rows with the best keys are a sample *without* replacement, in the order in which they
    /// were drawn. The independent draws are made from this sample. With probability (sum of the
    /// residuals of the rows drawn so far) / Σ_j r_j, a draw repeats one of the rows drawn so far,
    /// with probabilities proportional to their residuals. Otherwise the draw is the next row of
    /// the sample.
    fn propose(&mut self, b: usize, stream: &Stream) -> Option<Vec<KeyedRow>> {
        let entries = self.best_rows.sorted_entries();
        if entries.is_empty() || self.residual_sum.is_nan() || self.residual_sum <= 0.0 {
            return None;
        }
        let mut cumulative_weights: Vec<f64> = Vec::new(); // running sums of the weights of the rows drawn
        let draw_entry = |draw: usize| {
            let drawn_weight = cumulative_weights.last().copied().unwrap_or(0.0);
            let threshold = stream.uniform(draw as u64) * self.residual_sum;
            if threshold < drawn_weight || cumulative_weights.len() == entries.len() {
                let threshold = stream.uniform((b + draw) as u64) * drawn_weight;
                entries[cumulative_weights.partition_point(|sum| *sum <= threshold).min(cumulative_weights.len() - 1)]
            } else {
                cumulative_weights.push(drawn_weight + entries[cumulative_weights.len()].weight);
                entries[cumulative_weights.len() - 1]
            }
        };
        Some((0..b).map(draw_entry).collect())
    }
}
