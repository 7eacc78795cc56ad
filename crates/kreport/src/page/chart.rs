//! Charts: lines with bands, points and bars over two axes, on any canvas.

use super::{COLOURS, axis::Axis, note};
use crate::drawing::{Anchor, Canvas, LETTERS, Point, Svg, text};
use crate::table::number;
use std::{f64::consts::FRAC_1_SQRT_2, fmt};

/// Width and height of a chart on a page, in units of the drawing. Style rules set the font size
/// for narrow and wide screens.
const SIZE: Point = (480.0, 330.0);

/// Area between the axes of a chart on a page.
const PLANE: Edges = Edges { left: 66.0, right: SIZE.0 - 14.0, top: 14.0, bottom: SIZE.1 - 52.0 };

/// Number of series with solid lines and distinct marks; the lines of further series are dashed.
const WHOLE: usize = 7;

/// Distance below which the mark of one line hides that of another, in units of the drawing.
const HIDES: f64 = 2.0;

/// The edges of the area between two axes, in units of the drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edges {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plane<'a> {
    pub(crate) x: &'a Axis,
    pub(crate) y: &'a Axis,
    pub(crate) edges: Edges,
}

impl Plane<'_> {
    /// Returns the position of a point; `None` if one of its coordinates has no position.
    pub(crate) fn place(&self, (x, y): (f64, f64)) -> Option<Point> {
        let Edges { left, right, top, bottom } = self.edges;
        Some((self.x.place(x, left, right)?, self.y.place(y, bottom, top)?))
    }

    pub(crate) fn grid(&self, canvas: &mut dyn Canvas) {
        let Edges { left, right, top, bottom } = self.edges;
        let across = self.x.ticks.iter().filter_map(|tick| self.x.place(*tick, left, right));
        let up = self.y.ticks.iter().filter_map(|tick| self.y.place(*tick, bottom, top));
        let lines = across.map(|x| [(x, top), (x, bottom)]).chain(up.map(|y| [(left, y), (right, y)]));
        canvas.lines("grid", &lines.collect::<Vec<_>>(), None);
    }

    pub(crate) fn axes(&self, canvas: &mut dyn Canvas) {
        let Edges { left, right, top, bottom } = self.edges;
        canvas.path("axis", &[(left, top), (left, bottom), (right, bottom)], false, None);
        for (words, x) in self.x.written().filter_map(|(tick, words)| Some((words, self.x.place(tick, left, right)?))) {
            canvas.word("tick", &words, (x, bottom + 18.0), Anchor::Middle);
        }
        for (words, y) in self.y.written().filter_map(|(tick, words)| Some((words, self.y.place(tick, bottom, top)?))) {
            // the middle of a digit is a third of the font size above the baseline
            canvas.word("tick", &words, (left - 7.0, y + 0.34 * LETTERS), Anchor::End);
        }
        canvas.word("name", &self.x.label, ((left + right) / 2.0, bottom + 40.0), Anchor::Middle);
    }

    /// Draws the name of the vertical axis at `x`.
    pub(crate) fn name_upwards(&self, canvas: &mut dyn Canvas, name: &str, x: f64) {
        canvas.word("name", name, (x, (self.edges.top + self.edges.bottom) / 2.0), Anchor::Upwards);
    }
}

/// A point of a line: a value with its spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) x: f64,
    /// Value, usually a median.
    pub(crate) y: f64,
    pub(crate) band: (f64, f64),
    /// Tooltip, shown with the value.
    pub(crate) note: String,
}

impl Mark {
    pub(crate) fn new((x, y): (f64, f64), note: String) -> Self {
        Self { x, y, band: (y, y), note }
    }
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Palette index, which determines colour, dashes and mark shape.
    pub(crate) place: usize,
    /// Marks of the line, in ascending order of x.
    pub(crate) marks: Vec<Mark>,
}

/// A chart with lines, bands and points over two axes; displayed as an HTML figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// Identifier, unique on the page; also the file name of a saved chart.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    /// Points without a line.
    pub(crate) cloud: Vec<(f64, f64)>,
    /// Bars on the horizontal axis: start, end and height.
    pub(crate) bars: Vec<(f64, f64, f64)>,
    /// Reference line with its name, such as a lower bound of all lines.
    pub(crate) floor: Option<(String, Vec<(f64, f64)>)>,
}

impl Chart {
    /// Returns an empty chart with two axes.
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let (id, title) = (id.into(), title.into());
        Self { id, title, x, y, series: Vec::new(), cloud: Vec::new(), bars: Vec::new(), floor: None }
    }

    /// Draws the chart between edges, without its title and the name of the vertical axis.
    pub(crate) fn draw(&self, canvas: &mut dyn Canvas, edges: Edges) {
        let plane = Plane { x: &self.x, y: &self.y, edges };
        plane.grid(canvas);
        plane.axes(canvas);
        self.draw_bars(canvas, plane);
        self.draw_cloud(canvas, plane);
        if let Some((name, points)) = &self.floor {
            // clipped to an edge, points outside the axes would draw a false line along it
            let shown = points.iter().filter(|(x, y)| self.x.holds(*x) && self.y.holds(*y));
            let places: Vec<Point> = shown.filter_map(|point| plane.place(*point)).collect();
            if places.len() > 1 {
                canvas.path("floor", &places, false, Some(name));
            }
        }
        self.series.iter().for_each(|series| series.draw(canvas, plane));
    }

    /// Lists the lines that are hidden under later ones, in a sentence.
    pub(crate) fn hidden(&self) -> Option<String> {
        let plane = Plane { x: &self.x, y: &self.y, edges: PLANE };
        let place = |series: &Series| series.marks.iter().filter_map(|mark| plane.place((mark.x, mark.y))).collect();
        let places: Vec<Vec<Point>> = self.series.iter().map(place).collect();
        let near = |a: &Point, b: &Point| (a.0 - b.0).hypot(a.1 - b.1) < HIDES;
        let lies_under = |under: &[Point], over: &[Point]| under.iter().all(|a| over.iter().any(|b| near(a, b)));
        let told = (0..places.len()).filter(|at| !places[*at].is_empty()).filter_map(|at| {
            let over = (at + 1..places.len()).find(|over| lies_under(&places[at], &places[*over]))?;
            Some(format!("{} lies under {}", self.series[at].name, self.series[over].name))
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Draws unconnected points as lines of zero length with round caps, which takes a few
    /// characters per point.
    fn draw_cloud(&self, canvas: &mut dyn Canvas, plane: Plane<'_>) {
        let placed: Vec<_> = self.cloud.iter().filter_map(|point| Some((point, plane.place(*point)?))).collect();
        if placed.is_empty() {
            return;
        }
        // the values in the same order, for the tooltip
        let numbers: String =
            placed.iter().map(|((x, y), _)| format!("{} {} ", number(*x, 4), number(*y, 4))).collect();
        let names = [&self.x.label, &self.y.label].map(|name| text(name)).join("|");
        canvas.mark(format!("data-names=\"{names}\" data-values=\"{numbers}\""));
        canvas.lines("cloud", &placed.iter().map(|(_, place)| [*place; 2]).collect::<Vec<_>>(), None);
    }

    fn draw_bars(&self, canvas: &mut dyn Canvas, plane: Plane<'_>) {
        for (low, high, height) in &self.bars {
            let ends = (plane.place((*low, *height)), plane.place((*high, *height)));
            let (Some((left, top)), Some((right, _))) = ends else { continue };
            let says = format!("{} to {}: {}", number(*low, 4), number(*high, 4), number(*height, 4));
            // a gap between neighbours
            let size = ((right - left - 1.0).max(0.5), (plane.edges.bottom - top).max(0.0));
            canvas.rectangle("bar c0", (left, top), size, Some(&says));
        }
    }
}

impl Series {
    fn draw(&self, canvas: &mut dyn Canvas, plane: Plane<'_>) {
        let (place, name, colour) = (self.place, text(&self.name), colour(self.place));
        canvas.begin(format!("class=\"series s{place}\" data-name=\"{name}\""));
        let placed: Vec<(&Mark, Point)> =
            self.marks.iter().filter_map(|mark| Some((mark, plane.place((mark.x, mark.y))?))).collect();
        if placed.len() > 1 && placed.iter().any(|(mark, _)| mark.band.0 < mark.band.1) {
            let end = |mark: &Mark, value: f64, own: Point| plane.place((mark.x, value)).unwrap_or(own);
            let upper = placed.iter().map(|(mark, own)| end(mark, mark.band.1, *own));
            let lower = placed.iter().rev().map(|(mark, own)| end(mark, mark.band.0, *own));
            canvas.path(&format!("band {colour}"), &upper.chain(lower).collect::<Vec<_>>(), true, None);
        }
        let line: Vec<Point> = placed.iter().map(|(_, place)| *place).collect();
        canvas.path(&stroke(place), &line, false, None);
        for (Mark { x, y, band: (low, high), note }, (cx, cy)) in placed {
            canvas.mark(format!(
                "data-cx=\"{cx:.1}\" data-cy=\"{cy:.1}\" data-x=\"{x:e}\" data-y=\"{y:e}\" data-low=\"{low:e}\" \
                 data-high=\"{high:e}\" data-note=\"{}\"",
                text(note)
            ));
            shape(canvas, place, (cx, cy), Some(&format!("{}, {note}: {}", self.name, number(*y, 4))));
        }
        canvas.end();
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, y) = (text(&self.title), text(&self.y.label));
        let name = format!("{}: {} against {}", self.title, self.y.label, self.x.label);
        let mut svg = Svg::new(&text(&self.id), &name, SIZE, "");
        self.draw(&mut svg, PLANE);
        let drawing = svg.finish();
        let hidden = self.hidden().map_or(String::new(), |words| note(&words));
        write!(
            f,
            "<figure class=\"chart\">\n<figcaption>{title}<small>{y}</small></figcaption>\n{drawing}{hidden}</figure>"
        )
    }
}

fn colour(place: usize) -> String {
    format!("c{}", place % COLOURS)
}

/// Returns the style classes of a line; dashed if all mark shapes are used up.
fn stroke(place: usize) -> String {
    format!("line {}{}", colour(place), if place >= WHOLE { " dashed" } else { "" })
}

/// Returns the corners of a cross: the corners of one arm, rotated by quarter turns.
fn cross() -> [Point; 12] {
    let arm = [(-1.4, -4.6), (1.4, -4.6), (1.4, -1.4)];
    std::array::from_fn(|i| (0..i / 3).fold(arm[i % 3], |(x, y): Point, _| (-y, x)))
}

/// Draws the mark of a line at a point; its shape distinguishes lines without colour.
fn shape(canvas: &mut dyn Canvas, place: usize, (x, y): Point, says: Option<&str>) {
    let class = format!("mark {}", colour(place));
    let mut corners = |points: &[Point]| {
        let points: Vec<Point> = points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        canvas.path(&class, &points, true, says);
    };
    match place % WHOLE {
        0 => canvas.circle(&class, (x, y), 3.6, says),
        1 => corners(&[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)]),
        2 => corners(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]),
        3 => corners(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
        4 => corners(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)]),
        5 => corners(&cross().map(|(x, y)| ((x - y) * FRAC_1_SQRT_2, (x + y) * FRAC_1_SQRT_2))),
        _ => corners(&cross()),
    }
}

/// Draws a short line with the mark of a palette index, for a legend.
pub(crate) fn key(canvas: &mut dyn Canvas, place: usize, (x, y): Point) {
    canvas.path(&stroke(place), &[(x, y), (x + 24.0, y)], false, None);
    shape(canvas, place, (x + 12.0, y), None);
}

pub(crate) fn swatch(place: usize) -> String {
    let mut svg = Svg::default();
    key(&mut svg, place, (0.0, 6.0));
    format!("<svg viewBox=\"0 0 24 12\" aria-hidden=\"true\">{}</svg>", svg.elements())
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn chart(values: &[(f64, f64)]) -> Chart {
        let mark = |(x, y): &(f64, f64)| Mark { x: *x, y: *y, band: (y / 2.0, y * 2.0), note: format!("rank {x}") };
        let x = Axis::new("rank", Scale::Log, [50.0, 2000.0]).unwrap();
        let y = Axis::new("error", Scale::Log, [1e-3, 1.0]).unwrap();
        Chart {
            series: vec![Series { name: "a&b".to_string(), place: 8, marks: values.iter().map(mark).collect() }],
            cloud: vec![(50.0, 0.1), (f64::NAN, 1.0)],
            bars: vec![(100.0, 200.0, 0.1)],
            floor: Some(("floor".to_string(), vec![(50.0, 0.1), (100.0, 0.0), (200.0, 0.01)])),
            ..Chart::new("c", "<b>", x, y)
        }
    }

    #[test]
    fn what_has_no_place_is_left_out_and_the_rest_is_there() {
        let svg = chart(&[(50.0, 0.5), (100.0, 0.0), (200.0, 0.1), (2000.0, f64::NAN)]).to_string();
        assert_eq!(svg.matches("class=\"mark c8\"").count(), 2, "{svg}");
        assert!(svg.contains("data-name=\"a&amp;b\"") && svg.contains("line c8 dashed") && svg.contains("&lt;b&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains(">50</text>") && svg.contains(">2000</text>") && svg.contains("class=\"floor\""));
        assert!(svg.contains("data-names=\"rank|error\" data-values=\"50.00 0.1000 \""), "{svg}");
        assert!(svg.contains("<title>100.0 to 200.0: 0.1000</title>"), "{svg}");
        // values are written with full precision
        assert!(svg.contains("data-x=\"5e1\" data-y=\"5e-1\" data-low=\"2.5e-1\" data-high=\"1e0\""), "{svg}");
    }

    #[test]
    fn larger_numbers_are_higher_and_to_the_right() {
        let chart = chart(&[]);
        let plane = Plane { x: &chart.x, y: &chart.y, edges: PLANE };
        let place = |x, y| plane.place((x, y)).unwrap();
        assert!(place(100.0, 0.5).0 > place(50.0, 0.5).0 && place(50.0, 0.5).1 < place(50.0, 0.1).1);
        assert!(place(1e9, 1e9) == (PLANE.right, PLANE.top), "clamped to the plane");
    }
}
