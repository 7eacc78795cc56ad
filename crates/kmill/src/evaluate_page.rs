//! Scores as a page: residuals of a regression; confusions, curves of the ranking and calibration of a classification.

use crate::evaluate::{self, EvaluateReport};
use crate::machine;
use crate::page::{self, Axis, Chart, Heat, Mark, Page, Scale, Section, Series};
use crate::table::{Grid, count, number};
use ksolve::predict::{CalibrationBin, ClassificationScores, Details, Evaluation, NoveltyScores, RegressionScores};
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
            bars: Vec::new(),
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
    let histogram = histogram(points)?;
    let of = match (points.len() as u64 == report.rows, report.by_target.first()) {
        (true, _) => "All rows".to_string(),
        (false, _) => format!("{} rows at random", count(points.len() as u64)),
    };
    let which =
        report.by_target.first().map_or(String::new(), |first| format!(" of the target {}", page::text(&first.target)));
    Some(format!("<div class=\"charts\">{truth}{left}{histogram}</div><p class=\"note\">{of}{which}.</p>"))
}

/// Standard deviations around the mean that the histogram shows.
const SHOWN: f64 = 4.0;

/// The histogram of truth − prediction; the first and the last bar also have what is beyond.
fn histogram(points: &[(f64, f64)]) -> Option<Chart> {
    let residuals: Vec<f64> = points.iter().map(|(prediction, truth)| truth - prediction).collect();
    let n = residuals.len() as f64;
    let mean = residuals.iter().sum::<f64>() / n.max(1.0);
    let deviation = (residuals.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n.max(1.0)).sqrt();
    let (least, most) = residuals.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), r| (l.min(*r), m.max(*r)));
    let (low, high) = (least.max(mean - SHOWN * deviation), most.min(mean + SHOWN * deviation));
    // residuals that are all the same have no width
    let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
    // about the root of their number (Velleman)
    let count = (n.sqrt() as usize).clamp(5, 40);
    let width = (high - low) / count as f64;
    let mut rows = vec![0u64; count];
    for residual in &residuals {
        rows[(((residual - low) / width).max(0.0) as usize).min(count - 1)] += 1;
    }
    let bar = |(i, rows): (usize, &u64)| (low + i as f64 * width, low + (i + 1) as f64 * width, *rows as f64);
    let bars: Vec<(f64, f64, f64)> = rows.iter().enumerate().map(bar).collect();
    Some(Chart {
        id: "histogram".to_string(),
        title: "Histogram of the residuals".to_string(),
        x: Axis::new("truth − prediction", Scale::Linear, [low, high])?,
        y: Axis::new("rows; the outer bars have all beyond", Scale::Linear, bars.iter().map(|bar| bar.2).chain([0.0]))?,
        series: Vec::new(),
        cloud: Vec::new(),
        bars,
        floor: None,
    })
}

fn classification(report: &ClassificationScores, details: &Details) -> Vec<Section> {
    let facts = evaluate::classification_facts(report);
    let mut sections = vec![Section::new("Scores", page::facts(facts))];
    if report.classes.len() <= CLASSES {
        sections.push(Section::new("Confusions", confusions(report)));
    }
    sections.extend(ranking(details));
    sections.extend(calibration(report, details));
    sections
}

/// The chart of predicted probabilities against shares of rows.
fn calibration(report: &ClassificationScores, details: &Details) -> Option<Section> {
    let bins = details.calibration.as_ref()?;
    let ends = || [0.0, 1.0];
    let (x, y) = match &report.classes[..] {
        [_, second] => (format!("predicted probability of {second}"), format!("share of the rows that are {second}")),
        _ => ("probability of the predicted class".to_string(), "share of the rows that are of it".to_string()),
    };
    let mark = |bin: &CalibrationBin| Mark {
        x: bin.predicted,
        y: bin.observed,
        band: (bin.observed, bin.observed),
        note: format!("predicted {}, {} rows", number(bin.predicted, 3), count(bin.rows)),
    };
    let chart = Chart {
        id: "calibration".to_string(),
        title: "Calibration curve".to_string(),
        x: Axis::new(x, Scale::Linear, ends())?,
        y: Axis::new(y, Scale::Linear, ends())?,
        series: vec![Series { name: "model".to_string(), place: 0, marks: bins.iter().map(mark).collect() }],
        cloud: Vec::new(),
        bars: Vec::new(),
        floor: Some(("probabilities that are right".to_string(), vec![(0.0, 0.0), (1.0, 1.0)])),
    };
    let brier = report.brier.map_or(String::new(), |brier| format!(" Brier score {}.", number(brier, 4)));
    let note = "Each mark is the rows of nearly one probability. On the dotted line probabilities are right: of the rows with 30 %, 30 % have the class.";
    Some(Section::new("Calibration", format!("<div class=\"charts\">{chart}</div><p class=\"note\">{note}{brier}</p>")))
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
        x: Axis::new("false positive rate: of the first class", Scale::Linear, ends())?,
        y: Axis::new("true positive rate: share of the second class that is found", Scale::Linear, ends())?,
        series: curve("model", points, |x| format!("false positive rate {}", number(x, 3))),
        cloud: Vec::new(),
        bars: Vec::new(),
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
        bars: Vec::new(),
        floor: Some(("chance".to_string(), vec![(0.0, chance), (1.0, chance)])),
    })
}
