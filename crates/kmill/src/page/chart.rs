//! Lines with bands over two axes, as SVG.

use super::axis::{Axis, label};
use super::{COLOURS, text};
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
        for tick in &self.x.ticks {
            if let Some(x) = self.x(*tick) {
                write!(
                    f,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    bottom + 18.0,
                    label(*tick)
                )?;
            }
        }
        for tick in &self.y.ticks {
            if let Some(y) = self.y(*tick) {
                let at = left - 7.0;
                write!(f, "<text x=\"{at:.1}\" y=\"{y:.1}\" dy=\".34em\" text-anchor=\"end\">{}</text>", label(*tick))?;
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
        let places: Vec<(f64, f64)> = self.cloud.iter().filter_map(|(x, y)| Some((self.x(*x)?, self.y(*y)?))).collect();
        if places.is_empty() {
            return Ok(());
        }
        f.write_str("<path class=\"cloud\" d=\"")?;
        places.iter().try_for_each(|(x, y)| write!(f, "M{x:.1} {y:.1}h0"))?;
        f.write_str("\"/>\n")
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
        let dashed = if place >= WHOLE { " dashed" } else { "" };
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
                shown = crate::table::number(*value, 3),
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

/// The mark of a line at a point, as SVG; its shape tells lines apart without colour.
fn shape(place: usize, x: f64, y: f64) -> String {
    let at = |points: &[(f64, f64)]| {
        let moved: Vec<(f64, f64)> = points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        format!("{}Z", path(&moved))
    };
    match place % WHOLE {
        0 => format!("M{:.1} {y:.1}a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0Z", x - 3.6),
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
    let dashed = if place >= WHOLE { " dashed" } else { "" };
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
