//! The weighted median of a stream of numbers, in bounded memory.

use super::roc::{bin_count, histogram_bin, middle_of_bin};

/// Maximum number of values that are stored: 16 bytes each, 1 MiB in total. If there are more
/// values, a histogram counts them.
const MAX_EXACT_VALUES: usize = 1 << 16;

/// A running median of nonnegative numbers: exact for up to 65,536 numbers, and within 0.1 % for
/// more numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunningMedian {
    /// Numbers with their weights.
    values: Vec<(f64, f64)>,
    /// Sums of weights by histogram bin.
    histogram: Vec<f64>,
}

impl RunningMedian {
    /// Returns the peak memory in bytes for a number of rows: a growing vector with its copy, and,
    /// for many rows, the histogram.
    pub(super) fn bytes(rows: usize) -> usize {
        let histogram_bytes = if rows > MAX_EXACT_VALUES { size_of::<f64>() * bin_count() } else { 0 };
        3 * size_of::<(f64, f64)>() * rows.min(MAX_EXACT_VALUES) + histogram_bytes
    }

    pub(super) fn push(&mut self, value: f64, weight: f64) {
        if let Some(count) = self.histogram.get_mut(histogram_bin(value)) {
            *count += weight;
            return;
        }
        self.values.push((value, weight));
        if self.values.len() > MAX_EXACT_VALUES {
            self.histogram = vec![0.0; bin_count()];
            self.values.drain(..).for_each(|(value, weight)| self.histogram[histogram_bin(value)] += weight);
            self.values.shrink_to_fit();
        }
    }

    /// Returns the weighted median; `None` without numbers. If the weights of the smallest
    /// numbers sum to exactly half of all weights, the exact median is the mean of the two middle
    /// numbers.
    pub(super) fn median(&self) -> Option<f64> {
        if self.histogram.is_empty() {
            let mut sorted = self.values.clone();
            sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let half_weight = sorted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
            let first_past = |is_past: fn(f64, f64) -> bool| {
                let mut below = 0.0;
                sorted.iter().find(|(_, weight)| {
                    below += weight;
                    is_past(below, half_weight)
                })
            };
            return Some(
                (first_past(|below, half| below >= half)?.0 + first_past(|below, half| below > half)?.0) / 2.0,
            );
        }
        let half_weight = self.histogram.iter().sum::<f64>() / 2.0;
        let mut below = 0.0;
        let index = self.histogram.iter().position(|count| {
            below += count;
            below > half_weight
        })?;
        Some(middle_of_bin(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median_of(values: impl IntoIterator<Item = f64>) -> RunningMedian {
        values.into_iter().fold(RunningMedian::default(), |mut median, value| {
            median.push(value, 1.0);
            median
        })
    }

    #[test]
    fn the_median_of_few_values_is_exact() {
        assert_eq!(median_of([]).median(), None);
        assert_eq!(
            [vec![3.0], vec![1.0, 4.0], vec![9.0, 1.0, 2.0]].map(|v| median_of(v).median()),
            [3.0, 2.5, 2.0].map(Some)
        );
    }

    #[test]
    fn the_median_of_many_values_is_close() {
        let n = 200_001;
        let values = |range: std::ops::Range<u32>| range.map(|i| (f64::from(i * 7919 % n) / 1e3).powi(2));
        let median = median_of(values(0..n));
        let exact = (f64::from(n / 2) / 1e3).powi(2);
        assert!((median.median().unwrap() / exact - 1.0).abs() < 1e-3, "{:?} {exact}", median.median());
    }
}
