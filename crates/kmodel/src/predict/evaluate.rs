//! Scores of a model on a table with true values.

use super::{Extras, Predictor, top::Smallest};
use crate::score::auc::{EXACT_ROWS, RankedScores};
use crate::score::{
    CalibrationBin, ClassificationScores, ClassificationSums, RankingRows, RankingScores, Regression, RegressionScores,
    RegressionSums, ThresholdScores, count, toward,
};
use crate::{
    Classes, Error, Result, Task,
    run::{Run, Stages},
};
use kstore::key::{Purpose, Stream};
use kstore::{Selected, budget::Term, shown};
use std::collections::HashMap;

/// Scores of a model on rows with true values.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Evaluation {
    /// Scores of a model that predicts numbers.
    Regression(RegressionScores),
    /// Scores of a model that predicts labels.
    Classification(ClassificationScores),
}

/// Scores of a novelty detector on rows with known outliers.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct NoveltyScores {
    /// Number of rows scored. With row weights, all row counts here are sums of weights.
    #[serde(serialize_with = "count")]
    pub rows: f64,
    /// Number of true outliers.
    #[serde(serialize_with = "count")]
    pub unusual: f64,
    /// Number of rows with a negative score.
    #[serde(serialize_with = "count")]
    pub negative: f64,
    /// Fraction of true outliers among the rows with a negative score.
    pub precision: Option<f64>,
    /// Fraction of the true outliers that have a negative score.
    pub recall: Option<f64>,
    /// Probability that an outlier has a lower score than another row; null if either kind has no
    /// rows.
    pub auc: Option<f64>,
    /// Average precision of the rows by ascending score: the area under the precision-recall curve.
    pub average_precision: Option<f64>,
    /// Number of rows in `precision_at`: as requested, or the number of outliers.
    #[serde(serialize_with = "count")]
    pub top: f64,
    /// Fraction of outliers among the `top` rows with the lowest scores.
    pub precision_at: Option<f64>,
}

/// Points of the charts of a report page.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Prediction and truth of the first target, for a sample of the rows.
    pub points: Vec<(f64, f64)>,
    /// False and true positive rates at descending thresholds, for two classes.
    pub roc: Option<Vec<(f64, f64)>>,
    /// Recall and precision at descending thresholds, for two classes and for novelty detection.
    pub precision: Option<Vec<(f64, f64)>>,
    /// Effects of some thresholds between two classes: the decision threshold, some probabilities,
    /// and the cheapest one if costs were specified.
    pub thresholds: Vec<ThresholdScores>,
    /// Predicted probabilities and observed fractions, by ascending probability, for models with
    /// probabilities: of the positive of two classes, or of the predicted one of more classes.
    pub calibration: Option<Vec<CalibrationBin>>,
}

/// Maximum number of points in a residual plot; more points would overlap.
const POINTS: usize = 2_000;

/// Standard deviations that contain 95 % of a normal distribution.
const NEAR: f64 = 1.959_964;

const ROC_POINTS: usize = 60;

/// Probabilities marked on the curves.
const MARKED: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// A warning names the rows with the largest errors: their number, the minimum number of rows of
/// the table, and the fraction of the squared error that these rows must cause.
const WORST: usize = 3;
const FEWEST_ROWS: u64 = 300;
const MUCH: f64 = 0.25;

/// Default number of places per group.
const TOP: u64 = 10;

/// Key and number of a row, with the bits of prediction and truth.
type Point = (u64, u64, [u64; 2]);

impl Predictor {
    /// Scores the model on selected rows with its targets, or its label column.
    ///
    /// *Cost*: one pass, with one prediction per row.
    /// *Bytes*: as [`Predictor::scores`]; for two classes also the scores, sorted for the ROC
    /// curve.
    ///
    /// # Errors
    /// A model without a target; too few or too many targets; errors of [`Predictor::scores`];
    /// scores that overflow.
    pub fn evaluate(&self, selected: &Selected, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let card = self.card();
        if !card.task.has_target() {
            let why = format!("a model of {} has no true values to compare with; use predict", card.task);
            return Err(Error::option("model", "", why));
        }
        match self.decisions() {
            None => self.regression(selected, run),
            Some(classes) => self.classification(selected, &classes, run),
        }
    }

    /// Scores a novelty detector on rows with a column that is 0 for normal rows. The precision is
    /// computed over the `top` rows with the lowest scores, by default as many as there are
    /// outliers.
    ///
    /// *Cost*: one pass. *Bytes*: as [`Predictor::scores`], and the scores that are sorted.
    ///
    /// # Errors
    /// A model of another task, several columns, errors of [`Predictor::scores`].
    pub fn novelty(&self, selected: &Selected, top: Option<u64>, run: &Run<'_>) -> Result<(NoveltyScores, Details)> {
        let names = selected.target_names();
        if self.card().task != Task::Novelty || names.len() != 1 {
            let why = "expected a model of oneclass or mean, and one target column: 0 for normal rows, 1 for outliers";
            return Err(Error::option("target", names.join(","), why));
        }
        let (mut ranks, mut scores) = (RankedScores::new(EXACT_ROWS), NoveltyScores::default());
        let mut right = 0.0;
        self.scores(selected, Extras::default(), vec![ranked(selected, 2)], run, |block| {
            for (i, (score, truth)) in block.scores.iter().zip(&block.y).enumerate() {
                let (unusual, negative, weight) = (*truth != 0.0, *score < 0.0, block.weights.of(i));
                let counted = |is: bool| if is { weight } else { 0.0 };
                ranks.push(-score, unusual, weight);
                scores.rows += weight;
                scores.unusual += counted(unusual);
                scores.negative += counted(negative);
                right += counted(unusual && negative);
            }
            Ok(())
        })?;
        let share = |of: f64| (of > 0.0).then(|| right / of);
        (scores.precision, scores.recall) = (share(scores.negative), share(scores.unusual));
        let ranks = ranks.ranking();
        (scores.auc, scores.average_precision) = (ranks.auc().map(|auc| auc.value), ranks.average_precision());
        scores.top = top.map_or(scores.unusual, |top| top as f64);
        scores.precision_at = ranks.precision_at(scores.top);
        let (roc, precision) = (ranks.curve(ROC_POINTS), ranks.precision_curve(ROC_POINTS));
        Ok((scores, Details { roc, precision, ..Details::default() }))
    }

    /// Scores how a model with one output orders the rows of every group of `selected`, compared
    /// with the grades in its target. `top` places per group are scored, 10 by default. Without a
    /// group column all rows are one group.
    ///
    /// *Cost*: one pass, with one prediction per row, and n ln n.
    /// *Bytes*: as [`Predictor::scores`], and 60 per row.
    ///
    /// # Errors
    /// A model with several outputs, or with classes; several targets; row weights; errors of
    /// [`Predictor::scores`].
    pub fn ranking(&self, selected: &Selected, top: Option<u64>, run: &Run<'_>) -> Result<RankingScores> {
        let names = selected.target_names();
        if !self.card().task.has_target() || self.outputs() != 1 || self.classes().is_some() || names.len() != 1 {
            let why = "expected a model with one number per row, and one column of grades; use another model, or evaluate without groups";
            return Err(Error::option("target", names.join(","), why));
        }
        if selected.is_weighted() {
            let why = "pairs of rows are scored, and pairs have no weights; evaluate without weights";
            return Err(Error::option("weights", "", why));
        }
        let range = selected.range();
        let rows = selected.known_rows().unwrap_or(range.end - range.start);
        let held = Term::new(
            "rows to rank",
            RankingRows::bytes(usize::try_from(rows).unwrap_or(usize::MAX)),
            "evaluate fewer rows at a time",
        );
        // 64-bit digests replace labels, which may be long: a million labels collide with a
        // probability of one in thirty million
        let (mut found, mut codes) = (RankingRows::default(), HashMap::<u64, u32>::new());
        self.scores(selected, Extras::default(), vec![held], run, |block| {
            for (i, (score, grade)) in block.scores.iter().zip(&block.y).enumerate() {
                let next = codes.len() as u32;
                let group = block.groups.get(i).map_or(0, |label| *codes.entry(label.digest()).or_insert(next));
                found.push(group, *score, *grade);
            }
            Ok(())
        })?;
        Ok(found.scores(top.unwrap_or(TOP), run.workers()))
    }

    fn regression(&self, selected: &Selected, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let (t, names) = (self.outputs(), selected.target_names());
        if names.len() != t {
            let why = format!("the model predicts {t} targets; name the same number, in the order of the fit");
            return Err(Error::option("target", names.join(","), why));
        }
        let (mut sums, keys) = (RegressionSums::new(t), Stream::new(0, Purpose::Quality, 0));
        // a uniform sample of the rows: those with the smallest keys
        let (mut sample, mut row) = (Smallest::<Point>::new(POINTS), 0);
        let extras = Extras { std: self.quadratic().is_some(), ..Extras::default() };
        let rows = selected.known_rows().map_or(usize::MAX, |rows| rows as usize);
        let held = Term::new("errors to rank", RegressionSums::bytes(t, rows), "");
        let (mut within, mut worst) = (0.0, Smallest::<(u64, u64)>::new(WORST));
        let mut squares = 0.0;
        self.scores(selected, extras, vec![held], run, |scores| {
            let near = |((deviation, prediction), truth): (_, &f64)| f64::abs(truth - prediction) <= NEAR * deviation;
            let deviations = self.deviations(scores);
            let judged = deviations.iter().zip(&scores.scores).zip(&scores.y).enumerate();
            within += judged.filter(|(_, row)| near(*row)).map(|(at, _)| scores.weights.of(at / t)).sum::<f64>();
            let rows = scores.scores.chunks_exact(t).zip(scores.y.chunks_exact(t)).zip(&scores.rows);
            for (i, ((prediction, truth), stored)) in rows.enumerate() {
                let weight = scores.weights.of(i);
                sums.push(prediction, truth, weight);
                let square = weight * prediction.iter().zip(truth).map(|(p, y)| (p - y).powi(2)).sum::<f64>();
                squares += square;
                // nonnegative floats compare like their bits as integers
                worst.push((u64::MAX - square.to_bits(), *stored));
                sample.push((keys.word(row), row, [prediction[0].to_bits(), truth[0].to_bits()]));
                row += 1;
            }
            Ok(())
        })?;
        let mut scores = sums.scores(names);
        let all = std::iter::once(&scores.scores).chain(scores.by_target.iter().map(|target| &target.scores));
        all.into_iter().try_for_each(|each| finite(each, row))?;
        let numbers = scores.rows * t as f64;
        scores.coverage = (extras.std && numbers > 0.0).then(|| within / numbers);
        tell_worst(&worst.sorted(), squares, row, run);
        let mut sampled = sample.sorted();
        sampled.sort_unstable_by_key(|(_, row, _)| *row);
        let points = sampled.into_iter().map(|(_, _, [prediction, truth])| (prediction, truth));
        let points = points.map(|(prediction, truth)| (f64::from_bits(prediction), f64::from_bits(truth))).collect();
        Ok((Evaluation::Regression(scores), Details { points, ..Details::default() }))
    }

    fn classification(&self, selected: &Selected, classes: &Classes, run: &Run<'_>) -> Result<(Evaluation, Details)> {
        let mut sums = ClassificationSums::new(classes, self.card().link.clone(), self.1.positive);
        self.scores(selected, Extras::default(), vec![ranked(selected, classes.labels().len())], run, |scores| {
            let rows = scores.scores.chunks_exact(classes.targets()).zip(&scores.classes).enumerate();
            rows.for_each(|(i, (row, code))| sums.push(row, *code, scores.weights.of(i)));
            Ok(())
        })?;
        let ranking = sums.ranking();
        let mut marked = vec![self.1.score];
        marked.extend(MARKED.into_iter().filter_map(|p| self.score_above(p).filter(|_| self.card().link.is_some())));
        marked.extend(
            ranking
                .as_ref()
                .zip(self.1.costs)
                .and_then(|(ranking, costs)| Some(toward(ranking.cheapest(costs)?, self.1.positive))),
        );
        let of =
            |ranking| marked.iter().map(|score| sums.threshold(ranking, toward(*score, self.1.positive))).collect();
        let details = Details {
            points: Vec::new(),
            thresholds: ranking.as_ref().map_or(Vec::new(), of),
            roc: ranking.as_ref().and_then(|ranking| ranking.curve(ROC_POINTS)),
            precision: ranking.as_ref().and_then(|ranking| ranking.precision_curve(ROC_POINTS)),
            calibration: sums.calibration(),
        };
        Ok((Evaluation::Classification(sums.scores(ranking.as_ref(), self.1.costs)), details))
    }
}

fn tell_worst(worst: &[(u64, u64)], squares: f64, rows: u64, run: &Run<'_>) {
    let much = worst.iter().map(|(bits, _)| f64::from_bits(u64::MAX - bits)).sum::<f64>();
    if rows >= FEWEST_ROWS && squares > 0.0 && much >= MUCH * squares {
        let of: Vec<String> = worst.iter().map(|(_, row)| shown::count(*row)).collect();
        run.watched().warn(format!(
            "{} of {} rows cause {:.0} % of the squared error: rows {}; check them for wrong values",
            worst.len(),
            shown::count(rows),
            100.0 * (much / squares),
            of.join(", ")
        ));
    }
}

/// Returns the plan term of the scores stored for ranking: for two classes, as long as the area
/// under the ROC curve is exact.
fn ranked(selected: &Selected, classes: usize) -> Term {
    let rows = selected.known_rows().map_or(EXACT_ROWS, |rows| EXACT_ROWS.min(rows as usize));
    let bytes = if classes == 2 { RankedScores::bytes(rows) } else { 0 };
    Term::new("scores to rank", bytes, "")
}

fn finite(scores: &Regression, rows: u64) -> Result<()> {
    let wrong = |(what, value): (_, Option<f64>)| Some((what, value.filter(|value| !value.is_finite())?));
    match scores.named().into_iter().find_map(wrong) {
        Some((what, value)) => Err(Error::ScoreOverflow { what, rows, value }),
        None => Ok(()),
    }
}
