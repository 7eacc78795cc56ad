//! The median of numbers that go by, in bounded memory.

use crate::auc::{bin, bins, middle_of_bin};
use kstore::Merge;

/// Numbers that are kept; beyond them a histogram counts.
const KEPT: usize = 1 << 16;

/// A running median of numbers from 0: exact up to 65,536 of them, within 0.1 % beyond. Whether the histogram is used depends on how
/// many there are, never on how they were split.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Median {
    kept: Vec<f64>,
    counts: Vec<u64>,
}

impl Median {
    /// Most bytes of memory of the median of so many numbers: a growing vector with its copy, or the counts.
    pub(crate) fn bytes(rows: usize) -> usize {
        let counts = if rows > KEPT { size_of::<u64>() * bins() } else { 0 };
        3 * size_of::<f64>() * rows.min(KEPT) + counts
    }

    pub(crate) fn push(&mut self, value: f64) {
        if self.counts.is_empty() {
            self.kept.push(value);
            self.count_if_many();
        } else {
            self.counts[bin(value)] += 1;
        }
    }

    fn count_if_many(&mut self) {
        if self.kept.len() > KEPT {
            self.counts = vec![0; bins()];
            self.kept.drain(..).for_each(|value| self.counts[bin(value)] += 1);
            self.kept.shrink_to_fit();
        }
    }

    /// The number in the middle, or the mean of the two there; `None` without numbers.
    pub(crate) fn value(&self) -> Option<f64> {
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

impl Merge for Median {
    fn merge(&mut self, later: &Self) {
        later.kept.iter().for_each(|value| self.push(*value));
        if later.counts.is_empty() {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; bins()];
            self.kept.drain(..).for_each(|value| self.counts[bin(value)] += 1);
        }
        self.counts.iter_mut().zip(&later.counts).for_each(|(mine, theirs)| *mine += theirs);
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
    fn the_middle_of_many_is_near_whatever_the_split() {
        let n = 200_001;
        let values = |range: std::ops::Range<u32>| range.map(|i| (f64::from(i * 7919 % n) / 1e3).powi(2));
        let whole = of(values(0..n));
        let exact = (f64::from(n / 2) / 1e3).powi(2);
        assert!((whole.value().unwrap() / exact - 1.0).abs() < 1e-3, "{:?} {exact}", whole.value());
        for cut in [10, 70_000, 190_000] {
            let mut merged = of(values(0..cut));
            merged.merge(&of(values(cut..n)));
            assert_eq!(merged, whole, "cut {cut}");
        }
    }
}
