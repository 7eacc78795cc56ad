//! `kmill evaluate`: a model's scores on a table that has the target.

use crate::args::EvaluateArgs;
use crate::args::run::Run;
use crate::table::{Align, Grid, Table, count, number, percent};
use crate::{Error, Result, evaluate_page, output, pipeline, predictor};
use ksolve::Task;
use ksolve::predict::{ClassificationScores, Evaluation, NoveltyScores, RegressionScores, TargetScores};
use ksolve::score::Regression;
use std::fmt;

/// The report of `kmill evaluate`.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum EvaluateReport {
    /// The scores of predictions of the target.
    Target(Evaluation),
    /// The scores of a ranking by how unusual rows are.
    Novelty(NoveltyScores),
}

/// Classes up to which the whole confusion matrix is shown; beyond, a line for each class.
const SHOWN: usize = 10;

fn optional(value: Option<f64>) -> String {
    value.map_or("–".to_string(), |value| number(value, 4))
}

impl fmt::Display for EvaluateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(Evaluation::Regression(scores)) => regression(scores, f),
            Self::Target(Evaluation::Classification(scores)) => classification(scores, f),
            Self::Novelty(scores) => write!(f, "{}", facts(&novelty_facts(scores))),
        }
    }
}

/// A table of names and values.
fn facts(pairs: &[(&'static str, String)]) -> Table {
    let mut facts = Table::facts();
    pairs.iter().for_each(|(name, value)| facts.fact(name, value.as_str()));
    facts
}

/// Names of the scores of a regression, and their values.
fn named(scores: &Regression) -> [(&'static str, Option<f64>); 7] {
    [
        ("mse", scores.mse),
        ("rmse", scores.rmse),
        ("mae", scores.mae),
        ("median error", scores.median_error),
        ("mape", scores.mape),
        ("r2", scores.r2),
        ("relative error", scores.relative_error),
    ]
}

/// The scores of a regression as people read them.
pub(crate) fn regression_facts(scores: &RegressionScores) -> Vec<(&'static str, String)> {
    let mut facts = vec![("rows", count(scores.rows))];
    facts.extend(named(&scores.scores).map(|(name, value)| match name {
        "mape" => (name, value.map_or("–".to_string(), percent)),
        _ => (name, optional(value)),
    }));
    let within = |share| format!("{} within 1.96 standard deviations (95 % if they are right)", percent(share));
    facts.extend(scores.coverage.map(|share| ("coverage", within(share))));
    facts
}

/// The scores of a classification as people read them.
pub(crate) fn classification_facts(scores: &ClassificationScores) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("rows", count(scores.rows)),
        ("accuracy", percent(scores.accuracy.unwrap_or(f64::NAN))),
        ("error", percent(scores.error.unwrap_or(f64::NAN))),
        ("balanced accuracy", percent(scores.balanced_accuracy.unwrap_or(f64::NAN))),
        ("f1", optional(scores.f1)),
        ("matthews", optional(scores.matthews)),
    ];
    facts.extend(scores.auc.map(|auc| ("auc", optional(auc))));
    facts.extend(scores.average_precision.map(|area| ("average precision", optional(Some(area)))));
    facts.extend(scores.log_loss.map(|loss| ("log-loss", number(loss, 4))));
    facts.extend(scores.brier.map(|brier| ("brier", number(brier, 4))));
    if scores.unknown > 0 {
        facts.push(("unknown", format!("{} rows of classes the model has never seen", count(scores.unknown))));
    }
    facts
}

/// The scores of a model of novelty as people read them.
pub(crate) fn novelty_facts(scores: &NoveltyScores) -> Vec<(&'static str, String)> {
    let share = |share: Option<f64>| share.map_or("–".to_string(), percent);
    let NoveltyScores { precision, recall, precision_at, auc, average_precision, .. } = *scores;
    vec![
        ("rows", count(scores.rows)),
        ("unusual", format!("{} by the target", count(scores.unusual))),
        ("score below 0", format!("{} rows, of which {} are unusual", count(scores.negative), share(precision))),
        ("found", format!("{} of the unusual rows have a score below 0", share(recall))),
        ("lowest scores", format!("{} of the {} lowest are unusual", share(precision_at), count(scores.top))),
        ("auc", optional(auc)),
        ("average precision", optional(average_precision)),
    ]
}

fn regression(scores: &RegressionScores, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !scores.by_target.is_empty() {
        let heads = named(&scores.scores).map(|(name, _)| (name, Align::Right));
        let mut table = Table::new(std::iter::once(("target", Align::Left)).chain(heads));
        for TargetScores { target, scores } in &scores.by_target {
            let scores = named(scores).map(|(_, value)| optional(value));
            table.row(std::iter::once(target.clone()).chain(scores));
        }
        writeln!(f, "{table}")?;
    }
    write!(f, "{}", facts(&regression_facts(scores)))
}

fn classification(scores: &ClassificationScores, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", facts(&classification_facts(scores)))?;
    if scores.classes.len() > SHOWN {
        return write!(f, "{}", by_class(scores));
    }
    let rows = scores.classes.iter().zip(&scores.confusion);
    let grid = Grid {
        corner: "true \\ predicted".to_string(),
        columns: scores.classes.iter().map(ToString::to_string).collect(),
        rows: rows.map(|(label, row)| (label.to_string(), row.iter().map(|n| count(*n)).collect())).collect(),
        marked: None,
    };
    write!(f, "{grid}")
}

/// A table of the classes: rows, recall and precision of each, and the class it is mistaken for most often.
fn by_class(scores: &ClassificationScores) -> Table {
    let heads = ["class", "rows", "recall", "precision", "most often taken for"];
    let align = |i: usize| if i == 4 { Align::Left } else { Align::Right };
    let mut table = Table::new(heads.iter().enumerate().map(|(i, head)| (*head, align(i))));
    for (k, (label, row)) in scores.classes.iter().zip(&scores.confusion).enumerate() {
        let total: u64 = row.iter().sum();
        let predicted: u64 = scores.confusion.iter().map(|row| row[k]).sum();
        let share = |part: u64, whole: u64| percent(part as f64 / whole as f64);
        let wrong = row.iter().enumerate().filter(|(j, n)| *j != k && **n > 0).max_by_key(|(_, n)| **n);
        let taken = wrong.map(|(j, n)| format!("{} ({})", scores.classes[j], share(*n, total)));
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

/// Scores a model.
///
/// # Errors
/// Files that cannot be read or do not fit the model.
pub fn run(args: &EvaluateArgs, run: &Run) -> Result<EvaluateReport> {
    if let Some(page) = &args.report {
        output::check_page(page, &args.model)?;
    }
    let predictor = predictor::load(&args.model, run)?;
    let predictor = match args.threshold {
        Some(threshold) => predictor.above(threshold)?,
        None => predictor,
    };
    let card = predictor.card();
    let novelty = card.task == Task::Novelty;
    if novelty && args.target.is_empty() {
        let why = "the column that is 0 for usual rows and 1 for unusual ones: --target label";
        return Err(Error::Missing { option: "--target", solver: format!("evaluate with {}", card.solver), why });
    }
    if args.top.is_some() && !novelty {
        let why = "only models of oneclass and mean rank rows by how unusual they are";
        return Err(Error::option("--top", "", why, "leave it out"));
    }
    if !card.task.has_target() && !novelty {
        let why = format!("a model of {} has no truth to be compared with", card.task);
        return Err(Error::option("MODEL", args.model.display(), why, "use kmill predict"));
    }
    let names = if args.target.is_empty() { card.targets.clone() } else { args.target.clone() };
    let selected = predictor::select(&predictor, &args.data, &names)?;
    let (report, details) = if novelty {
        let (scores, details) = predictor.novelty(&selected, args.top.map(|top| top as u64), &pipeline::job(run))?;
        (EvaluateReport::Novelty(scores), details)
    } else {
        let (scores, details) = predictor.evaluate(&selected, &pipeline::job(run))?;
        (EvaluateReport::Target(scores), details)
    };
    if let Some(page) = &args.report {
        evaluate_page::page(&report, &details, &args.model).write(page)?;
    }
    Ok(report)
}

/// Runs `kmill evaluate` and prints its report.
pub(crate) fn main(args: &EvaluateArgs) -> Result<()> {
    let context = args.run.resolve();
    output::report(&run(args, &context)?, context.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::Label;

    #[test]
    fn a_regression_has_the_contracts_keys_and_null_for_what_is_not_defined() {
        let (mse, rmse, mae) = (Some(4.0), Some(2.0), Some(1.5));
        let (median_error, mape) = (Some(1.25), Some(0.125));
        let scores = Regression { mse, rmse, mae, median_error, mape, r2: None, relative_error: None };
        let by_target = Vec::new();
        let scores = RegressionScores { rows: 10, scores, by_target, coverage: None };
        let report = EvaluateReport::Target(Evaluation::Regression(scores));
        let expected = r#"{"rows":10,"mse":4.0,"rmse":2.0,"mae":1.5,"median_error":1.25,"mape":0.125,"r2":null,"relative_error":null}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let text = "  rows            10\n  mse             4.000\n  rmse            2.000\n  mae             1.500\n  \
            median error    1.250\n  mape            12.5 %\n  r2              –\n  relative error  –\n";
        assert_eq!(report.to_string(), text);
    }

    fn classification(classes: i64) -> EvaluateReport {
        let row = |k: i64| (0..classes).map(move |j| if j == k { 90 } else { u64::from(j == (k + 1) % classes) * 10 });
        EvaluateReport::Target(Evaluation::Classification(ClassificationScores {
            rows: 100 * classes as u64,
            accuracy: Some(0.9),
            error: Some(0.1),
            classes: (0..classes).map(Label::Int).collect(),
            confusion: (0..classes).map(|k| row(k).collect()).collect(),
            auc: (classes == 2).then_some(Some(0.975)),
            ..ClassificationScores::default()
        }))
    }

    #[test]
    fn two_classes_show_their_matrix_and_auc() {
        let expected = "  rows               200
  accuracy           90.0 %
  error              10.0 %
  balanced accuracy  –
  f1                 –
  matthews           –
  auc                0.9750

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
        assert_eq!(lines[7], "  class  rows  recall  precision  most often taken for");
        assert_eq!(lines[8], "      0   100  90.0 %     90.0 %  1 (10.0 %)");
        assert_eq!(lines.len(), 20);
        assert!(serde_json::to_value(classification(12)).unwrap().get("auc").is_none());
    }
}
