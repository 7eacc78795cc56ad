//! The median heuristic: the median distance between points as a length scale.
//!
//! (Garreau, Jitkrittum, Kanagawa, *Large sample analysis of the median heuristic*, arXiv
//! 1707.07269, 2017.)

use super::{Distance, points::row_slice, sparse_argument::align_entries};
use crate::{Error, Result};
use faer::MatRef;

/// Maximum number of points whose pairs are measured: half a million distances, 4 MB.
const MAX_POINTS: usize = 1000;

/// Returns the median distance over all pairs of rows of `sample`. If it has more than 1,000 rows,
/// only 1,000 evenly spaced rows are used.
///
/// If the median is 0 because of duplicate rows, returns the median of the nonzero distances; if
/// all distances are 0, returns 1. The median of an even number of distances is the mean of the
/// middle two. A row of weight w counts as w copies of the row, whose distances from each other
/// are 0. If `is_sparse` is true, rows have the layout of [`kpass::sparse`]. Costs n² d / 2
/// operations.
pub(super) fn median_distance(
    sample: MatRef<'_, f64>,
    weights: &[f64],
    distance_kind: Distance,
    is_sparse: bool,
) -> Result<f64> {
    let n = sample.nrows().min(MAX_POINTS);
    let mut row_buffer = Vec::new();
    let positions: Vec<usize> = (0..n).map(|i| i * sample.nrows() / n).collect();
    let points: Vec<_> = positions.iter().map(|i| row_slice(sample, *i, &mut row_buffer).to_vec()).collect();
    let mut distances = Vec::with_capacity(n * n.saturating_sub(1) / 2);
    for (i, x) in points.iter().enumerate() {
        distances.extend(points[..i].iter().map(|z| match is_sparse {
            false => distance(x, z, distance_kind),
            true => {
                let (x, z) = align_entries(x, z);
                distance(&x, &z, distance_kind)
            }
        }));
    }
    if distances.iter().any(|distance| !distance.is_finite()) {
        return Err(Error::NotFinite {
            what: "a distance between two rows of the sample for sigma=median".into(),
            remedy: "check for infinite or huge values, scale the columns, or give sigma as a number".into(),
        });
    }
    if !weights.is_empty() {
        let weights: Vec<f64> = positions.iter().map(|i| weights[*i]).collect();
        return Ok(weighted_median(distances, &weights));
    }
    let median = unweighted_median(&mut distances);
    if median > 0.0 {
        return Ok(median);
    }
    distances.retain(|&distance| distance > 0.0);
    Ok(if distances.is_empty() { 1.0 } else { unweighted_median(&mut distances) })
}

fn distance(x: &[f64], z: &[f64], distance_kind: Distance) -> f64 {
    let differences = x.iter().zip(z).map(|(x, z)| (x - z).abs());
    match distance_kind {
        Distance::L1 => differences.sum(),
        Distance::ChiSquared => {
            let differences_and_sums = differences.zip(x.iter().zip(z).map(|(x, z)| x + z));
            differences_and_sums.map(|(d, sum)| if d == 0.0 { 0.0 } else { d * (d / sum) }).sum()
        }
        // scaled, so that squares neither overflow nor vanish
        Distance::L2 => {
            let largest = differences.clone().fold(0.0, f64::max);
            if largest == 0.0 || !largest.is_finite() {
                return largest;
            }
            largest * differences.map(|d| (d / largest).powi(2)).sum::<f64>().sqrt()
        }
    }
}

/// Returns the weighted median of the distances of all pairs i > j, listed row by row. The weight
/// of a pair is the product of the weights of its rows.
fn weighted_median(distances: Vec<f64>, weights: &[f64]) -> f64 {
    let pair_weights = weights.iter().enumerate().flat_map(|(i, a)| weights[..i].iter().map(move |b| a * b));
    let mut weighted_distances: Vec<(f64, f64)> = distances.into_iter().zip(pair_weights).collect();
    weighted_distances.extend(weights.iter().map(|w| (0.0, (w * (w - 1.0) / 2.0).max(0.0))));
    weighted_distances.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let median_of = |pairs: &[(f64, f64)]| {
        let half_weight = pairs.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let mut median_pair = |is_strict: bool| {
            sum = 0.0;
            pairs.iter().find(|(_, weight)| {
                sum += weight;
                if is_strict { sum > half_weight } else { sum >= half_weight }
            })
        };
        let (lower, upper) =
            (median_pair(false).map_or(1.0, |pair| pair.0), median_pair(true).map_or(1.0, |pair| pair.0));
        lower + (upper - lower) / 2.0
    };
    match median_of(&weighted_distances) {
        median if median > 0.0 => median,
        _ => median_of(&weighted_distances[weighted_distances.partition_point(|(distance, _)| *distance == 0.0)..]),
    }
}

/// Returns the median of some values, or 0 without values. Reorders the values.
fn unweighted_median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    let (lower_values, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return upper;
    }
    let lower = lower_values.iter().copied().fold(0.0, f64::max);
    lower + (upper - lower) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median_of(points: &[f64], d: usize, metric: Distance) -> Result<f64> {
        median_distance(MatRef::from_row_major_slice(points, points.len() / d, d), &[], metric, false)
    }

    #[test]
    fn medians() {
        // distances 1, 3, 6, 2, 5, 3
        assert_eq!(median_of(&[0.0, 1.0, 3.0, 6.0], 1, Distance::L2).unwrap(), 3.0);
        // distances 1, 10, 100, 9, 99, 90: an even number of distances, and the middle two differ
        assert_eq!(median_of(&[0.0, 1.0, 10.0, 100.0], 1, Distance::L1).unwrap(), (10.0 + 90.0) / 2.0);
    }

    #[test]
    fn zeros_of_sparse_rows_count() {
        // (3, 0, 0), (0, 4, 0), 0: distances 5, 3, 4
        let rows = [0.0, -1.0, 3.0, 0.0, 1.0, -1.0, 4.0, 0.0, -1.0, -1.0, 0.0, 0.0];
        let rows = MatRef::from_row_major_slice(&rows, 3, 4);
        assert_eq!(median_distance(rows, &[], Distance::L2, true).unwrap(), 4.0);
        assert_eq!(median_distance(rows, &[], Distance::L1, true).unwrap(), 4.0);
    }

    #[test]
    fn a_row_of_weight_2_is_that_row_twice() {
        let weighted_median = |points: &[f64], weights: &[f64]| {
            median_distance(MatRef::from_row_major_slice(points, points.len(), 1), weights, Distance::L1, false)
        };
        for (points, weights) in [
            ([0.0, 1.0, 3.0, 7.0, 12.0], [2.0, 1.0, 1.0, 3.0, 1.0]),
            ([0.0, 1.0, 3.0, 7.0, 12.0], [9.0, 1.0, 1.0, 1.0, 1.0]),
            ([5.0, 5.0, 5.0, 5.0, 6.5], [1.0, 2.0, 1.0, 1.0, 1.0]),
        ] {
            let copies = |(point, weight): (&f64, &f64)| vec![*point; *weight as usize];
            let repeated: Vec<f64> = points.iter().zip(&weights).flat_map(copies).collect();
            assert_eq!(
                weighted_median(&points, &weights).unwrap(),
                weighted_median(&repeated, &[]).unwrap(),
                "{points:?} {weights:?}"
            );
        }
        assert_eq!(weighted_median(&[2.0, 2.0], &[1.0, 3.0]).unwrap(), 1.0);
    }

    #[test]
    fn zero_distances_are_skipped_if_they_dominate() {
        assert_eq!(median_of(&[0.0, 0.0, 0.0, 0.0, 0.0, 7.0], 1, Distance::L2).unwrap(), 7.0);
        assert_eq!(median_of(&[5.0; 9], 1, Distance::L2).unwrap(), 1.0);
        assert_eq!(median_of(&[5.0], 1, Distance::L1).unwrap(), 1.0);
        assert_eq!(median_of(&[], 1, Distance::L1).unwrap(), 1.0);
    }

    #[test]
    fn extremes() {
        assert_eq!(median_of(&[0.0, 3e300], 1, Distance::L2).unwrap(), 3e300);
        assert_eq!(median_of(&[0.0, 3e-300], 1, Distance::L2).unwrap(), 3e-300);
        let error = median_of(&[-f64::MAX, f64::MAX], 1, Distance::L2).unwrap_err();
        assert!(error.to_string().contains("sigma=median"), "{error}");
    }

    #[test]
    fn a_large_sample_is_thinned_evenly() {
        let points: Vec<f64> = (0..5000).map(f64::from).collect();
        let median = median_of(&points, 1, Distance::L1).unwrap();
        // for uniform u and v, the median of |u − v| is 1 − 1/√2 times the range
        assert!((median / 5000.0 - (1.0 - 0.5f64.sqrt())).abs() < 2e-3, "{median}");
    }
}
