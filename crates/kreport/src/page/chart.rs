//! Charts: lines with bands, points and bars over two axes, on any canvas.

use super::plane::{Edges, MAX_FONT_SIZE, Plane};
use super::{PALETTE_SIZE, axis::Axis, note};
use crate::drawing::{Anchor, Canvas, Point, Svg, escape_html, text_width};
use crate::table::number;
use std::{f64::consts::FRAC_1_SQRT_2, fmt};

/// Width and height of a chart on a page, in units of the drawing. The SVG scales to the page; the
/// style sheet sets the font size for narrow and wide screens.
const CHART_SIZE: Point = (480.0, 330.0);

/// Largest plot area of a chart on a page.
const CHART_EDGES: Edges = Edges { left: 78.0, right: CHART_SIZE.0 - 14.0, top: 14.0, bottom: CHART_SIZE.1 - 52.0 };

/// Baseline of the name of the vertical axis, which runs upwards.
const Y_NAME_BASELINE: f64 = 15.0;

/// Number of series with solid lines and distinct marks; the lines of further series are dashed.
const SOLID_LINES: usize = 7;

/// If the marks of two lines are nearer than this distance, in units of the drawing, one mark hides
/// the other.
const OVERLAP_DISTANCE: f64 = 2.0;

/// A point of a line: a value with its spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DataPoint {
    pub(crate) x: f64,
    /// Value, usually a median.
    pub(crate) y: f64,
    /// Ends of the band around the value; both are the value without a band.
    pub(crate) band: (f64, f64),
    /// Tooltip, shown with the value.
    pub(crate) note: String,
    /// Text drawn next to the mark; usually empty.
    pub(crate) label: String,
}

impl DataPoint {
    pub(crate) fn new((x, y): (f64, f64), note: String) -> Self {
        Self { x, y, band: (y, y), note, label: String::new() }
    }
}

/// How the spread of the points of a line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spread {
    /// A band along the line.
    #[default]
    Band,
    /// An error bar at each mark, for independent intervals.
    ErrorBars,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Palette index, which determines colour, dashes and mark shape.
    pub(crate) palette_index: usize,
    /// Marks of the line, in ascending order of x.
    pub(crate) marks: Vec<DataPoint>,
    pub(crate) spread: Spread,
}

/// A chart with lines, bands and points over two axes; displayed as an HTML figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// Identifier, unique on the page; also the file name of a saved chart.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What the chart is based on, shown below the title; may be empty.
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Points without a line.
    pub(crate) scatter_points: Vec<(f64, f64)>,
    /// Bars on the horizontal axis: start, end and height.
    pub(crate) bars: Vec<(f64, f64, f64)>,
    /// Reference line with its name, such as a lower bound of all lines.
    pub(crate) reference_line: Option<(String, Vec<(f64, f64)>)>,
    /// True to list the names of the series and of the reference line above the drawing.
    pub(crate) has_legend: bool,
}

impl Chart {
    /// Returns an empty chart with two axes.
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let (id, title) = (id.into(), title.into());
        let (series, scatter_points, bars) = (Vec::new(), Vec::new(), Vec::new());
        let (subtitle, reference_line, has_legend) = (String::new(), None, false);
        Self { id, title, subtitle, x, y, series, scatter_points, bars, reference_line, has_legend }
    }

    /// Returns the plot area on a page, with room for the labels of both axes.
    fn edges(&self) -> Edges {
        let edges = CHART_EDGES.with_room_for(&self.y, Y_NAME_BASELINE, MAX_FONT_SIZE);
        let x = self.x.with_room(edges.right - edges.left, MAX_FONT_SIZE);
        let label_end = |(tick, label): (f64, String)| {
            Some(x.position(tick, edges.left, edges.right)? + text_width(&label, MAX_FONT_SIZE) / 2.0)
        };
        let overhang = x.labelled_ticks().filter_map(label_end).fold(0.0, f64::max) - CHART_SIZE.0;
        Edges { right: edges.right - overhang.max(0.0), ..edges }
    }

    /// Returns the legend as HTML: a swatch and the name of each series and of the reference line.
    fn legend(&self) -> String {
        let key = |swatch: String, name: &str| format!("<span>{swatch}{}</span>", escape_html(name));
        let series = self.series.iter().map(|series| key(swatch(series.palette_index), &series.name));
        let reference = self.reference_line.iter().map(|(name, _)| key(reference_swatch(), name));
        format!("<p class=\"legend\">{}</p>\n", series.chain(reference).collect::<String>())
    }

    /// Draws the chart between edges, without its title and the name of the vertical axis.
    pub(crate) fn draw(&self, canvas: &mut dyn Canvas, edges: Edges) {
        let plane = Plane { x: &self.x, y: &self.y, edges };
        plane.draw_grid(canvas);
        plane.draw_axes(canvas);
        self.draw_bars(canvas, plane);
        self.draw_scatter_points(canvas, plane);
        if let Some((name, points)) = &self.reference_line {
            // skip points outside the axes: if they were clipped to an edge, they would draw a
            // false line along the edge
            let visible = points.iter().filter(|(x, y)| self.x.contains_value(*x) && self.y.contains_value(*y));
            let positions: Vec<Point> = visible.filter_map(|point| plane.position(*point)).collect();
            if positions.len() > 1 {
                canvas.path("floor", &positions, false, Some(name));
            }
        }
        self.series.iter().for_each(|series| series.draw(canvas, plane));
    }

    /// Lists the lines that are hidden by lines drawn later, as one sentence; `None` if no line is
    /// hidden.
    pub(crate) fn hidden_lines(&self) -> Option<String> {
        let plane = Plane { x: &self.x, y: &self.y, edges: self.edges() };
        let positions_of =
            |series: &Series| series.marks.iter().filter_map(|mark| plane.position((mark.x, mark.y))).collect();
        let positions: Vec<Vec<Point>> = self.series.iter().map(positions_of).collect();
        let is_near = |a: &Point, b: &Point| (a.0 - b.0).hypot(a.1 - b.1) < OVERLAP_DISTANCE;
        let is_hidden = |line: &[Point], cover: &[Point]| line.iter().all(|a| cover.iter().any(|b| is_near(a, b)));
        let sentences = (0..positions.len()).filter(|series_index| !positions[*series_index].is_empty()).filter_map(
            |hidden_index| {
                let cover_index = (hidden_index + 1..positions.len())
                    .find(|over| is_hidden(&positions[hidden_index], &positions[*over]))?;
                Some(format!(
                    "the line of {} is hidden by the line of {}",
                    self.series[hidden_index].name, self.series[cover_index].name
                ))
            },
        );
        let sentences: Vec<String> = sentences.collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// Draws unconnected points as lines of zero length with round caps, which takes a few
    /// characters per point.
    fn draw_scatter_points(&self, canvas: &mut dyn Canvas, plane: Plane<'_>) {
        let positions: Vec<_> =
            self.scatter_points.iter().filter_map(|point| Some((point, plane.position(*point)?))).collect();
        if positions.is_empty() {
            return;
        }
        // the tooltip reads the values, which are in the order of the positions
        let values: String =
            positions.iter().map(|((x, y), _)| format!("{} {} ", number(*x, 4), number(*y, 4))).collect();
        let names = [&self.x.label, &self.y.label].map(|name| escape_html(name)).join("|");
        canvas.set_attributes(format!("data-names=\"{names}\" data-values=\"{values}\""));
        canvas.lines("cloud", &positions.iter().map(|(_, position)| [*position; 2]).collect::<Vec<_>>(), None);
    }

    fn draw_bars(&self, canvas: &mut dyn Canvas, plane: Plane<'_>) {
        for (low, high, height) in &self.bars {
            let corners = (plane.position((*low, *height)), plane.position((*high, *height)));
            let (Some((left, top)), Some((right, _))) = corners else { continue };
            let range = match self.x.name_of((low + high) / 2.0) {
                Some(name) => name.to_string(),
                None => format!("{} to {}", number(*low, 4), number(*high, 4)),
            };
            let tooltip = format!("{range}: {}", number(*height, 4));
            // leaves a gap between neighbouring bars
            let size = ((right - left - 1.0).max(0.5), (plane.edges.bottom - top).max(0.0));
            canvas.rectangle("bar c0", (left, top), size, Some(&tooltip));
        }
    }
}

impl Series {
    fn draw(&self, canvas: &mut dyn Canvas, plane: Plane<'_>) {
        let (palette_index, name, colour) =
            (self.palette_index, escape_html(&self.name), colour_class(self.palette_index));
        canvas.begin_group(format!("class=\"series s{palette_index}\" data-name=\"{name}\""));
        let positions: Vec<(&DataPoint, Point)> =
            self.marks.iter().filter_map(|mark| Some((mark, plane.position((mark.x, mark.y))?))).collect();
        let band_end =
            |mark: &DataPoint, value: f64, position: Point| plane.position((mark.x, value)).unwrap_or(position);
        if self.spread == Spread::ErrorBars {
            let ends = |(mark, position): &(&DataPoint, Point)| {
                [band_end(mark, mark.band.0, *position), band_end(mark, mark.band.1, *position)]
            };
            canvas.lines(&format!("error {colour}"), &positions.iter().map(ends).collect::<Vec<_>>(), None);
        } else if positions.len() > 1 && positions.iter().any(|(mark, _)| mark.band.0 < mark.band.1) {
            let upper = positions.iter().map(|(mark, position)| band_end(mark, mark.band.1, *position));
            let lower = positions.iter().rev().map(|(mark, position)| band_end(mark, mark.band.0, *position));
            canvas.path(&format!("band {colour}"), &upper.chain(lower).collect::<Vec<_>>(), true, None);
        }
        let line: Vec<Point> = positions.iter().map(|(_, position)| *position).collect();
        // independent intervals have no line, but the script of the page takes its colour
        let hidden = if self.spread == Spread::ErrorBars { " unseen" } else { "" };
        canvas.path(&format!("{}{hidden}", line_classes(palette_index)), &line, false, None);
        let mut labels: Vec<MarkLabel<'_>> = Vec::new();
        for (DataPoint { x, y, band: (low, high), note, label }, (cx, cy)) in positions {
            canvas.set_attributes(format!(
                "data-cx=\"{cx:.1}\" data-cy=\"{cy:.1}\" data-x=\"{x:e}\" data-y=\"{y:e}\" data-low=\"{low:e}\" \
                 data-high=\"{high:e}\" data-note=\"{}\"",
                escape_html(note)
            ));
            draw_mark(canvas, palette_index, (cx, cy), Some(&format!("{}, {note}: {}", self.name, number(*y, 4))));
            let label = MarkLabel::new(label, (cx, cy), plane.edges);
            // the tooltip has the text of a label that would overlap
            if !label.text.is_empty() && !labels.iter().any(|drawn| drawn.overlaps(&label)) {
                labels.push(label);
            }
        }
        for MarkLabel { text, position, anchor } in labels {
            canvas.word("label", text, position, anchor);
        }
        canvas.end_group();
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = escape_html(&self.title);
        let subtitle = match &self.subtitle[..] {
            "" => String::new(),
            subtitle => format!("<small>{}</small>", escape_html(subtitle)),
        };
        let name = format!("{}: {} against {}", self.title, self.y.label, self.x.label);
        let mut svg = Svg::new(&escape_html(&self.id), &name, CHART_SIZE, "");
        let edges = self.edges();
        self.draw(&mut svg, edges);
        let plane = Plane { x: &self.x, y: &self.y, edges };
        plane.draw_y_name(&mut svg, &self.y.label, Y_NAME_BASELINE);
        let drawing = svg.finish();
        let hidden_note = self.hidden_lines().map_or(String::new(), |words| note(&words));
        let legend = if self.has_legend { self.legend() } else { String::new() };
        write!(
            f,
            "<figure class=\"chart\">\n<figcaption>{title}{subtitle}</figcaption>\n{legend}{drawing}{hidden_note}</figure>"
        )
    }
}

/// A text next to a mark.
struct MarkLabel<'a> {
    text: &'a str,
    position: Point,
    anchor: Anchor,
}

impl<'a> MarkLabel<'a> {
    /// Places a text next to a mark, on the side that has room.
    fn new(text: &'a str, (x, y): Point, edges: Edges) -> Self {
        let is_right = x > (edges.left + edges.right) / 2.0;
        let is_low = y > (edges.top + edges.bottom) / 2.0;
        let (dx, anchor) = if is_right { (-7.0, Anchor::End) } else { (7.0, Anchor::Start) };
        Self { text, position: (x + dx, if is_low { y - 6.0 } else { y + 14.0 }), anchor }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let horizontal_ends = |label: &Self| {
            let width = text_width(label.text, MAX_FONT_SIZE);
            let start = if label.anchor == Anchor::End { label.position.0 - width } else { label.position.0 };
            (start, start + width)
        };
        let ((start, end), (other_start, other_end)) = (horizontal_ends(self), horizontal_ends(other));
        start < other_end && other_start < end && (self.position.1 - other.position.1).abs() < MAX_FONT_SIZE
    }
}

fn colour_class(palette_index: usize) -> String {
    format!("c{}", palette_index % PALETTE_SIZE)
}

/// Returns the style classes of a line; dashed if all mark shapes are used up.
fn line_classes(palette_index: usize) -> String {
    format!("line {}{}", colour_class(palette_index), if palette_index >= SOLID_LINES { " dashed" } else { "" })
}

/// Returns the corners of a cross: the corners of one arm, rotated by quarter turns.
fn cross_corners() -> [Point; 12] {
    let arm = [(-1.4, -4.6), (1.4, -4.6), (1.4, -1.4)];
    std::array::from_fn(|i| (0..i / 3).fold(arm[i % 3], |(x, y): Point, _| (-y, x)))
}

/// Draws the mark of a line at a point. The shape of the mark distinguishes the lines where colours
/// cannot be seen.
fn draw_mark(canvas: &mut dyn Canvas, palette_index: usize, (x, y): Point, tooltip: Option<&str>) {
    let class = format!("mark {}", colour_class(palette_index));
    let mut draw_polygon = |points: &[Point]| {
        let points: Vec<Point> = points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        canvas.path(&class, &points, true, tooltip);
    };
    match palette_index % SOLID_LINES {
        0 => canvas.circle(&class, (x, y), 3.6, tooltip),
        1 => draw_polygon(&[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)]),
        2 => draw_polygon(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]),
        3 => draw_polygon(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
        4 => draw_polygon(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)]),
        5 => draw_polygon(&cross_corners().map(|(x, y)| ((x - y) * FRAC_1_SQRT_2, (x + y) * FRAC_1_SQRT_2))),
        _ => draw_polygon(&cross_corners()),
    }
}

/// Draws a short line with the mark of a palette index, for a legend.
pub(crate) fn draw_key(canvas: &mut dyn Canvas, palette_index: usize, (x, y): Point) {
    canvas.path(&line_classes(palette_index), &[(x, y), (x + 24.0, y)], false, None);
    draw_mark(canvas, palette_index, (x + 12.0, y), None);
}

fn reference_swatch() -> String {
    let mut svg = Svg::default();
    svg.path("floor", &[(0.0, 6.0), (24.0, 6.0)], false, None);
    format!("<svg viewBox=\"0 0 24 12\" aria-hidden=\"true\">{}</svg>", svg.into_elements())
}

pub(crate) fn swatch(palette_index: usize) -> String {
    let mut svg = Svg::default();
    draw_key(&mut svg, palette_index, (0.0, 6.0));
    format!("<svg viewBox=\"0 0 24 12\" aria-hidden=\"true\">{}</svg>", svg.into_elements())
}

#[cfg(test)]
mod tests;
