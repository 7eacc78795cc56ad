//! Scores of a classification: the confusion matrix, the ranking of two classes, and probabilities.

use super::auc::{EXACT_ROWS, RankedScores, Ranking};
use crate::{Classes, Link};
use kstore::Label;

/// Scores of a classification.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ClassificationScores {
    /// Number of rows scored.
    pub rows: u64,
    /// Share of rows whose class was predicted rightly.
    pub accuracy: Option<f64>,
    /// Share of rows whose class was predicted wrongly.
    pub error: Option<f64>,
    /// Labels, in the order of the confusion matrix.
    pub classes: Vec<Label>,
    /// The confusion matrix: numbers of rows by true class (row) and predicted class (column).
    pub confusion: Vec<Vec<u64>>,
    /// Mean over the classes that have rows of the share that is recognised.
    pub balanced_accuracy: Option<f64>,
    /// 2 tp / (2 tp + fp + fn): of the second of two classes; of more the mean over all that were seen or predicted.
    pub f1: Option<f64>,
    /// The correlation of truth and prediction: 1 for equal, 0 for independent ones. Matthews, 1975; for more than two classes the
    /// coefficient R_K of Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004.
    pub matthews: Option<f64>,
    /// Area under the ROC curve, for two classes; null where one of them has no row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<Option<f64>>,
    /// Largest possible error of `auc`, where it comes from a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc_within: Option<f64>,
    /// Average precision of the second of two classes: the area under the precision-recall curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// The score of Brier: the mean square of what the probability of the second of two classes is away from 1 or 0; of more classes
    /// the sum of the squares of all. For models that have probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brier: Option<f64>,
    /// Mean of −ln of the probability of the true class, over the rows of known classes; for models that have probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// Number of rows whose label the model has never seen: they count as wrong, and are in no row of the matrix.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The rows of nearly one predicted probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrationBin {
    /// Mean of the predicted probabilities.
    pub predicted: f64,
    /// Share of the rows that had the class.
    pub observed: f64,
    /// Number of rows.
    pub rows: u64,
}

/// Equal parts of 0 to 1 in which probabilities are compared with shares.
const BINS: usize = 20;

/// Sums over the rows of known classes of a model that has probabilities.
#[derive(Clone, Debug)]
struct ProbabilitySums {
    link: Link,
    rows: u64,
    loss: f64,
    brier: f64,
    /// Sums of probabilities and counts of rows in equal parts of 0 to 1.
    bins: [CalibrationBin; BINS],
    likely: Vec<f64>,
}

impl ProbabilitySums {
    fn push(&mut self, scores: &[f64], class: usize) {
        self.rows += 1;
        self.loss += self.link.log_loss(scores, class);
        let likely = &mut self.likely;
        self.link.probabilities(scores, likely);
        let away = |(k, p): (usize, &f64)| (p - f64::from(u8::from(k == class))).powi(2);
        // of two classes each is as far away as the other: the second counts
        self.brier += likely.iter().enumerate().skip(usize::from(likely.len() == 2)).map(away).sum::<f64>();
        let largest = || (0..likely.len()).fold(0, |best, k| if likely[k] > likely[best] { k } else { best });
        let named = if likely.len() == 2 { 1 } else { largest() };
        let Some(probability) = likely.get(named) else { return };
        let bin = &mut self.bins[((probability * BINS as f64) as usize).min(BINS - 1)];
        bin.predicted += probability;
        bin.observed += f64::from(u8::from(class == named));
        bin.rows += 1;
    }
}

/// Sums over rows with classes. *Bytes*: 8·k² and, for two classes, [`RankedScores::bytes`].
#[derive(Clone, Debug)]
pub(crate) struct ClassificationSums<'a> {
    classes: &'a Classes,
    /// Numbers of rows, as `counts[true][predicted]`.
    counts: Vec<Vec<u64>>,
    /// Predictions for rows of no known class.
    unknown: Vec<u64>,
    ranks: Option<RankedScores>,
    probabilities: Option<ProbabilitySums>,
}

impl<'a> ClassificationSums<'a> {
    pub(crate) fn new(classes: &'a Classes, link: Option<Link>) -> Self {
        let k = classes.labels().len();
        let of = |link| ProbabilitySums {
            link,
            rows: 0,
            loss: 0.0,
            brier: 0.0,
            bins: Default::default(),
            likely: Vec::new(),
        };
        Self {
            classes,
            counts: vec![vec![0; k]; k],
            unknown: vec![0; k],
            ranks: (k == 2).then(|| RankedScores::new(EXACT_ROWS)),
            probabilities: link.map(of),
        }
    }

    /// Adds a row by its scores and the code of its class, which the model may not know.
    pub(crate) fn push(&mut self, scores: &[f64], code: u32) {
        let (predicted, truth) = (self.classes.decide(scores.iter().copied()), code as usize);
        let Some(counts) = self.counts.get_mut(truth) else {
            self.unknown[predicted] += 1;
            return;
        };
        counts[predicted] += 1;
        self.ranks.iter_mut().for_each(|ranks| ranks.push(scores[0], truth == 1));
        self.probabilities.iter_mut().for_each(|sums| sums.push(scores, truth));
    }

    /// The rows by falling scores, of two classes.
    pub(crate) fn ranking(&self) -> Option<Ranking> {
        self.ranks.as_ref().map(RankedScores::ranking)
    }

    /// Predicted probabilities against the shares of rows that were so; `None` without probabilities.
    pub(crate) fn calibration(&self) -> Option<Vec<CalibrationBin>> {
        let mean = |bin: &CalibrationBin| {
            let rows = bin.rows as f64;
            CalibrationBin { predicted: bin.predicted / rows, observed: bin.observed / rows, rows: bin.rows }
        };
        let sums = self.probabilities.as_ref().filter(|sums| sums.rows > 0)?;
        Some(sums.bins.iter().filter(|bin| bin.rows > 0).map(mean).collect())
    }

    /// The scores of all rows so far; `ranking` is that of these rows.
    pub(crate) fn scores(self, ranking: Option<&Ranking>) -> ClassificationScores {
        let rows: u64 = self.counts.iter().flatten().chain(&self.unknown).sum();
        let right: u64 = self.counts.iter().enumerate().map(|(class, row)| row[class]).sum();
        let share = |count: u64| (rows > 0).then(|| count as f64 / rows as f64);
        let likely = self.probabilities.filter(|sums| sums.rows > 0);
        let mean = |sum: fn(&ProbabilitySums) -> f64| likely.as_ref().map(|sums| sum(sums) / sums.rows as f64);
        let auc = ranking.map(Ranking::auc);
        let [balanced_accuracy, f1, matthews] = agreement(&self.counts, &self.unknown);
        ClassificationScores {
            rows,
            accuracy: share(right),
            error: share(rows - right),
            classes: self.classes.labels().to_vec(),
            confusion: self.counts,
            balanced_accuracy,
            f1,
            matthews,
            auc: auc.map(|auc| auc.map(|auc| auc.value)),
            auc_within: auc.flatten().map(|auc| auc.within).filter(|within| *within > 0.0),
            average_precision: ranking.and_then(Ranking::average_precision),
            brier: mean(|sums| sums.brier),
            log_loss: mean(|sums| sums.loss),
            unknown: self.unknown.iter().sum(),
        }
    }
}

/// Balanced accuracy, F1 and the coefficient of Matthews of a confusion matrix, `counts[true][predicted]`, and of predictions for rows
/// of no known class, which are false positives of F1 and count nowhere else; `None` where a score is not defined.
fn agreement(counts: &[Vec<u64>], unknown: &[u64]) -> [Option<f64>; 3] {
    let k = counts.len();
    let truth: Vec<f64> = counts.iter().map(|row| row.iter().sum::<u64>() as f64).collect();
    let predicted: Vec<f64> = (0..k).map(|j| counts.iter().map(|row| row[j]).sum::<u64>() as f64).collect();
    let right = |class: usize| counts[class][class] as f64;
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let recalls = (0..k).filter(|class| truth[*class] > 0.0).map(|class| right(class) / truth[class]).collect();
    let f1 = |class: usize| {
        let either = truth[class] + predicted[class] + unknown.get(class).map_or(0.0, |n| *n as f64);
        (either > 0.0).then(|| 2.0 * right(class) / either)
    };
    let n: f64 = truth.iter().sum();
    let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let spread = (n * n - inner(&truth, &truth)) * (n * n - inner(&predicted, &predicted));
    let agreed = (0..k).map(right).sum::<f64>() * n - inner(&truth, &predicted);
    let f1 = if k == 2 { f1(1) } else { mean((0..k).filter_map(f1).collect()) };
    [mean(recalls), f1, (spread > 0.0).then(|| agreed / spread.sqrt())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: Option<f64>, expected: f64) -> bool {
        got.is_some_and(|got| (got - expected).abs() < 1e-12)
    }

    #[test]
    fn two_classes_by_the_textbook() {
        let (tp, tn, fp, fne) = (30.0, 900.0, 20.0, 50.0);
        let [accuracy, f1, matthews] = agreement(&[vec![900, 20], vec![50, 30]], &[0, 0]);
        assert!(near(accuracy, (tp / 80.0 + tn / 920.0) / 2.0));
        assert!(near(f1, 2.0 * tp / (2.0 * tp + fp + fne)));
        let root: f64 = (50.0f64 * 80.0 * 920.0 * 950.0).sqrt();
        assert!(near(matthews, (tp * tn - fp * fne) / root));
        // a false positive more for every row of no known class that was taken for the second
        let [_, stranger, same] = agreement(&[vec![900, 20], vec![50, 30]], &[3, 10]);
        assert!(near(stranger, 60.0 / 140.0) && same == matthews);
    }

    #[test]
    fn three_classes_by_their_definitions() {
        let [accuracy, f1, matthews] = agreement(&[vec![5, 1, 0], vec![2, 3, 1], vec![0, 2, 8]], &[0, 0, 0]);
        assert!(near(accuracy, (5.0 / 6.0 + 0.5 + 0.8) / 3.0));
        assert!(near(f1, (10.0 / 13.0 + 6.0 / 12.0 + 16.0 / 19.0) / 3.0));
        // the correlation of the indicators, from its definition: sums of covariances over the classes
        let counts = [[5.0, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 2.0, 8.0f64]];
        let (t, p) = ([6.0, 6.0, 10.0], [7.0, 6.0, 9.0f64]);
        let covariance = |joint: f64, a: f64, b: f64| joint / 22.0 - a / 22.0 * (b / 22.0);
        let sum = |of: &dyn Fn(usize) -> f64| (0..3).map(of).sum::<f64>();
        let both = sum(&|c| covariance(counts[c][c], t[c], p[c]));
        let own = sum(&|c| covariance(t[c], t[c], t[c])) * sum(&|c| covariance(p[c], p[c], p[c]));
        assert!(near(matthews, both / own.sqrt()));
    }

    #[test]
    fn what_is_not_defined_is_none() {
        assert_eq!(agreement(&[vec![7, 0], vec![0, 0]], &[0, 0]), [Some(1.0), None, None]);
        assert_eq!(agreement(&[vec![0, 0], vec![0, 0]], &[0, 0]), [None; 3]);
    }

    fn scores(k: i64, rows: &[(&[f64], u32)]) -> ClassificationScores {
        let classes = Classes::new((0..k).map(Label::Int).collect()).unwrap();
        let mut sums = ClassificationSums::new(&classes, None);
        rows.iter().for_each(|(scores, code)| sums.push(scores, *code));
        let ranking = sums.ranking();
        sums.scores(ranking.as_ref())
    }

    #[test]
    fn classification_by_hand() {
        let (a, b, c): (&[f64], &[f64], &[f64]) = (&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0]);
        let got = scores(3, &[(a, 0), (b, 0), (c, 2), (b, kstore::Coded::UNKNOWN), (a, 7)]);
        assert_eq!((got.rows, got.accuracy, got.error), (5, Some(0.4), Some(0.6)));
        assert_eq!((&got.confusion[..], got.unknown), (&[vec![1, 1, 0], vec![0, 0, 0], vec![0, 0, 1]][..], 2));
        assert!(serde_json::to_value(&got).unwrap().get("auc").is_none(), "three classes have no AUC");
    }

    #[test]
    fn two_classes_have_an_auc() {
        // pairs: .9 beats both, .4 ties once and wins once: 3.5 of 4
        let json = serde_json::to_value(scores(2, &[(&[0.9], 1), (&[0.4], 0), (&[0.4], 1), (&[-0.2], 0)])).unwrap();
        assert_eq!((json["auc"].as_f64(), json["accuracy"].as_f64()), (Some(0.875), Some(0.75)));
        assert!(serde_json::to_value(scores(2, &[])).unwrap()["auc"].is_null());
    }
}
