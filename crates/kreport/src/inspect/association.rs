//! How much one column says about another.

use super::sample::ColumnSample;
use std::collections::HashMap;

/// Returns the rows in which both columns have a value.
pub(super) fn complete_pairs(a: &ColumnSample, b: &ColumnSample) -> Vec<(f64, f64)> {
    a.values.iter().zip(&b.values).map(|(a, b)| (*a, *b)).filter(|(a, b)| a.is_finite() && b.is_finite()).collect()
}

/// Pearson's correlation; 0 if a column is constant.
pub(super) fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len().max(1) as f64;
    // differences from the first pair, so that a constant column has exactly no variance
    let (first_a, first_b) = pairs.first().copied().unwrap_or_default();
    let pairs = || pairs.iter().map(|(a, b)| (a - first_a, b - first_b));
    let (mean_a, mean_b) = pairs().fold((0.0, 0.0), |(a, b), pair| (a + pair.0 / n, b + pair.1 / n));
    let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
    for (a, b) in pairs() {
        let (a, b) = (a - mean_a, b - mean_b);
        (aa, bb, ab) = (aa + a * a, bb + b * b, ab + a * b);
    }
    if aa > 0.0 && bb > 0.0 { ab / (aa.sqrt() * bb.sqrt()) } else { 0.0 }
}

/// Replaces values by their ranks; equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let (mut ranks, mut first) = (vec![0.0; values.len()], 0);
    for tie in order.chunk_by(|i, j| values[*i] == values[*j]) {
        tie.iter().for_each(|i| ranks[*i] = first as f64 + (tie.len() - 1) as f64 / 2.0);
        first += tie.len();
    }
    ranks
}

/// Spearman's rank correlation.
pub(super) fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    correlation(&ranks(&a).into_iter().zip(ranks(&b)).collect::<Vec<_>>())
}

/// Returns the fraction of `b` that the values of `a` determine: of its rows, if it is discrete
/// with few values, otherwise of its variance. `None` if the values of `a` repeat too rarely.
pub(super) fn determined_fraction(pairs: &[(f64, f64)], is_class: bool) -> Option<f64> {
    let mut by_value: HashMap<u64, Vec<f64>> = HashMap::new();
    pairs.iter().for_each(|(a, b)| by_value.entry(a.to_bits()).or_default().push(*b));
    if 5 * by_value.len() > pairs.len() {
        return None;
    }
    let n = pairs.len() as f64;
    if is_class {
        let most_frequent = |values: &Vec<f64>| {
            let mut counts: HashMap<u64, usize> = HashMap::new();
            values.iter().for_each(|value| *counts.entry(value.to_bits()).or_insert(0) += 1);
            counts.into_values().max().unwrap_or(0)
        };
        return Some(by_value.values().map(most_frequent).sum::<usize>() as f64 / n);
    }
    let squares = |values: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = values.collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>()
    };
    let total = squares(&mut pairs.iter().map(|(_, b)| *b));
    // the order of a hash map is random, and so would be the last digits of the sum
    let mut within: Vec<f64> = by_value.values().map(|values| squares(&mut values.iter().copied())).collect();
    within.sort_by(f64::total_cmp);
    (total > 0.0).then(|| 1.0 - within.iter().sum::<f64>() / total)
}

/// Returns the area under the ROC curve of a column as a score for a target of two values, or 1
/// minus this area, whichever is larger.
pub(super) fn separation(pairs: &[(f64, f64)]) -> f64 {
    let scores: Vec<f64> = pairs.iter().map(|(score, _)| *score).collect();
    let low = pairs.iter().map(|(_, class)| *class).fold(f64::INFINITY, f64::min);
    let positives = pairs.iter().filter(|(_, class)| *class > low).count() as f64;
    let negatives = pairs.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return 0.0;
    }
    let rank_sum: f64 = ranks(&scores).iter().zip(pairs).filter(|(_, pair)| pair.1 > low).map(|(rank, _)| rank).sum();
    let area = (rank_sum - positives * (positives - 1.0) / 2.0) / (positives * negatives);
    area.max(1.0 - area)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with ties in both columns.
    fn pairs() -> Vec<(f64, f64)> {
        (0..130).map(|i| (f64::from(i * 7 % 13), f64::from(i * 11 % 17 / 3))).collect()
    }

    #[test]
    fn separation_is_the_fraction_of_ordered_pairs() {
        let pairs: Vec<(f64, f64)> = pairs().into_iter().map(|(a, b)| (a, f64::from(b > 2.0))).collect();
        let (mut ordered, mut count) = (0.0, 0.0);
        for high in pairs.iter().filter(|pair| pair.1 == 1.0) {
            for low in pairs.iter().filter(|pair| pair.1 == 0.0) {
                count += 1.0;
                ordered += if high.0 > low.0 {
                    1.0
                } else if high.0 == low.0 {
                    0.5
                } else {
                    0.0
                };
            }
        }
        let expected = f64::max(ordered / count, 1.0 - ordered / count);
        assert!((separation(&pairs) - expected).abs() < 1e-12);
    }

    #[test]
    fn rank_correlation_is_one_for_any_increasing_function() {
        let of = |f: fn(f64) -> f64| pairs().iter().map(|(a, _)| (*a, f(*a))).collect::<Vec<_>>();
        assert!((rank_correlation(&of(f64::exp)) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&of(|v| -v.exp())) + 1.0).abs() < 1e-12);
        assert!(correlation(&of(f64::exp)) < 0.9);
        assert_eq!(correlation(&of(|_| 3.0)), 0.0, "a constant column");
        // scipy.stats.spearmanr([a for a, b in pairs], [b for a, b in pairs]).statistic
        assert!(
            (rank_correlation(&pairs()) - 0.028_130_552_220_401_527).abs() < 1e-12,
            "{}",
            rank_correlation(&pairs())
        );
    }

    #[test]
    fn values_that_repeat_determine_a_column() {
        let by_value: Vec<(f64, f64)> = pairs().iter().map(|(a, _)| (*a, (a * 5.0) % 3.0)).collect();
        assert_eq!(determined_fraction(&by_value, true), Some(1.0));
        assert!(determined_fraction(&by_value, false).is_some_and(|fraction| (fraction - 1.0).abs() < 1e-12));
        assert!(determined_fraction(&pairs(), false).is_some_and(|fraction| fraction < 0.9));
        let all_different: Vec<(f64, f64)> = (0..60).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        assert_eq!(determined_fraction(&all_different, true), None);
    }
}
