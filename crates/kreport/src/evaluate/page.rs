//! The scores of a model as a page. A regression has residuals; a classification has the confusion
//! matrix, the curves of its ranking, and the calibration. Both have the effects of the columns.

use super::{EvaluateReport, curves, effects};
use crate::page::{self, Axis, Chart, Page, Scale, Section, extent};
use crate::table::{format_count, format_list};
use ksolve::predict::{ChartData, ClassificationScores, Evaluation, NoveltyScores, RegressionScores};
use std::path::Path;

/// Maximum number of classes for which the page shows the confusion matrix.
const MAX_PAGE_MATRIX_CLASSES: usize = 30;

impl EvaluateReport {
    /// Returns the sections of a page: scores, and charts.
    pub(crate) fn sections(&self, chart_data: &ChartData) -> Vec<Section> {
        let mut sections = match self {
            EvaluateReport::Target(Evaluation::Regression(report)) => regression_sections(report, chart_data),
            EvaluateReport::Target(Evaluation::Classification(report)) => classification_sections(report, chart_data),
            EvaluateReport::Novelty(report) => novelty_sections(report, chart_data),
            EvaluateReport::Ranking(report) => {
                vec![Section::new("Scores", page::fact_list(super::ranking_facts(report)))]
            }
        };
        sections.extend(self.effects().into_iter().flat_map(effects::sections));
        sections
    }

    /// Returns the report as an HTML page; `warnings` are the warnings of the run.
    pub fn page(&self, chart_data: &ChartData, model: &Path, warnings: Vec<String>) -> Page {
        let mut sections = self.sections(chart_data);
        sections.push(page::run_section(true, vec![("model", model.display().to_string())], &[]));
        Page {
            title: "Evaluation".to_string(),
            subtitle: format!("{} on {} rows", model.display(), self.row_count()),
            warnings,
            style: curves::CURVE_STYLE.to_string(),
            sections,
            data: serde_json::to_value(self).unwrap_or_default(),
        }
    }

    fn row_count(&self) -> String {
        match self {
            EvaluateReport::Target(Evaluation::Regression(report)) => format_list(&[report.rows]),
            EvaluateReport::Target(Evaluation::Classification(report)) => format_list(&[report.rows]),
            EvaluateReport::Novelty(report) => format_list(&[report.rows]),
            EvaluateReport::Ranking(report) => format_count(report.rows),
        }
    }
}

pub(super) fn linear_axis(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Option<Axis> {
    Axis::new(label, Scale::Linear, values)
}

/// Returns the line between two points, with its name.
pub(super) fn reference_line(name: &str, line: [(f64, f64); 2]) -> Option<(String, Vec<(f64, f64)>)> {
    Some((name.to_string(), line.to_vec()))
}

fn regression_sections(report: &RegressionScores, chart_data: &ChartData) -> Vec<Section> {
    let scores = Section::new("Scores", page::fact_list(super::regression_facts(report)));
    let charts = residual_charts(report, chart_data).map(|charts| Section::new("Residuals", charts));
    std::iter::once(scores).chain(charts).collect()
}

fn residual_charts(report: &RegressionScores, chart_data: &ChartData) -> Option<String> {
    let scatter_chart = |id: &str, title: &str, y: &str, points: Vec<(f64, f64)>, line: [(f64, f64); 2]| {
        let heights = points.iter().map(|point| point.1).chain(line.map(|end| end.1));
        let (x, y) = (linear_axis("predicted", points.iter().map(|point| point.0))?, linear_axis(y, heights)?);
        Some(Chart {
            scatter_points: points,
            reference_line: reference_line("no error", line),
            ..Chart::new(id, title, x, y)
        })
    };
    let points = &chart_data.points;
    let (low, high) = extent(points.iter().map(|point| point.0));
    let truth_chart =
        scatter_chart("truth", "Actual against predicted", "actual", points.clone(), [(low, low), (high, high)])?;
    let residual_points: Vec<(f64, f64)> =
        points.iter().map(|(prediction, truth)| (*prediction, truth - prediction)).collect();
    let histogram = histogram(residual_points.iter().map(|point| point.1).collect())?;
    let residual_chart =
        scatter_chart("residuals", "Residual against predicted", RESIDUAL, residual_points, [(low, 0.0), (high, 0.0)])?;
    let drawn_rows = match points.len() as f64 == report.rows {
        true => "All rows".to_string(),
        false => format!("{} random rows", format_count(points.len() as u64)),
    };
    let target_note =
        report.by_target.first().map_or(String::new(), |first| format!(" of the target {}", first.target));
    Some(
        page::charts([&truth_chart, &residual_chart, &histogram]) + &page::note(&format!("{drawn_rows}{target_note}.")),
    )
}

const RESIDUAL: &str = "residual (actual − predicted)";

/// Half-width of the histogram around the mean, in standard deviations.
const HALF_WIDTH: f64 = 4.0;

/// Returns the histogram of actual − predicted; `None` without residuals. The first bar
/// includes all smaller values, and the last bar all larger values.
fn histogram(residuals: Vec<f64>) -> Option<Chart> {
    let n = residuals.len() as f64;
    let mean = residuals.iter().sum::<f64>() / n.max(1.0);
    let standard_deviation = (residuals.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n.max(1.0)).sqrt();
    let (smallest, largest) = extent(residuals.iter().copied());
    let (low, high) =
        (smallest.max(mean - HALF_WIDTH * standard_deviation), largest.min(mean + HALF_WIDTH * standard_deviation));
    // a constant residual has no width
    let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
    // the number of bins is about the square root of the number of residuals (Velleman)
    let bin_count = (n.sqrt() as usize).clamp(5, 40);
    let bin_width = (high - low) / bin_count as f64;
    let mut bin_row_counts = vec![0u64; bin_count];
    for residual in &residuals {
        bin_row_counts[(((residual - low) / bin_width).max(0.0) as usize).min(bin_count - 1)] += 1;
    }
    let bar = |(i, rows): (usize, &u64)| (low + i as f64 * bin_width, low + (i + 1) as f64 * bin_width, *rows as f64);
    let bars: Vec<(f64, f64, f64)> = bin_row_counts.iter().enumerate().map(bar).collect();
    let x = linear_axis(RESIDUAL, [low, high])?;
    // the height of a bar is its number of rows, so the axis starts at 0
    let max_bar_height = bars.iter().map(|bar| bar.2).fold(1.0, f64::max);
    let y = Axis::with_range("rows", (0.0, 1.04 * max_bar_height));
    let subtitle = "the outer bars include all values beyond".to_string();
    Some(Chart { bars, subtitle, ..Chart::new("histogram", "Histogram of the residuals", x, y) })
}

fn classification_sections(report: &ClassificationScores, chart_data: &ChartData) -> Vec<Section> {
    let classes = super::class_table(report);
    let scores =
        page::fact_list(super::classification_facts(report)) + &page::html_table(&classes.headings, &classes.rows);
    let mut sections = vec![Section::new("Scores", scores)];
    if report.classes.len() <= MAX_PAGE_MATRIX_CLASSES {
        sections.push(Section::new("Confusions", confusion_heat_map(report)));
    }
    let areas = curves::Areas { roc: report.auc.flatten(), precision: report.average_precision };
    sections.extend(curves::ranking_section(chart_data, areas));
    sections.extend(curves::class_curves_section(report, chart_data));
    sections.extend(curves::calibration_section(report, chart_data));
    sections
}

fn novelty_sections(report: &NoveltyScores, chart_data: &ChartData) -> Vec<Section> {
    let scores = Section::new("Scores", page::fact_list(super::novelty_facts(report)));
    let areas = curves::Areas { roc: report.auc, precision: report.average_precision };
    std::iter::once(scores).chain(curves::ranking_section(chart_data, areas)).collect()
}

/// Returns the confusion matrix as HTML, as fractions of the rows of each true class. The largest
/// fractions have the strongest colour.
fn confusion_heat_map(report: &ClassificationScores) -> String {
    let fraction = |row: &Vec<f64>, n: f64| Some(n / row.iter().sum::<f64>().max(f64::MIN_POSITIVE));
    let fractions = report.confusion.iter().map(|row| row.iter().map(|n| fraction(row, *n)).collect());
    let fractions: Vec<Vec<_>> = fractions.collect();
    let heat_map_html = page::heat_map("Confusion matrix", &super::confusion_grid(report), Scale::Linear, &fractions);
    heat_map_html + &page::note("The colour shows the fraction of the rows of the true class.")
}
