//! Random labels of rows under a null hypothesis.

use crate::linalg::strips::for_each_strip;
use kstore::Workers;
use kstore::key::{Purpose, Stream};

/// Relative tolerance within which a permuted statistic counts as equal to the observed statistic:
/// equal statistics may differ by rounding, because their sums run in different orders. The
/// tolerance can only increase the p-value.
const TIE_TOLERANCE: f64 = 1e-9;

/// Uniformly random subsets, of a given size, of the rows 0 to n − 1. A subset consists of the rows
/// with the smallest keys.
///
/// For each seed and permutation, the key of a row is a one-to-one function of its position. So no
/// two keys are equal, and the largest key in the subset determines the subset. The largest key
/// takes 8 bytes; a list of labels would take n bytes.
#[derive(Debug)]
pub(super) struct RandomSubsets {
    subsets: Vec<SubsetKeys>,
}

/// The keys that define one subset.
#[derive(Debug)]
struct SubsetKeys {
    /// Stream of the keys of the rows.
    stream: Stream,
    /// Largest key of a row in the subset.
    largest_key: u64,
}

impl RandomSubsets {
    pub(super) fn new(seed: u64, subset_count: usize, subset_size: usize, n: usize, workers: &Workers) -> Self {
        let mut subsets: Vec<SubsetKeys> =
            (0..subset_count).map(|j| SubsetKeys { stream: permutation_stream(seed, j), largest_key: 0 }).collect();
        if subset_size > 0 && subset_size <= n {
            for_each_strip(workers, &mut subsets, 1, |_, strip| {
                let SubsetKeys { stream, largest_key } = &mut strip[0];
                let mut keys: Vec<u64> = (0..n as u64).map(|row| stream.word(row)).collect();
                *largest_key = *keys.select_nth_unstable(subset_size - 1).1;
            });
        }
        Self { subsets }
    }

    /// Returns the temporary memory of [`Self::new`] in bytes: the n keys of one subset per thread.
    pub(super) fn scratch_bytes(n: usize, threads: usize) -> usize {
        threads.max(1).saturating_mul(8 * n)
    }

    pub(super) fn len(&self) -> usize {
        self.subsets.len()
    }

    pub(super) fn contains(&self, permutation: usize, position: usize) -> bool {
        let SubsetKeys { stream, largest_key } = &self.subsets[permutation];
        stream.word(position as u64) <= *largest_key
    }
}

fn permutation_stream(seed: u64, j: usize) -> Stream {
    Stream::new(seed, Purpose::Permutations, j as u64)
}

/// Returns the `j`-th random order of `n` rows, all orders equally likely (Fisher, Yates 1938).
pub(super) fn random_permutation(seed: u64, j: usize, n: usize) -> Vec<u32> {
    let stream = permutation_stream(seed, j);
    let mut order: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, stream.uniform_below(i as u64, i as u64 + 1) as usize);
    }
    order
}

/// Returns the p-value (1 + number of values at least as large as the observed value) / (1 + number
/// of values). The p-value is never 0, because the observed labels are one of the possible
/// labellings (Phipson, Smyth, "Permutation p-values should never be zero", 2010). Returns `None`
/// without permutations.
pub(super) fn p_value(observed: f64, permuted: &[f64]) -> Option<f64> {
    let threshold = observed - TIE_TOLERANCE * observed.abs();
    let at_least_as_large_count = permuted.iter().filter(|value| **value >= threshold).count();
    (!permuted.is_empty()).then(|| (1 + at_least_as_large_count) as f64 / (1 + permuted.len()) as f64)
}

/// Returns the p-value of the smallest p-value of several statistics, and the p-value of each
/// statistic alone. `statistics` has the values of each statistic, first for the observed labels,
/// then for the random labels, in the same order for all statistics.
pub(super) fn smallest_p_value(statistics: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let labelling_count = statistics.first().map_or(1, Vec::len);
    // the ranks of all labellings, and their minima over the statistics
    let (mut smallest_ranks, mut observed_ranks) = (vec![labelling_count; labelling_count], Vec::new());
    for values in statistics {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = |value: f64| {
            let threshold = value - TIE_TOLERANCE * value.abs();
            labelling_count - sorted.partition_point(|other| *other < threshold)
        };
        observed_ranks.push(rank(values[0]));
        smallest_ranks.iter_mut().zip(values).for_each(|(smallest, value)| *smallest = (*smallest).min(rank(*value)));
    }
    let fraction = |count: usize| count as f64 / labelling_count as f64;
    let at_most_as_large_count = smallest_ranks.iter().filter(|rank| **rank <= smallest_ranks[0]).count();
    (fraction(at_most_as_large_count), observed_ranks.into_iter().map(fraction).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_have_the_requested_size_and_are_uniform() {
        let (n, size, count) = (50, 20, 4000);
        let subsets = RandomSubsets::new(1, count, size, n, &Workers::sequential());
        let mut row_counts = vec![0.0; n];
        let mut joint_count = 0.0;
        for j in 0..count {
            let chosen: Vec<usize> = (0..n).filter(|row| subsets.contains(j, *row)).collect();
            assert_eq!(chosen.len(), size);
            chosen.iter().for_each(|row| row_counts[*row] += 1.0);
            joint_count += f64::from(u8::from(subsets.contains(j, 3) && subsets.contains(j, 4)));
        }
        // each count is binomial(4000, 0.4): five standard deviations
        let (mean, sd) = (0.4 * count as f64, (count as f64 * 0.24).sqrt());
        assert!(row_counts.iter().all(|count| (count - mean).abs() < 5.0 * sd), "{row_counts:?}");
        let pair_probability = 20.0 * 19.0 / (50.0 * 49.0);
        assert!(
            (joint_count - pair_probability * count as f64).abs() < 5.0 * (count as f64 * pair_probability).sqrt(),
            "{joint_count}"
        );
        let threaded = RandomSubsets::new(1, count, size, n, &Workers::new(3));
        assert!((0..count).all(|j| subsets.subsets[j].largest_key == threaded.subsets[j].largest_key));
    }

    #[test]
    fn all_orders_are_equally_likely() {
        let mut counts = std::collections::BTreeMap::<Vec<u32>, f64>::new();
        (0..24_000).for_each(|j| *counts.entry(random_permutation(7, j, 4)).or_default() += 1.0);
        assert_eq!(counts.len(), 24);
        let chi2: f64 = counts.values().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 61.0, "chi-squared with 23 degrees of freedom, p = 3e-5: {chi2}");
    }

    #[test]
    fn the_smallest_p_value_is_corrected() {
        // alone, the first statistic ranks the observed labels 1 of 5, the second 3 of 5; one other
        // labelling has rank 1 in the second statistic
        let statistics = [vec![9.0, 1.0, 2.0, 3.0, 4.0], vec![5.0, 7.0, 1.0, 2.0, 6.0]];
        assert_eq!(smallest_p_value(&statistics), (0.4, vec![0.2, 0.6]));
        let equal = [vec![9.0, 1.0, 2.0, 3.0, 4.0], vec![9.0, 1.0, 2.0, 3.0, 4.0]];
        assert_eq!(smallest_p_value(&equal), (0.2, vec![0.2, 0.2]));
    }

    #[test]
    fn a_p_value_counts_the_observed_labels() {
        assert_eq!(p_value(1.0, &[]), None);
        assert_eq!(p_value(1.0, &[0.5, 2.0, 1.0 - 1e-12]), Some(0.75));
        assert_eq!(p_value(9.0, &[0.0; 99]), Some(0.01));
    }
}
