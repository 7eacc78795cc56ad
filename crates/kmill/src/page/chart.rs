//! Lines with bands over two axes, as SVG.

use super::axis::Axis;
use super::{COLOURS, text};
use crate::table::number;
use std::f64::consts::FRAC_1_SQRT_2;
use std::fmt::{self, Write};

/// Width of the drawing, in its own units. Style rules set the size of letters for narrow and wide screens.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 330.0;

/// Series with whole lines and shapes of their own; the lines of further series are dashed.
const WHOLE: usize = 7;

/// The edges of the area between the axes: left, right, top, bottom.
const PLANE: (f64, f64, f64, f64) = (66.0, WIDTH - 14.0, 14.0, HEIGHT - 52.0);

/// A point of a line: a value with its spread.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Position along the horizontal axis.
    pub x: f64,
    /// The value, a median as a rule.
    pub y: f64,
    /// Lower and upper end of the band.
    pub band: (f64, f64),
    /// The text shown with the value when the pointer is on the mark.
    pub note: String,
}

/// A line of a chart: marks that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the line, for the legend.
    pub name: String,
    /// Number in the palette, which sets the colour, the dashes and the shape of the marks.
    pub place: usize,
    /// The marks of the line, in ascending order of x.
    pub marks: Vec<Mark>,
}

/// A chart with lines, bands and points over two axes; displayed as SVG.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Identifier, unique on the page; also the name of the file when the chart is saved.
    pub id: String,
    /// Title of the chart.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Points without a line.
    pub cloud: Vec<(f64, f64)>,
    /// Bars from the horizontal axis: where each begins and ends, and its height.
    pub bars: Vec<(f64, f64, f64)>,
    /// A line that nothing can be below, with its name.
    pub floor: Option<(String, Vec<(f64, f64)>)>,
}

impl Chart {
    fn x(&self, value: f64) -> Option<f64> {
        self.x.place(value, PLANE.0, PLANE.1)
    }

    fn y(&self, value: f64) -> Option<f64> {
        self.y.place(value, PLANE.3, PLANE.2)
    }

    fn axes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right, top, bottom) = PLANE;
        f.write_str("<g class=\"grid\">")?;
        for x in self.x.ticks.iter().filter_map(|tick| self.x(*tick)) {
            write!(f, "<path d=\"M{x:.1} {top}V{bottom}\"/>")?;
        }
        for y in self.y.ticks.iter().filter_map(|tick| self.y(*tick)) {
            write!(f, "<path d=\"M{left} {y:.1}H{right}\"/>")?;
        }
        write!(f, "</g>\n<path class=\"axis\" d=\"M{left} {top}V{bottom}H{right}\"/>\n<g class=\"ticks\">")?;
        for (tick, words) in self.x.written() {
            if let Some(x) = self.x(tick) {
                write!(f, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", bottom + 18.0, words)?;
            }
        }
        for (tick, words) in self.y.written() {
            if let Some(y) = self.y(tick) {
                let at = left - 7.0;
                write!(f, "<text x=\"{at:.1}\" y=\"{y:.1}\" dy=\".34em\" text-anchor=\"end\">{words}</text>")?;
            }
        }
        let (middle, below) = ((left + right) / 2.0, HEIGHT - 9.0);
        writeln!(
            f,
            "</g>\n<text class=\"name\" x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
            text(&self.x.label)
        )
    }

    /// Draws the points without a line as lines of no length with round ends, which takes a few letters a point.
    fn cloud(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let placed = |(x, y): &(f64, f64)| Some(((*x, *y), (self.x(*x)?, self.y(*y)?)));
        let points: Vec<_> = self.cloud.iter().filter_map(placed).collect();
        if points.is_empty() {
            return Ok(());
        }
        f.write_str("<path class=\"cloud\" d=\"")?;
        points.iter().try_for_each(|(_, (x, y))| write!(f, "M{x:.1} {y:.1}h0"))?;
        // the numbers, in the same order, for the box under the pointer
        write!(f, "\" data-names=\"{}|{}\" data-values=\"", text(&self.x.label), text(&self.y.label))?;
        points.iter().try_for_each(|((x, y), _)| write!(f, "{} {} ", number(*x, 4), number(*y, 4)))?;
        f.write_str("\"/>\n")
    }

    fn bars(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (low, high, height) in &self.bars {
            let (Some(left), Some(right), Some(top)) = (self.x(*low), self.x(*high), self.y(*height)) else { continue };
            let ends = [low, high].map(|end| number(*end, 3));
            writeln!(
                f,
                "<rect class=\"bar c0\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                 <title>{} to {}: {}</title></rect>",
                // a gap between neighbours
                (right - left - 1.0).max(0.5),
                (PLANE.3 - top).max(0.0),
                ends[0],
                ends[1],
                number(*height, 4),
            )?;
        }
        Ok(())
    }

    fn floor(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((name, points)) = &self.floor else { return Ok(()) };
        // at the rim it would look like a floor that ends there
        let shown = points.iter().filter(|(x, y)| self.x.holds(*x) && self.y.holds(*y));
        let places: Vec<(f64, f64)> = shown.filter_map(|(x, y)| Some((self.x(*x)?, self.y(*y)?))).collect();
        if places.len() > 1 {
            writeln!(f, "<path class=\"floor\" d=\"{}\"><title>{}</title></path>", path(&places), text(name))?;
        }
        Ok(())
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, series: &Series) -> fmt::Result {
        let place = series.place;
        let dashed = if is_dashed(place) { " dashed" } else { "" };
        let name = text(&series.name);
        write!(f, "<g class=\"series s{place} c{}{dashed}\" data-name=\"{name}\">", place % COLOURS)?;
        let placed: Vec<(&Mark, f64, f64)> =
            series.marks.iter().filter_map(|mark| Some((mark, self.x(mark.x)?, self.y(mark.y)?))).collect();
        let end = |value: f64, own: f64| self.y(value).unwrap_or(own);
        if placed.len() > 1 && placed.iter().any(|(mark, ..)| mark.band.0 < mark.band.1) {
            let upper = placed.iter().map(|(mark, x, y)| (*x, end(mark.band.1, *y)));
            let lower = placed.iter().rev().map(|(mark, x, y)| (*x, end(mark.band.0, *y)));
            write!(f, "<path class=\"band\" d=\"{}Z\"/>", path(&upper.chain(lower).collect::<Vec<_>>()))?;
        }
        let line: Vec<(f64, f64)> = placed.iter().map(|(_, x, y)| (*x, *y)).collect();
        write!(f, "<path class=\"line\" d=\"{}\"/>", path(&line))?;
        for (mark, x, y) in &placed {
            let Mark { x: value_x, y: value, band: (low, high), note } = mark;
            write!(
                f,
                "<path class=\"mark\" d=\"{}\" data-cx=\"{x:.1}\" data-cy=\"{y:.1}\" data-x=\"{value_x:e}\" \
                 data-y=\"{value:e}\" data-low=\"{low:e}\" data-high=\"{high:e}\" data-note=\"{note}\">\
                 <title>{name}, {note}: {shown}</title></path>",
                shape(place, *x, *y),
                note = text(note),
                shown = number(*value, 3),
            )?;
        }
        f.write_str("</g>\n")
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, title, y) = (text(&self.id), text(&self.title), text(&self.y.label));
        writeln!(
            f,
            "<figure class=\"chart\">\n<figcaption>{title}<small>{y}</small></figcaption>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" id=\"{id}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{title}: {y} against {x}\">",
            x = text(&self.x.label),
        )?;
        self.axes(f)?;
        self.bars(f)?;
        self.cloud(f)?;
        self.floor(f)?;
        for series in &self.series {
            self.line(f, series)?;
        }
        f.write_str("</svg>\n</figure>")
    }
}

/// The points as the path of an SVG line: `M0.0 1.0L2.0 3.0`.
fn path(points: &[(f64, f64)]) -> String {
    points.iter().enumerate().fold(String::new(), |mut path, (i, (x, y))| {
        // writing to a string cannot fail
        let _ = write!(path, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        path
    })
}

/// Corners of a cross with arms of one width.
const CROSS: [(f64, f64); 12] = [
    (-1.4, -4.6),
    (1.4, -4.6),
    (1.4, -1.4),
    (4.6, -1.4),
    (4.6, 1.4),
    (1.4, 1.4),
    (1.4, 4.6),
    (-1.4, 4.6),
    (-1.4, 1.4),
    (-4.6, 1.4),
    (-4.6, -1.4),
    (-1.4, -1.4),
];

/// True for the lines that are dashed: those beyond the shapes.
pub(crate) fn is_dashed(place: usize) -> bool {
    place >= WHOLE
}

/// The mark of a line at a point, as SVG; its shape tells lines apart without colour.
fn shape(place: usize, x: f64, y: f64) -> String {
    match place % WHOLE {
        0 => format!("M{:.1} {y:.1}a{ROUND} {ROUND} 0 1 0 7.2 0a{ROUND} {ROUND} 0 1 0 -7.2 0Z", x - ROUND),
        _ => format!("{}Z", path(&corners(place, x, y))),
    }
}

/// Radius of a round mark.
const ROUND: f64 = 3.6;

/// The corners of the mark of a line at a point; those of a round one are many.
pub(crate) fn corners(place: usize, x: f64, y: f64) -> Vec<(f64, f64)> {
    let at = |points: &[(f64, f64)]| points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    match place % WHOLE {
        0 => at(&std::array::from_fn::<_, 24, _>(|i| {
            let (sin, cos) = (std::f64::consts::TAU * i as f64 / 24.0).sin_cos();
            (ROUND * cos, ROUND * sin)
        })),
        1 => at(&[(-3.3, -3.3), (3.3, -3.3), (3.3, 3.3), (-3.3, 3.3)]),
        2 => at(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]),
        3 => at(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
        4 => at(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)]),
        5 => at(&CROSS.map(|(x, y)| ((x - y) * FRAC_1_SQRT_2, (x + y) * FRAC_1_SQRT_2))),
        _ => at(&CROSS),
    }
}

/// A short line with the mark of a place in the palette, for a legend.
pub fn swatch(place: usize) -> String {
    let dashed = if is_dashed(place) { " dashed" } else { "" };
    format!(
        "<svg viewBox=\"0 0 24 12\" aria-hidden=\"true\" class=\"c{}{dashed}\"><path class=\"line\" d=\"M0 6H24\"/>\
         <path class=\"mark\" d=\"{}\"/></svg>",
        place % COLOURS,
        shape(place, 12.0, 6.0)
    )
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    fn chart(values: &[(f64, f64)]) -> Chart {
        let mark = |(x, y): &(f64, f64)| Mark { x: *x, y: *y, band: (y / 2.0, y * 2.0), note: format!("rank {x}") };
        Chart {
            id: "c".to_string(),
            title: "<b>".to_string(),
            x: Axis::new("rank", Scale::Log, [50.0, 2000.0]).unwrap(),
            y: Axis::new("error", Scale::Log, [1e-3, 1.0]).unwrap(),
            series: vec![Series { name: "a&b".to_string(), place: 8, marks: values.iter().map(mark).collect() }],
            cloud: vec![(50.0, 0.1), (f64::NAN, 1.0)],
            bars: vec![(100.0, 200.0, 0.1)],
            floor: Some(("floor".to_string(), vec![(50.0, 0.1), (100.0, 0.0), (200.0, 0.01)])),
        }
    }

    #[test]
    fn what_has_no_place_is_left_out_and_the_rest_is_there() {
        let svg = chart(&[(50.0, 0.5), (100.0, 0.0), (200.0, 0.1), (2000.0, f64::NAN)]).to_string();
        assert_eq!(svg.matches("class=\"mark\"").count(), 2, "{svg}");
        assert!(svg.contains("data-name=\"a&amp;b\"") && svg.contains("s8 c8 dashed") && svg.contains("&lt;b&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains(">50</text>") && svg.contains(">2000</text>") && svg.contains("class=\"floor\""));
        // of the points and the bars too
        assert!(svg.contains("data-names=\"rank|error\" data-values=\"50.00 0.1000 \""), "{svg}");
        assert!(svg.contains("<title>100 to 200: 0.1000</title>"), "{svg}");
        // the numbers are there to the last digit
        assert!(svg.contains("data-x=\"5e1\" data-y=\"5e-1\" data-low=\"2.5e-1\" data-high=\"1e0\""), "{svg}");
    }

    #[test]
    fn larger_numbers_are_higher_and_to_the_right() {
        let c = chart(&[]);
        assert!(c.x(100.0).unwrap() > c.x(50.0).unwrap() && c.y(0.5).unwrap() < c.y(0.1).unwrap());
        assert!(c.x(1e9).unwrap() <= PLANE.1 && c.y(1e9).unwrap() >= PLANE.2, "clamped to the plane");
    }
}
