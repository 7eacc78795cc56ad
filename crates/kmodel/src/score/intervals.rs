//! Scores of prediction intervals and prediction sets: how often they contain the true value, and
//! how large they are.

use super::{IntervalScores, serialize_count};
use crate::rank_sketch::{RankSketch, RankedRow};

/// Number of groups of rows with similar predictions.
const DECILES: usize = 10;

/// Scores of the prediction intervals of a target at a level.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PredictionIntervalScores {
    /// Name of the target.
    pub target: String,
    /// Level, coverage and mean width.
    #[serde(flatten)]
    pub scores: IntervalScores,
    /// Tenths of the rows, by ascending prediction.
    pub deciles: Vec<DecileScores>,
}

/// Coverage and width of the prediction intervals of a tenth of the rows.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct DecileScores {
    /// Largest prediction of these rows.
    pub prediction: f64,
    /// Number of rows, or the sum of their weights.
    #[serde(serialize_with = "serialize_count")]
    pub rows: f64,
    /// Fraction of the true values in the interval.
    pub coverage: f64,
    /// Mean width of the interval.
    pub width: f64,
}

/// Scores of the prediction sets at a level.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct PredictionSetScores {
    /// Requested fraction of the rows whose set contains the true class.
    pub level: f64,
    /// Fraction of the rows whose set contains the true class.
    pub coverage: f64,
    /// Mean number of classes in the set.
    pub size: f64,
    /// Fraction of the rows whose set is empty.
    pub empty: f64,
    /// Fraction of the rows whose set has one class.
    pub single: f64,
}

/// Sums over rows for [`PredictionIntervalScores`].
#[derive(Clone, Debug)]
pub(crate) struct IntervalSums {
    levels: Vec<f64>,
    target_count: usize,
    /// Rows by prediction, with coverage and width, for each level and target.
    sketches: Vec<RankSketch>,
}

impl IntervalSums {
    pub(crate) fn new(levels: &[f64], target_count: usize) -> Self {
        let sketches = vec![RankSketch::default(); levels.len() * target_count];
        Self { levels: levels.to_vec(), target_count, sketches }
    }

    /// Returns the bytes for this many levels, targets and rows.
    pub(crate) fn bytes(level_count: usize, target_count: usize, rows: usize) -> usize {
        level_count * target_count * RankSketch::bytes(rows)
    }

    /// Adds a row with the prediction of each target, and two ends for each level and target.
    pub(crate) fn push(&mut self, ends: &[f64], predictions: &[f64], truth: &[f64], weight: f64) {
        for (i, (sketch, ends)) in self.sketches.iter_mut().zip(ends.chunks_exact(2)).enumerate() {
            let (y, key) = (truth[i % self.target_count], predictions[i % self.target_count]);
            let covered_weight = if ends[0] <= y && y <= ends[1] { weight } else { 0.0 };
            sketch.push(RankedRow { key, weight, sums: [covered_weight, weight * (ends[1] - ends[0])] });
        }
    }

    /// Returns the scores of all rows; `names` are the names of the targets.
    pub(crate) fn scores(self, names: &[String]) -> Vec<PredictionIntervalScores> {
        let (levels, target_count) = (self.levels, self.target_count);
        let sketches = self.sketches.into_iter().enumerate();
        let scores = sketches.filter_map(|(i, sketch)| {
            let rows = sketch.into_ascending(0.0);
            let [weight, covered, width] = sums(&rows);
            let target = names.get(i % target_count).cloned().unwrap_or_default();
            let level = levels[i / target_count];
            (weight > 0.0).then(|| PredictionIntervalScores {
                target,
                scores: IntervalScores { level, coverage: covered / weight, width: width / weight },
                deciles: deciles(&rows, weight),
            })
        });
        scores.collect()
    }
}

/// Returns the sums of the weights, of the weights of covered rows, and of the weighted widths.
fn sums(rows: &[RankedRow]) -> [f64; 3] {
    rows.iter().fold([0.0; 3], |[weight, covered, width], row| {
        [weight + row.weight, covered + row.sums[0], width + row.sums[1]]
    })
}

/// Divides ascending rows of this total weight into tenths. Rows with equal predictions stay
/// together.
fn deciles(rows: &[RankedRow], total_weight: f64) -> Vec<DecileScores> {
    let mut below = 0.0;
    let decile_of_row = rows.iter().map(|row| {
        let middle = below + row.weight / 2.0;
        below += row.weight;
        ((middle / total_weight * DECILES as f64) as usize).min(DECILES - 1)
    });
    let decile_of_row: Vec<usize> = decile_of_row.collect();
    let range_of = |decile: usize| {
        decile_of_row.partition_point(|other| *other < decile)..decile_of_row.partition_point(|other| *other <= decile)
    };
    let scores_of = |decile: usize| {
        let rows = &rows[range_of(decile)];
        let [weight, covered, width] = sums(rows);
        let prediction = rows.last()?.key;
        Some(DecileScores { prediction, rows: weight, coverage: covered / weight, width: width / weight })
    };
    (0..DECILES).filter_map(scores_of).collect()
}

/// Sums over rows for [`PredictionSetScores`], for each level.
#[derive(Clone, Debug)]
pub(crate) struct SetSums {
    levels: Vec<f64>,
    class_count: usize,
    weight: f64,
    /// Weighted sums of coverage, size, and of empty and single sets.
    sums: Vec<[f64; 4]>,
}

impl SetSums {
    pub(crate) fn new(levels: &[f64], class_count: usize) -> Self {
        Self { levels: levels.to_vec(), class_count, weight: 0.0, sums: vec![[0.0; 4]; levels.len()] }
    }

    /// Adds a row with its class; `sets` has 1 for each level and class in the set, otherwise 0.
    pub(crate) fn push(&mut self, sets: &[f64], class: usize, weight: f64) {
        self.weight += weight;
        for (sums, set) in self.sums.iter_mut().zip(sets.chunks_exact(self.class_count.max(1))) {
            let (size, covers) = (set.iter().sum::<f64>(), set.get(class).copied().unwrap_or(0.0));
            let values = [covers, size, f64::from(u8::from(size == 0.0)), f64::from(u8::from(size == 1.0))];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
        }
    }

    pub(crate) fn scores(&self) -> Vec<PredictionSetScores> {
        let scores = self.levels.iter().zip(&self.sums).filter(|_| self.weight > 0.0);
        let scores = scores.map(|(level, sums)| {
            let [coverage, size, empty, single] = sums.map(|sum| sum / self.weight);
            PredictionSetScores { level: *level, coverage, size, empty, single }
        });
        scores.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_and_width_by_decile() {
        let mut sums = IntervalSums::new(&[0.5, 0.9], 1);
        // 40 rows with predictions 39, 38, …; true values of predictions below 20 are outside the
        // narrow interval
        for i in (0..40).rev().map(f64::from) {
            let y = if i < 20.0 { i + 2.0 } else { i };
            sums.push(&[i - 1.0, i + 1.0, i - 1.0, i + 3.0], &[i], &[y], 1.0);
        }
        let scores = sums.scores(&["y".to_string()]);
        let intervals: Vec<IntervalScores> = scores.iter().map(|interval| interval.scores).collect();
        let [narrow, wide] = [(0.5, 0.5, 2.0), (0.9, 1.0, 4.0)].map(|(level, coverage, width)| IntervalScores {
            level,
            coverage,
            width,
        });
        assert_eq!(intervals, [narrow, wide]);
        let deciles = &scores[0].deciles;
        assert_eq!(deciles.len(), 10);
        assert_eq!(deciles[0], DecileScores { prediction: 3.0, rows: 4.0, coverage: 0.0, width: 2.0 });
        assert_eq!(deciles[9], DecileScores { prediction: 39.0, rows: 4.0, coverage: 1.0, width: 2.0 });
    }

    #[test]
    fn sets_are_counted_by_size() {
        let mut sums = SetSums::new(&[0.9], 3);
        sums.push(&[1.0, 0.0, 0.0], 0, 1.0);
        sums.push(&[1.0, 1.0, 0.0], 2, 1.0);
        sums.push(&[0.0, 0.0, 0.0], 1, 2.0);
        let expected = PredictionSetScores { level: 0.9, coverage: 0.25, size: 0.75, empty: 0.5, single: 0.25 };
        assert_eq!(sums.scores(), [expected]);
    }
}
