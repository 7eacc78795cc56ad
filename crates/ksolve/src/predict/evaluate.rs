//! The scores of a model on a table that has the truth.

use super::{Extras, Predictor};
use crate::agreement::Agreement;
use crate::auc::{AucState, EXACT_ROWS};
use crate::job::Run;
use crate::score::Regression;
use crate::{Classes, ClassificationScore, Error, RegressionScore, Result, Task};
use kstore::budget::Term;
use kstore::key::{Purpose, Stream};
use kstore::{Coded, Label, Selected};
use std::collections::{BinaryHeap, HashMap};

/// The scores of a model on rows with the truth.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Evaluation {
    /// The scores of a model that predicts numbers.
    Regression(RegressionScores),
    /// The scores of a model that predicts labels.
    Classification(ClassificationScores),
}

/// Scores of a model of novelty on rows of which it is known whether they are unusual.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct NoveltyScores {
    /// Number of rows scored.
    pub rows: u64,
    /// Number of rows that are unusual by the column.
    pub unusual: u64,
    /// Number of rows with a negative score.
    pub negative: u64,
    /// Share of the rows with a negative score that are unusual.
    pub precision: Option<f64>,
    /// Share of the unusual rows that have a negative score.
    pub recall: Option<f64>,
    /// The probability that an unusual row has a lower score than another; null where either kind has no row.
    pub auc: Option<f64>,
    /// Average precision of the rows by falling strangeness, [`AucState::average_precision`].
    pub average_precision: Option<f64>,
    /// Number of rows that `precision_at` looks at: as many as are unusual, or as was asked for.
    pub top: u64,
    /// Share of the `top` rows of the lowest scores that are unusual.
    pub precision_at: Option<f64>,
}

/// Scores of a regression; over several targets their averages.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RegressionScores {
    /// Number of rows scored.
    pub rows: u64,
    /// `mse`, `rmse`, `mae`, `r2` (null for a constant target), `relative_error` (null where any y is 0).
    #[serde(flatten)]
    pub scores: Regression,
    /// The scores of each target, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_target: Vec<TargetScores>,
    /// Share of the true values within 1.96 standard deviations of the prediction, 0.95 if they are right; for models that have
    /// standard deviations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
}

/// Scores of one of several targets.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TargetScores {
    /// The name of the target column.
    pub target: String,
    /// The scores of the target.
    #[serde(flatten)]
    pub scores: Regression,
}

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
    /// Balanced accuracy, F1 and the coefficient of Matthews.
    #[serde(flatten)]
    pub agreement: Agreement,
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

/// The points of the charts on the page.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Prediction and truth of the first target, for a sample of the rows.
    pub points: Vec<(f64, f64)>,
    /// False and true positive rate at falling thresholds, for two classes.
    pub roc: Option<Vec<(f64, f64)>>,
    /// Recall and precision at falling thresholds, for two classes and for novelty.
    pub precision: Option<Vec<(f64, f64)>>,
    /// For models with probabilities: predicted probability against the share of rows that were so, in the order of the probability.
    /// Of two classes the probability of the second, of more classes that of the predicted one.
    pub calibration: Option<Vec<CalibrationBin>>,
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

/// Sums of probabilities and counts of rows in equal parts of 0 to 1; `predicted` and `observed` are sums until [`Self::bins`].
struct Calibration([CalibrationBin; BINS]);

impl Calibration {
    /// Adds a row by the probabilities of its classes.
    fn push(&mut self, likely: &[f64], class: usize) {
        let largest = || (0..likely.len()).fold(0, |best, k| if likely[k] > likely[best] { k } else { best });
        let named = if likely.len() == 2 { 1 } else { largest() };
        let Some(probability) = likely.get(named) else { return };
        let bin = &mut self.0[((probability * BINS as f64) as usize).min(BINS - 1)];
        bin.predicted += probability;
        bin.observed += f64::from(u8::from(class == named));
        bin.rows += 1;
    }

    /// The bins that have rows.
    fn bins(&self) -> Vec<CalibrationBin> {
        let mean = |bin: &CalibrationBin| {
            let rows = bin.rows as f64;
            CalibrationBin { predicted: bin.predicted / rows, observed: bin.observed / rows, rows: bin.rows }
        };
        self.0.iter().filter(|bin| bin.rows > 0).map(mean).collect()
    }
}

/// Most points of a residual plot: more would hide each other.
const POINTS: usize = 2_000;

/// Standard deviations within which 95 % of a normal distribution lie.
const NEAR: f64 = 1.959_964;

/// Number of points of a ROC curve that are shown, about.
const ROC_POINTS: usize = 60;

/// A uniform sample of the rows that go by: those with the smallest keys.
#[derive(Debug)]
struct Sample {
    keys: Stream,
    rows: u64,
    /// Key and values, the largest key on top.
    kept: BinaryHeap<(u64, u64)>,
    points: HashMap<u64, (f64, f64)>,
}

impl Sample {
    fn new() -> Self {
        let keys = Stream::new(0, Purpose::Quality, 0);
        Self { keys, rows: 0, kept: BinaryHeap::new(), points: HashMap::new() }
    }

    fn push(&mut self, prediction: f64, truth: f64) {
        let (row, key) = (self.rows, self.keys.word(self.rows));
        self.rows += 1;
        if self.kept.len() >= POINTS && self.kept.peek().is_some_and(|(most, _)| *most <= key) {
            return;
        }
        self.kept.push((key, row));
        self.points.insert(row, (prediction, truth));
        if self.kept.len() > POINTS
            && let Some((_, dropped)) = self.kept.pop()
        {
            self.points.remove(&dropped);
        }
    }

    /// The sampled pairs of prediction and truth, in the order of the rows.
    fn points(self) -> Vec<(f64, f64)> {
        let mut points: Vec<(u64, (f64, f64))> = self.points.into_iter().collect();
        points.sort_by_key(|(row, _)| *row);
        points.into_iter().map(|(_, point)| point).collect()
    }
}

impl Predictor {
    /// Scores the model on selected rows that have its targets, or its column of labels.
    ///
    /// *Cost*: one pass, a row's prediction each. *Bytes*: those of [`Predictor::scores`], and for two classes the scores that are
    /// ranked for the area under the ROC curve.
    ///
    /// # Errors
    /// A model that learned without a target; targets that are too few or too many; errors of [`Predictor::scores`]; scores that
    /// overflow.
    pub fn evaluate(&self, selected: &Selected, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let card = self.card();
        if !card.task.has_target() {
            let why = format!("of {} has no truth to be compared with; predict with it", card.task);
            return Err(Error::option("model", "", why));
        }
        match self.decisions() {
            None => self.regression(selected, run),
            Some(classes) => self.classification(selected, &classes, run),
        }
    }

    /// Scores a model of novelty on rows with a column that is 0 for usual rows; the precision is that of the `top` rows of the lowest
    /// scores, or of as many as are unusual.
    ///
    /// *Cost*: one pass. *Bytes*: those of [`Predictor::scores`], and the scores that are ranked.
    ///
    /// # Errors
    /// A model of another task, several columns, errors of [`Predictor::scores`].
    pub fn novelty(&self, selected: &Selected, top: Option<u64>, run: &Run<'_>) -> Result<(NoveltyScores, Details)> {
        let names = selected.target_names();
        if self.card().task != Task::Novelty || names.len() != 1 {
            let why =
                "a model of oneclass or mean is compared with one column, 0 for usual rows and 1 for unusual ones";
            return Err(Error::option("target", names.join(","), why));
        }
        let (mut ranks, mut scores) = (AucState::new(EXACT_ROWS), NoveltyScores::default());
        let mut right = 0u64;
        self.scores(selected, Extras::default(), vec![ranked(selected, 2)], run, |block| {
            for (score, truth) in block.scores.iter().zip(&block.y) {
                let (unusual, negative) = (*truth != 0.0, *score < 0.0);
                ranks.push(-score, unusual);
                scores.rows += 1;
                scores.unusual += u64::from(unusual);
                scores.negative += u64::from(negative);
                right += u64::from(unusual && negative);
            }
            Ok(())
        })?;
        let share = |of: u64| (of > 0).then(|| right as f64 / of as f64);
        (scores.precision, scores.recall) = (share(scores.negative), share(scores.unusual));
        (scores.auc, scores.average_precision) = (ranks.auc().map(|auc| auc.value), ranks.average_precision());
        scores.top = top.unwrap_or(scores.unusual);
        scores.precision_at = ranks.precision_at(scores.top);
        let (roc, precision) = (ranks.curve(ROC_POINTS), ranks.precision_curve(ROC_POINTS));
        Ok((scores, Details { roc, precision, ..Details::default() }))
    }

    fn regression(&self, selected: &Selected, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let (t, names) = (self.outputs(), selected.target_names());
        if names.len() != t {
            let why = format!("the model predicts {t} targets; name as many, in the order of the fit");
            return Err(Error::option("target", names.join(","), why));
        }
        let (mut score, mut sample) = (RegressionScore::new(t), Sample::new());
        let extras = Extras { std: self.quadratic().is_some(), ..Extras::default() };
        let rows = selected.known_rows().map_or(usize::MAX, |rows| rows as usize);
        let held = Term::new("errors to be ranked", RegressionScore::bytes(t, rows), "");
        let mut within = 0u64;
        self.scores(selected, extras, vec![held], run, |scores| {
            let near = |((deviation, prediction), truth): (_, &f64)| f64::abs(truth - prediction) <= NEAR * deviation;
            let deviations = self.deviations(scores);
            within += deviations.iter().zip(&scores.scores).zip(&scores.y).filter(|row| near(*row)).count() as u64;
            let rows = scores.scores.chunks_exact(t).zip(scores.y.chunks_exact(t));
            for (prediction, truth) in rows {
                score.push(prediction, truth);
                sample.push(prediction[0], truth[0]);
            }
            Ok(())
        })?;
        let report = score.report();
        let all = std::iter::once(&report.scores).chain(&report.targets);
        all.into_iter().try_for_each(|scores| finite(scores, report.rows))?;
        let by_target = names.into_iter().zip(report.targets).map(|(target, scores)| TargetScores { target, scores });
        let by_target = by_target.collect();
        let numbers = report.rows * t as u64;
        let coverage = (extras.std && numbers > 0).then(|| within as f64 / numbers as f64);
        let scores = RegressionScores { rows: report.rows, scores: report.scores, by_target, coverage };
        Ok((Evaluation::Regression(scores), Details { points: sample.points(), ..Details::default() }))
    }

    fn classification(&self, selected: &Selected, classes: &Classes, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let mut score = ClassificationScore::new(classes.labels(), EXACT_ROWS)?;
        let (link, mut loss, mut known) = (self.card().link.clone(), 0.0, 0u64);
        let (mut brier, mut likely, mut calibration) = (0.0, Vec::new(), Calibration(Default::default()));
        self.scores(selected, Extras::default(), vec![ranked(selected, classes.labels().len())], run, |scores| {
            for (row, code) in scores.scores.chunks_exact(classes.targets()).zip(&scores.classes) {
                let truth = (*code != Coded::UNKNOWN).then_some(*code as usize);
                score.push(classes.decide(row.iter().copied()), truth, row[0]);
                if let (Some(link), Some(class)) = (&link, truth) {
                    loss += link.log_loss(row, class);
                    link.probabilities(row, &mut likely);
                    calibration.push(&likely, class);
                    let away = |(k, p): (usize, &f64)| (p - f64::from(u8::from(k == class))).powi(2);
                    // of two classes each is as far away as the other: the second counts
                    brier += likely.iter().enumerate().skip(usize::from(likely.len() == 2)).map(away).sum::<f64>();
                    known += 1;
                }
            }
            Ok(())
        })?;
        let (roc, precision) = (score.roc(ROC_POINTS), score.precision_curve(ROC_POINTS));
        let calibration = (known > 0).then(|| calibration.bins());
        let details = Details { points: Vec::new(), roc, precision, calibration };
        let report = score.report();
        let scores = ClassificationScores {
            rows: report.rows,
            accuracy: report.accuracy,
            error: report.error,
            classes: report.confusion.labels,
            confusion: report.confusion.counts,
            agreement: report.agreement,
            auc: report.auc,
            auc_within: report.auc_within,
            average_precision: report.average_precision,
            brier: (known > 0).then(|| brier / known as f64),
            log_loss: (known > 0).then(|| loss / known as f64),
            unknown: report.confusion.unknown.iter().sum(),
        };
        Ok((Evaluation::Classification(scores), details))
    }
}

/// The term of the plan for scores that are kept to be ranked: for two classes, as far as the area under the ROC curve
/// is exact.
fn ranked(selected: &Selected, classes: usize) -> Term {
    let rows = selected.known_rows().map_or(EXACT_ROWS, |rows| EXACT_ROWS.min(rows as usize));
    let bytes = if classes == 2 { AucState::bytes(rows) } else { 0 };
    Term::new("scores to be ranked", bytes, "")
}

/// Refuses scores that overflow.
fn finite(scores: &Regression, rows: u64) -> Result<()> {
    let Regression { mse, rmse, mae, median_error, mape, r2, relative_error } = *scores;
    let named = [
        ("mse", mse),
        ("rmse", rmse),
        ("mae", mae),
        ("median error", median_error),
        ("mape", mape),
        ("r2", r2),
        ("relative error", relative_error),
    ];
    match named.into_iter().find_map(|(what, value)| Some((what, value.filter(|value| !value.is_finite())?))) {
        Some((what, value)) => Err(Error::ScoreOverflow { what, rows, value }),
        None => Ok(()),
    }
}
