//! Tests of the ranking of two classes, against counts over all pairs.

use super::*;

fn state(rows: &[(f64, bool)], exact: usize) -> Ranking {
    let mut state = RankedScores::new(exact);
    rows.iter().for_each(|(score, positive)| state.push(*score, *positive, 1.0));
    state.ranking()
}

fn auc_by_pairs(rows: &[(f64, bool)]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (p, _) in rows.iter().filter(|(_, positive)| *positive) {
        for (n, _) in rows.iter().filter(|(_, positive)| !positive) {
            sum += if p > n {
                1.0
            } else if p == n {
                0.5
            } else {
                0.0
            };
            pairs += 1.0;
        }
    }
    sum / pairs
}

fn rows(n: u64) -> Vec<(f64, bool)> {
    let stream = kstore::key::Stream::new(5, kstore::key::Purpose::Data, 0);
    // 41 distinct scores: many ties
    (0..n)
        .map(|i| {
            (
                (stream.uniform_below(i, 41) as f64 - 20.0) / 7.0,
                stream.uniform(i + n) < 0.3 + stream.uniform_below(i, 41) as f64 / 100.0,
            )
        })
        .collect()
}

#[test]
fn exact_with_ties_and_signed_zeros() {
    let rows = rows(500);
    assert!((state(&rows, 500).auc().unwrap().value - auc_by_pairs(&rows)).abs() < 1e-15);
    assert_eq!(state(&[(0.0, true), (-0.0, false)], 9).auc().unwrap().value, 0.5);
    assert_eq!(state(&[(1.0, true), (-1.0, false)], 9).auc().unwrap().value, 1.0);
    assert_eq!(state(&[(1.0, true)], 9).auc(), None);
}

#[test]
fn the_roc_curve_has_the_area_of_auc() {
    let rows = rows(500);
    for exact in [500, 100] {
        let state = state(&rows, exact);
        let curve = state.roc_curve(usize::MAX).unwrap();
        assert_eq!((curve[0], curve[curve.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
        assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
        let area: f64 = curve.windows(2).map(|p| (p[1].0 - p[0].0) * (p[1].1 + p[0].1) / 2.0).sum();
        assert!((area - state.auc().unwrap().value).abs() < 1e-12, "{area} {:?}", state.auc());
        let few = state.roc_curve(10).unwrap();
        assert!(few.len() <= 12 && few.iter().all(|point| curve.contains(point)), "{few:?}");
    }
    assert_eq!(state(&[(1.0, true)], 9).roc_curve(10), None);
}

#[test]
fn the_standard_error_of_auc_by_pairs() {
    let rows = rows(300);
    let scores_of = |kind: bool| -> Vec<f64> { rows.iter().filter(|row| row.1 == kind).map(|row| row.0).collect() };
    let (positives, negatives) = (scores_of(true), scores_of(false));
    let win = |p: f64, n: f64| if p > n { 1.0 } else { 0.5 * f64::from(u8::from(p == n)) };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let wins = |count: usize, pair: &dyn Fn(usize) -> f64| (0..count).map(pair).sum::<f64>() / count as f64;
    let of_positives: Vec<f64> = positives.iter().map(|p| wins(negatives.len(), &|i| win(*p, negatives[i]))).collect();
    let of_negatives: Vec<f64> = negatives.iter().map(|n| wins(positives.len(), &|i| win(positives[i], *n))).collect();
    let variance_of_mean = |values: &[f64]| {
        let mean = mean(values);
        let n = values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n
    };
    let expected = (variance_of_mean(&of_positives) + variance_of_mean(&of_negatives)).sqrt();
    let got = state(&rows, 500).auc_standard_error().unwrap();
    assert!((got - expected).abs() < 1e-12, "{got} {expected}");
    assert_eq!(state(&[(1.0, true), (0.0, false)], 9).auc_standard_error(), None);
}

#[test]
fn top_rows_by_counting() {
    let five = state(&[(5.0, true), (4.0, false), (3.0, true), (2.0, false), (1.0, false)], 9);
    let top = five.top_scores(3.0);
    assert_eq!((top.precision, top.recall), (Some(2.0 / 3.0), Some(1.0)));
    assert!((top.lift.unwrap() - (2.0 / 3.0) / (2.0 / 5.0)).abs() < 1e-15);
    assert_eq!(five.top_scores(9.0).precision, None);
    assert_eq!(state(&[(1.0, false), (0.0, false)], 9).top_scores(1.0).lift, None);
}

#[test]
fn precision_by_counting() {
    // ranked: + − (+ −) −, the two in parentheses equal
    let few = state(&[(5.0, true), (4.0, false), (3.0, true), (3.0, false), (1.0, false)], 9);
    // the first positive at precision 1, the second among four rows
    assert!((few.average_precision().unwrap() - (1.0 + 2.0 / 4.0) / 2.0).abs() < 1e-15);
    assert_eq!(few.precision_curve(usize::MAX).unwrap(), [(0.5, 1.0), (0.5, 0.5), (1.0, 0.5), (1.0, 0.4)]);
    // a negative row with the highest score is not a point (0, 0) of the curve
    let negative_first = state(&[(6.0, false), (5.0, true), (4.0, false)], 9);
    assert_eq!(negative_first.precision_curve(usize::MAX).unwrap(), [(1.0, 0.5), (1.0, 1.0 / 3.0)]);
    // one of three rows, then two of three, has none, then all of the positives
    let third = 1.0 / 3.0;
    let gains = negative_first.gains_curve(usize::MAX).unwrap();
    let expected = [(0.0, 0.0), (third, 0.0), (2.0 * third, 1.0), (1.0, 1.0)];
    let is_near = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).abs() < 1e-12 && (a.1 - b.1).abs() < 1e-12;
    assert!(gains.len() == 4 && gains.iter().zip(&expected).all(is_near), "{gains:?}");
    let precisions = [1.0, 2.0, 3.0, 4.0, 5.0].map(|k| few.precision_at(k).unwrap());
    assert_eq!(precisions, [1.0, 0.5, 1.5 / 3.0, 0.5, 0.4]);
    assert_eq!((few.precision_at(6.0), few.precision_at(0.0)), (None, None));
    assert_eq!(state(&[(1.0, false)], 9).average_precision(), None);
    // one row at a time, over a threshold at every row
    let rows: Vec<(f64, bool)> =
        rows(400).into_iter().enumerate().map(|(i, (s, p))| (s + 1e-6 * i as f64, p)).collect();
    let mut sorted = rows.clone();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let positives = rows.iter().filter(|row| row.1).count() as f64;
    let precision = |i: usize| sorted[..=i].iter().filter(|row| row.1).count() as f64 / (i + 1) as f64;
    let sum: f64 = (0..rows.len()).filter(|i| sorted[*i].1).map(precision).sum();
    assert!((state(&rows, 400).average_precision().unwrap() - sum / positives).abs() < 1e-12);
    assert!((state(&rows, 100).average_precision().unwrap() - sum / positives).abs() < 0.01);
}

#[test]
fn the_cheapest_threshold_has_the_least_cost() {
    for (exact, costs) in [(500, [1.0, 1.0]), (500, [1.0, 20.0]), (500, [30.0, 1.0]), (100, [1.0, 3.0])] {
        let (rows, ranking) = (rows(500), state(&rows(500), exact));
        let cost = |threshold: f64| {
            let row_cost = |(score, positive): &(f64, bool)| match (*score > threshold, positive) {
                (true, false) => costs[0],
                (false, true) => costs[1],
                _ => 0.0,
            };
            rows.iter().map(row_cost).sum::<f64>()
        };
        let threshold = ranking.cheapest_threshold(costs).unwrap();
        let above = ranking.weights_above(threshold);
        let count_above = |kind: bool| rows.iter().filter(|(s, p)| *s > threshold && *p == kind).count() as f64;
        assert_eq!((above.positive, above.negative), (count_above(true), count_above(false)), "{exact} {costs:?}");
        let least = rows.iter().flat_map(|(s, _)| [*s, s - 1e-9]).map(cost).fold(f64::INFINITY, f64::min);
        assert_eq!(cost(threshold), least, "{exact} {costs:?}");
    }
    let two = state(&[(1.0, true), (0.0, false)], 9);
    assert_eq!(
        (two.cheapest_threshold([1.0, 1.0]), two.weights_above(0.5), state(&[], 9).cheapest_threshold([1.0, 1.0])),
        (Some(0.5), ClassWeights { positive: 1.0, negative: 0.0 }, None)
    );
    assert_eq!(state(&[(1.0, false)], 9).cheapest_threshold([1.0, 1.0]), Some(1.0), "never");
    assert!(state(&[(1.0, true)], 9).cheapest_threshold([1.0, 1.0]).unwrap() < 1.0, "always");
    for score in [-7.5, -1e-3, 0.0, 2e-9, 3.25] {
        assert!((middle_of_bin(histogram_bin(score)) - score).abs() <= 2e-3 * score.abs() + 1e-37, "{score}");
    }
}

#[test]
fn the_histogram_stays_within_its_bound() {
    let rows: Vec<(f64, bool)> =
        rows(2000).iter().enumerate().map(|(i, (s, p))| (s + (i as f64).sin() * 0.1, *p)).collect();
    let exact = auc_by_pairs(&rows);
    let auc = state(&rows, 1999).auc().unwrap();
    assert!(auc.max_error > 0.0 && auc.max_error < 2e-3 && (auc.value - exact).abs() <= auc.max_error, "{auc:?}");
}

#[test]
fn several_classes_share_the_memory_of_the_histograms() {
    let rows = rows(500);
    for (count, least_bins) in [(3, 1 << 18), (100, 1 << 14), (5000, 1 << 10)] {
        let mut several = RankedScores::several(count);
        assert_eq!(several.len(), count);
        several.truncate(1);
        // begin with a histogram
        several[0].max_exact_rows = 0;
        rows.iter().for_each(|(score, positive)| several[0].push(*score, *positive, 1.0));
        assert_eq!(several[0].histogram.len(), least_bins, "{count}");
        let (auc, exact) = (several[0].ranking().auc().unwrap(), auc_by_pairs(&rows));
        assert!((auc.value - exact).abs() <= auc.max_error && auc.max_error < 0.3, "{count}: {auc:?} {exact}");
        let scores = several[0].ranking().scores;
        assert!(scores.windows(2).all(|pair| pair[0] > pair[1]), "{count}: {scores:?}");
    }
    // 64 MiB of scores with their growth, 20 MiB of bins, and 11 MiB for the ranking of one class
    let mib = RankedScores::bytes_of_several(10, usize::MAX) >> 20;
    assert!((94..=96).contains(&mib), "{mib}");
    assert!(RankedScores::bytes_of_several(5, 1000) < RankedScores::bytes_of_several(5, 100_000));
}
