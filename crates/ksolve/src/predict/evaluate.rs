//! The scores of a model on a table that has the truth.

use super::{Extras, Predictor};
use crate::auc::{AucState, EXACT_ROWS};
use crate::job::Run;
use crate::score::Regression;
use crate::{Classes, ClassificationScore, Error, RegressionScore, Result};
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
    /// Area under the ROC curve, for two classes; null where one of them has no row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<Option<f64>>,
    /// Largest possible error of `auc`, where it comes from a histogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc_within: Option<f64>,
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
}

/// Most points of a residual plot: more would hide each other.
const POINTS: usize = 2_000;

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
        match self.classes() {
            None => self.regression(selected, run),
            Some(classes) => self.classification(selected, classes, run),
        }
    }

    fn regression(&self, selected: &Selected, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let (t, names) = (self.outputs(), selected.target_names());
        if names.len() != t {
            let why = format!("the model predicts {t} targets; name as many, in the order of the fit");
            return Err(Error::option("target", names.join(","), why));
        }
        let (mut score, mut sample) = (RegressionScore::new(t), Sample::new());
        self.scores(selected, Extras::default(), Vec::new(), run, |scores| {
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
        let scores = RegressionScores { rows: report.rows, scores: report.scores, by_target };
        Ok((Evaluation::Regression(scores), Details { points: sample.points(), roc: None }))
    }

    fn classification(&self, selected: &Selected, classes: &Classes, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let mut score = ClassificationScore::new(classes.labels(), EXACT_ROWS)?;
        let (link, mut loss, mut known) = (self.card().link.clone(), 0.0, 0u64);
        self.scores(selected, Extras::default(), vec![ranked(selected, classes)], run, |scores| {
            for (row, code) in scores.scores.chunks_exact(classes.targets()).zip(&scores.classes) {
                let truth = (*code != Coded::UNKNOWN).then_some(*code as usize);
                score.push(classes.decide(row.iter().copied()), truth, row[0]);
                if let (Some(link), Some(class)) = (&link, truth) {
                    loss += link.log_loss(row, class);
                    known += 1;
                }
            }
            Ok(())
        })?;
        let details = Details { points: Vec::new(), roc: score.roc(ROC_POINTS) };
        let report = score.report();
        let scores = ClassificationScores {
            rows: report.rows,
            accuracy: report.accuracy,
            error: report.error,
            classes: report.confusion.labels,
            confusion: report.confusion.counts,
            auc: report.auc,
            auc_within: report.auc_within,
            log_loss: (known > 0).then(|| loss / known as f64),
            unknown: report.confusion.unknown.iter().sum(),
        };
        Ok((Evaluation::Classification(scores), details))
    }
}

/// The term of the plan for scores that are kept to be ranked: for two classes, as far as the area under the ROC curve
/// is exact.
fn ranked(selected: &Selected, classes: &Classes) -> Term {
    let rows = selected.known_rows().map_or(EXACT_ROWS, |rows| EXACT_ROWS.min(rows as usize));
    let bytes = if classes.labels().len() == 2 { AucState::bytes(rows) } else { 0 };
    Term::new("scores to be ranked", bytes, "")
}

/// Refuses scores that overflow.
fn finite(scores: &Regression, rows: u64) -> Result<()> {
    let Regression { mse, rmse, mae, r2, relative_error } = *scores;
    let named = [("mse", mse), ("rmse", rmse), ("mae", mae), ("r2", r2), ("relative error", relative_error)];
    match named.into_iter().find_map(|(what, value)| Some((what, value.filter(|value| !value.is_finite())?))) {
        Some((what, value)) => Err(Error::ScoreOverflow { what, rows, value }),
        None => Ok(()),
    }
}
