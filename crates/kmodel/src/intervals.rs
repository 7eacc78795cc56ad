//! Prediction intervals and prediction sets from held-out rows: CV+, the cross-conformal form of
//! the jackknife+.
//!
//! Cross-validation fits a function f₋ₖ without each fold k. Every row i of the fold has a held-out
//! score E_i, which measures how badly f₋ₖ predicts the row:
//!
//! ```text
//! regression   E_i = max(l₋ₖ(x_i) − y_i, y_i − u₋ₖ(x_i)) / s(x_i)
//! classes      E_i = 1 − p₋ₖ(y_i | x_i)
//! ```
//!
//! where l and u are the lowest and the highest quantile of a quantile model, and l = u = f for
//! other models; s is the predictive standard deviation if the model stores it, and 1 otherwise.
//! For α = 1 − level, the interval of a new row x ends at the ⌈(1 − α)(n + 1)⌉-th smallest of the n
//! numbers u₋ₖ₍ᵢ₎(x) + s(x) E_i, where k(i) is the fold of row i; the lower end is found in the
//! same way. The prediction set contains the classes y for which fewer than (1 − α)(n + 1) scores
//! are below 1 − p₋ₖ₍ᵢ₎(y | x).
//!
//! If the rows and the new row are exchangeable, and the f₋ₖ do not depend on the rows of fold k,
//! the coverage is at least 1 − 2α − √(2/n), and usually near 1 − α. Rows with weight w count as w
//! rows.
//!
//! *Bytes*: the f₋ₖ, and the scores of each fold, in groups of at most 1/128 of the scores above
//! them. A group has its largest score, so intervals are never narrower than with all scores.
//!
//! References: Barber, Candès, Ramdas, Tibshirani, "Predictive inference with the jackknife+",
//! Annals of Statistics 49, 2021; Vovk, "Cross-conformal predictors", Annals of Mathematics and
//! Artificial Intelligence 74, 2015; Romano, Patterson, Candès, "Conformalized quantile
//! regression", NeurIPS 2019; Sadinle, Lei, Wasserman, "Least ambiguous set-valued classifiers with
//! bounded error levels", JASA 114, 2019.

use crate::rank_sketch::RankSketch;
use crate::{Error, Result};

/// Largest group of stored scores, as a fraction of the scores above it.
const GROUP_FRACTION: f64 = 1.0 / 128.0;

/// Relative rounding error of the number of rows (1 − α)(n + 1), which must not demand another row.
const RANK_EPSILON: f64 = 4.0 * f64::EPSILON;

/// Relative rounding error of the number of rows that a level needs.
const NEEDED_ROWS_EPSILON: f64 = 1e-12;

/// Held-out scores of a model, from which prediction intervals or sets are computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// Levels 1 − α, ascending.
    pub levels: Vec<f64>,
    /// Scores of each fold; in a regression of each fold and target, by fold.
    pub(crate) scores: Vec<ScoreDistribution>,
}

/// Held-out scores of a fold, ascending, with the sums of the weights up to each score.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScoreDistribution {
    pub(crate) scores: Vec<f64>,
    pub(crate) cumulative_weights: Vec<f64>,
}

impl ScoreDistribution {
    fn new(sketch: RankSketch) -> Self {
        let rows = sketch.into_ascending(GROUP_FRACTION);
        let mut sum = 0.0;
        let cumulative_weights = rows.iter().map(|row| {
            sum += row.weight;
            sum
        });
        Self { cumulative_weights: cumulative_weights.collect(), scores: rows.iter().map(|row| row.key).collect() }
    }

    /// Returns the weight of the first `count` scores.
    fn weight_of(&self, count: usize) -> f64 {
        count.checked_sub(1).map_or(0.0, |last| self.cumulative_weights[last])
    }

    fn total_weight(&self) -> f64 {
        self.cumulative_weights.last().copied().unwrap_or(0.0)
    }

    /// Returns the smallest score for this fraction of the rows and a new row, as [`rank`] counts
    /// them; the largest score if the rows are too few.
    pub(crate) fn at_fraction(&self, fraction: f64) -> f64 {
        let rank = fraction * (self.total_weight() + 1.0);
        let position = self.cumulative_weights.partition_point(|weight| *weight < rank);
        self.scores.get(position).or(self.scores.last()).copied().unwrap_or(0.0)
    }

    fn is_valid(&self) -> bool {
        self.scores.is_sorted_by(|a, b| a < b)
            && self.cumulative_weights.is_sorted_by(|a, b| a < b)
            && self.cumulative_weights.first().is_none_or(|weight| *weight > 0.0)
    }
}

impl Intervals {
    /// Makes intervals from the scores of each fold and target, by fold.
    ///
    /// # Errors
    /// [`Error::Option`] if there are too few rows for the highest level.
    pub(crate) fn new(levels: Vec<f64>, sketches: Vec<RankSketch>, target_count: usize) -> Result<Self> {
        let intervals = Self { levels, scores: sketches.into_iter().map(ScoreDistribution::new).collect() };
        let weight = (0..target_count).map(|target| intervals.total_weight(target, target_count));
        let weight = weight.fold(f64::INFINITY, f64::min);
        match intervals.levels.last() {
            Some(level) if rank(*level, weight) > weight => {
                let needed = (level / (1.0 - level) * (1.0 - NEEDED_ROWS_EPSILON)).ceil();
                let why = format!("{weight} held-out rows are too few for this level; it needs {needed}");
                Err(Error::option("interval", level, format!("{why}: give more rows, or a lower level")))
            }
            _ => Ok(intervals),
        }
    }

    /// Returns true if the numbers suit a model with this many functions per fold and target; all
    /// folds together have `function_count` functions.
    pub(crate) fn is_valid(&self, function_count: usize, functions_per_score: usize) -> bool {
        let levels_are_valid =
            self.levels.iter().all(|level| *level > 0.0 && *level < 1.0) && self.levels.is_sorted_by(|a, b| a < b);
        let has_rows = self.scores.iter().any(|scores| !scores.scores.is_empty());
        levels_are_valid
            && has_rows
            && self.scores.len() * functions_per_score == function_count
            && self.scores.iter().all(ScoreDistribution::is_valid)
    }

    /// Returns the number of scores of each fold and target, all scores, and the sums of the
    /// weights up to each score.
    pub(crate) fn to_tensors(&self) -> (Vec<u64>, Vec<f64>, Vec<f64>) {
        let numbers = |list: fn(&ScoreDistribution) -> &Vec<f64>| self.scores.iter().flat_map(list).copied().collect();
        let counts = self.scores.iter().map(|scores| scores.scores.len() as u64).collect();
        (counts, numbers(|scores| &scores.scores), numbers(|scores| &scores.cumulative_weights))
    }

    /// Reverses [`Intervals::to_tensors`]; returns `None` if the counts do not suit the numbers.
    pub(crate) fn from_tensors(levels: Vec<f64>, counts: &[usize], scores: &[f64], weights: &[f64]) -> Option<Self> {
        let mut start: usize = 0;
        let distribution = |count: &usize| {
            let range = start..start.checked_add(*count)?;
            start = range.end;
            let (scores, weights) = (scores.get(range.clone())?, weights.get(range)?);
            Some(ScoreDistribution { scores: scores.to_vec(), cumulative_weights: weights.to_vec() })
        };
        let distributions: Option<Vec<ScoreDistribution>> = counts.iter().map(distribution).collect();
        distributions.filter(|_| start == scores.len()).map(|scores| Self { levels, scores })
    }

    fn target_scores(&self, target: usize, target_count: usize) -> impl Iterator<Item = &ScoreDistribution> + Clone {
        self.scores.iter().skip(target).step_by(target_count)
    }

    /// Returns the scores of a target in all folds.
    pub(crate) fn pooled_scores(&self, target: usize, target_count: usize) -> ScoreDistribution {
        let mut weighted_scores: Vec<(f64, f64)> = self
            .target_scores(target, target_count)
            .flat_map(|fold| {
                let weights = (0..fold.scores.len()).map(|i| fold.weight_of(i + 1) - fold.weight_of(i));
                fold.scores.iter().copied().zip(weights)
            })
            .collect();
        weighted_scores.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let cumulative_weights = weighted_scores.iter().map(|(_, weight)| {
            sum += weight;
            sum
        });
        ScoreDistribution {
            cumulative_weights: cumulative_weights.collect(),
            scores: weighted_scores.iter().map(|(score, _)| *score).collect(),
        }
    }

    fn total_weight(&self, target: usize, target_count: usize) -> f64 {
        self.target_scores(target, target_count).map(ScoreDistribution::total_weight).sum()
    }

    /// Returns the smallest number that is at least centre + scale · score for the fraction `level`
    /// of the held-out rows of a target and the new row. `centres` has a number for each fold.
    pub(crate) fn upper_end(
        &self,
        level: f64,
        (target, target_count): (usize, usize),
        centres: &[f64],
        scale: f64,
    ) -> f64 {
        let total_weight = self.total_weight(target, target_count);
        let rank = rank(level, total_weight);
        let folds =
            self.target_scores(target, target_count).zip(centres).filter(|(scores, _)| !scores.scores.is_empty());
        // The quantile of all folds lies between the lowest and the highest quantile of a fold.
        let fold_quantiles = folds.clone().map(|(scores, centre)| {
            let fold_rank = rank / total_weight * scores.total_weight();
            let i = scores.cumulative_weights.partition_point(|weight| *weight < fold_rank);
            centre + scale * scores.scores[i.min(scores.scores.len() - 1)]
        });
        let (lowest, highest) = fold_quantiles
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (mut weight_below, mut candidates) = (0.0, Vec::new());
        for (scores, centre) in folds {
            let count_up_to = |is_included: &dyn Fn(f64) -> bool| {
                scores.scores.partition_point(|score| is_included(centre + scale * score))
            };
            let (start, end) = (count_up_to(&|value| value < lowest), count_up_to(&|value| value <= highest));
            weight_below += scores.weight_of(start);
            candidates.extend(
                (start..end)
                    .map(|i| (centre + scale * scores.scores[i], scores.weight_of(i + 1) - scores.weight_of(i))),
            );
        }
        candidates.sort_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
        let reaches_rank = |(_, weight): &&(f64, f64)| {
            weight_below += weight;
            weight_below >= rank
        };
        // rounding of the weights can leave the sum below the rank
        candidates.iter().find(reaches_rank).map_or(highest, |(value, _)| *value)
    }

    /// Returns true if a prediction set of this level contains a class; `scores` has the score of
    /// the class in each fold.
    pub(crate) fn contains(&self, level: f64, scores: impl Iterator<Item = f64>) -> bool {
        let weights_below = self.scores.iter().zip(scores).map(|(distribution, score)| {
            distribution.weight_of(distribution.scores.partition_point(|other| *other < score))
        });
        weights_below.sum::<f64>() < rank(level, self.total_weight(0, 1))
    }

    pub(crate) fn bytes(&self) -> usize {
        let numbers = |scores: &ScoreDistribution| 2 * scores.scores.len();
        size_of::<f64>() * self.scores.iter().map(numbers).sum::<usize>()
    }
}

/// Returns (1 − α)(n + 1), for rows of total weight n.
fn rank(level: f64, weight: f64) -> f64 {
    level * (weight + 1.0) * (1.0 - RANK_EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_sketch::RankedRow;

    fn sketch(scores: &[(f64, f64)]) -> RankSketch {
        let mut sketch = RankSketch::default();
        scores.iter().for_each(|(key, weight)| sketch.push(RankedRow { key: *key, weight: *weight, sums: [0.0; 2] }));
        sketch
    }

    /// Deterministic numbers that look random.
    fn noise(i: usize, j: usize) -> f64 {
        ((i * 7919 + j * 104_729 + 13) % 1009) as f64 / 1009.0
    }

    #[test]
    fn ends_equal_the_sorted_list_of_all_rows() {
        let (k, n, t) = (4, 37, 2);
        let scores: Vec<Vec<f64>> =
            (0..k * t).map(|f| (0..n + f).map(|i| noise(i, f).powi(2) - 0.1 * f as f64).collect()).collect();
        let unit_weights = |list: &Vec<f64>| sketch(&list.iter().map(|score| (*score, 1.0)).collect::<Vec<_>>());
        let intervals = Intervals::new(vec![0.5, 0.9], scores.iter().map(unit_weights).collect(), t).unwrap();
        for (row, target) in (0..20).flat_map(|row| (0..t).map(move |target| (row, target))) {
            // predictions of the folds that differ little, and much
            let spread = [0.01, 3.0][row % 2];
            let centres: Vec<f64> = (0..k).map(|fold| spread * noise(row, 50 + fold)).collect();
            let scale = 0.5 + noise(row, 99);
            let mut all: Vec<f64> = (0..k)
                .flat_map(|fold| {
                    scores[fold * t + target].iter().map(|score| centres[fold] + scale * score).collect::<Vec<_>>()
                })
                .collect();
            all.sort_by(f64::total_cmp);
            for level in [0.5, 0.9] {
                let position = (level * (all.len() as f64 + 1.0) - 1e-9).ceil() as usize - 1;
                assert_eq!(intervals.upper_end(level, (target, t), &centres, scale), all[position], "{row} {level}");
            }
        }
    }

    #[test]
    fn weights_count_rows() {
        let twice = Intervals::new(vec![0.6], vec![sketch(&[(1.0, 2.0), (2.0, 2.0), (5.0, 2.0)])], 1).unwrap();
        let copies = [1.0, 1.0, 2.0, 2.0, 5.0, 5.0].map(|score| (score, 1.0));
        let copied = Intervals::new(vec![0.6], vec![sketch(&copies)], 1).unwrap();
        // 0.6 · 7 = 4.2: the fifth of six scores
        assert_eq!([&twice, &copied].map(|intervals| intervals.upper_end(0.6, (0, 1), &[1.0], 1.0)), [6.0; 2]);
        assert_eq!(twice, copied);
    }

    #[test]
    fn a_level_needs_enough_rows() {
        let scores = |n: usize| sketch(&(0..n).map(|i| (i as f64, 1.0)).collect::<Vec<_>>());
        let message = Intervals::new(vec![0.9], vec![scores(8)], 1).unwrap_err().to_string();
        assert!(message.contains("8 held-out rows") && message.contains("it needs 9"), "{message}");
        let nine = Intervals::new(vec![0.9], vec![scores(9)], 1).unwrap();
        assert_eq!(nine.upper_end(0.9, (0, 1), &[0.0], 1.0), 8.0, "the largest of nine scores");
    }

    #[test]
    fn errors_are_drawn_from_the_rows_of_all_folds() {
        let folds = vec![
            sketch(&[(1.0, 2.0), (4.0, 1.0)]),
            sketch(&[(9.0, 1.0)]),
            sketch(&[(2.0, 3.0)]),
            sketch(&[(9.5, 1.0)]),
        ];
        let intervals = Intervals::new(vec![0.5], folds, 2).unwrap();
        // the first target: 1, 1, 2, 2, 2, 4 and the new row
        let errors = intervals.pooled_scores(0, 2);
        for (fraction, expected) in [(0.01, 1.0), (0.28, 1.0), (0.29, 2.0), (0.71, 2.0), (0.72, 4.0), (0.99, 4.0)] {
            assert_eq!(errors.at_fraction(fraction), expected, "{fraction}");
        }
        assert_eq!(intervals.pooled_scores(1, 2).scores, [9.0, 9.5]);
    }

    #[test]
    fn sets_contain_the_classes_with_few_lower_scores() {
        let scores: Vec<(f64, f64)> = (0..19).map(|i| (f64::from(i) / 19.0, 1.0)).collect();
        let intervals = Intervals::new(vec![0.9], vec![sketch(&scores[..10]), sketch(&scores[10..])], 1).unwrap();
        // 0.9 · 20 = 18: a class may have at most 17 lower scores
        assert!(intervals.contains(0.9, [17.0 / 19.0; 2].into_iter()));
        assert!(!intervals.contains(0.9, [17.5 / 19.0; 2].into_iter()));
        // the folds count separately
        assert!(intervals.contains(0.9, [0.2, 1.0].into_iter()));
    }

    #[test]
    fn damaged_scores_are_recognised() {
        let valid = Intervals::new(vec![0.5], vec![sketch(&[(1.0, 1.0), (2.0, 1.0)])], 1).unwrap();
        assert!(valid.is_valid(3, 3) && !valid.is_valid(4, 3));
        let reversed = ScoreDistribution { scores: vec![2.0, 1.0], cumulative_weights: vec![1.0, 2.0] };
        assert!(!Intervals { scores: vec![reversed], ..valid.clone() }.is_valid(1, 1));
        assert!(!Intervals { levels: vec![1.0], ..valid.clone() }.is_valid(1, 1));
        assert!(!Intervals { scores: vec![ScoreDistribution::default()], ..valid }.is_valid(1, 1));
    }
}
