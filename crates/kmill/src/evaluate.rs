//! `kmill evaluate`: a model's scores on a table that has the target.

use crate::args::EvaluateArgs;
use crate::args::run::Run;
use crate::predictor::{Predictor, Truth};
use crate::table::{Align, Grid, Table, count, number, percent};
use crate::{Error, Result, evaluate_page, output, passes, predictor};
use ksolve::auc::{AucState, EXACT_ROWS};
use ksolve::score::Regression;
use ksolve::{AnyModel, Classes, ClassificationScore, Model, RegressionScore};
use kstore::budget::Term;
use kstore::key::{Purpose, Stream};
use kstore::{Coded, Label};
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

/// The report of `kmill evaluate`.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum EvaluateReport {
    /// The scores of a model that predicts numbers.
    Regression(RegressionReport),
    /// The scores of a model that predicts labels.
    Classification(ClassificationReport),
}

/// Scores of a regression; over several targets their averages.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RegressionReport {
    /// Number of rows scored.
    pub rows: u64,
    /// `mse`, `rmse`, `mae`, `r2` (null for a constant target), `relative_error` (null where any y is 0).
    #[serde(flatten)]
    pub scores: Regression,
    /// The scores of each target, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_target: Vec<TargetReport>,
}

/// Scores of one of several targets.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TargetReport {
    /// The name of the target column.
    pub target: String,
    /// The scores of the target.
    #[serde(flatten)]
    pub scores: Regression,
}

/// Scores of a classification.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ClassificationReport {
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

/// Classes up to which the whole confusion matrix is shown; beyond, a line for each class.
const SHOWN: usize = 10;

fn optional(value: Option<f64>) -> String {
    value.map_or("–".to_string(), |value| number(value, 4))
}

impl fmt::Display for EvaluateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Regression(report) => report.fmt(f),
            Self::Classification(report) => report.fmt(f),
        }
    }
}

impl fmt::Display for RegressionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["target", "mse", "rmse", "mae", "r2", "relative error"];
        if !self.by_target.is_empty() {
            let align = |i: usize| if i == 0 { Align::Left } else { Align::Right };
            let mut table = Table::new(heads.iter().enumerate().map(|(i, head)| (*head, align(i))));
            for TargetReport { target, scores: s } in &self.by_target {
                let scores = [s.mse, s.rmse, s.mae, s.r2, s.relative_error].map(optional);
                table.row(std::iter::once(target.clone()).chain(scores));
            }
            writeln!(f, "{table}")?;
        }
        let mut facts = Table::facts();
        facts.fact("rows", count(self.rows));
        let s = &self.scores;
        let named = heads[1..].iter().zip([s.mse, s.rmse, s.mae, s.r2, s.relative_error]);
        named.for_each(|(name, value)| facts.fact(name, optional(value)));
        write!(f, "{facts}")
    }
}

impl fmt::Display for ClassificationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Table::facts();
        facts.fact("rows", count(self.rows));
        facts.fact("accuracy", percent(self.accuracy.unwrap_or(f64::NAN)));
        facts.fact("error", percent(self.error.unwrap_or(f64::NAN)));
        self.auc.inspect(|auc| facts.fact("auc", optional(*auc)));
        self.log_loss.inspect(|loss| facts.fact("log-loss", number(*loss, 4)));
        if self.unknown > 0 {
            facts.fact("unknown", format!("{} rows of classes the model has never seen", count(self.unknown)));
        }
        writeln!(f, "{facts}")?;
        if self.classes.len() > SHOWN {
            return write!(f, "{}", self.by_class());
        }
        let rows = self.classes.iter().zip(&self.confusion);
        let grid = Grid {
            corner: "true \\ predicted".to_string(),
            columns: self.classes.iter().map(ToString::to_string).collect(),
            rows: rows.map(|(label, row)| (label.to_string(), row.iter().map(|n| count(*n)).collect())).collect(),
            marked: None,
        };
        write!(f, "{grid}")
    }
}

impl ClassificationReport {
    /// A table of the classes: rows, recall and precision of each, and the class it is mistaken for most often.
    fn by_class(&self) -> Table {
        let heads = ["class", "rows", "recall", "precision", "most often taken for"];
        let align = |i: usize| if i == 4 { Align::Left } else { Align::Right };
        let mut table = Table::new(heads.iter().enumerate().map(|(i, head)| (*head, align(i))));
        for (k, (label, row)) in self.classes.iter().zip(&self.confusion).enumerate() {
            let total: u64 = row.iter().sum();
            let predicted: u64 = self.confusion.iter().map(|row| row[k]).sum();
            let share = |part: u64, whole: u64| percent(part as f64 / whole as f64);
            let wrong = row.iter().enumerate().filter(|(j, n)| *j != k && **n > 0).max_by_key(|(_, n)| **n);
            let taken = wrong.map(|(j, n)| format!("{} ({})", self.classes[j], share(*n, total)));
            table.row([
                label.to_string(),
                count(total),
                share(row[k], total),
                share(row[k], predicted),
                taken.unwrap_or_default(),
            ]);
        }
        table
    }
}

/// Scores a model.
///
/// # Errors
/// Files that cannot be read or do not fit the model.
pub fn run(args: &EvaluateArgs, run: &Run) -> Result<EvaluateReport> {
    if let Some(page) = &args.report {
        output::check_page(page, &args.model)?;
    }
    let (report, details) = match predictor::load(&args.model, run)? {
        AnyModel::F32(model) => score(model, args, run),
        AnyModel::F64(model) => score(model, args, run),
    }?;
    if let Some(page) = &args.report {
        evaluate_page::page(&report, &details, &args.model).write(page)?;
    }
    Ok(report)
}

/// The points of the charts on the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    /// Prediction and truth of the first target, for a sample of the rows.
    pub(crate) points: Vec<(f64, f64)>,
    /// False and true positive rate at falling thresholds, for two classes.
    pub(crate) roc: Option<Vec<(f64, f64)>>,
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

fn score<T: kapprox::Real>(model: Model<T>, args: &EvaluateArgs, run: &Run) -> Result<(EvaluateReport, Details)> {
    if !model.card.task.has_target() {
        let why = format!("a model of {} has no truth to be compared with", model.card.task);
        return Err(Error::option("MODEL", args.model.display(), why, "use kmill predict"));
    }
    let names = if args.target.is_empty() { model.card.targets.clone() } else { args.target.clone() };
    let selected = predictor::select(&model.card, &args.data, &Truth::Columns(names))?;
    match predictor::classes(&model.card)? {
        None => regression(&Predictor::new(model, selected)?, run),
        Some(classes) => classification(&Predictor::new(model, selected)?, &classes, run),
    }
}

fn regression<T: kapprox::Real>(predictor: &Predictor<T>, run: &Run) -> Result<(EvaluateReport, Details)> {
    let (t, names) = (predictor.outputs(), predictor.target_names());
    if names.len() != t {
        let why = format!("the model predicts {t} targets");
        return Err(Error::option("--target", names.join(","), why, "name as many, in the order of the fit"));
    }
    let (mut score, mut sample) = (RegressionScore::new(t), Sample::new());
    predictor.run(run, predictor.lanes(run, Vec::new())?.count, |scores| {
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
    let by_target = names.into_iter().zip(report.targets).map(|(target, scores)| TargetReport { target, scores });
    let by_target = by_target.collect();
    let report = RegressionReport { rows: report.rows, scores: report.scores, by_target };
    Ok((EvaluateReport::Regression(report), Details { points: sample.points(), roc: None }))
}

/// Refuses scores that overflow.
fn finite(scores: &Regression, rows: u64) -> Result<()> {
    let Regression { mse, rmse, mae, r2, relative_error } = *scores;
    let named = [("mse", mse), ("rmse", rmse), ("mae", mae), ("r2", r2), ("relative error", relative_error)];
    match named.into_iter().find_map(|(what, value)| Some((what, value.filter(|value| !value.is_finite())?))) {
        Some((what, value)) => Err(Error::Overflow { what, rows, value }),
        None => Ok(()),
    }
}

/// The term of the plan for scores that are kept to be ranked: for two classes, as far as the area under the ROC curve
/// is exact.
fn ranked<T: kapprox::Real>(predictor: &Predictor<T>, classes: &Classes) -> Term {
    let rows = predictor.known_rows().map_or(EXACT_ROWS, |rows| EXACT_ROWS.min(rows as usize));
    let bytes = if classes.labels().len() == 2 { AucState::bytes(rows) } else { 0 };
    passes::term("scores to be ranked", bytes, "")
}

fn classification<T: kapprox::Real>(
    predictor: &Predictor<T>,
    classes: &Classes,
    run: &Run,
) -> Result<(EvaluateReport, Details)> {
    let mut score = ClassificationScore::new(classes.labels(), EXACT_ROWS)?;
    let (link, mut loss, mut known) = (predictor.link(), 0.0, 0u64);
    predictor.run(run, predictor.lanes(run, vec![ranked(predictor, classes)])?.count, |scores| {
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
    let report = EvaluateReport::Classification(ClassificationReport {
        rows: report.rows,
        accuracy: report.accuracy,
        error: report.error,
        classes: report.confusion.labels,
        confusion: report.confusion.counts,
        auc: report.auc,
        auc_within: report.auc_within,
        log_loss: (known > 0).then(|| loss / known as f64),
        unknown: report.confusion.unknown.iter().sum(),
    });
    Ok((report, details))
}

/// Runs `kmill evaluate` and prints its report.
pub(crate) fn main(args: &EvaluateArgs) -> Result<()> {
    let context = args.run.resolve();
    output::report(&run(args, &context)?, context.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regression_has_the_contracts_keys_and_null_for_what_is_not_defined() {
        let (mse, rmse, mae) = (Some(4.0), Some(2.0), Some(1.5));
        let scores = Regression { mse, rmse, mae, r2: None, relative_error: None };
        let report = EvaluateReport::Regression(RegressionReport { rows: 10, scores, by_target: Vec::new() });
        let expected = r#"{"rows":10,"mse":4.0,"rmse":2.0,"mae":1.5,"r2":null,"relative_error":null}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let text = "  rows            10\n  mse             4.000\n  rmse            2.000\n  mae             1.500\n  \
            r2              –\n  relative error  –\n";
        assert_eq!(report.to_string(), text);
    }

    fn classification(classes: i64) -> EvaluateReport {
        let row = |k: i64| (0..classes).map(move |j| if j == k { 90 } else { u64::from(j == (k + 1) % classes) * 10 });
        EvaluateReport::Classification(ClassificationReport {
            rows: 100 * classes as u64,
            accuracy: Some(0.9),
            error: Some(0.1),
            classes: (0..classes).map(Label::Int).collect(),
            confusion: (0..classes).map(|k| row(k).collect()).collect(),
            auc: (classes == 2).then_some(Some(0.975)),
            auc_within: None,
            log_loss: None,
            unknown: 0,
        })
    }

    #[test]
    fn two_classes_show_their_matrix_and_auc() {
        let expected = "  rows      200
  accuracy  90.0 %
  error     10.0 %
  auc       0.9750

  true \\ predicted   0   1
                 0  90  10
                 1  10  90
";
        assert_eq!(classification(2).to_string(), expected);
        let json = serde_json::to_value(classification(2)).unwrap();
        assert_eq!(json["confusion"], serde_json::json!([[90, 10], [10, 90]]));
        assert_eq!((&json["auc"], &json["classes"]), (&0.975.into(), &serde_json::json!([0, 1])));
    }

    #[test]
    fn many_classes_have_a_line_each() {
        let text = classification(12).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[4], "  class  rows  recall  precision  most often taken for");
        assert_eq!(lines[5], "      0   100  90.0 %     90.0 %  1 (10.0 %)");
        assert_eq!(lines.len(), 17);
        assert!(serde_json::to_value(classification(12)).unwrap().get("auc").is_none());
    }
}
