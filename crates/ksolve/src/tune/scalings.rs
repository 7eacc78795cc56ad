//! Comparison of searches with different scalings of the features.
//!
//! A learned metric has seen the rows of all folds, so its held-out errors are too small. On few
//! rows with classes they are far too small, so the scalings are compared by the best kernels
//! without a metric, and the trials of the contest learn the metric again without their fold.

use super::{KernelSearch, RungEntry, refine::CLEAR_IMPROVEMENT_RATIO, rung};
use crate::Targets;
use kapprox::Real;
use kstore::statistics::ColumnMoments;

/// Maximum number of rows on which the errors of metrics count as optimistic. Chosen: with more
/// rows a metric fits the noise less.
const MAX_OPTIMISTIC_ROWS: usize = 5_000;

/// Maximum product of rows, features and target columns for which the trials learn a metric again.
/// With 1,400 rows, 64 features and ten classes learning takes some 1.3 s, and with 1,300 rows, 80
/// features and 32 classes some 30 s.
const MAX_RELEARNING_SIZE: usize = 1_000_000;

/// Features have the same range if they share the lowest value, and their ranges are at least this
/// fraction of the largest. Chosen: the pixels of scanned digits differ by less, except at the
/// edges.
const COMMON_RANGE: f64 = 0.75;

/// Minimum number of features of a common range. Chosen: a few features may have the same range by
/// chance.
const MIN_COMMON_FEATURES: usize = 10;

impl<T: Real> KernelSearch<'_, T> {
    /// Returns true if the errors of the rounds, whose metrics have learned from all folds, are far
    /// below the errors on new rows: for classes and few rows. For numeric targets the exact search
    /// decides, whose sums of kernels need no metric.
    pub(super) fn has_optimistic_metrics(&self) -> bool {
        let Targets::Classes(classes) = &self.targets else { return false };
        let row_count = self.trials.search_row_count();
        let size = row_count.saturating_mul(self.trials.feature_count()).saturating_mul(classes.target_count());
        row_count < MAX_OPTIMISTIC_ROWS && size <= MAX_RELEARNING_SIZE
    }

    /// Returns true if most features have the same range.
    pub(super) fn has_common_range(&self) -> bool {
        has_common_range(&self.survey.statistics.inputs)
    }

    /// Returns the search with the clearly lower error, or `self` without a clear difference.
    /// If the errors of metrics are optimistic, the best kernels without a metric are compared.
    /// The report of the result covers both searches.
    pub(super) fn or_better(self, other: Self) -> Self {
        let has_optimistic_metrics = self.has_optimistic_metrics();
        let score = |search: &Self| {
            let score = match has_optimistic_metrics {
                true => rung::best_without_metric(&search.learned_rounds).map(|round| round.cv_mse),
                false => search.winner().and_then(|entry| entry.score),
            };
            score.unwrap_or(f64::INFINITY)
        };
        let (mut best, other) =
            if score(&other) < CLEAR_IMPROVEMENT_RATIO * score(&self) { (other, self) } else { (self, other) };
        let entries = other.finished_rungs.into_iter().flat_map(|rung| rung.entries);
        if let Some(rung) = best.finished_rungs.last_mut() {
            rung.entries.extend(entries.map(|entry| RungEntry { kept: false, ..entry }));
        }
        best.passes += other.passes;
        best.planned_bytes = best.planned_bytes.max(other.planned_bytes);
        best
    }
}

/// Returns true if most features have the same range, such as pixels: they are measured in the same
/// unit. Standard scaling then enlarges those that are nearly constant.
fn has_common_range(inputs: &[ColumnMoments]) -> bool {
    let varying = || inputs.iter().filter(|column| !column.is_constant());
    let lowest = varying().map(|column| column.min).fold(f64::INFINITY, f64::min);
    let highest = varying().map(|column| column.max).fold(f64::NEG_INFINITY, f64::max);
    let min_range = COMMON_RANGE * (highest - lowest);
    let is_common = |column: &&ColumnMoments| column.min == lowest && column.max - lowest >= min_range;
    let count = varying().count();
    count >= MIN_COMMON_FEATURES && 2 * varying().filter(is_common).count() >= count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_have_a_common_range() {
        let column = |min: f64, max: f64| ColumnMoments {
            count: 100,
            weight_sum: 100.0,
            mean: 0.5 * (min + max),
            m2: (max - min).powi(2),
            min,
            max,
            is_integer: true,
        };
        // half of the pixels reach the highest values, the others are darker, and one is constant
        let mut pixels = [vec![column(0.0, 15.0); 5], vec![column(0.0, 4.0); 4], vec![column(0.0, 0.0)]].concat();
        assert!(!has_common_range(&pixels), "nine features are too few");
        pixels.push(column(0.0, 16.0));
        assert!(has_common_range(&pixels));
        pixels.extend([column(0.0, 4.0), column(1.0, 16.0), column(-3.0, 1.0)]);
        assert!(!has_common_range(&pixels), "another lowest value");
        assert!(!has_common_range(&[]));
    }
}
