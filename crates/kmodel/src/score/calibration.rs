//! Calibration: predicted probabilities against observed fractions, in bins of equal counts.

use super::CalibrationBin;

/// Number of fine intervals per unit of the log-odds, and half-width of their range. Rare classes
/// have probabilities near 0, which intervals of the log-odds resolve.
const INTERVALS_PER_UNIT: f64 = 50.0;
const MAX_LOG_ODDS: f64 = 18.0;

/// Number of bins of the curve; ties of probabilities may leave fewer.
const BINS: f64 = 10.0;

/// Quantile of the normal distribution for intervals of 95 %.
const NORMAL_95: f64 = 1.959_964;

/// Sums over the rows of one fine interval of probabilities.
#[derive(Clone, Copy, Debug, Default)]
struct IntervalSums {
    probability: f64,
    positive: f64,
    weight: f64,
    squared_weight: f64,
}

impl IntervalSums {
    fn add(&mut self, other: &Self) {
        self.probability += other.probability;
        self.positive += other.positive;
        self.weight += other.weight;
        self.squared_weight += other.squared_weight;
    }

    fn bin(&self) -> CalibrationBin {
        let (observed, rows) = (self.positive / self.weight, self.weight);
        // the number of rows of weight 1 with the same standard error (Kish)
        let effective_rows = self.weight * self.weight / self.squared_weight;
        CalibrationBin {
            predicted: self.probability / self.weight,
            observed,
            rows,
            interval: wilson_interval(observed, effective_rows),
        }
    }
}

/// Sums over rows, by fine intervals of the predicted probability. *Bytes*: 58 KB.
#[derive(Clone, Debug)]
pub(super) struct CalibrationSums {
    intervals: Vec<IntervalSums>,
}

impl CalibrationSums {
    pub(super) fn new() -> Self {
        let interval_count = (2.0 * MAX_LOG_ODDS * INTERVALS_PER_UNIT) as usize + 1;
        Self { intervals: vec![IntervalSums::default(); interval_count] }
    }

    pub(super) fn push(&mut self, probability: f64, is_positive: bool, weight: f64) {
        // clamped, because the log-odds of 0 and 1 are infinite
        let log_odds = (probability / (1.0 - probability)).ln().clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS);
        let index = ((log_odds + MAX_LOG_ODDS) * INTERVALS_PER_UNIT) as usize;
        let Some(interval) = self.intervals.get_mut(index) else { return };
        let positive = if is_positive { weight } else { 0.0 };
        interval.add(&IntervalSums {
            probability: weight * probability,
            positive,
            weight,
            squared_weight: weight * weight,
        });
    }

    /// Returns bins of about equal total weight, by ascending probability. A fine interval is never
    /// divided.
    pub(super) fn bins(&self) -> Vec<CalibrationBin> {
        let total_weight: f64 = self.intervals.iter().map(|interval| interval.weight).sum();
        let (mut bins, mut bin, mut weight_below) = (Vec::new(), IntervalSums::default(), 0.0);
        for interval in self.intervals.iter().filter(|interval| interval.weight > 0.0) {
            let middle = weight_below + interval.weight / 2.0;
            // the bin that has the middle of the interval
            let is_next_bin = (middle * BINS / total_weight) as usize > bins.len();
            if is_next_bin && bin.weight > 0.0 {
                bins.push(bin.bin());
                bin = IntervalSums::default();
            }
            bin.add(interval);
            weight_below += interval.weight;
        }
        bins.extend((bin.weight > 0.0).then(|| bin.bin()));
        bins
    }
}

/// Returns Wilson's interval of 95 % for a probability, from the fraction of `n` rows.
///
/// Reference: Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
fn wilson_interval(fraction: f64, n: f64) -> (f64, f64) {
    let z2_over_n = NORMAL_95 * NORMAL_95 / n;
    let centre = (fraction + z2_over_n / 2.0) / (1.0 + z2_over_n);
    let half_width = NORMAL_95 * (fraction * (1.0 - fraction) / n + z2_over_n / (4.0 * n)).sqrt() / (1.0 + z2_over_n);
    ((centre - half_width).max(0.0), (centre + half_width).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_equal_counts_and_intervals() {
        let mut sums = CalibrationSums::new();
        // most probabilities are below 5 %, as for a rare class
        let probability = |i: u32| (f64::from(i) / 1000.0).powi(6);
        (0..=1000).for_each(|i| sums.push(probability(i), i % 4 == 0, 1.0));
        let bins = sums.bins();
        assert_eq!((bins.len(), bins.iter().map(|bin| bin.rows).sum::<f64>()), (10, 1001.0));
        assert!(bins.iter().all(|bin| (85.0..=115.0).contains(&bin.rows)), "{bins:?}");
        assert!(bins.windows(2).all(|pair| pair[0].predicted < pair[1].predicted), "{bins:?}");
        assert!(bins.iter().all(|bin| bin.interval.0 < bin.observed && bin.observed < bin.interval.1), "{bins:?}");
        // probabilities that are all equal have one bin, and no row has none
        let mut sums = CalibrationSums::new();
        assert!(sums.bins().is_empty());
        (0..50).for_each(|i| sums.push(0.25, i % 5 == 0, 2.0));
        let bin = sums.bins()[0];
        assert_eq!((sums.bins().len(), bin.rows), (1, 100.0));
        assert!((bin.predicted - 0.25).abs() < 1e-12 && (bin.observed - 0.2).abs() < 1e-12);
        // R: binom::binom.wilson(10, 50); a weight of 2 does not make 100 rows of 50
        assert!((bin.interval.0 - 0.112_437_5).abs() < 1e-6 && (bin.interval.1 - 0.330_371_1).abs() < 1e-6, "{bin:?}");
        sums.push(0.0, false, 1.0);
        sums.push(1.0, true, 1.0);
        assert!(sums.bins().iter().all(|bin| bin.predicted.is_finite() && bin.interval.1 <= 1.0));
    }
}
