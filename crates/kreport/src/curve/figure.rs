//! The charts of a curve as one figure, for a paper: error against rank, one panel per kind of
//! error.

use super::comparison::{CostMeasure, ErrorMeasure};
use super::{CurveReport, html};
use crate::drawing::{self, Anchor, Canvas, Drawing, Point};
use crate::page::{self, Chart, Edges};
use crate::table::{format_count, join_with_commas, rounded_kernel};
use kstore::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// Default size of a panel.
const PANEL_SIZE: Point = (400.0, 310.0);

/// Smallest height of a panel: its titles and some ticks.
const MIN_PANEL_HEIGHT: f64 = 130.0;

/// Smallest and largest width or height of a figure.
const SIZE_RANGE: (f64, f64) = (480.0, 5000.0);

/// Distance of the axes from the left edge of a panel.
const LEFT: f64 = 72.0;

/// Height of a line of the legend and of the caption.
const CAPTION_LINE_HEIGHT: f64 = 20.0;

/// Approximate width of a letter, to keep the legend free of overlaps.
const LETTER_WIDTH: f64 = 7.0;

/// Panels with a legend above and a caption below.
#[derive(Debug)]
struct Figure {
    charts: Vec<Chart>,
    /// Lines of the legend: names with their palette indices and horizontal positions.
    legend: Vec<Vec<(String, usize, f64)>>,
    caption: Vec<String>,
    column_count: usize,
    panel_size: Point,
}

impl CurveReport {
    /// Draws the picture of the curve, a chart for each measure of error, to a file that ends with
    /// .svg, .pdf or .png. `size` is its width and height; `None` selects the default size of each
    /// chart.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write_picture(&self, path: &Path, size: Option<Point>) -> Result<()> {
        drawing::write(&size.into_iter().fold(Figure::new(self), Figure::with_size), path)
    }

    /// Checks that a picture of this size has room for the charts.
    ///
    /// # Errors
    /// [`ksolve::Error::Option`] for other sizes.
    pub fn check_picture_size((width, height): Point) -> ksolve::Result<()> {
        let is_valid = |length: f64| (SIZE_RANGE.0..=SIZE_RANGE.1).contains(&length);
        if is_valid(width) && is_valid(height) {
            return Ok(());
        }
        let why = format!("width and height are numbers of pixels from {} to {}", SIZE_RANGE.0, SIZE_RANGE.1);
        Err(ksolve::Error::option("size", format!("{width}x{height}"), format!("{why}; for example 800x600")))
    }
}

impl Figure {
    fn new(report: &CurveReport) -> Self {
        let charts: Vec<Chart> = ErrorMeasure::ALL
            .iter()
            .filter_map(|measure| html::error_chart(report, *measure, CostMeasure::Rank))
            .collect();
        let column_count = charts.len().clamp(1, 2);
        let legend = legend(&report.methods, PANEL_SIZE.0 * column_count as f64);
        let hidden_notes = charts.iter().filter_map(Chart::hidden_lines).collect::<BTreeSet<_>>();
        let caption = caption(report).into_iter().chain(hidden_notes).collect();
        Self { charts, legend, caption, column_count, panel_size: PANEL_SIZE }
    }

    /// Returns the figure with this width and height. The letters keep their size, and the charts
    /// have at least [`MIN_PANEL_HEIGHT`], even if a long legend leaves less.
    fn with_size(mut self, (width, height): Point) -> Self {
        let methods: Vec<String> = self.legend.concat().into_iter().map(|(name, ..)| name).collect();
        self.legend = legend(&methods, width);
        let panel_rows = self.charts.len().div_ceil(self.column_count).max(1) as f64;
        let other_height = self.legend_height() + self.caption_height();
        let panel_height = ((height - other_height) / panel_rows).max(MIN_PANEL_HEIGHT);
        self.panel_size = (width / self.column_count as f64, panel_height);
        self
    }

    fn caption_height(&self) -> f64 {
        CAPTION_LINE_HEIGHT * self.caption.len() as f64 + 8.0
    }

    fn legend_height(&self) -> f64 {
        8.0 + CAPTION_LINE_HEIGHT * self.legend.len() as f64
    }
}

/// Returns the lines of the legend in a figure of this width.
fn legend(methods: &[String], width: f64) -> Vec<Vec<(String, usize, f64)>> {
    let (mut legend, mut next_x) = (vec![Vec::new()], LEFT);
    for (palette_index, name) in methods.iter().enumerate() {
        // the key of the method, two gaps, and the name
        let entry_width = 46.0 + LETTER_WIDTH * name.chars().count() as f64;
        if next_x + entry_width > width && next_x > LEFT {
            legend.push(Vec::new());
            next_x = LEFT;
        }
        legend.last_mut().into_iter().for_each(|line| line.push((name.clone(), palette_index, next_x)));
        next_x += entry_width;
    }
    legend
}

fn caption(report: &CurveReport) -> Vec<String> {
    let (rows, features) = (format_count(report.approximated_rows), format_count(report.table.feature_count as u64));
    let spread_note = (report.repeats > 1)
        .then(|| format!("medians of {} repeats, bands from the lower to the upper quartile", report.repeats));
    let floor_note =
        report.minimum_errors.as_ref().map(|_| "dotted: no matrix of this rank has a smaller error".to_string());
    let notes: Vec<String> = [spread_note, floor_note].into_iter().flatten().collect();
    let subject = format!("{rows} rows, {features} features, {}", rounded_kernel(&report.kernel));
    [subject, notes.join("; ")].into_iter().filter(|line| !line.is_empty()).collect()
}

impl Drawing for Figure {
    fn size(&self) -> Point {
        let panel_rows = self.charts.len().div_ceil(self.column_count) as f64;
        let (width, height) = self.panel_size;
        (width * self.column_count as f64, self.legend_height() + height * panel_rows + self.caption_height())
    }

    fn title(&self) -> String {
        format!("Against rank: {}", join_with_commas(self.charts.iter().map(|chart| &chart.title)))
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        for (line, entries) in self.legend.iter().enumerate() {
            let y = 18.0 + CAPTION_LINE_HEIGHT * line as f64;
            for (name, palette_index, x) in entries {
                page::draw_key(canvas, *palette_index, (*x, y - 4.0));
                canvas.word("name", name, (x + 30.0, y), Anchor::Start);
            }
        }
        let (width, height) = self.panel_size;
        for (i, chart) in self.charts.iter().enumerate() {
            let (x, y) = (
                width * (i % self.column_count) as f64,
                self.legend_height() + height * (i / self.column_count) as f64,
            );
            let edges = Edges { left: x + LEFT, right: x + width - 14.0, top: y + 44.0, bottom: y + height - 46.0 };
            canvas.word("title", &chart.title, ((edges.left + edges.right) / 2.0, edges.top - 12.0), Anchor::Middle);
            canvas.word("name", &chart.title, (x + 14.0, (edges.top + edges.bottom) / 2.0), Anchor::Upwards);
            chart.draw(canvas, edges);
        }
        let caption_top = self.size().1 - self.caption_height();
        for (line, sentence) in self.caption.iter().enumerate() {
            canvas.word(
                "tick",
                sentence,
                (LEFT, caption_top + 14.0 + CAPTION_LINE_HEIGHT * line as f64),
                Anchor::Start,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn every_error_has_a_panel_and_every_method_a_name() {
        let figure = Figure::new(&report());
        let svg = drawing::svg(&figure);
        assert_eq!(svg.matches("class=\"title\"").count(), 3, "trace, Frobenius and spectral: {svg}");
        for name in ["uniform", "rpcholesky", "fourier"] {
            assert_eq!(svg.matches(&format!(">{name}</text>")).count(), 1, "once, in the legend: {name}");
        }
        assert_eq!(svg.matches(">rank</text>").count(), 3);
        assert_eq!(svg.matches(">Relative trace error</text>").count(), 2, "the panel and its axis");
        assert!(svg.contains(">50</text>") && svg.contains(">100</text>") && svg.contains("class=\"floor\""), "{svg}");
        assert!(svg.contains("<title>uniform, rank 50: 0.5") && !svg.contains("NaN"), "{svg}");
        assert!(svg.contains(" rows, ") && svg.contains("features, gaussian("), "the caption: {svg}");
        let png = drawing::png(&figure).unwrap();
        let side = |offset: usize| u32::from_be_bytes(png[offset..offset + 4].try_into().unwrap());
        let (width, height) = figure.size();
        assert_eq!((side(16), side(20)), ((2.0 * width) as u32, (2.0 * height) as u32), "two pixels in a unit");
    }

    #[test]
    fn a_figure_has_the_requested_size() {
        let report = report();
        for size in [(1000.0, 700.0), (600.0, 520.0)] {
            CurveReport::check_picture_size(size).unwrap();
            let figure = Figure::new(&report).with_size(size);
            let (width, height) = figure.size();
            assert!((width - size.0).abs() < 1e-9 && (height - size.1).abs() < 1e-9, "{width} {height}");
            assert_eq!(figure.legend.concat().len(), report.methods.len());
            let svg = drawing::svg(&figure);
            assert!(svg.contains(&format!("viewBox=\"0 0 {} {}\"", size.0, size.1)), "{}", &svg[..300]);
        }
        for wrong in [(390.0, 700.0), (1000.0, 200.0), (1e6, 700.0), (f64::NAN, 700.0)] {
            let error = CurveReport::check_picture_size(wrong).unwrap_err().to_string();
            assert!(error.contains("from 480 to 5000"), "{error}");
        }
    }

    #[test]
    fn a_long_legend_goes_on_in_the_next_line() {
        let mut report = report();
        report.methods = (0..12).map(|i| format!("method-{i}-with-a-long-name")).collect();
        let figure = Figure::new(&report);
        assert!(figure.legend.len() > 2 && figure.legend.iter().all(|line| !line.is_empty()), "{:?}", figure.legend);
        let most = 2.0 * PANEL_SIZE.0;
        assert!(figure.legend.iter().flatten().all(|(name, _, x)| x + 46.0 + LETTER_WIDTH * name.len() as f64 <= most));
    }
}
