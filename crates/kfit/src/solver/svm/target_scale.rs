//! The centre and the scale of a target.

/// Standard deviation of a normal distribution, divided by its median absolute deviation.
const DEVIATIONS_PER_MAD: f64 = 1.4826;

/// Returns the mean and population standard deviation of weighted values. Goes through the values
/// several times.
pub(super) fn mean_and_deviation(values: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let total_weight = values.clone().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE);
    let mean = values.clone().map(|(value, weight)| weight * value).sum::<f64>() / total_weight;
    let squared_deviation_sum = values.map(|(value, weight)| weight * (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squared_deviation_sum / total_weight).sqrt())
}

pub(super) fn positive_or_one(value: f64) -> f64 {
    if value > 0.0 { value } else { 1.0 }
}

/// Returns the standard deviation of normal values with the same median absolute deviation. If more
/// than half of the values are equal, returns their standard deviation; if all are equal, 1.
pub(super) fn robust_deviation(values: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let median = weighted_median(values.clone().collect());
    let mad = weighted_median(values.clone().map(|(value, weight)| ((value - median).abs(), weight)).collect());
    if mad > 0.0 { DEVIATIONS_PER_MAD * mad } else { positive_or_one(mean_and_deviation(values).1) }
}

/// Returns the smallest value below or at which at least half of the weight lies; 0 if there are no
/// values.
fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half_weight = 0.5 * values.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut below = 0.0;
    let median = values.iter().find(|(_, weight)| {
        below += weight;
        below >= half_weight
    });
    median.map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_robust_deviation_ignores_outliers() {
        let values = |outlier: f64| (0..101).map(move |i| (if i == 7 { outlier } else { f64::from(i) }, 1.0));
        // the median is 50, and half of the values are within 25 of it
        assert!((robust_deviation(values(7.0)) - 25.0 * DEVIATIONS_PER_MAD).abs() < 1e-12);
        assert!((robust_deviation(values(1e9)) - 25.0 * DEVIATIONS_PER_MAD).abs() < 2.0);
        let mostly_equal = || (0..10).map(|i| (f64::from(u8::from(i == 0)), 1.0));
        assert!((robust_deviation(mostly_equal()) - 0.3).abs() < 1e-12);
        assert_eq!(robust_deviation((0..4).map(|_| (2.0, 1.0))), 1.0);
        let repeated = [(0.0, 1.0), (1.0, 3.0), (5.0, 1.0), (9.0, 2.0)];
        let rows = [0.0, 1.0, 1.0, 1.0, 5.0, 9.0, 9.0].map(|value| (value, 1.0));
        assert_eq!(robust_deviation(repeated.into_iter()), robust_deviation(rows.into_iter()));
    }
}
