//! The time budget of a search and the final fit, and the ranks that are likely to finish within
//! it.

use super::selection_result::{SearchPart, SelectionResult, WinnerTest};
use crate::Result;
use crate::job::{Fit, Run};
use crate::solver::{parameter, ridge};
use kstore::SelectedTable;
use std::time::{Duration, Instant};

/// Ranks of a final fit: all feasible ones are used.
const DOUBLING_RANKS: [usize; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// Ranks between the doublings; only the largest feasible one of these ranks is used.
const INTERMEDIATE_RANKS: [usize; 5] = [700, 1_400, 2_800, 5_600, 11_200];

/// Time to solve the linear systems of one lambda at rank r, for the five folds and for all rows,
/// in units of r³. The unit of time is chosen so that adding one row to the Gram matrix takes r²
/// units. Measured: 2.6 at ranks 1,000, 4,000 and 8,000 on 294,625 rows.
const SYSTEM_COST: f64 = 2.6;

/// Large matrix products run at a higher rate than small matrix products. The predicted time is
/// therefore divided by the ratio of the ranks to the power of this number. Without this
/// correction, a test at rank 1,000 would predict 68 s for rank 4,000 and 377 s for rank 8,000,
/// which took 45 s and 220 s.
const RATE_EXPONENT: f64 = 0.25;

/// Minimum fraction of the time of a fit, at the rank of the trials, that computing features takes.
/// Chosen: without a minimum, an inaccurate time of a short test could predict that the time of a
/// fit is linear in the rank.
const MIN_FEATURE_FRACTION: f64 = 0.1;

/// Maximum ratio of the final rank r to the rank of the trials, for iterative solvers: in a test
/// that takes a second, a term of the time that grows with r³ is too small to see. On kddcup99, a
/// test of 0.3 s at rank 1,000 predicted 211 s for rank 11,200, whose features exceeded the memory
/// and which took more than 550 s.
const MAX_RANK_RATIO: usize = 4;

/// Fractions of the time budget at which the kernel search, the trials of solvers, and the trials
/// of exact solvers end.
const SEARCH_FRACTION: f64 = 0.4;
const TRIALS_FRACTION: f64 = 0.6;
const EXACT_FRACTION: f64 = 0.7;

/// The time limit of a search and its final fit, and the time of its start.
#[derive(Debug)]
pub struct TimeBudget {
    started: Instant,
    time_limit: Option<Duration>,
}

impl TimeBudget {
    /// Starts the time budget; `None` sets no limit.
    pub fn new(time_limit: Option<Duration>) -> Self {
        Self { started: Instant::now(), time_limit }
    }

    /// Returns the remaining time; `None` without a limit.
    #[doc(hidden)]
    pub fn remaining(&self) -> Option<Duration> {
        self.time_limit.map(|time| time.saturating_sub(self.started.elapsed()))
    }

    /// Returns true if this part of the search and the earlier parts together would exceed their
    /// fraction of the time after `next`. The remaining time is reserved for later parts.
    pub fn is_exceeded(&self, part: SearchPart, next: Duration) -> bool {
        let time_fraction = match part {
            SearchPart::Search => SEARCH_FRACTION,
            SearchPart::Solvers => TRIALS_FRACTION,
            SearchPart::ExactFits => EXACT_FRACTION,
            SearchPart::Fit => 1.0,
        };
        self.time_limit.is_some_and(|time| self.started.elapsed().saturating_add(next) > time.mul_f64(time_fraction))
    }

    /// Returns the largest rank whose fit is predicted to finish within the time and memory budget,
    /// together with the smaller ranks of the doubling series. The smallest rank is always
    /// included. For ridge regression, also returns the largest leaves (groups of similar rows with
    /// an exact kernel) that are predicted to finish. If no test fit provides a time, returns the
    /// smallest rank. Returns `None` without a time limit, and for the exact kernel.
    ///
    /// The prediction depends on the machine; a fit with given ranks and leaves does not.
    ///
    /// # Errors
    /// The errors of [`Fit::plan`].
    pub fn feasible_fit(
        &self,
        fit: &Fit,
        selection_result: &SelectionResult,
        selected: &SelectedTable,
        run: &Run<'_>,
    ) -> Result<Option<FeasibleFit>> {
        let Some(time) = self.time_limit.filter(|_| !fit.requested_map().is_exact_kernel()) else { return Ok(None) };
        let remaining = time.saturating_sub(self.started.elapsed()).as_secs_f64();
        let (leaf_rows, leaf_seconds) = feasible_leaves(fit, selection_result, remaining, selected, run)?;
        let ranks = feasible_ranks(
            fit,
            selection_result,
            remaining - leaf_seconds,
            leaf_rows.map_or(usize::MAX, |_| MAX_RANK_WITH_LEAVES),
            selected,
            run,
        )?;
        let learns_leaf_kernel = leaf_rows.is_some() && selection_result.search.target_correlation.is_some();
        Ok(Some(FeasibleFit { ranks, leaf_rows, learns_leaf_kernel }))
    }
}

/// The ranks and leaves of a fit within the time budget.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeasibleFit {
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
    /// Number of rows of the leaves of ridge regression.
    pub leaf_rows: Option<usize>,
    /// True if the leaves learn their own kernel, because consecutive rows are similar.
    pub learns_leaf_kernel: bool,
}

impl FeasibleFit {
    /// Returns the fit at the last of the ranks, with the leaves. If the solver has a surface, the
    /// surface includes all ranks.
    #[must_use]
    pub fn apply_to(&self, fit: Fit) -> Fit {
        let fit = at_ranks(fit, &self.ranks);
        let Some(rows) = self.leaf_rows else { return fit };
        let fit = fit.set(ridge::LEAF_ROWS.name, rows);
        if self.learns_leaf_kernel { fit.set(ridge::LEAF_KERNEL.name, LEAF_KERNEL) } else { fit }
    }

    /// Returns the command-line options that repeat this fit on any machine.
    pub fn command_options(&self, fit: &Fit) -> String {
        let ranks = match fit.family().reads(&parameter::RANKS) {
            true => format!("--ranks {}", format_ranks(&self.ranks)),
            false => format!("--rank {}", self.ranks[self.ranks.len() - 1]),
        };
        let leaf_kernel =
            if self.learns_leaf_kernel { format!(" --local-kernel '{LEAF_KERNEL}'") } else { String::new() };
        self.leaf_rows.map_or(ranks.clone(), |rows| format!("{ranks} --local {rows}{leaf_kernel}"))
    }
}

/// Limits of leaves: the numbers of rows per leaf that are tried, the maximum rank with leaves, the
/// maximum fraction of the remaining time for leaves, and the minimum number of leaves of a table.
const LEAF_ROWS: [usize; 3] = [3_000, 6_000, 12_000];
const MAX_RANK_WITH_LEAVES: usize = 2_000;
const LEAF_TIME_FRACTION: f64 = 0.8;
const MIN_LEAVES: u64 = 4;

/// Number of rows of a leaf, including the bands that it shares with other leaves, relative to the
/// requested maximum. Without the bands, leaves have on average three quarters of the maximum.
const BAND_FACTOR: f64 = 1.05;

/// Time to factorise a leaf of m rows in units of m³, in addition to [`SYSTEM_COST`]. The time
/// includes the kernel values of the rows of the leaf, and the trials.
const LEAF_FACTOR_COST: f64 = 0.8;

/// The kernel that leaves learn in a series: rough, because neighbouring rows of a series differ
/// more than a smooth function does.
const LEAF_KERNEL: &str = "exponential()";

/// Time to learn this kernel for each feature, in the same unit. Measured: 3 s for 17 features,
/// 10 s for 29.
const LEARNING_COST: f64 = 3e9;

/// Returns the largest leaves that are likely to finish in time and fit the memory, with their time
/// in seconds. If consecutive rows are correlated, the leaves learn their own kernel, so that they
/// change the prediction only near the rows of the table.
fn feasible_leaves(
    fit: &Fit,
    selection_result: &SelectionResult,
    remaining: f64,
    selected: &SelectedTable,
    run: &Run<'_>,
) -> Result<(Option<usize>, f64)> {
    let uses_leaves = fit.family().reads(&ridge::LEAF_ROWS) && selection_result.search.classes == 0;
    let learns_leaf_kernel = selection_result.search.target_correlation.is_some();
    let Some(WinnerTest { score, seconds, lambdas, .. }) = selection_result.test.as_ref().filter(|_| uses_leaves)
    else {
        return Ok((None, 0.0));
    };
    let (rows, rank) = (selection_result.search.rows, selection_result.rank as f64);
    // the test fit took r^(2 − e) (n + SYSTEM_COST · lambdas · r) units of time, where e is
    // RATE_EXPONENT
    let unit_seconds = seconds
        / (rank.powf(2.0 - RATE_EXPONENT) * (score.training_rows.max(1) as f64 + SYSTEM_COST * *lambdas as f64 * rank));
    let mut best_leaves = (None, 0.0);
    // a single leaf with its own kernel may be useful, too
    let is_suitable = |size: &usize| match learns_leaf_kernel {
        true => *size == LEAF_ROWS[0] || rows > *size as u64 / 2,
        false => rows >= MIN_LEAVES * *size as u64,
    };
    for leaf_rows in LEAF_ROWS.into_iter().filter(is_suitable) {
        let matrix_order = BAND_FACTOR * leaf_rows as f64;
        let pass_cost = 2.0 * rows as f64 * (MAX_RANK_WITH_LEAVES as f64).powf(2.0 - RATE_EXPONENT);
        // number of leaves, each with three quarters of the maximum, times the cost of one leaf
        let system_cost =
            rows as f64 / (0.75 * leaf_rows as f64) * LEAF_FACTOR_COST * matrix_order.powf(3.0 - RATE_EXPONENT);
        let learning_cost = if learns_leaf_kernel { LEARNING_COST * selected.shape().input_count as f64 } else { 0.0 };
        let leaf_seconds = unit_seconds * (pass_cost + system_cost + learning_cost);
        let ranks = vec![MAX_RANK_WITH_LEAVES];
        let feasible_fit = FeasibleFit { ranks, leaf_rows: Some(leaf_rows), learns_leaf_kernel };
        if leaf_seconds > LEAF_TIME_FRACTION * remaining
            || !feasible_fit.apply_to(fit.clone()).plan(selected, run)?.fits()
        {
            break;
        }
        best_leaves = (Some(leaf_rows), leaf_seconds);
    }
    Ok(best_leaves)
}

/// Returns the ranks up to `max_rank` that are likely to finish in `remaining` seconds, and always
/// the smallest rank.
fn feasible_ranks(
    fit: &Fit,
    selection_result: &SelectionResult,
    remaining: f64,
    max_rank: usize,
    selected: &SelectedTable,
    run: &Run<'_>,
) -> Result<Vec<usize>> {
    let rows = selection_result.search.rows;
    let mut ranks: Vec<usize> = Vec::new();
    let mut candidates: Vec<usize> = DOUBLING_RANKS.into_iter().chain(INTERMEDIATE_RANKS).collect();
    candidates.sort_unstable();
    let max_ratio_rank = if needs_half_rank(fit) { MAX_RANK_RATIO * selection_result.rank } else { usize::MAX };
    let rank_limit = rows.max(DOUBLING_RANKS[0] as u64).min(max_ratio_rank as u64).min(max_rank as u64);
    for rank in candidates.into_iter().filter(|rank| *rank as u64 <= rank_limit) {
        ranks.push(rank);
        let is_in_time = predict_seconds(fit, selection_result, rank)?.is_some_and(|seconds| seconds <= remaining);
        let fits_memory = || {
            let forecast = at_ranks(fit.clone(), &ranks).plan(selected, run)?;
            // the plan must store the features (at least 4 bytes each): if they were recomputed in
            // every step, the fit would take longer than a test predicts
            let feature_bytes = if needs_half_rank(fit) { rows.saturating_mul(4 * rank as u64) } else { 0 };
            Ok::<_, crate::Error>(forecast.fits() && forecast.peak_bytes() as u64 >= feature_bytes)
        };
        if ranks.len() > 1 && !(is_in_time && fits_memory()?) {
            ranks.pop();
            break;
        }
    }
    let last_rank = ranks.last().copied();
    ranks.retain(|rank| Some(*rank) == last_rank || DOUBLING_RANKS.contains(rank));
    Ok(ranks)
}

/// Returns the fit at the last of these ranks. If the solver has a surface, the surface includes
/// all ranks.
fn at_ranks(fit: Fit, ranks: &[usize]) -> Fit {
    if fit.family().reads(&parameter::RANKS) {
        return fit.set("ranks", format_ranks(ranks));
    }
    match ranks.last() {
        Some(rank) => fit.rank(*rank),
        None => fit,
    }
}

/// Formats ranks as the command accepts them: `500,1000`.
fn format_ranks(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns true if a fit at half the rank is needed to predict the time at other ranks; ridge
/// regression has a known cost model.
pub(super) fn needs_half_rank(fit: &Fit) -> bool {
    !fit.requested_map().is_exact_kernel() && fit.family().name != ridge::FAMILY.name
}

/// Returns the predicted time in seconds of a fit on the whole table, from the time of the test
/// fit.
fn predict_seconds(fit: &Fit, selection_result: &SelectionResult, rank: usize) -> Result<Option<f64>> {
    let Some(WinnerTest { score, seconds, seconds_at_half_rank: half_rank_seconds, lambdas }) = &selection_result.test
    else {
        return Ok(None);
    };
    let (rows, trial_rows, rank_ratio) =
        (selection_result.search.rows, score.training_rows.max(1), rank as f64 / selection_result.rank as f64);
    if fit.family().name == ridge::FAMILY.name {
        let cost = |rank: usize, rows: u64, lambdas: usize| {
            (rank as f64).powf(2.0 - RATE_EXPONENT) * (rows as f64 + SYSTEM_COST * (lambdas * rank) as f64)
        };
        let lambda_count = ridge::Ridge::new(fit.settings()?).lambdas.len();
        return Ok(Some(seconds * cost(rank, rows, lambda_count) / cost(selection_result.rank, trial_rows, *lambdas)));
    }
    // seconds · n/n_test · (f r/r_test + (1 − f)(r/r_test)²), where f is the fraction of the time
    // that is linear in the rank r
    let linear_fraction =
        half_rank_seconds.map_or(0.0, |half| linear_time_fraction(half / seconds.max(f64::MIN_POSITIVE)));
    Ok(Some(
        seconds * rows as f64 / trial_rows as f64
            * (linear_fraction * rank_ratio + (1.0 - linear_fraction) * rank_ratio.powi(2)),
    ))
}

/// Computes, from the relative time at half the rank, the fraction of the time that grows linearly
/// with the rank, such as iterations over all features. The remaining time grows with the square of
/// the rank, like the computation of the features, and is at least [`MIN_FEATURE_FRACTION`].
fn linear_time_fraction(half_rank_ratio: f64) -> f64 {
    (4.0 * half_rank_ratio - 1.0).clamp(0.0, 1.0 - MIN_FEATURE_FRACTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_and_quadratic_time_are_separated() {
        for steps in [0.0, 0.3, 0.9] {
            let at_half = steps / 2.0 + (1.0 - steps) / 4.0;
            assert!((linear_time_fraction(at_half) - steps).abs() < 1e-12, "{steps}");
        }
        // values of an inaccurate clock are clamped
        assert_eq!((linear_time_fraction(0.9), linear_time_fraction(0.1)), (1.0 - MIN_FEATURE_FRACTION, 0.0));
    }
}
