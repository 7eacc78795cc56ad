//! Area under the ROC curve, in bounded memory.

use kstore::Merge;

/// Number of rows up to which scores are kept: 8 bytes each, 8 MiB in all.
pub const EXACT_ROWS: usize = 1 << 20;

/// Leading bits of an ordered f32 that name a histogram bin: sign, exponent and 9 bits of the mantissa, so scores share
/// a bin only within 0.2 % of each other; 2 · 2^18 counts are 4 MiB.
const BITS: u32 = 18;

/// An area under the ROC curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Auc {
    /// P(score of a positive > score of a negative) + ½ P(equal).
    pub value: f64,
    /// Largest possible difference from the exact area; 0 while scores are kept.
    pub within: f64,
}

/// Scores of positives and negatives: kept up to a number of rows, counted in a histogram beyond it.
///
/// The histogram treats scores in one bin as equal. Pairs of one bin count ½ each instead of 0 or 1, so its error is
/// at most half the share of such pairs: that bound is reported. Whether it is used depends on the number of rows alone,
/// never on how they were split.
#[derive(Clone, Debug)]
pub struct AucState {
    exact_rows: usize,
    scores: Scores,
}

#[derive(Clone, Debug)]
enum Scores {
    Kept { positive: Vec<f64>, negative: Vec<f64> },
    Binned { positive: Vec<u64>, negative: Vec<u64> },
}

impl AucState {
    /// A state without rows, which is exact up to `exact_rows` rows.
    pub fn new(exact_rows: usize) -> Self {
        Self { exact_rows, scores: Scores::Kept { positive: Vec::new(), negative: Vec::new() } }
    }

    /// Most bytes of memory a state takes: growing vectors may hold twice their scores, are sorted as copies, and
    /// become a histogram.
    pub fn bytes(exact_rows: usize) -> usize {
        (24 * exact_rows).saturating_add(16 << BITS)
    }

    /// Adds the score of a row.
    pub fn push(&mut self, score: f64, is_positive: bool) {
        match &mut self.scores {
            Scores::Kept { positive, negative } => {
                let scores = if is_positive { positive } else { negative };
                scores.push(score);
                self.bin_if_many();
            }
            Scores::Binned { positive, negative } => {
                let counts = if is_positive { positive } else { negative };
                counts[bin(score)] += 1;
            }
        }
    }

    fn bin_if_many(&mut self) {
        if matches!(&self.scores, Scores::Kept { positive, negative } if positive.len() + negative.len() > self.exact_rows)
        {
            let (positive, negative) = self.histogram();
            self.scores = Scores::Binned { positive, negative };
        }
    }

    fn histogram(&self) -> (Vec<u64>, Vec<u64>) {
        let count = |scores: &[f64]| {
            let mut counts = vec![0u64; 1 << BITS];
            scores.iter().for_each(|score| counts[bin(*score)] += 1);
            counts
        };
        match &self.scores {
            Scores::Kept { positive, negative } => (count(positive), count(negative)),
            Scores::Binned { positive, negative } => (positive.clone(), negative.clone()),
        }
    }

    /// False and true positive rates as the threshold falls from above every score to below, thinned to about `most`
    /// points; `None` where a class has no row. Scores that are equal, or share a bin, are one step.
    pub fn curve(&self, most: usize) -> Option<Vec<(f64, f64)>> {
        let steps = self.falling();
        let (p, n) = steps.iter().fold((0, 0), |(p, n), step| (p + step.0, n + step.1));
        if p == 0 || n == 0 {
            return None;
        }
        let (mut found, mut all) = ((0, 0), vec![(0.0, 0.0)]);
        for step in steps {
            found = (found.0 + step.0, found.1 + step.1);
            all.push((found.1 as f64 / n as f64, found.0 as f64 / p as f64));
        }
        // a point is worth showing where it is away from the last one that is shown
        let (apart, end) = (2.0 / most.max(1) as f64, (1.0, 1.0));
        let mut shown: Vec<(f64, f64)> = vec![all[0]];
        for point in &all {
            if shown.last().is_some_and(|last| point.0 - last.0 + point.1 - last.1 >= apart) && *point != end {
                shown.push(*point);
            }
        }
        shown.push(end);
        Some(shown)
    }

    /// Numbers of positives and of negatives with each score, or in each bin of them, from the highest down.
    fn falling(&self) -> Vec<(u64, u64)> {
        let mut steps: Vec<(u64, u64)> = match &self.scores {
            Scores::Kept { positive, negative } => tallies(positive, negative).collect(),
            Scores::Binned { positive, negative } => {
                let both = positive.iter().copied().zip(negative.iter().copied());
                both.filter(|(p, n)| p + n > 0).collect()
            }
        };
        steps.reverse();
        steps
    }

    /// The average precision, Σ (R_i − R_{i−1}) P_i over falling thresholds with precision P and recall R: the area under the
    /// precision-recall curve without interpolation. `None` without a positive row.
    pub fn average_precision(&self) -> Option<f64> {
        let steps = self.falling();
        let positives: u64 = steps.iter().map(|step| step.0).sum();
        let (mut found, mut sum) = ((0, 0), 0.0);
        for (p, n) in steps {
            found = (found.0 + p, found.1 + n);
            sum += p as f64 * (found.0 as f64 / (found.0 + found.1) as f64);
        }
        (positives > 0).then(|| sum / positives as f64)
    }

    /// Recall and precision as the threshold falls, thinned to about `most` points; `None` without a positive row.
    pub fn precision_curve(&self, most: usize) -> Option<Vec<(f64, f64)>> {
        let steps = self.falling();
        let positives: u64 = steps.iter().map(|step| step.0).sum();
        if positives == 0 {
            return None;
        }
        let (mut found, mut shown) = ((0, 0), Vec::<(f64, f64)>::new());
        let last = steps.len() - 1;
        for (i, (p, n)) in steps.into_iter().enumerate() {
            found = (found.0 + p, found.1 + n);
            let point = (found.0 as f64 / positives as f64, found.0 as f64 / (found.0 + found.1) as f64);
            let apart = |before: &(f64, f64)| (point.0 - before.0).abs() + (point.1 - before.1).abs();
            if shown.last().is_none_or(|before| apart(before) >= 2.0 / most.max(1) as f64) || i == last {
                shown.push(point);
            }
        }
        Some(shown)
    }

    /// The share of positives among the `k` rows of the highest scores; of rows with equal scores at the end the same share of each
    /// kind counts. `None` where there are fewer rows.
    pub fn precision_at(&self, k: u64) -> Option<f64> {
        let (mut left, mut found) = (k, 0.0);
        for (p, n) in self.falling() {
            let taken = left.min(p + n);
            found += p as f64 * (taken as f64 / (p + n) as f64);
            left -= taken;
        }
        (k > 0 && left == 0).then(|| found / k as f64)
    }

    /// The area under the curve; `None` where a class has no row.
    pub fn auc(&self) -> Option<Auc> {
        match &self.scores {
            Scores::Kept { positive, negative } => {
                Area::of(tallies(positive, negative)).map(|area| Auc { value: area.value(), within: 0.0 })
            }
            Scores::Binned { positive, negative } => Area::of(positive.iter().copied().zip(negative.iter().copied()))
                .map(|area| Auc { value: area.value(), within: area.tied / 2.0 / area.pairs }),
        }
    }
}

impl Merge for AucState {
    fn merge(&mut self, later: &Self) {
        if let (Scores::Kept { positive, negative }, Scores::Kept { positive: p, negative: n }) =
            (&mut self.scores, &later.scores)
        {
            positive.extend_from_slice(p);
            negative.extend_from_slice(n);
            return self.bin_if_many();
        }
        let ((mut positive, mut negative), (p, n)) = (self.histogram(), later.histogram());
        positive.iter_mut().zip(p).for_each(|(mine, theirs)| *mine += theirs);
        negative.iter_mut().zip(n).for_each(|(mine, theirs)| *mine += theirs);
        self.scores = Scores::Binned { positive, negative };
    }
}

/// The histogram bin of a score: the leading bits of its f32, in the order of the numbers.
pub(crate) fn bin(score: f64) -> usize {
    // −0 and 0 are equal scores
    let bits = (score as f32 + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    (ordered >> (32 - BITS)) as usize
}

/// Number of histogram bins.
pub(crate) const fn bins() -> usize {
    1 << BITS
}

/// The number in the middle of a bin of numbers from 0 on.
pub(crate) fn middle_of_bin(bin: usize) -> f64 {
    let ordered = (bin as u32) << (32 - BITS) | 1 << (31 - BITS);
    f64::from(f32::from_bits(ordered & !(1 << 31)))
}

/// For each different score, in ascending order, the numbers of positives and of negatives with it.
fn tallies(positive: &[f64], negative: &[f64]) -> impl Iterator<Item = (u64, u64)> {
    let sorted = |scores: &[f64]| {
        let mut scores: Vec<f64> = scores.iter().map(|score| score + 0.0).collect();
        scores.sort_unstable_by(f64::total_cmp);
        scores
    };
    let (positive, negative) = (sorted(positive), sorted(negative));
    let (mut p, mut n) = (0, 0);
    std::iter::from_fn(move || {
        let next = [positive.get(p), negative.get(n)].into_iter().flatten();
        let score = next.min_by(|a, b| a.total_cmp(b)).copied()?;
        let equal = |from: &[f64]| from.iter().take_while(|other| other.total_cmp(&score).is_eq()).count();
        let tally = (equal(&positive[p..]), equal(&negative[n..]));
        (p, n) = (p + tally.0, n + tally.1);
        Some((tally.0 as u64, tally.1 as u64))
    })
}

/// Counts of pairs of a positive and a negative row.
struct Area {
    won: f64,
    tied: f64,
    pairs: f64,
}

impl Area {
    fn of(tallies: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        // pairs can exceed 2^64
        let (mut below, mut positives, mut won, mut tied) = (0u128, 0u128, 0u128, 0u128);
        for (p, n) in tallies {
            won += u128::from(p) * below;
            tied += u128::from(p) * u128::from(n);
            below += u128::from(n);
            positives += u128::from(p);
        }
        let pairs = positives * below;
        (pairs > 0).then_some(Self { won: won as f64, tied: tied as f64, pairs: pairs as f64 })
    }

    fn value(&self) -> f64 {
        (self.won + self.tied / 2.0) / self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(rows: &[(f64, bool)], exact: usize) -> AucState {
        let mut state = AucState::new(exact);
        rows.iter().for_each(|(score, positive)| state.push(*score, *positive));
        state
    }

    fn by_pairs(rows: &[(f64, bool)]) -> f64 {
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
        let keys = kstore::key::Stream::new(5, kstore::key::Purpose::Data, 0);
        // 41 different scores: many ties
        (0..n)
            .map(|i| {
                ((keys.below(i, 41) as f64 - 20.0) / 7.0, keys.uniform(i + n) < 0.3 + keys.below(i, 41) as f64 / 100.0)
            })
            .collect()
    }

    #[test]
    fn exact_with_ties_and_signed_zeros() {
        let rows = rows(500);
        assert!((state(&rows, 500).auc().unwrap().value - by_pairs(&rows)).abs() < 1e-15);
        assert_eq!(state(&[(0.0, true), (-0.0, false)], 9).auc().unwrap().value, 0.5);
        assert_eq!(state(&[(1.0, true), (-1.0, false)], 9).auc().unwrap().value, 1.0);
        assert_eq!(state(&[(1.0, true)], 9).auc(), None);
    }

    #[test]
    fn the_area_under_the_curve_is_the_area() {
        let rows = rows(500);
        for exact in [500, 100] {
            let state = state(&rows, exact);
            let curve = state.curve(usize::MAX).unwrap();
            assert_eq!((curve[0], curve[curve.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
            assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
            let area: f64 = curve.windows(2).map(|p| (p[1].0 - p[0].0) * (p[1].1 + p[0].1) / 2.0).sum();
            assert!((area - state.auc().unwrap().value).abs() < 1e-12, "{area} {:?}", state.auc());
            let few = state.curve(10).unwrap();
            assert!(few.len() <= 12 && few.iter().all(|point| curve.contains(point)), "{few:?}");
        }
        assert_eq!(state(&[(1.0, true)], 9).curve(10), None);
    }

    #[test]
    fn precision_by_counting() {
        // ranked: + − (+ −) −, the two in parentheses equal
        let few = state(&[(5.0, true), (4.0, false), (3.0, true), (3.0, false), (1.0, false)], 9);
        // the first positive at precision 1, the second among four rows
        assert!((few.average_precision().unwrap() - (1.0 + 2.0 / 4.0) / 2.0).abs() < 1e-15);
        assert_eq!(few.precision_curve(usize::MAX).unwrap(), [(0.5, 1.0), (0.5, 0.5), (1.0, 0.5), (1.0, 0.4)]);
        let at = [1, 2, 3, 4, 5].map(|k| few.precision_at(k).unwrap());
        assert_eq!(at, [1.0, 0.5, 1.5 / 3.0, 0.5, 0.4]);
        assert_eq!((few.precision_at(6), few.precision_at(0)), (None, None));
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
    fn the_histogram_stays_within_its_bound_whatever_the_split() {
        let rows: Vec<(f64, bool)> =
            rows(2000).iter().enumerate().map(|(i, (s, p))| (s + (i as f64).sin() * 0.1, *p)).collect();
        let exact = by_pairs(&rows);
        let whole = state(&rows, 1999).auc().unwrap();
        assert!(whole.within > 0.0 && whole.within < 2e-3 && (whole.value - exact).abs() <= whole.within, "{whole:?}");
        for cut in [0, 3, 1000, 2000] {
            let mut merged = state(&rows[..cut], 1999);
            merged.merge(&state(&rows[cut..], 1999));
            assert_eq!(merged.auc().unwrap(), whole, "cut {cut}");
        }
    }
}
