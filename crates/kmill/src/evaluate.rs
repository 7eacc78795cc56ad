//! `kmill evaluate`: a model's scores on a table that has the target.

use crate::args::EvaluateArgs;
use crate::args::run::Run;
use crate::table::{Align, Grid, Table, count, number, percent};
use crate::{Error, Result, evaluate_page, output, pipeline, predictor};
use ksolve::predict::{ClassificationScores, Evaluation, RegressionScores, TargetScores};
use std::fmt;

/// The report of `kmill evaluate`.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct EvaluateReport(pub Evaluation);

/// Classes up to which the whole confusion matrix is shown; beyond, a line for each class.
const SHOWN: usize = 10;

fn optional(value: Option<f64>) -> String {
    value.map_or("–".to_string(), |value| number(value, 4))
}

impl fmt::Display for EvaluateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Evaluation::Regression(scores) => regression(scores, f),
            Evaluation::Classification(scores) => classification(scores, f),
        }
    }
}

fn regression(scores: &RegressionScores, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let heads = ["target", "mse", "rmse", "mae", "r2", "relative error"];
    if !scores.by_target.is_empty() {
        let align = |i: usize| if i == 0 { Align::Left } else { Align::Right };
        let mut table = Table::new(heads.iter().enumerate().map(|(i, head)| (*head, align(i))));
        for TargetScores { target, scores: s } in &scores.by_target {
            let scores = [s.mse, s.rmse, s.mae, s.r2, s.relative_error].map(optional);
            table.row(std::iter::once(target.clone()).chain(scores));
        }
        writeln!(f, "{table}")?;
    }
    let mut facts = Table::facts();
    facts.fact("rows", count(scores.rows));
    let s = &scores.scores;
    let named = heads[1..].iter().zip([s.mse, s.rmse, s.mae, s.r2, s.relative_error]);
    named.for_each(|(name, value)| facts.fact(name, optional(value)));
    write!(f, "{facts}")
}

fn classification(scores: &ClassificationScores, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut facts = Table::facts();
    facts.fact("rows", count(scores.rows));
    facts.fact("accuracy", percent(scores.accuracy.unwrap_or(f64::NAN)));
    facts.fact("error", percent(scores.error.unwrap_or(f64::NAN)));
    scores.auc.inspect(|auc| facts.fact("auc", optional(*auc)));
    scores.log_loss.inspect(|loss| facts.fact("log-loss", number(*loss, 4)));
    if scores.unknown > 0 {
        facts.fact("unknown", format!("{} rows of classes the model has never seen", count(scores.unknown)));
    }
    writeln!(f, "{facts}")?;
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
    let card = predictor.card();
    if !card.task.has_target() {
        let why = format!("a model of {} has no truth to be compared with", card.task);
        return Err(Error::option("MODEL", args.model.display(), why, "use kmill predict"));
    }
    let names = if args.target.is_empty() { card.targets.clone() } else { args.target.clone() };
    let selected = predictor::select(&predictor, &args.data, &names)?;
    let (evaluation, details) = predictor.evaluate(&selected, &pipeline::job(run))?;
    if let Some(page) = &args.report {
        evaluate_page::page(&evaluation, &details, &args.model).write(page)?;
    }
    Ok(EvaluateReport(evaluation))
}

/// Runs `kmill evaluate` and prints its report.
pub(crate) fn main(args: &EvaluateArgs) -> Result<()> {
    let context = args.run.resolve();
    output::report(&run(args, &context)?, context.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::score::Regression;
    use kstore::Label;

    #[test]
    fn a_regression_has_the_contracts_keys_and_null_for_what_is_not_defined() {
        let (mse, rmse, mae) = (Some(4.0), Some(2.0), Some(1.5));
        let scores = Regression { mse, rmse, mae, r2: None, relative_error: None };
        let report =
            EvaluateReport(Evaluation::Regression(RegressionScores { rows: 10, scores, by_target: Vec::new() }));
        let expected = r#"{"rows":10,"mse":4.0,"rmse":2.0,"mae":1.5,"r2":null,"relative_error":null}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let text = "  rows            10\n  mse             4.000\n  rmse            2.000\n  mae             1.500\n  \
            r2              –\n  relative error  –\n";
        assert_eq!(report.to_string(), text);
    }

    fn classification(classes: i64) -> EvaluateReport {
        let row = |k: i64| (0..classes).map(move |j| if j == k { 90 } else { u64::from(j == (k + 1) % classes) * 10 });
        EvaluateReport(Evaluation::Classification(ClassificationScores {
            rows: 100 * classes as u64,
            accuracy: Some(0.9),
            error: Some(0.1),
            classes: (0..classes).map(Label::Int).collect(),
            confusion: (0..classes).map(|k| row(k).collect()).collect(),
            auc: (classes == 2).then_some(Some(0.975)),
            auc_within: None,
            log_loss: None,
            unknown: 0,
        }))
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
