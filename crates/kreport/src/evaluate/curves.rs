//! The curves of two classes: ROC, precision and recall, gains and lift, and the calibration.

use super::page::{linear_axis, reference_line};
use crate::page::{self, Chart, DataPoint, Section, Series, Spread};
use crate::table::{format_list, number, percent};
use ksolve::predict::{CalibrationBin, ChartData, ClassificationScores, ThresholdScores};
use kstore::Label;

/// Style of the curves: they are lines, whose invisible points provide tooltips.
pub(crate) const CURVE_STYLE: &str = "#roc .c0.mark, #precision .c0.mark, #gains .c0.mark, #lift .c0.mark, \
    #class-roc .mark { opacity: 0; }\n\
    #roc .line.c1, #precision .line.c1 { display: none; }\n";

/// Smallest fraction of the rows at which the lift is shown: with few rows it is mostly noise.
const MIN_LIFT_FRACTION: f64 = 0.01;

/// Areas under the curves.
#[derive(Clone, Copy)]
pub(super) struct Areas {
    pub(super) roc: Option<f64>,
    pub(super) precision: Option<f64>,
}

/// Returns the curves of the ranking of two classes; `None` if there are none.
pub(super) fn ranking_section(chart_data: &ChartData, areas: Areas) -> Option<Section> {
    let charts: Vec<Chart> = [
        roc_chart(chart_data, areas),
        precision_chart(chart_data, areas),
        gains_chart(chart_data),
        lift_chart(chart_data),
    ]
    .into_iter()
    .flatten()
    .collect();
    let note = match &chart_data.thresholds[..] {
        [] => String::new(),
        _ => {
            page::note("Squares are thresholds, with their values; the model decides by the first one in the table.")
                + &page::details("thresholds", &threshold_table(&chart_data.thresholds))
        }
    };
    (!charts.is_empty()).then(|| Section::new("Ranking", page::charts(&charts) + &note))
}

/// Returns a line with its name; `x` is the name of the horizontal axis in the tooltip.
fn curve(name: String, points: impl Iterator<Item = (f64, f64)>, x: &str) -> Series {
    let marks = points.map(|point| DataPoint::new(point, format!("{x} {}", number(point.0, 4)))).collect();
    Series { name, marks, ..Series::default() }
}

/// Returns `ROC curve, area 0.953`.
fn with_area(name: &str, area: Option<f64>) -> String {
    area.map_or(name.to_string(), |area| format!("{name}, area {}", number(area, 4)))
}

/// Returns the marks of the thresholds, at a position that depends on their scores.
fn thresholds(
    chart_data: &ChartData,
    position: impl Fn(&ThresholdScores) -> Option<(f64, f64)>,
) -> impl Iterator<Item = Series> {
    let mark = |scores: &ThresholdScores| {
        let text = number(scores.threshold, 3);
        Some(DataPoint { label: text.clone(), ..DataPoint::new(position(scores)?, format!("threshold {text}")) })
    };
    let marks: Vec<DataPoint> = chart_data.thresholds.iter().filter_map(mark).collect();
    (!marks.is_empty())
        .then(|| Series { name: "thresholds".to_string(), palette_index: 1, marks, ..Series::default() })
        .into_iter()
}

fn fraction_chart(id: &str, title: &str, x: &str, y: &str) -> Option<Chart> {
    let [x, y] = [x, y].map(|label| linear_axis(label, [0.0, 1.0]));
    Some(Chart { has_legend: true, ..Chart::new(id, title, x?, y?) })
}

fn roc_chart(chart_data: &ChartData, areas: Areas) -> Option<Chart> {
    let points = chart_data.roc.as_ref()?.iter().copied();
    let series = std::iter::once(curve(with_area("model", areas.roc), points, "false positive rate"));
    let thresholds = thresholds(chart_data, |scores| Some((scores.false_positive_rate, scores.recall)));
    Some(Chart {
        series: series.chain(thresholds).collect(),
        reference_line: reference_line("chance, area 0.5", [(0.0, 0.0), (1.0, 1.0)]),
        ..fraction_chart("roc", "ROC curve", "false positive rate", "true positive rate (recall)")?
    })
}

fn precision_chart(chart_data: &ChartData, areas: Areas) -> Option<Chart> {
    let points = chart_data.precision.as_ref()?;
    let series = std::iter::once(curve(with_area("model", areas.precision), points.iter().copied(), "recall"));
    let thresholds = thresholds(chart_data, |scores| Some((scores.recall, scores.precision?)));
    // with all rows, the precision is the fraction of the positives
    let positives = points.last()?.1;
    let chance = format!("chance, area {}", number(positives, 4));
    Some(Chart {
        series: series.chain(thresholds).collect(),
        reference_line: reference_line(&chance, [(0.0, positives), (1.0, positives)]),
        ..fraction_chart("precision", "Precision and recall", "recall", "precision")?
    })
}

fn gains_chart(chart_data: &ChartData) -> Option<Chart> {
    let points = chart_data.gains.as_ref()?;
    Some(Chart {
        series: vec![curve("model".to_string(), points.iter().copied(), "fraction of the rows")],
        reference_line: reference_line("chance", [(0.0, 0.0), (1.0, 1.0)]),
        ..fraction_chart("gains", "Gains", "fraction of the rows, highest scores first", "fraction of the positives")?
    })
}

fn lift_chart(chart_data: &ChartData) -> Option<Chart> {
    let points = chart_data.gains.as_ref()?.iter().filter(|(rows, _)| *rows >= MIN_LIFT_FRACTION);
    let points: Vec<(f64, f64)> = points.map(|(rows, recall)| (*rows, recall / rows)).collect();
    let x = linear_axis("fraction of the rows, highest scores first", [0.0, 1.0])?;
    let y = linear_axis("lift over random rows", points.iter().map(|point| point.1).chain([0.0, 1.0]))?;
    Some(Chart {
        series: vec![curve("model".to_string(), points.into_iter(), "fraction of the rows")],
        reference_line: reference_line("chance", [(0.0, 1.0), (1.0, 1.0)]),
        has_legend: true,
        ..Chart::new("lift", "Lift", x, y)
    })
}

fn threshold_table(thresholds: &[ThresholdScores]) -> String {
    let headings = ["threshold", "true positive rate", "false positive rate", "precision", "false positives", "misses"];
    let row = |scores: &ThresholdScores| {
        vec![
            number(scores.threshold, 4),
            percent(scores.recall),
            percent(scores.false_positive_rate),
            scores.precision.map_or(String::new(), percent),
            format_list(&[scores.false_alarms]),
            format_list(&[scores.misses]),
        ]
    };
    page::html_table(&headings, &thresholds.iter().map(row).collect::<Vec<_>>())
}

/// Maximum number of classes whose ROC curves are drawn.
const MAX_CLASS_CURVES: usize = 10;

/// Returns the ROC curves of more than two classes, each against the rest; `None` if there are
/// none. Of many classes, the ones with the smallest areas are drawn.
pub(super) fn class_curves_section(report: &ClassificationScores, chart_data: &ChartData) -> Option<Section> {
    let classes = report.classes.iter().zip(&report.by_class).zip(&chart_data.roc_by_class);
    let areas = classes.filter_map(|((label, class), points)| Some((class.one_vs_rest?.auc?, label, points)));
    let mut classes: Vec<_> = areas.enumerate().collect();
    let class_count = classes.len();
    classes.sort_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
    classes.truncate(MAX_CLASS_CURVES);
    classes.sort_by_key(|(position, _)| *position);
    let series = |(index, (_, (area, label, points))): (usize, &(usize, (f64, &Label, &Vec<_>)))| Series {
        palette_index: index,
        ..curve(with_area(&label.to_string(), Some(*area)), points.iter().copied(), "false positive rate")
    };
    let subtitle = match class_count > MAX_CLASS_CURVES {
        true => format!("the {MAX_CLASS_CURVES} of {class_count} classes with the smallest areas"),
        false => String::new(),
    };
    let chart = Chart {
        series: classes.iter().enumerate().map(series).collect(),
        reference_line: reference_line("chance, area 0.5", [(0.0, 0.0), (1.0, 1.0)]),
        subtitle,
        ..fraction_chart("class-roc", "ROC curves", "false positive rate", "true positive rate (recall)")?
    };
    let note = page::note("Each curve ranks the rows by their score for one class, against all other classes.");
    (class_count > 0).then(|| Section::new("Ranking", page::charts([&chart]) + &note))
}

/// Returns the calibration; `None` for models without probabilities.
pub(super) fn calibration_section(report: &ClassificationScores, chart_data: &ChartData) -> Option<Section> {
    let bins = chart_data.calibration.as_ref()?;
    let (x, y) = match &report.positive {
        Some(label) => (format!("predicted probability of {label}"), format!("observed fraction of {label}")),
        None => ("probability of the predicted class".to_string(), "observed fraction correct".to_string()),
    };
    let mark = |bin: &CalibrationBin| {
        let note = format!("predicted {}, {} rows", number(bin.predicted, 4), format_list(&[bin.rows]));
        DataPoint { band: bin.interval, ..DataPoint::new((bin.predicted, bin.observed), note) }
    };
    let marks: Vec<DataPoint> = bins.iter().map(mark).collect();
    let series = Series {
        name: "rows of a bin, interval of 95 %".to_string(),
        marks,
        spread: Spread::ErrorBars,
        ..Series::default()
    };
    // a rare class fills a corner of the unit square, so the axes end at the largest value
    let [largest_x, largest_y] = [
        bins.iter().map(|bin| bin.predicted).fold(0.0, f64::max),
        bins.iter().map(|bin| bin.interval.1).fold(0.0, f64::max),
    ];
    let ends = [0.0, if largest_x.max(largest_y) > 0.5 { 1.0 } else { largest_x.max(largest_y) }];
    let chart = Chart {
        series: vec![series],
        reference_line: reference_line("perfect calibration", [(0.0, 0.0), (ends[1], ends[1])]),
        has_legend: true,
        ..Chart::new("calibration", "Calibration", linear_axis(x, ends)?, linear_axis(y, ends)?)
    };
    let brier = report.brier.map_or(String::new(), |brier| format!(" Brier score {}.", number(brier, 4)));
    let note = "The bins hold about equal numbers of rows. On the dotted line, 30 % of the rows with probability 30 % have the \
        class; bins whose interval misses the line are off by more than chance.";
    let row = |bin: &CalibrationBin| {
        let interval = format!("{} to {}", percent(bin.interval.0), percent(bin.interval.1));
        vec![percent(bin.predicted), percent(bin.observed), interval, format_list(&[bin.rows])]
    };
    let headings = ["predicted", "observed", "interval of 95 %", "rows"];
    let table = page::html_table(&headings, &bins.iter().map(row).collect::<Vec<_>>());
    let body = page::charts([&chart]) + &page::note(&format!("{note}{brier}")) + &page::details("bins", &table);
    Some(Section::new("Calibration", body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::predict::{ClassScores, OneVsRestScores};

    #[test]
    fn legends_have_one_area_each_and_thresholds_are_labelled() {
        let scores = |threshold: f64, recall: f64| ThresholdScores {
            threshold,
            false_alarms: 3.0,
            misses: 2.0,
            false_positive_rate: recall / 4.0,
            recall,
            precision: Some(0.75),
        };
        let chart_data = ChartData {
            roc: Some(vec![(0.0, 0.0), (0.1, 0.8), (1.0, 1.0)]),
            precision: Some(vec![(0.5, 1.0), (1.0, 0.25)]),
            gains: Some(vec![(0.0, 0.0), (0.25, 0.75), (1.0, 1.0)]),
            thresholds: vec![scores(0.5, 0.8), scores(0.501, 0.8), scores(0.9, 0.2)],
            ..ChartData::default()
        };
        let areas = Areas { roc: Some(0.8512), precision: Some(0.625) };
        let html = ranking_section(&chart_data, areas).unwrap().body;
        for text in ["model, area 0.8512", "chance, area 0.5", "model, area 0.6250", "chance, area 0.2500"] {
            assert_eq!(html.matches(&format!("</svg>{text}</span>")).count(), 1, "{text}: {html}");
        }
        for id in ["roc", "precision", "gains", "lift"] {
            assert!(html.contains(&format!("id=\"{id}\"")), "{id}: {html}");
        }
        let labels = |text: &str| html.matches(&format!(">{text}</text>")).count();
        // two charts; a label that would cover another one is left out
        assert_eq!(html.matches("class=\"label\"").count(), 4, "{html}");
        assert!(labels("0.900") == 2 && labels("0.501") == 0, "{html}");
        assert!(html.contains("data-y=\"3e0\""), "the lift at a quarter of the rows: {html}");
    }

    #[test]
    fn the_ten_classes_with_the_smallest_areas_have_curves() {
        let class = |k: usize| ClassScores {
            // class 12 has no rows
            one_vs_rest: Some(OneVsRestScores {
                auc: (k != 12).then(|| 1.0 - k as f64 / 100.0),
                ..OneVsRestScores::default()
            }),
            ..ClassScores::default()
        };
        let report = |count: usize| ClassificationScores {
            classes: (0..count as i64).map(Label::Int).collect(),
            by_class: (0..count).map(class).collect(),
            ..ClassificationScores::default()
        };
        let curves = vec![vec![(0.0, 0.0), (0.1, 0.9), (1.0, 1.0)]; 13];
        let chart_data = ChartData { roc_by_class: curves, ..ChartData::default() };
        let html = class_curves_section(&report(13), &chart_data).unwrap().body;
        assert_eq!(html.matches("class=\"series s").count(), 10, "{html}");
        assert!(html.contains("the 10 of 12 classes with the smallest areas"), "{html}");
        assert!(html.contains("</svg>2, area 0.9800</span>") && !html.contains("</svg>1, area"), "{html}");
        let html = class_curves_section(&report(3), &chart_data).unwrap().body;
        assert!(html.matches("class=\"series s").count() == 3 && !html.contains("smallest areas"), "{html}");
        assert!(class_curves_section(&report(3), &ChartData::default()).is_none());
    }

    #[test]
    fn calibration_has_error_bars_and_counts() {
        let bin = |predicted: f64| CalibrationBin { predicted, observed: 0.1, rows: 25.0, interval: (0.05, 0.2) };
        let chart_data = ChartData { calibration: Some(vec![bin(0.1), bin(0.15)]), ..ChartData::default() };
        let section = calibration_section(&ClassificationScores::default(), &chart_data).unwrap().body;
        assert!(section.contains("class=\"error c0\"") && section.contains("5.00 % to 20.0 %"), "{section}");
        assert!(!section.contains("class=\"band"), "{section}");
        assert!(section.contains("data-low=\"5e-2\" data-high=\"2e-1\""), "{section}");
    }
}
