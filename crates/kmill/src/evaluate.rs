//! `kmill evaluate`: a model's scores on a table that has the target.

use crate::args::EvaluateArgs;
use crate::args::run::Run;
use crate::table::{Align, Grid, Table, count, number, percent};
use crate::{Error, Result, output};
use kstore::Label;
use std::fmt;

/// What `kmill evaluate` says.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum EvaluateReport {
    /// Numbers.
    Regression(RegressionReport),
    /// Labels.
    Classification(ClassificationReport),
}

/// Scores of a regression; over several targets their averages.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct RegressionReport {
    /// Rows scored.
    pub rows: u64,
    /// Mean squared error.
    pub mse: f64,
    /// Its square root.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Share of variance explained; `None` for a constant target.
    pub r2: Option<f64>,
    /// sqrt(mean(((y − ŷ)/y)²)); `None` where any y is 0.
    pub relative_error: Option<f64>,
    /// The same for each target, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_target: Vec<TargetReport>,
}

/// Scores of one of several targets.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TargetReport {
    /// Its name.
    pub target: String,
    /// Mean squared error.
    pub mse: f64,
    /// Its square root.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Share of variance explained; `None` for a constant target.
    pub r2: Option<f64>,
    /// sqrt(mean(((y − ŷ)/y)²)); `None` where any y is 0.
    pub relative_error: Option<f64>,
}

/// Scores of a classification.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ClassificationReport {
    /// Rows scored.
    pub rows: u64,
    /// Share of right classes.
    pub accuracy: f64,
    /// Share of wrong classes.
    pub error: f64,
    /// Labels, in the order of the confusion matrix.
    pub classes: Vec<Label>,
    /// Rows by true class (row) and predicted class (column).
    pub confusion: Vec<Vec<u64>>,
    /// Area under the ROC curve, for two classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// Rows whose label the model has never seen: wrong, and in no row of the matrix.
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
            for t in &self.by_target {
                let scores = [number(t.mse, 4), number(t.rmse, 4), number(t.mae, 4)];
                let name = [t.target.clone()];
                table.row(name.into_iter().chain(scores).chain([optional(t.r2), optional(t.relative_error)]));
            }
            writeln!(f, "{table}")?;
        }
        let mut facts = Table::facts();
        facts.fact("rows", count(self.rows));
        facts.fact("mse", number(self.mse, 4));
        facts.fact("rmse", number(self.rmse, 4));
        facts.fact("mae", number(self.mae, 4));
        facts.fact("r2", optional(self.r2));
        facts.fact("relative error", optional(self.relative_error));
        write!(f, "{facts}")
    }
}

impl fmt::Display for ClassificationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Table::facts();
        facts.fact("rows", count(self.rows));
        facts.fact("accuracy", percent(self.accuracy));
        facts.fact("error", percent(self.error));
        self.auc.inspect(|auc| facts.fact("auc", number(*auc, 4)));
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
    /// Rows, recall and precision of each class, and what it is taken for most often.
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
pub fn run(args: &EvaluateArgs, _run: &Run) -> Result<EvaluateReport> {
    Err(Error::option("MODEL", args.model.display(), "models cannot be read by this build", "merge the pipeline"))
}

/// `kmill evaluate`.
pub(crate) fn main(args: &EvaluateArgs) -> Result<()> {
    let context = args.run.resolve();
    output::report(&run(args, &context)?, context.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regression_has_the_contracts_keys_and_null_for_what_is_not_defined() {
        let report = RegressionReport { rows: 10, mse: 4.0, rmse: 2.0, mae: 1.5, r2: None, ..Default::default() };
        let report = EvaluateReport::Regression(report);
        let expected = r#"{"rows":10,"mse":4.0,"rmse":2.0,"mae":1.5,"r2":null,"relative_error":null}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let text = "  rows            10\n  mse             4.000\n  rmse            2.000\n  mae             1.500\n  \
            r2              –\n  relative error  –\n";
        assert_eq!(report.to_string(), text);
    }

    fn classification(classes: i64) -> EvaluateReport {
        let row = |k: i64| (0..classes).map(|j| if j == k { 90 } else { u64::from(j == (k + 1) % classes) * 10 });
        EvaluateReport::Classification(ClassificationReport {
            rows: 100 * classes as u64,
            accuracy: 0.9,
            error: 0.1,
            classes: (0..classes).map(Label::Int).collect(),
            confusion: (0..classes).map(|k| row(k).collect()).collect(),
            auc: (classes == 2).then_some(0.975),
            unknown: 0,
        })
    }

    #[test]
    fn two_classes_show_their_matrix_and_auc() {
        let expected = "\
  rows      200
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
