//! Scores of predictions: sums over pairs of prediction and true value.

use crate::agreement::{Agreement, agreement};
use crate::auc::{Auc, AucState};
use crate::median::Median;
use crate::{Error, Result};
use kstore::{Label, Merge};

/// Sums of one target: Σ|e|, Σe², Σ(e/y)², Σ|e/y|, the median of |e|, and the mean and scatter of y.
#[derive(Clone, Debug, Default, PartialEq)]
struct TargetSums {
    absolute: f64,
    squared: f64,
    relative: f64,
    share: f64,
    middle: Median,
    zero: bool,
    n: f64,
    mean: f64,
    scatter: f64,
    first: Option<f64>,
    constant: bool,
}

impl TargetSums {
    fn push(&mut self, prediction: f64, truth: f64) {
        let error = truth - prediction;
        self.absolute += error.abs();
        self.squared += error * error;
        self.zero |= truth == 0.0;
        self.relative += (error / truth).powi(2);
        self.share += (error / truth).abs();
        self.middle.push(error.abs());
        self.constant = self.first.is_none_or(|first| self.constant && first == truth);
        self.first = self.first.or(Some(truth));
        // Welford's update: no cancellation for targets far from zero
        self.n += 1.0;
        let step = truth - self.mean;
        self.mean += step / self.n;
        self.scatter += step * (truth - self.mean);
    }

    fn report(&self) -> Regression {
        let share = |sum: f64| if self.n > 0.0 { Some(sum / self.n) } else { None };
        let mse = share(self.squared);
        Regression {
            mse,
            rmse: mse.map(f64::sqrt),
            mae: share(self.absolute),
            median_error: self.middle.value(),
            mape: share(self.share).filter(|_| !self.zero),
            r2: (self.n > 0.0 && !self.constant && self.scatter > 0.0).then(|| 1.0 - self.squared / self.scatter),
            relative_error: share(self.relative).filter(|_| !self.zero).map(f64::sqrt),
        }
    }
}

impl Merge for TargetSums {
    fn merge(&mut self, later: &Self) {
        if later.n == 0.0 {
            return;
        }
        self.constant =
            if self.n == 0.0 { later.constant } else { self.constant && later.constant && self.first == later.first };
        self.first = self.first.or(later.first);
        self.absolute += later.absolute;
        self.squared += later.squared;
        self.relative += later.relative;
        self.share += later.share;
        self.middle.merge(&later.middle);
        self.zero |= later.zero;
        // Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983
        let (n, step) = (self.n + later.n, later.mean - self.mean);
        self.scatter += later.scatter + step * step * self.n * later.n / n;
        self.mean += step * later.n / n;
        self.n = n;
    }
}

/// Scores of one target, or averages over targets.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Regression {
    /// Mean squared error.
    pub mse: Option<f64>,
    /// Root of the mean squared error.
    pub rmse: Option<f64>,
    /// Mean absolute error.
    pub mae: Option<f64>,
    /// Median of the absolute errors: exact up to 65,536 rows, within 0.1 % beyond.
    pub median_error: Option<f64>,
    /// Mean absolute error as a share of the truth, mean |e/y|; null where any y is 0.
    pub mape: Option<f64>,
    /// Share of variance explained, 1 − Σe²/Σ(y − ȳ)²; null for a constant target.
    pub r2: Option<f64>,
    /// Root mean squared relative error, √mean((e/y)²); null where any y is 0.
    pub relative_error: Option<f64>,
}

/// The JSON of a regression: rows and averages; with several targets also each of them.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct RegressionReport {
    /// Number of rows scored.
    pub rows: u64,
    /// `mse`, `mae`, `median_error`, `mape`, `r2` averaged over targets; `rmse` and `relative_error` from averaged squares.
    #[serde(flatten)]
    pub scores: Regression,
    /// The scores of each target, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Regression>,
}

/// Running scores of predictions of t targets. *Bytes*: [`RegressionScore::bytes`].
#[derive(Clone, Debug, PartialEq)]
pub struct RegressionScore {
    rows: u64,
    targets: Vec<TargetSums>,
}

impl RegressionScore {
    /// A score of t targets, without rows yet.
    pub fn new(t: usize) -> Self {
        Self { rows: 0, targets: vec![TargetSums::default(); t] }
    }

    /// Most bytes of memory of the scores of t targets on so many rows: the errors whose median is taken.
    pub fn bytes(t: usize, rows: usize) -> usize {
        t.saturating_mul(Median::bytes(rows))
    }

    /// Adds a row: t predictions and t true values.
    pub fn push(&mut self, prediction: &[f64], truth: &[f64]) {
        debug_assert_eq!((prediction.len(), truth.len()), (self.targets.len(), self.targets.len()));
        self.rows += 1;
        for ((sums, prediction), truth) in self.targets.iter_mut().zip(prediction).zip(truth) {
            sums.push(*prediction, *truth);
        }
    }

    /// The scores of all rows so far.
    pub fn report(&self) -> RegressionReport {
        let each: Vec<Regression> = self.targets.iter().map(TargetSums::report).collect();
        let mean = |score: &dyn Fn(&Regression) -> Option<f64>| {
            let values: Option<Vec<f64>> = each.iter().map(score).collect();
            values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
        };
        let mse = mean(&|r| r.mse);
        let scores = match each.as_slice() {
            [only] => only.clone(),
            _ => Regression {
                mse,
                rmse: mse.map(f64::sqrt),
                mae: mean(&|r| r.mae),
                median_error: mean(&|r| r.median_error),
                mape: mean(&|r| r.mape),
                r2: mean(&|r| r.r2),
                relative_error: mean(&|r| r.relative_error.map(|e| e * e)).map(f64::sqrt),
            },
        };
        RegressionReport { rows: self.rows, scores, targets: if each.len() > 1 { each } else { Vec::new() } }
    }
}

impl Merge for RegressionScore {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.targets.iter_mut().zip(&later.targets).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

/// The confusion matrix: counts of rows by true and predicted class. Rows whose true label the model does not know are
/// counted apart.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Confusion {
    /// The classes, in the order of rows and columns.
    pub labels: Vec<Label>,
    /// Numbers of rows, as `counts[true][predicted]`.
    pub counts: Vec<Vec<u64>>,
    /// Predictions for rows whose true label is not among the classes; all of them are wrong.
    pub unknown: Vec<u64>,
}

/// The JSON of a classification.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ClassificationReport {
    /// Number of rows scored.
    pub rows: u64,
    /// Share of right predictions; null without rows.
    pub accuracy: Option<f64>,
    /// Share of wrong predictions; null without rows.
    pub error: Option<f64>,
    /// The confusion matrix.
    pub confusion: Confusion,
    /// Scores that rare classes do not vanish in.
    #[serde(flatten)]
    pub agreement: Agreement,
    /// Area under the ROC curve, for two classes; null where one of them has no row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<Option<f64>>,
    /// Largest possible error of `auc`, where it comes from a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc_within: Option<f64>,
    /// Average precision of the second of two classes, [`AucState::average_precision`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
}

/// Running scores of a classification. *Bytes*: 8·k² and, for two classes, [`AucState::bytes`].
#[derive(Clone, Debug)]
pub struct ClassificationScore {
    labels: Vec<Label>,
    counts: Vec<u64>,
    unknown: Vec<u64>,
    auc: Option<AucState>,
}

impl ClassificationScore {
    /// A score without rows yet. With two classes the area under the ROC curve is exact up to `exact_rows` rows
    /// ([`crate::auc::EXACT_ROWS`] is a good number) and within a stated error beyond.
    ///
    /// # Errors
    /// [`Error::TooFewClasses`] for fewer than two.
    pub fn new(labels: &[Label], exact_rows: usize) -> Result<Self> {
        let k = labels.len();
        if k < 2 {
            return Err(Error::TooFewClasses { classes: k });
        }
        Ok(Self {
            labels: labels.to_vec(),
            counts: vec![0; k * k],
            unknown: vec![0; k],
            auc: (k == 2).then(|| AucState::new(exact_rows)),
        })
    }

    /// Adds a row: the predicted class, its true class (`None` for a label the model does not know), and the score in
    /// favour of the second class, which is read for two classes only.
    pub fn push(&mut self, predicted: usize, truth: Option<usize>, score: f64) {
        let k = self.labels.len();
        let Some(truth) = truth.filter(|truth| *truth < k) else {
            self.unknown[predicted] += 1;
            return;
        };
        self.counts[truth * k + predicted] += 1;
        if let Some(auc) = &mut self.auc {
            auc.push(score, truth == 1);
        }
    }

    /// False and true positive rates as the threshold falls, at most about `most` points; `None` for more than two
    /// classes, and where one has no row.
    pub fn roc(&self, most: usize) -> Option<Vec<(f64, f64)>> {
        self.auc.as_ref().and_then(|auc| auc.curve(most))
    }

    /// Recall and precision of the second of two classes as the threshold falls, as [`ClassificationScore::roc`].
    pub fn precision_curve(&self, most: usize) -> Option<Vec<(f64, f64)>> {
        self.auc.as_ref().and_then(|auc| auc.precision_curve(most))
    }

    /// The scores of all rows so far.
    pub fn report(&self) -> ClassificationReport {
        let k = self.labels.len();
        let rows: u64 = self.counts.iter().chain(&self.unknown).sum();
        let right: u64 = (0..k).map(|c| self.counts[c * k + c]).sum();
        let share = |count: u64| (rows > 0).then(|| count as f64 / rows as f64);
        let auc = self.auc.as_ref().map(AucState::auc);
        let counts: Vec<Vec<u64>> = self.counts.chunks_exact(k).map(<[u64]>::to_vec).collect();
        ClassificationReport {
            agreement: agreement(&counts, &self.unknown),
            average_precision: self.auc.as_ref().and_then(AucState::average_precision),
            rows,
            accuracy: share(right),
            error: share(rows - right),
            confusion: Confusion { labels: self.labels.clone(), counts, unknown: self.unknown.clone() },
            auc: auc.as_ref().map(|auc| auc.as_ref().map(|auc| auc.value)),
            auc_within: auc.flatten().map(|Auc { within, .. }| within).filter(|within| *within > 0.0),
        }
    }
}

impl Merge for ClassificationScore {
    fn merge(&mut self, later: &Self) {
        self.counts.iter_mut().zip(&later.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.unknown.iter_mut().zip(&later.unknown).for_each(|(mine, theirs)| *mine += theirs);
        if let (Some(mine), Some(theirs)) = (&mut self.auc, &later.auc) {
            mine.merge(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(rows: &[(f64, f64)]) -> RegressionScore {
        let mut score = RegressionScore::new(1);
        rows.iter().for_each(|(prediction, truth)| score.push(&[*prediction], &[*truth]));
        score
    }

    #[test]
    fn regression_by_hand() {
        // errors 1, −1, 2 on truths 2, 4, 4: Σe² = 6, Σ|e| = 4, scatter 8/3, Σ(e/y)² = 1/4 + 1/16 + 1/4
        let got = score(&[(1.0, 2.0), (5.0, 4.0), (2.0, 4.0)]).report();
        assert_eq!((got.rows, got.scores.mse, got.scores.rmse), (3, Some(2.0), Some(2f64.sqrt())));
        assert_eq!(got.scores.mae, Some(4.0 / 3.0));
        assert!((got.scores.r2.unwrap() - (1.0 - 6.0 / (8.0 / 3.0))).abs() < 1e-14);
        assert!((got.scores.relative_error.unwrap() - (0.5625f64 / 3.0).sqrt()).abs() < 1e-14);
        let json = serde_json::to_value(&got).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["mae", "mape", "median_error", "mse", "r2", "relative_error", "rmse", "rows"]);
        // |e/y| is 1/2, 1/4 and 1/2; |e| is 1, 1 and 2
        assert!((got.scores.mape.unwrap() - 1.25 / 3.0).abs() < 1e-14 && got.scores.median_error == Some(1.0));
    }

    #[test]
    fn constant_targets_have_no_r2_and_zeros_no_relative_error() {
        let constant = score(&[(1.0, 0.1), (2.0, 0.1), (2.0, 0.1)]).report().scores;
        assert_eq!((constant.r2, constant.relative_error.is_some()), (None, true));
        let zero = score(&[(1.0, 0.0), (2.0, 3.0)]).report().scores;
        assert_eq!((zero.r2.is_some(), zero.relative_error, zero.mape), (true, None, None));
        let none = score(&[]).report().scores;
        assert_eq!((none.mse, none.r2, none.relative_error), (None, None, None));
        let mut two_constants = score(&[(0.0, 1.0)]);
        two_constants.merge(&score(&[(0.0, 2.0)]));
        assert!(two_constants.report().scores.r2.is_some());
    }

    #[test]
    fn merged_scores_are_those_of_all_rows_also_far_from_zero() {
        let rows: Vec<(f64, f64)> = (0..1000).map(|i| (1e8 + f64::from(i % 7), 1e8 + f64::from(i % 5))).collect();
        let whole = score(&rows).report().scores;
        for cut in [0, 1, 500, 1000] {
            let mut merged = score(&rows[..cut]);
            merged.merge(&score(&rows[cut..]));
            let merged = merged.report().scores;
            assert!((whole.r2.unwrap() - merged.r2.unwrap()).abs() < 1e-6, "cut {cut}");
            assert!((whole.mse.unwrap() - merged.mse.unwrap()).abs() < 1e-12, "cut {cut}");
        }
        assert!((whole.r2.unwrap() - (1.0 - whole.mse.unwrap() / 2.0)).abs() < 1e-6, "i mod 5 has variance 2");
    }

    #[test]
    fn several_targets_are_averaged_and_listed() {
        let mut score = RegressionScore::new(2);
        score.push(&[0.0, 1.0], &[1.0, 1.0]);
        score.push(&[0.0, 2.0], &[3.0, 5.0]);
        let got = score.report();
        assert_eq!((got.targets.len(), got.targets[0].mse, got.targets[1].mse), (2, Some(5.0), Some(4.5)));
        assert_eq!(got.scores.mse, Some(4.75));
    }

    #[test]
    fn classification_by_hand() {
        let labels = [Label::Text("a".into()), Label::Text("b".into()), Label::Text("c".into())];
        let mut score = ClassificationScore::new(&labels, 10).unwrap();
        for (predicted, truth) in [(0, Some(0)), (1, Some(0)), (2, Some(2)), (1, None), (0, Some(7))] {
            score.push(predicted, truth, 0.0);
        }
        let mut twice = score.clone();
        twice.merge(&score);
        let got = twice.report();
        assert_eq!((got.rows, got.accuracy, got.error), (10, Some(0.4), Some(0.6)));
        assert_eq!(got.confusion.counts, [[2, 2, 0], [0, 0, 0], [0, 0, 2]]);
        assert_eq!(got.confusion.unknown, [2, 2, 0]);
        assert!(serde_json::to_value(&got).unwrap().get("auc").is_none(), "three classes have no AUC");
    }

    #[test]
    fn two_classes_have_an_auc() {
        let labels = [Label::Int(0), Label::Int(1)];
        let mut score = ClassificationScore::new(&labels, 10).unwrap();
        for (value, truth) in [(0.9, 1), (0.4, 0), (0.4, 1), (-0.2, 0)] {
            score.push(usize::from(value > 0.0), Some(truth), value);
        }
        // pairs: .9 beats both, .4 ties once and wins once: 3.5 of 4
        let json = serde_json::to_value(score.report()).unwrap();
        assert_eq!((json["auc"].as_f64(), json["accuracy"].as_f64()), (Some(0.875), Some(0.75)));
        let one_sided = ClassificationScore::new(&labels, 10).unwrap();
        assert!(serde_json::to_value(one_sided.report()).unwrap()["auc"].is_null());
    }
}
