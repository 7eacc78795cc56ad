//! Scores as a page: residuals of a regression; confusions and the ROC curve of a classification.

use crate::evaluate::{self, EvaluateReport};
use crate::machine;
use crate::page::{self, Axis, Chart, Heat, Mark, Page, Scale, Section, Series};
use crate::table::{Grid, count, number};
use ksolve::predict::{ClassificationScores, Details, Evaluation, NoveltyScores, RegressionScores};
use std::path::Path;

/// Most classes with which the confusion matrix is shown.
const CLASSES: usize = 30;

/// Makes the page of a report.
pub(crate) fn page(report: &EvaluateReport, details: &Details, model: &Path) -> Page {
    let (mut sections, rows) = match report {
        EvaluateReport::Target(Evaluation::Regression(report)) => (regression(report, details), report.rows),
        EvaluateReport::Target(Evaluation::Classification(report)) => (classification(report, details), report.rows),
        EvaluateReport::Novelty(report) => (novelty(report, details), report.rows),
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
        // a curve is a line; its points are there for the values under the pointer
        style: "#roc .mark, #precision .mark { opacity: 0; }\n".to_string(),
        sections,
        data: serde_json::to_value(report).unwrap_or_default(),
    }
}

fn regression(report: &RegressionScores, details: &Details) -> Vec<Section> {
    let facts = evaluate::regression_facts(report);
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
    let facts = evaluate::classification_facts(report);
    let mut sections = vec![Section::new("Scores", page::facts(facts))];
    if report.classes.len() <= CLASSES {
        sections.push(Section::new("Confusions", confusions(report)));
    }
    sections.extend(ranking(details));
    sections
}

fn novelty(report: &NoveltyScores, details: &Details) -> Vec<Section> {
    let scores = Section::new("Scores", page::facts(evaluate::novelty_facts(report)));
    std::iter::once(scores).chain(ranking(details)).collect()
}

/// The curves of a ranking of the rows: ROC, and precision against recall.
fn ranking(details: &Details) -> Option<Section> {
    let charts: Vec<String> =
        [roc(details), precision(details)].into_iter().flatten().map(|chart| chart.to_string()).collect();
    (!charts.is_empty()).then(|| Section::new("Ranking", format!("<div class=\"charts\">{}</div>", charts.concat())))
}

/// The confusion matrix as HTML, in shares of each true class, strongest where most rows are.
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
    let heat = Heat { title: "Confusion matrix", grid, shading: Scale::Linear, scores };
    format!("{heat}<p class=\"note\">The stronger the colour, the larger the share of the true class.</p>")
}

/// A line through points, each with what is said of it.
fn curve(name: &str, points: &[(f64, f64)], note: impl Fn(f64) -> String) -> Vec<Series> {
    let mark = |(x, y): &(f64, f64)| Mark { x: *x, y: *y, band: (*y, *y), note: note(*x) };
    vec![Series { name: name.to_string(), place: 0, marks: points.iter().map(mark).collect() }]
}

fn roc(details: &Details) -> Option<Chart> {
    let points = details.roc.as_ref()?;
    let ends = || [0.0, 1.0];
    Some(Chart {
        id: "roc".to_string(),
        title: "ROC curve".to_string(),
        x: Axis::new("false positives: share of the first class taken for the second", Scale::Linear, ends())?,
        y: Axis::new("true positives: share of the second class recognised", Scale::Linear, ends())?,
        series: curve("model", points, |x| format!("false positives {}", number(x, 3))),
        cloud: Vec::new(),
        floor: Some(("chance".to_string(), vec![(0.0, 0.0), (1.0, 1.0)])),
    })
}

fn precision(details: &Details) -> Option<Chart> {
    let points = details.precision.as_ref()?;
    let ends = || [0.0, 1.0];
    let chance = points.last()?.1;
    Some(Chart {
        id: "precision".to_string(),
        title: "Precision against recall".to_string(),
        x: Axis::new("recall: share of the second class that is found", Scale::Linear, ends())?,
        y: Axis::new("precision: share of what is found that is right", Scale::Linear, ends())?,
        series: curve("model", points, |x| format!("recall {}", number(x, 3))),
        cloud: Vec::new(),
        floor: Some(("chance".to_string(), vec![(0.0, chance), (1.0, chance)])),
    })
}
