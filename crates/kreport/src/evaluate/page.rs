//! The scores of a model as a page. A regression has residuals; a classification has the confusion
//! matrix, the ROC and precision-recall curves, and the calibration.

use super::EvaluateReport;
use crate::page::{self, Axis, Chart, DataPoint, Page, Scale, Section, Series, extent};
use crate::table::{format_count, format_list, join_with_commas, number};
use ksolve::predict::{
    CalibrationBin, ChartData, ClassificationScores, Evaluation, NoveltyScores, RegressionScores, ThresholdScores,
};
use std::path::Path;

/// Maximum number of classes for which the page shows the confusion matrix.
const MAX_PAGE_MATRIX_CLASSES: usize = 30;

/// Style of the curves: they are lines, whose invisible points provide tooltips.
pub(crate) const PAGE_STYLE: &str =
    "#roc .c0.mark, #precision .c0.mark { opacity: 0; }\n#roc .line.c1, #precision .line.c1 { display: none; }\n";

impl EvaluateReport {
    /// Returns the sections of a page: scores, and charts.
    pub(crate) fn sections(&self, chart_data: &ChartData) -> Vec<Section> {
        match self {
            EvaluateReport::Target(Evaluation::Regression(report)) => regression_sections(report, chart_data),
            EvaluateReport::Target(Evaluation::Classification(report)) => classification_sections(report, chart_data),
            EvaluateReport::Novelty(report) => novelty_sections(report, chart_data),
            EvaluateReport::Ranking(report) => {
                vec![Section::new("Scores", page::fact_list(super::ranking_facts(report)))]
            }
        }
    }

    /// Returns the report as an HTML page.
    pub fn page(&self, chart_data: &ChartData, model: &Path) -> Page {
        let mut sections = self.sections(chart_data);
        sections.push(page::run_section(true, vec![("model", model.display().to_string())], &[]));
        Page {
            title: "Evaluation".to_string(),
            subtitle: format!("{} on {} rows", model.display(), self.row_count()),
            style: PAGE_STYLE.to_string(),
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

fn linear_axis(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Option<Axis> {
    Axis::new(label, Scale::Linear, values)
}

/// Returns the line between two points, with its name.
fn reference_line(name: &str, line: [(f64, f64); 2]) -> Option<(String, Vec<(f64, f64)>)> {
    Some((name.to_string(), line.to_vec()))
}

fn model_series(marks: impl Iterator<Item = DataPoint>) -> Vec<Series> {
    vec![Series { name: "model".to_string(), palette_index: 0, marks: marks.collect() }]
}

fn regression_sections(report: &RegressionScores, chart_data: &ChartData) -> Vec<Section> {
    let scores = Section::new("Scores", page::fact_list(super::regression_facts(report)));
    let charts = residual_charts(report, chart_data).map(|charts| Section::new("Residuals", charts));
    std::iter::once(scores).chain(charts).collect()
}

fn residual_charts(report: &RegressionScores, chart_data: &ChartData) -> Option<String> {
    let scatter_chart = |id: &str, title: &str, y: &str, points: Vec<(f64, f64)>, line: [(f64, f64); 2]| {
        let heights = points.iter().map(|point| point.1).chain(line.map(|end| end.1));
        let (x, y) = (linear_axis("prediction", points.iter().map(|point| point.0))?, linear_axis(y, heights)?);
        Some(Chart {
            scatter_points: points,
            reference_line: reference_line("no error", line),
            ..Chart::new(id, title, x, y)
        })
    };
    let points = &chart_data.points;
    let (low, high) = extent(points.iter().map(|point| point.0));
    let truth_chart =
        scatter_chart("truth", "Truth against prediction", "truth", points.clone(), [(low, low), (high, high)])?;
    let residual_points: Vec<(f64, f64)> =
        points.iter().map(|(prediction, truth)| (*prediction, truth - prediction)).collect();
    let histogram = histogram(residual_points.iter().map(|point| point.1).collect())?;
    let residual_chart = scatter_chart(
        "residuals",
        "Residual against prediction",
        "truth − prediction",
        residual_points,
        [(low, 0.0), (high, 0.0)],
    )?;
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

/// Half-width of the histogram around the mean, in standard deviations.
const HALF_WIDTH: f64 = 4.0;

/// Returns the histogram of truth − prediction; `None` without residuals. The first bar
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
    let x = linear_axis("truth − prediction", [low, high])?;
    // the height of a bar is its number of rows, so the axis starts at 0
    let max_bar_height = bars.iter().map(|bar| bar.2).fold(1.0, f64::max);
    let y = Axis::with_range("rows; the outer bars include all values beyond", (0.0, 1.04 * max_bar_height));
    Some(Chart { bars, ..Chart::new("histogram", "Histogram of the residuals", x, y) })
}

fn classification_sections(report: &ClassificationScores, chart_data: &ChartData) -> Vec<Section> {
    let classes = super::class_table(report);
    let scores =
        page::fact_list(super::classification_facts(report)) + &page::html_table(&classes.headings, &classes.rows);
    let mut sections = vec![Section::new("Scores", scores)];
    if report.classes.len() <= MAX_PAGE_MATRIX_CLASSES {
        sections.push(Section::new("Confusions", confusion_heat_map(report)));
    }
    sections.extend(ranking_curves(chart_data));
    sections.extend(calibration_section(report, chart_data));
    sections
}

fn calibration_section(report: &ClassificationScores, chart_data: &ChartData) -> Option<Section> {
    let bins = chart_data.calibration.as_ref()?;
    let (x, y) = match &report.positive {
        Some(label) => (format!("predicted probability of {label}"), format!("fraction of the rows that are {label}")),
        None => ("probability of the predicted class".to_string(), "fraction of the rows of this class".to_string()),
    };
    let mark = |bin: &CalibrationBin| {
        let note = format!("predicted {}, {} rows", number(bin.predicted, 4), format_list(&[bin.rows]));
        DataPoint::new((bin.predicted, bin.observed), note)
    };
    let chart = Chart {
        series: model_series(bins.iter().map(mark)),
        reference_line: reference_line("perfect calibration", [(0.0, 0.0), (1.0, 1.0)]),
        ..Chart::new("calibration", "Calibration curve", linear_axis(x, [0.0, 1.0])?, linear_axis(y, [0.0, 1.0])?)
    };
    let brier = report.brier.map_or(String::new(), |brier| format!(" Brier score {}.", number(brier, 4)));
    let note = "Each mark is a group of rows with similar probabilities. The dotted line is perfect calibration: of the rows with \
        probability 30 %, 30 % have the class.";
    Some(Section::new("Calibration", page::charts([&chart]) + &page::note(&format!("{note}{brier}"))))
}

fn novelty_sections(report: &NoveltyScores, chart_data: &ChartData) -> Vec<Section> {
    let scores = Section::new("Scores", page::fact_list(super::novelty_facts(report)));
    std::iter::once(scores).chain(ranking_curves(chart_data)).collect()
}

/// Returns the ROC and precision-recall curves; `None` if there are none.
fn ranking_curves(chart_data: &ChartData) -> Option<Section> {
    let curve = |points: &[(f64, f64)], x_name: &str| {
        model_series(points.iter().map(|point| DataPoint::new(*point, format!("{x_name} {}", number(point.0, 4)))))
    };
    let chart = |id, title, x, y| Some(Chart::new(id, title, linear_axis(x, [0.0, 1.0])?, linear_axis(y, [0.0, 1.0])?));
    let threshold_series = |position: &dyn Fn(&ThresholdScores) -> Option<(f64, f64)>| {
        let mark = |scores: &ThresholdScores| {
            Some(DataPoint::new(position(scores)?, format!("threshold {}", number(scores.threshold, 3))))
        };
        let marks: Vec<DataPoint> = chart_data.thresholds.iter().filter_map(mark).collect();
        (!marks.is_empty()).then(|| Series { name: "thresholds".to_string(), palette_index: 1, marks })
    };
    let roc_chart = chart_data.roc.as_ref().and_then(|points| {
        let x = "false positive rate: fraction of the negative class predicted positive";
        let y = "true positive rate: fraction of the positive class predicted positive";
        let chance_line = reference_line("chance", [(0.0, 0.0), (1.0, 1.0)]);
        let mut series = curve(points, "false positive rate");
        series.extend(threshold_series(&|scores| Some((scores.false_positive_rate, scores.recall))));
        Some(Chart { series, reference_line: chance_line, ..chart("roc", "ROC curve", x, y)? })
    });
    let precision_chart = chart_data.precision.as_ref().and_then(|points| {
        let x = "recall: fraction of the positive class predicted positive";
        let y = "precision: fraction of the positive predictions that are correct";
        let chance = points.last()?.1;
        let chance_line = reference_line("chance", [(0.0, chance), (1.0, chance)]);
        let chart = chart("precision", "Precision against recall", x, y)?;
        let mut series = curve(points, "recall");
        series.extend(threshold_series(&|scores| Some((scores.recall, scores.precision?))));
        Some(Chart { series, reference_line: chance_line, ..chart })
    });
    let charts: Vec<Chart> = roc_chart.into_iter().chain(precision_chart).collect();
    let note = match &chart_data.thresholds[..] {
        [] => String::new(),
        thresholds => {
            let threshold_list = join_with_commas(thresholds.iter().map(|scores| number(scores.threshold, 3)));
            page::note(&format!("Squares are thresholds: {threshold_list}; the first one decides the class."))
        }
    };
    (!charts.is_empty()).then(|| Section::new("Ranking", page::charts(&charts) + &note))
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
