//! The charts of a curve as one picture, for a paper: error against rank, one panel for each kind of error.

use super::html;
use super::report::CurveReport;
use super::summary::{Cost, Metric};
use crate::drawing::{Anchor, Canvas, Drawing};
use crate::page::{self, Chart, Series};
use crate::table::{count, rounded};

/// Width and height of a panel.
const PANEL: (f64, f64) = (400.0, 310.0);

/// The edges of the area between the axes of a panel: left, right, top, bottom.
const PLANE: (f64, f64, f64, f64) = (72.0, 386.0, 44.0, 264.0);

/// Height of a line of the legend, and of the caption.
const LINE: f64 = 20.0;

/// About the width of a letter, for a legend without overlaps.
const LETTER: f64 = 7.0;

/// The panels with a legend above and a caption below.
pub(super) struct Figure {
    charts: Vec<Chart>,
    /// The lines of the legend: names with their places in the palette, and where they begin.
    legend: Vec<Vec<(String, usize, f64)>>,
    caption: Vec<String>,
}

impl Figure {
    pub(super) fn new(report: &CurveReport) -> Self {
        let charts: Vec<Chart> =
            Metric::ALL.iter().filter_map(|metric| html::chart(report, *metric, Cost::Rank)).collect();
        let names = report.methods.iter().cloned().enumerate();
        let width = PANEL.0 * columns(charts.len()) as f64;
        let (mut legend, mut at) = (vec![Vec::new()], PLANE.0);
        for (place, name) in names {
            let room = 46.0 + LETTER * name.chars().count() as f64;
            if at + room > width && at > PLANE.0 {
                (legend, at) = (legend.into_iter().chain([Vec::new()]).collect(), PLANE.0);
            }
            legend.last_mut().into_iter().for_each(|line| line.push((name.clone(), place, at)));
            at += room;
        }
        Self { charts, legend, caption: caption(report) }
    }

    fn top(&self) -> f64 {
        8.0 + LINE * self.legend.len() as f64
    }
}

/// Panels beside each other.
fn columns(panels: usize) -> usize {
    panels.clamp(1, 2)
}

/// What the panels are of, line by line.
fn caption(report: &CurveReport) -> Vec<String> {
    let (rows, features) = (count(report.approximated_rows), count(report.table.features.len() as u64));
    let spread = match report.repeats {
        1 => String::new(),
        repeats => format!("medians of {repeats} repeats, bands from the lower to the upper quartile"),
    };
    let floor = report.floor.as_ref().map(|_| "dotted: no matrix of this rank has a smaller error".to_string());
    let notes: Vec<String> = [Some(spread), floor].into_iter().flatten().filter(|note| !note.is_empty()).collect();
    let what = format!("{rows} rows, {features} features, {}", rounded(&report.kernel));
    [what, notes.join("; ")].into_iter().filter(|line| !line.is_empty()).collect()
}

impl Drawing for Figure {
    fn size(&self) -> (f64, f64) {
        let columns = columns(self.charts.len());
        let lines = self.charts.len().div_ceil(columns) as f64;
        (PANEL.0 * columns as f64, self.top() + PANEL.1 * lines + LINE * self.caption.len() as f64 + 8.0)
    }

    fn name(&self) -> String {
        let titles: Vec<&str> = self.charts.iter().map(|chart| chart.title.as_str()).collect();
        format!("Against rank: {}", titles.join(", "))
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        for (line, names) in self.legend.iter().enumerate() {
            let y = 18.0 + LINE * line as f64;
            for (name, place, x) in names {
                canvas.lines(&stroke(*place), &[[(*x, y - 4.0), (x + 24.0, y - 4.0)]], None);
                canvas.area(&format!("mark {}", colour(*place)), &page::corners(*place, x + 12.0, y - 4.0), None);
                canvas.word("name", name, (x + 30.0, y), Anchor::Start);
            }
        }
        let columns = columns(self.charts.len());
        for (i, chart) in self.charts.iter().enumerate() {
            let origin = (PANEL.0 * (i % columns) as f64, self.top() + PANEL.1 * (i / columns) as f64);
            panel(canvas, chart, origin);
        }
        let below = self.size().1 - 8.0 - LINE * self.caption.len() as f64;
        for (line, words) in self.caption.iter().enumerate() {
            canvas.word("tick", words, (PLANE.0, below + 14.0 + LINE * line as f64), Anchor::Start);
        }
    }
}

fn colour(place: usize) -> String {
    format!("c{}", place % page::COLOURS)
}

fn stroke(place: usize) -> String {
    format!("line {}{}", colour(place), if page::is_dashed(place) { " dashed" } else { "" })
}

/// The pieces of a line through points.
fn pieces(points: &[(f64, f64)]) -> Vec<[(f64, f64); 2]> {
    points.windows(2).map(|pair| [pair[0], pair[1]]).collect()
}

/// Draws a chart with its upper left corner at `origin`.
fn panel(canvas: &mut dyn Canvas, chart: &Chart, (x0, y0): (f64, f64)) {
    let (left, right, top, bottom) = (x0 + PLANE.0, x0 + PLANE.1, y0 + PLANE.2, y0 + PLANE.3);
    let across = |value: f64| chart.x.place(value, left, right);
    let up = |value: f64| chart.y.place(value, bottom, top);
    let middle = (left + right) / 2.0;
    canvas.word("title", &chart.title, (middle, top - 12.0), Anchor::Middle);
    for (words, x) in chart.x.written().filter_map(|(tick, words)| Some((words, across(tick)?))) {
        canvas.lines("grid", &[[(x, top), (x, bottom)]], None);
        canvas.word("tick", &words, (x, bottom + 18.0), Anchor::Middle);
    }
    for (words, y) in chart.y.written().filter_map(|(tick, words)| Some((words, up(tick)?))) {
        canvas.lines("grid", &[[(left, y), (right, y)]], None);
        canvas.word("tick", &words, (left - 7.0, y + 4.0), Anchor::End);
    }
    canvas.lines("axis", &[[(left, top), (left, bottom)], [(left, bottom), (right, bottom)]], None);
    canvas.word("name", &chart.x.label, (middle, bottom + 36.0), Anchor::Middle);
    canvas.word("name", &chart.title, (x0 + 14.0, (top + bottom) / 2.0), Anchor::Upwards);
    if let Some((name, points)) = &chart.floor {
        let shown = points.iter().filter(|(x, y)| chart.x.holds(*x) && chart.y.holds(*y));
        let placed: Vec<(f64, f64)> = shown.filter_map(|(x, y)| Some((across(*x)?, up(*y)?))).collect();
        if placed.len() > 1 {
            canvas.lines("floor", &pieces(&placed), Some(name));
        }
    }
    for series in &chart.series {
        line(canvas, series, across, up);
    }
}

/// Draws the band, the line and the marks of a series.
fn line(
    canvas: &mut dyn Canvas,
    series: &Series,
    across: impl Fn(f64) -> Option<f64>,
    up: impl Fn(f64) -> Option<f64>,
) {
    let placed: Vec<_> = series.marks.iter().filter_map(|mark| Some((mark, across(mark.x)?, up(mark.y)?))).collect();
    if placed.len() > 1 && placed.iter().any(|(mark, ..)| mark.band.0 < mark.band.1) {
        let upper = placed.iter().map(|(mark, x, y)| (*x, up(mark.band.1).unwrap_or(*y)));
        let lower = placed.iter().rev().map(|(mark, x, y)| (*x, up(mark.band.0).unwrap_or(*y)));
        canvas.area(&format!("band {}", colour(series.place)), &upper.chain(lower).collect::<Vec<_>>(), None);
    }
    let points: Vec<(f64, f64)> = placed.iter().map(|(_, x, y)| (*x, *y)).collect();
    if points.len() > 1 {
        canvas.lines(&stroke(series.place), &pieces(&points), None);
    }
    for (mark, x, y) in placed {
        let says = format!("{}, {}: {}", series.name, mark.note, crate::table::number(mark.y, 3));
        canvas.area(&format!("mark {}", colour(series.place)), &page::corners(series.place, x, y), Some(&says));
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;
    use crate::drawing;

    #[test]
    fn every_error_has_a_panel_and_every_method_a_name() {
        let figure = Figure::new(&report());
        let svg = drawing::svg(&figure);
        assert_eq!(svg.matches("class=\"title\"").count(), 3, "trace, Frobenius and spectral: {svg}");
        for name in ["uniform", "rpcholesky", "fourier"] {
            assert_eq!(svg.matches(&format!(">{name}</text>")).count(), 1, "once, in the legend: {name}");
        }
        // both axes are named and have numbers
        assert_eq!(svg.matches(">rank</text>").count(), 3);
        assert_eq!(svg.matches(">Relative trace error</text>").count(), 2, "the panel and its axis");
        assert!(svg.contains(">50</text>") && svg.contains(">100</text>") && svg.contains("class=\"floor\""), "{svg}");
        assert!(svg.contains("<title>uniform, rank 50: 0.5") && !svg.contains("NaN"), "{svg}");
        assert!(svg.contains(" rows, ") && svg.contains("features, gaussian("), "the caption: {svg}");
        let png = drawing::png(&figure).unwrap();
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        let (width, height) = figure.size();
        assert_eq!((side(16), side(20)), ((2.0 * width) as u32, (2.0 * height) as u32), "two pixels in a unit");
    }

    #[test]
    fn a_long_legend_goes_on_in_the_next_line() {
        let mut report = report();
        report.methods = (0..12).map(|i| format!("method-{i}-with-a-long-name")).collect();
        let figure = Figure::new(&report);
        assert!(figure.legend.len() > 2 && figure.legend.iter().all(|line| !line.is_empty()), "{:?}", figure.legend);
        let most = 2.0 * PANEL.0;
        assert!(figure.legend.iter().flatten().all(|(name, _, at)| at + 46.0 + LETTER * name.len() as f64 <= most));
    }
}
