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

const PANEL_SIZE: Point = (400.0, 310.0);

const PANEL_EDGES: Edges = Edges { left: 72.0, right: 386.0, top: 44.0, bottom: 264.0 };

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
}

impl CurveReport {
    /// Draws the picture of the curve, a chart for each measure of error, to a file that ends with
    /// .svg, .pdf or .png.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write_picture(&self, path: &Path) -> Result<()> {
        drawing::write(&Figure::new(self), path)
    }
}

impl Figure {
    fn new(report: &CurveReport) -> Self {
        let charts: Vec<Chart> = ErrorMeasure::ALL
            .iter()
            .filter_map(|measure| html::error_chart(report, *measure, CostMeasure::Rank))
            .collect();
        let column_count = charts.len().clamp(1, 2);
        let (mut legend, mut next_x) = (vec![Vec::new()], PANEL_EDGES.left);
        for (palette_index, name) in report.methods.iter().enumerate() {
            // the key of the method, two gaps, and the name
            let entry_width = 46.0 + LETTER_WIDTH * name.chars().count() as f64;
            if next_x + entry_width > PANEL_SIZE.0 * column_count as f64 && next_x > PANEL_EDGES.left {
                legend.push(Vec::new());
                next_x = PANEL_EDGES.left;
            }
            legend.last_mut().into_iter().for_each(|line| line.push((name.clone(), palette_index, next_x)));
            next_x += entry_width;
        }
        let hidden_notes = charts.iter().filter_map(Chart::hidden_lines).collect::<BTreeSet<_>>();
        Self { charts, legend, caption: caption(report).into_iter().chain(hidden_notes).collect(), column_count }
    }

    fn legend_height(&self) -> f64 {
        8.0 + CAPTION_LINE_HEIGHT * self.legend.len() as f64
    }
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
        (
            PANEL_SIZE.0 * self.column_count as f64,
            self.legend_height() + PANEL_SIZE.1 * panel_rows + CAPTION_LINE_HEIGHT * self.caption.len() as f64 + 8.0,
        )
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
        for (i, chart) in self.charts.iter().enumerate() {
            let (x, y) = (
                PANEL_SIZE.0 * (i % self.column_count) as f64,
                self.legend_height() + PANEL_SIZE.1 * (i / self.column_count) as f64,
            );
            let Edges { left, right, top, bottom } = PANEL_EDGES;
            let edges = Edges { left: x + left, right: x + right, top: y + top, bottom: y + bottom };
            canvas.word("title", &chart.title, ((edges.left + edges.right) / 2.0, edges.top - 12.0), Anchor::Middle);
            canvas.word("name", &chart.title, (x + 14.0, (edges.top + edges.bottom) / 2.0), Anchor::Upwards);
            chart.draw(canvas, edges);
        }
        let caption_top = self.size().1 - 8.0 - CAPTION_LINE_HEIGHT * self.caption.len() as f64;
        for (line, sentence) in self.caption.iter().enumerate() {
            canvas.word(
                "tick",
                sentence,
                (PANEL_EDGES.left, caption_top + 14.0 + CAPTION_LINE_HEIGHT * line as f64),
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
    fn a_long_legend_goes_on_in_the_next_line() {
        let mut report = report();
        report.methods = (0..12).map(|i| format!("method-{i}-with-a-long-name")).collect();
        let figure = Figure::new(&report);
        assert!(figure.legend.len() > 2 && figure.legend.iter().all(|line| !line.is_empty()), "{:?}", figure.legend);
        let most = 2.0 * PANEL_SIZE.0;
        assert!(figure.legend.iter().flatten().all(|(name, _, x)| x + 46.0 + LETTER_WIDTH * name.len() as f64 <= most));
    }
}
