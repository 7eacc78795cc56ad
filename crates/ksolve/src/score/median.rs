//! The median of numbers that go by, in bounded memory.

use super::auc::{bin, bins, middle_of_bin};

/// Numbers that are kept; beyond them a histogram counts.
const KEPT: usize = 1 << 16;

/// A running median of numbers from 0: exact up to 65,536 of them, within 0.1 % beyond.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Median {
    kept: Vec<f64>,
    counts: Vec<u64>,
}

impl Median {
    /// Most bytes of memory of the median of so many numbers: a growing vector with its copy, or the counts.
    pub(super) fn bytes(rows: usize) -> usize {
        let counts = if rows > KEPT { size_of::<u64>() * bins() } else { 0 };
        3 * size_of::<f64>() * rows.min(KEPT) + counts
    }

    pub(super) fn push(&mut self, value: f64) {
        if let Some(count) = self.counts.get_mut(bin(value)) {
            *count += 1;
            return;
        }
        self.kept.push(value);
        if self.kept.len() > KEPT {
            self.counts = vec![0; bins()];
            self.kept.drain(..).for_each(|value| self.counts[bin(value)] += 1);
            self.kept.shrink_to_fit();
        }
    }

    /// The number in the middle, or the mean of the two there; `None` without numbers.
    pub(super) fn value(&self) -> Option<f64> {
        if self.counts.is_empty() {
            let mut sorted = self.kept.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let n = sorted.len();
            return Some((sorted.get(n.checked_sub(1)? / 2)? + sorted.get(n / 2)?) / 2.0);
        }
        let half = self.counts.iter().sum::<u64>() / 2;
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below > half
        })?;
        Some(middle_of_bin(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Median {
        values.into_iter().fold(Median::default(), |mut median, value| {
            median.push(value);
            median
        })
    }

    #[test]
    fn the_middle_of_a_few_is_exact() {
        assert_eq!(of([]).value(), None);
        assert_eq!([vec![3.0], vec![1.0, 4.0], vec![9.0, 1.0, 2.0]].map(|v| of(v).value()), [3.0, 2.5, 2.0].map(Some));
    }

    #[test]
    fn the_middle_of_many_is_near() {
        let n = 200_001;
        let values = |range: std::ops::Range<u32>| range.map(|i| (f64::from(i * 7919 % n) / 1e3).powi(2));
        let whole = of(values(0..n));
        let exact = (f64::from(n / 2) / 1e3).powi(2);
        assert!((whole.value().unwrap() / exact - 1.0).abs() < 1e-3, "{:?} {exact}", whole.value());
    }
}
