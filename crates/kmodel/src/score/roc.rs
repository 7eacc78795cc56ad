//! The ranking of the rows of two classes by score, in bounded memory: ROC and precision-recall
//! curves, their areas, and the threshold with the least cost.

use super::{TopScores, clusters};
use std::collections::BTreeMap;

/// Number of rows up to which scores are stored: 16 bytes each, 16 MiB in total.
pub(crate) const MAX_EXACT_ROWS: usize = 1 << 20;

/// Leading bits of an ordered f32 that select a histogram bin: sign, exponent and 9 bits of the
/// mantissa, so scores in one bin differ by at most 0.2 %. The 2 · 2^18 counts take 4 MiB.
const BIN_BITS: u32 = 18;

/// Number of scores that are stored for several classes, over all rows and classes (32 MiB), and
/// the number of histogram bins of all classes. With 10 classes the scores of 209,715 rows are
/// stored.
const MAX_CLASS_SCORES: usize = 1 << 21;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Auc {
    /// P(score of a positive > score of a negative) + ½ P(equal).
    pub(crate) value: f64,
    /// Largest possible difference from the exact area; 0 while scores are stored.
    pub(crate) max_error: f64,
}

/// Scores of negatives and positives: stored up to a number of rows, then counted in a histogram.
///
/// Only the number of rows decides between the two. The histogram treats scores in one bin as
/// equal: a pair of a negative and a positive row in the same bin counts ½ instead of 0 or 1. The
/// error of the area is at most half the fraction of such pairs, and this bound is reported.
#[derive(Clone, Debug)]
pub(crate) struct RankedScores {
    max_exact_rows: usize,
    /// Number of leading bits of a score that select its histogram bin.
    bin_bits: u32,
    scored_rows: Vec<ScoredRow>,
    /// Weights of the rows in each bin; empty while scores are stored.
    histogram: Vec<ClassWeights>,
}

#[derive(Clone, Copy, Debug)]
struct ScoredRow {
    score: f64,
    /// Weight of the row; negated if the row is negative.
    signed_weight: f64,
}

/// Total weights of positive and of negative rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ClassWeights {
    pub(crate) positive: f64,
    pub(crate) negative: f64,
}

impl ClassWeights {
    /// Adds a row; a negative row has a negated weight.
    fn add_row(&mut self, signed_weight: f64) {
        self.positive += signed_weight.max(0.0);
        self.negative += (-signed_weight).max(0.0);
    }

    fn plus(self, other: &Self) -> Self {
        Self { positive: self.positive + other.positive, negative: self.negative + other.negative }
    }

    fn total(self) -> f64 {
        self.positive + self.negative
    }
}

impl RankedScores {
    pub(crate) fn new(max_exact_rows: usize) -> Self {
        Self { max_exact_rows, bin_bits: BIN_BITS, scored_rows: Vec::new(), histogram: Vec::new() }
    }

    /// Returns the rankings of `count` classes, which share [`MAX_CLASS_SCORES`].
    pub(crate) fn several(count: usize) -> Vec<Self> {
        let ranked_scores = Self { bin_bits: bin_bits_of(count), ..Self::new(max_exact_rows_of(count)) };
        vec![ranked_scores; count]
    }

    /// Returns the peak memory in bytes. A growing vector may have twice the capacity that it
    /// needs, is copied for sorting, and may be replaced by a histogram.
    pub(crate) fn bytes(max_exact_rows: usize) -> usize {
        Self::stored_bytes(max_exact_rows, BIN_BITS) + Self::ranking_bytes(max_exact_rows, BIN_BITS)
    }

    /// Returns the peak memory in bytes of the rankings of `count` classes on a number of rows. The
    /// scores are sorted for one class at a time.
    pub(crate) fn bytes_of_several(count: usize, rows: usize) -> usize {
        let (rows, bin_bits) = (rows.min(max_exact_rows_of(count)), bin_bits_of(count));
        count.saturating_mul(Self::stored_bytes(rows, bin_bits)).saturating_add(Self::ranking_bytes(rows, bin_bits))
    }

    fn stored_bytes(rows: usize, bin_bits: u32) -> usize {
        2 * size_of::<ScoredRow>() * rows + (size_of::<ClassWeights>() << bin_bits)
    }

    /// Returns the bytes of the sorted copy, and of a score and two weights per row or bin.
    fn ranking_bytes(rows: usize, bin_bits: u32) -> usize {
        let ranked_bytes = size_of::<f64>() + size_of::<ClassWeights>();
        (size_of::<ScoredRow>() + ranked_bytes) * rows + (ranked_bytes << bin_bits)
    }

    pub(crate) fn push(&mut self, score: f64, is_positive: bool, weight: f64) {
        // −0 and 0 are equal scores
        let scored_row = ScoredRow { score: score + 0.0, signed_weight: if is_positive { weight } else { -weight } };
        if !self.histogram.is_empty() {
            return self.histogram[leading_bits(score, self.bin_bits)].add_row(scored_row.signed_weight);
        }
        self.scored_rows.push(scored_row);
        if self.scored_rows.len() > self.max_exact_rows {
            self.histogram = vec![ClassWeights::default(); 1 << self.bin_bits];
            let (rows, bin_bits) = (std::mem::take(&mut self.scored_rows), self.bin_bits);
            rows.iter().for_each(|row| self.histogram[leading_bits(row.score, bin_bits)].add_row(row.signed_weight));
        }
    }

    /// Returns the standard error of the area under the ROC curve over clusters: the components of
    /// [`Ranking::auc_standard_error`], summed over the rows of each cluster. `clusters` has the
    /// cluster of each row. `None` if a class has fewer than two rows, and for more rows than
    /// scores are stored.
    ///
    /// Reference: Obuchowski, "Nonparametric analysis of clustered ROC curve data", 1997.
    pub(crate) fn clustered_auc_error(&self, ranking: &Ranking, clusters: &[u32]) -> Option<f64> {
        if !self.histogram.is_empty() || clusters.len() != self.scored_rows.len() {
            return None;
        }
        let ClassWeights { positive: p, negative: n } = ranking.total_weights;
        let area = ranking.auc().filter(|_| p > 1.0 && n > 1.0)?.value;
        let above: Vec<ClassWeights> = ranking.cumulative_weights().collect();
        let mut influences = BTreeMap::<u32, f64>::new();
        for (row, cluster) in self.scored_rows.iter().zip(clusters) {
            let rank = ranking.scores.partition_point(|score| score.total_cmp(&row.score).is_gt());
            let (above, tied) = (above.get(rank)?, ranking.weights_by_score.get(rank)?);
            *influences.entry(*cluster).or_default() += match row.signed_weight > 0.0 {
                true => row.signed_weight * ((n - above.negative + tied.negative / 2.0) / n - area) / p,
                false => -row.signed_weight * ((above.positive - tied.positive / 2.0) / p - area) / n,
            };
        }
        clusters::standard_error(influences.into_values())
    }

    pub(crate) fn ranking(&self) -> Ranking {
        let is_exact = self.histogram.is_empty();
        let histogram_bins = self.histogram.iter().copied().enumerate().rev();
        let (scores, weights_by_score): (Vec<f64>, Vec<ClassWeights>) = match is_exact {
            true => weights_by_distinct_score(&self.scored_rows),
            false => histogram_bins
                .filter(|(_, weights)| weights.total() > 0.0)
                .map(|(bin, weights)| (middle_of_bits(bin, self.bin_bits), weights))
                .unzip(),
        };
        let total_weights = weights_by_score.iter().fold(ClassWeights::default(), ClassWeights::plus);
        Ranking { scores, weights_by_score, total_weights, is_exact }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    /// The distinct scores, descending.
    scores: Vec<f64>,
    /// Weights of the rows with each score.
    weights_by_score: Vec<ClassWeights>,
    total_weights: ClassWeights,
    is_exact: bool,
}

impl Ranking {
    /// Returns the weights of positives and negatives at or above each threshold, in descending
    /// order of the thresholds.
    fn cumulative_weights(&self) -> impl Iterator<Item = ClassWeights> {
        self.weights_by_score.iter().scan(ClassWeights::default(), |cumulative, weights| {
            *cumulative = cumulative.plus(weights);
            Some(*cumulative)
        })
    }

    /// Returns the weights of positives and negatives with a score above `threshold`.
    pub(crate) fn weights_above(&self, threshold: f64) -> ClassWeights {
        let count = self.scores.partition_point(|score| *score > threshold);
        self.weights_by_score[..count].iter().fold(ClassWeights::default(), ClassWeights::plus)
    }

    /// Returns the threshold with the least cost, given the costs of a false alarm and of a missed
    /// positive; rows with a score above it are called positive. The threshold is midway between
    /// two scores. If several thresholds have the same cost, returns the highest of them; returns
    /// `None` without rows.
    pub(crate) fn cheapest_threshold(&self, [alarm_cost, miss_cost]: [f64; 2]) -> Option<f64> {
        let cost = |above: ClassWeights| {
            alarm_cost * above.negative + miss_cost * (self.total_weights.positive - above.positive)
        };
        let costs = std::iter::once(ClassWeights::default()).chain(self.cumulative_weights()).map(cost).enumerate();
        let (cheapest_index, _) = costs.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let score_above = cheapest_index.checked_sub(1).and_then(|last| self.scores.get(last));
        match (score_above, self.scores.get(cheapest_index)) {
            (Some(above), Some(below)) => {
                let middle = below + (above - below) / 2.0;
                Some(if middle < *above { middle } else { *below })
            }
            (Some(least), None) => Some(least.next_down()),
            (None, largest) => largest.copied(),
        }
    }

    /// Returns the area under the ROC curve; `None` if a class has no rows.
    pub(crate) fn auc(&self) -> Option<Auc> {
        let (mut positives_above, mut won_pairs, mut tied_pairs) = (0.0, 0.0, 0.0);
        for ClassWeights { positive: p, negative: n } in &self.weights_by_score {
            won_pairs += n * positives_above;
            tied_pairs += p * n;
            positives_above += p;
        }
        let pair_weight = self.total_weights.positive * self.total_weights.negative;
        let max_error = if self.is_exact { 0.0 } else { tied_pairs / 2.0 / pair_weight };
        (pair_weight > 0.0).then(|| Auc { value: (won_pairs + tied_pairs / 2.0) / pair_weight, max_error })
    }

    /// Returns the standard error of the area by DeLong's estimator. A positive row has the
    /// fraction of negatives with lower scores, a negative row the fraction of positives with
    /// higher scores (half of those with equal scores). The variance of the area is the sum of the
    /// variances of these fractions, each divided by the number of its rows. `None` if a class has
    /// fewer than two rows.
    pub(crate) fn auc_standard_error(&self) -> Option<f64> {
        let ClassWeights { positive: p, negative: n } = self.total_weights;
        let area = self.auc().filter(|_| p > 1.0 && n > 1.0)?.value;
        let (mut above, mut scatter) = (ClassWeights::default(), ClassWeights::default());
        for weights in &self.weights_by_score {
            let negatives_below = n - above.negative - weights.negative / 2.0;
            let positives_above = above.positive + weights.positive / 2.0;
            scatter.positive += weights.positive * (negatives_below / n - area).powi(2);
            scatter.negative += weights.negative * (positives_above / p - area).powi(2);
            above = above.plus(weights);
        }
        Some((scatter.positive / (p - 1.0) / p + scatter.negative / (n - 1.0) / n).sqrt())
    }

    /// Returns the scores of the `k` rows with the highest scores.
    pub(crate) fn top_scores(&self, k: f64) -> TopScores {
        let ClassWeights { positive, negative } = self.total_weights;
        let precision = self.precision_at(k);
        let if_positive = |value: f64| precision.filter(|_| positive > 0.0).map(|precision| precision * value);
        TopScores {
            rows: k,
            precision,
            recall: if_positive(k / positive),
            lift: if_positive((positive + negative) / positive),
        }
    }

    /// Returns false and true positive rates as the threshold falls from above all scores to below
    /// all scores, thinned to about `max_points` points; `None` if a class has no rows.
    pub(crate) fn roc_curve(&self, max_points: usize) -> Option<Vec<(f64, f64)>> {
        let ClassWeights { positive: p, negative: n } = self.total_weights;
        if p == 0.0 || n == 0.0 {
            return None;
        }
        // a point is kept only at a minimum distance from the previous point
        let (min_distance, end_point) = (2.0 / max_points.max(1) as f64, (1.0, 1.0));
        let mut points = vec![(0.0, 0.0)];
        for point in self.cumulative_weights().map(|above| (above.negative / n, above.positive / p)) {
            if points.last().is_some_and(|last| point.0 - last.0 + point.1 - last.1 >= min_distance)
                && point != end_point
            {
                points.push(point);
            }
        }
        points.push(end_point);
        Some(points)
    }

    /// Returns the average precision Σ (R_i − R_{i−1}) P_i. The sum runs over the thresholds in
    /// descending order, with precision P_i and recall R_i at threshold i. It is the area under the
    /// precision-recall curve without interpolation. `None` without positive rows.
    pub(crate) fn average_precision(&self) -> Option<f64> {
        let weights = self.weights_by_score.iter().zip(self.cumulative_weights());
        let sum: f64 = weights.map(|(weights, above)| weights.positive * (above.positive / above.total())).sum();
        (self.total_weights.positive > 0.0).then(|| sum / self.total_weights.positive)
    }

    /// Returns the fraction of the rows, and the fraction of the positives among them, as the
    /// threshold falls, thinned to about `max_points` points; `None` if a class has no rows.
    pub(crate) fn gains_curve(&self, max_points: usize) -> Option<Vec<(f64, f64)>> {
        let fraction = self.total_weights.positive / self.total_weights.total();
        let roc = self.roc_curve(max_points)?;
        Some(roc.into_iter().map(|(fpr, tpr)| ((1.0 - fraction) * fpr + fraction * tpr, tpr)).collect())
    }

    /// Returns recall and precision as the threshold falls, thinned to about `max_points` points;
    /// `None` without positive rows. The curve begins at the first positive row: without one,
    /// precision and recall are both 0, which is not a point of the curve.
    pub(crate) fn precision_curve(&self, max_points: usize) -> Option<Vec<(f64, f64)>> {
        let mut points = Vec::<(f64, f64)>::new();
        for (i, above) in self.cumulative_weights().enumerate().filter(|(_, above)| above.positive > 0.0) {
            let point = (above.positive / self.total_weights.positive, above.positive / above.total());
            let distance = |previous: &(f64, f64)| (point.0 - previous.0).abs() + (point.1 - previous.1).abs();
            let is_last = i + 1 == self.weights_by_score.len();
            if points.last().is_none_or(|previous| distance(previous) >= 2.0 / max_points.max(1) as f64) || is_last {
                points.push(point);
            }
        }
        (self.total_weights.positive > 0.0).then_some(points)
    }

    /// Returns the precision among the rows with the highest scores, up to the total weight `k`.
    /// Rows with equal scores at the cut count in proportion. `None` if `k` is 0 or exceeds the
    /// total weight.
    pub(crate) fn precision_at(&self, k: f64) -> Option<f64> {
        let (mut remaining_weight, mut positive_weight) = (k, 0.0);
        for weights in &self.weights_by_score {
            let counted_weight = remaining_weight.min(weights.total());
            positive_weight += weights.positive * (counted_weight / weights.total());
            remaining_weight -= counted_weight;
        }
        (k > 0.0 && remaining_weight <= 0.0).then(|| positive_weight / k)
    }
}

/// Returns the number of rows up to which the scores of several classes are stored.
fn max_exact_rows_of(class_count: usize) -> usize {
    MAX_CLASS_SCORES / class_count.max(1)
}

/// Returns the bits of the histogram bins of several classes: at least the sign, the exponent and
/// one bit of the mantissa.
fn bin_bits_of(class_count: usize) -> u32 {
    (MAX_CLASS_SCORES / class_count.max(1)).max(1).ilog2().clamp(10, BIN_BITS)
}

/// Returns the histogram bin of a score: the leading bits of its f32, in numerical order.
pub(super) fn histogram_bin(score: f64) -> usize {
    leading_bits(score, BIN_BITS)
}

fn leading_bits(score: f64, bin_bits: u32) -> usize {
    // −0 and 0 are equal scores
    let bits = (score as f32 + 0.0).to_bits();
    let ordered_bits = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    (ordered_bits >> (32 - bin_bits)) as usize
}

pub(super) const fn bin_count() -> usize {
    1 << BIN_BITS
}

pub(super) fn middle_of_bin(bin: usize) -> f64 {
    middle_of_bits(bin, BIN_BITS)
}

fn middle_of_bits(bin: usize, bin_bits: u32) -> f64 {
    let ordered_bits = (bin as u32) << (32 - bin_bits) | 1 << (31 - bin_bits);
    f64::from(f32::from_bits(if ordered_bits >> 31 == 1 { ordered_bits & !(1 << 31) } else { !ordered_bits }))
}

/// Returns the distinct scores, descending, and the weights of the rows with each.
fn weights_by_distinct_score(rows: &[ScoredRow]) -> (Vec<f64>, Vec<ClassWeights>) {
    let mut sorted = rows.to_vec();
    sorted.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.signed_weight.total_cmp(&b.signed_weight)));
    let weights_of_ties = |ties: &[ScoredRow]| {
        let mut weights = ClassWeights::default();
        ties.iter().for_each(|row| weights.add_row(row.signed_weight));
        (ties[0].score, weights)
    };
    sorted.chunk_by(|a, b| a.score.total_cmp(&b.score).is_eq()).map(weights_of_ties).unzip()
}

#[cfg(test)]
mod tests;
