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

/// Returns the area under the ROC curve of a column as a score for a class against the rest; one
/// half if a side is empty.
pub(super) fn auc(pairs: &[(f64, f64)], class: f64) -> f64 {
    let scores: Vec<f64> = pairs.iter().map(|(score, _)| *score).collect();
    let positives = pairs.iter().filter(|(_, other)| *other == class).count() as f64;
    let negatives = pairs.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return 0.5;
    }
    let in_class = ranks(&scores).into_iter().zip(pairs).filter(|(_, pair)| pair.1 == class);
    let rank_sum: f64 = in_class.map(|(rank, _)| rank).sum();
    (rank_sum - positives * (positives - 1.0) / 2.0) / (positives * negatives)
}

/// Returns the largest F1 score, the harmonic mean of precision and recall, of a class predicted by
/// a threshold of a column, from above or below.
pub(super) fn best_f1(pairs: &[(f64, f64)], class: f64) -> f64 {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = pairs.iter().filter(|(_, other)| *other == class).count() as f64;
    let (mut below, mut found, mut best) = (0.0, 0.0, 0.0f64);
    for tie in sorted.chunk_by(|a, b| a.0 == b.0) {
        below += tie.len() as f64;
        found += tie.iter().filter(|(_, other)| *other == class).count() as f64;
        // 2 true positives over predicted and actual positives
        let above = (positives - found, pairs.len() as f64 - below);
        for (true_positives, predicted) in [(found, below), above] {
            best = best.max(2.0 * true_positives / (predicted + positives).max(1.0));
        }
    }
    best
}

/// Replaces the values of the first column by the fraction of a class among the other rows with the
/// same value. A row does not count itself, so a column without information has no good scores.
pub(super) fn class_rates(pairs: &[(f64, f64)], class: f64) -> Vec<(f64, f64)> {
    let mut counts: HashMap<u64, (f64, f64)> = HashMap::new();
    for (value, other) in pairs {
        let (rows, in_class) = counts.entry(value.to_bits()).or_default();
        (*rows, *in_class) = (*rows + 1.0, *in_class + f64::from(*other == class));
    }
    let base_rate = pairs.iter().filter(|(_, other)| *other == class).count() as f64 / pairs.len().max(1) as f64;
    let rate = |value: f64, other: f64| {
        let (rows, in_class) = counts[&value.to_bits()];
        if rows > 1.0 { (in_class - f64::from(other == class)) / (rows - 1.0) } else { base_rate }
    };
    pairs.iter().map(|(value, other)| (rate(*value, *other), *other)).collect()
}

/// Returns the gamma of Goodman and Kruskal: the fraction of concordant pairs of rows minus the
/// fraction of discordant ones, without the pairs that are equal in a column; 0 if no such pair
/// exists. Counts the pairs in O(n log n).
pub(super) fn gamma(pairs: &[(f64, f64)]) -> f64 {
    let mut values: Vec<f64> = pairs.iter().map(|(_, b)| *b).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    // number of earlier rows by the position of their second value, as a Fenwick tree
    let mut tree = vec![0u64; values.len() + 1];
    let (mut concordant, mut discordant, mut earlier) = (0u64, 0u64, 0u64);
    for tie in sorted.chunk_by(|a, b| a.0 == b.0) {
        let positions: Vec<usize> = tie.iter().map(|(_, b)| values.partition_point(|value| value < b)).collect();
        for position in &positions {
            let (below, up_to) = (prefix_sum(&tree, *position), prefix_sum(&tree, position + 1));
            concordant += below;
            discordant += earlier - up_to;
        }
        for position in &positions {
            let mut node = position + 1;
            while node < tree.len() {
                tree[node] += 1;
                node += node & node.wrapping_neg();
            }
        }
        earlier += tie.len() as u64;
    }
    let total = concordant + discordant;
    if total > 0 { (concordant as f64 - discordant as f64) / total as f64 } else { 0.0 }
}

/// Returns the sum of the first `count` entries of a Fenwick tree.
fn prefix_sum(tree: &[u64], count: usize) -> u64 {
    let (mut node, mut sum) = (count, 0);
    while node > 0 {
        sum += tree[node];
        node -= node & node.wrapping_neg();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with ties in both columns.
    fn pairs() -> Vec<(f64, f64)> {
        (0..130).map(|i| (f64::from(i * 7 % 13), f64::from(i * 11 % 17 / 3))).collect()
    }

    #[test]
    fn auc_is_the_fraction_of_ordered_pairs() {
        let pairs: Vec<(f64, f64)> = pairs().into_iter().map(|(a, b)| (a, b.floor())).collect();
        for class in [0.0, 2.0, 5.0] {
            let (mut ordered, mut count) = (0.0, 0.0);
            for high in pairs.iter().filter(|pair| pair.1 == class) {
                for low in pairs.iter().filter(|pair| pair.1 != class) {
                    count += 1.0;
                    ordered += match high.0.total_cmp(&low.0) {
                        std::cmp::Ordering::Greater => 1.0,
                        std::cmp::Ordering::Equal => 0.5,
                        std::cmp::Ordering::Less => 0.0,
                    };
                }
            }
            assert!((auc(&pairs, class) - ordered / count).abs() < 1e-12, "{class}");
        }
        assert_eq!(auc(&pairs, 77.0), 0.5);
    }

    #[test]
    fn f1_is_the_best_of_all_thresholds() {
        let pairs: Vec<(f64, f64)> = pairs().into_iter().map(|(a, b)| (a, f64::from(b + a / 4.0 > 4.0))).collect();
        let mut best = 0.0f64;
        for threshold in 0..14 {
            for is_above in [true, false] {
                let is_predicted = |a: f64| (a >= f64::from(threshold)) == is_above;
                let count = |keep: &dyn Fn(&(f64, f64)) -> bool| pairs.iter().filter(|pair| keep(pair)).count() as f64;
                let hits = count(&|pair| is_predicted(pair.0) && pair.1 == 1.0);
                let [precision, recall] = [count(&|pair| is_predicted(pair.0)), count(&|pair| pair.1 == 1.0)];
                let (precision, recall) = (hits / f64::max(precision, 1.0), hits / recall);
                best = best.max(2.0 * precision * recall / (precision + recall).max(1e-9));
            }
        }
        assert!((best_f1(&pairs, 1.0) - best).abs() < 1e-12 && best > 0.5, "{best}");
    }

    #[test]
    fn rates_of_a_class_leave_out_the_row() {
        let pairs = [(1.0, 7.0), (1.0, 7.0), (1.0, 2.0), (4.0, 7.0), (5.0, 2.0), (5.0, 2.0)];
        let rates: Vec<f64> = class_rates(&pairs, 7.0).into_iter().map(|(rate, _)| rate).collect();
        assert_eq!(rates, [0.5, 0.5, 1.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn gamma_ignores_ties() {
        let (mut concordant, mut discordant) = (0.0, 0.0);
        let pairs = pairs();
        for (i, a) in pairs.iter().enumerate() {
            for b in &pairs[..i] {
                let product = (a.0 - b.0) * (a.1 - b.1);
                concordant += f64::from(product > 0.0);
                discordant += f64::from(product < 0.0);
            }
        }
        let expected = (concordant - discordant) / (concordant + discordant);
        assert!((gamma(&pairs) - expected).abs() < 1e-12, "{}", gamma(&pairs));
        let steps: Vec<(f64, f64)> = (0..90).map(|i| (f64::from(i), f64::from(i / 80))).collect();
        assert_eq!(gamma(&steps), 1.0, "a sorted column of two values");
        assert_eq!(gamma(&steps[..80]), 0.0);
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
