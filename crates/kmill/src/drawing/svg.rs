//! A picture as SVG.

use super::STYLE;
use super::canvas::{Anchor, Canvas};
use crate::page::text;
use std::fmt::Write;

/// The SVG elements drawn so far. Writing to a string cannot fail.
#[derive(Debug)]
pub(crate) struct Svg(String);

impl Svg {
    /// An empty drawing with a name; a drawing that stands alone holds its style rules.
    pub(crate) fn new(name: &str, (width, height): (f64, f64), alone: bool) -> Self {
        let style = if alone { format!("<style>{STYLE}</style>") } else { String::new() };
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"picture\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{}\">{style}\n",
            text(name)
        ))
    }

    /// Ends the element that was begun, with the text under the pointer.
    fn end(&mut self, element: &str, says: Option<&str>) {
        let _ = match says {
            Some(says) => writeln!(self.0, "><title>{}</title></{element}>", text(says)),
            None => writeln!(self.0, "/>"),
        };
    }

    /// Ends the drawing and returns the SVG element.
    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

impl Canvas for Svg {
    fn rectangle(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        // corners are rounded, not lengths, so that neighbours meet without a seam
        let round = |v: f64| (100.0 * v).round() / 100.0;
        let (width, height) = (round(x + width) - round(x), round(y + height) - round(y));
        let _ = writeln!(
            self.0,
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>"
        );
    }

    fn lines(&mut self, class: &str, pieces: &[[(f64, f64); 2]], says: Option<&str>) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"");
        for [(x0, y0), (x1, y1)] in pieces {
            let _ = write!(self.0, "M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}");
        }
        self.0.push('"');
        self.end("path", says);
    }

    fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, says: Option<&str>) {
        let _ = write!(self.0, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"");
        self.end("circle", says);
    }

    fn area(&mut self, class: &str, corners: &[(f64, f64)], says: Option<&str>) {
        let _ = write!(self.0, "<path class=\"{class}\" d=\"");
        for (i, (x, y)) in corners.iter().enumerate() {
            let _ = write!(self.0, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        }
        self.0.push_str("Z\"");
        self.end("path", says);
    }

    fn word(&mut self, class: &str, word: &str, (x, y): (f64, f64), anchor: Anchor) {
        let end = match anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
            Anchor::Middle | Anchor::Upwards => "middle",
        };
        let turn = if anchor == Anchor::Upwards { " rotate(-90)" } else { "" };
        let _ = writeln!(
            self.0,
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}){turn}\" text-anchor=\"{end}\">{}</text>",
            text(word)
        );
    }
}
