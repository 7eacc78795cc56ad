//! Scores as a page: residuals of a regression; confusions and the ROC curve of a classification.

use crate::machine;
use crate::page::{self, Axis, Chart, Heat, Mark, Page, Scale, Section, Series};
use crate::table::{Grid, count, number, percent};
use ksolve::predict::{ClassificationScores, Details, Evaluation, RegressionScores};
use std::path::Path;

/// Most classes with which the confusion matrix is shown.
const CLASSES: usize = 30;

/// Makes the page of a report.
pub(crate) fn page(report: &Evaluation, details: &Details, model: &Path) -> Page {
    let (mut sections, rows) = match report {
        Evaluation::Regression(report) => (regression(report, details), report.rows),
        Evaluation::Classification(report) => (classification(report, details), report.rows),
    };
    let facts = [
        ("kmill", env!("CARGO_PKG_VERSION").to_string()),
        ("machine", machine::machine()),
        ("model", model.display().to_string()),
    ];
    sections.push(Section::new("Run", format!("{}{}", page::command(&machine::command()), page::facts(facts))));
    Page {
        title: "Evaluation".to_string(),
        subtitle: format!("{} on {} rows", model.display(), count(rows)),
        style: String::new(),
        sections,
        data: serde_json::to_value(report).unwrap_or_default(),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or("–".to_string(), |value| number(value, 4))
}

fn regression(report: &RegressionScores, details: &Details) -> Vec<Section> {
    let s = &report.scores;
    let facts = [
        ("rows", count(report.rows)),
        ("mse", optional(s.mse)),
        ("rmse", optional(s.rmse)),
        ("mae", optional(s.mae)),
        ("r2", optional(s.r2)),
        ("relative error", optional(s.relative_error)),
    ];
    let mut sections = vec![Section::new("Scores", page::facts(facts))];
    if let Some(charts) = residuals(report, details) {
        sections.push(Section::new("Residuals", charts));
    }
    sections
}

/// The charts of truth and residual against the prediction, for a sample of the rows, as HTML.
fn residuals(report: &RegressionScores, details: &Details) -> Option<String> {
    let cloud = |id: &str, title: &str, y: &str, points: Vec<(f64, f64)>, line: [(f64, f64); 2]| {
        let heights = points.iter().map(|point| point.1).chain(line.map(|end| end.1));
        Some(Chart {
            id: id.to_string(),
            title: title.to_string(),
            x: Axis::new("prediction", Scale::Linear, points.iter().map(|point| point.0))?,
            y: Axis::new(y, Scale::Linear, heights)?,
            series: Vec::new(),
            cloud: points,
            floor: Some(("no error".to_string(), line.to_vec())),
        })
    };
    let points = &details.points;
    let ends = |of: fn(f64, f64) -> f64, start: f64| points.iter().map(|point| point.0).fold(start, of);
    let (low, high) = (ends(f64::min, f64::INFINITY), ends(f64::max, f64::NEG_INFINITY));
    let truth = cloud("truth", "Truth against prediction", "truth", points.clone(), [(low, low), (high, high)])?;
    let left: Vec<(f64, f64)> = points.iter().map(|(prediction, truth)| (*prediction, truth - prediction)).collect();
    let left =
        cloud("residuals", "Residual against prediction", "truth − prediction", left, [(low, 0.0), (high, 0.0)])?;
    let of = match (points.len() as u64 == report.rows, report.by_target.first()) {
        (true, _) => "All rows".to_string(),
        (false, _) => format!("{} rows at random", count(points.len() as u64)),
    };
    let which =
        report.by_target.first().map_or(String::new(), |first| format!(" of the target {}", page::text(&first.target)));
    Some(format!("<div class=\"charts\">{truth}{left}</div><p class=\"note\">{of}{which}.</p>"))
}

fn classification(report: &ClassificationScores, details: &Details) -> Vec<Section> {
    let mut facts = vec![
        ("rows", count(report.rows)),
        ("accuracy", percent(report.accuracy.unwrap_or(f64::NAN))),
        ("error", percent(report.error.unwrap_or(f64::NAN))),
    ];
    facts.extend(report.auc.map(|auc| ("area under the ROC curve", optional(auc))));
    if report.unknown > 0 {
        facts.push(("unknown", format!("{} rows of classes the model has never seen", count(report.unknown))));
    }
    let mut sections = vec![Section::new("Scores", page::facts(facts))];
    if report.classes.len() <= CLASSES {
        sections.push(Section::new("Confusions", confusions(report)));
    }
    if let Some(chart) = roc(details) {
        sections.push(Section::new("ROC curve", format!("<div class=\"charts\">{chart}</div>")));
    }
    sections
}

/// The confusion matrix as HTML, in shares of each true class, darkest where most rows are.
fn confusions(report: &ClassificationScores) -> String {
    let names: Vec<String> = report.classes.iter().map(ToString::to_string).collect();
    let rows = names.iter().zip(&report.confusion);
    let share = |row: &Vec<u64>, n: u64| Some(n as f64 / row.iter().sum::<u64>().max(1) as f64);
    let scores = report.confusion.iter().map(|row| row.iter().map(|n| share(row, *n)).collect()).collect();
    let grid = Grid {
        corner: "true \\ predicted".to_string(),
        columns: names.clone(),
        rows: rows.map(|(name, row)| (name.clone(), row.iter().map(|n| count(*n)).collect())).collect(),
        marked: None,
    };
    let heat = Heat { title: "Confusion matrix", grid, scores };
    format!("{heat}<p class=\"note\">Darker is a larger share of the true class.</p>")
}

fn roc(details: &Details) -> Option<Chart> {
    let points = details.roc.as_ref()?;
    let ends = || [0.0, 1.0];
    let mark =
        |(x, y): &(f64, f64)| Mark { x: *x, y: *y, band: (*y, *y), note: format!("false positives {}", number(*x, 3)) };
    Some(Chart {
        id: "roc".to_string(),
        title: "True against false positives".to_string(),
        x: Axis::new("share of the first class taken for the second", Scale::Linear, ends())?,
        y: Axis::new("share of the second class recognised", Scale::Linear, ends())?,
        series: vec![Series { name: "model".to_string(), place: 0, marks: points.iter().map(mark).collect() }],
        cloud: Vec::new(),
        floor: Some(("chance".to_string(), vec![(0.0, 0.0), (1.0, 1.0)])),
    })
}
