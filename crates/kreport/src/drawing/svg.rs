//! Drawings as SVG.

use super::{Anchor, Canvas, Point};
use kstore::display::escape_lines;
use std::fmt::Write;

/// Escapes text for HTML and SVG, including quoted attributes; control characters become escapes.
pub(crate) fn escape_html(raw: &str) -> String {
    // the ampersand comes first, because the other escapes include it
    let escapes = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    escapes.into_iter().fold(escape_lines(raw).into_owned(), |text, (letter, escape)| text.replace(letter, escape))
}

/// The SVG elements drawn so far, and the attributes of the next one. Writing to a string cannot
/// fail.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    elements: String,
    next_attributes: String,
}

impl Svg {
    /// Returns an empty drawing with an identifier and a name; a standalone drawing includes its
    /// style rules.
    pub(crate) fn new(id: &str, name: &str, (width, height): Point, style: &str) -> Self {
        let style = if style.is_empty() { String::new() } else { format!("<style>{style}</style>") };
        let elements = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"{id}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{}\">{style}\n",
            escape_html(name)
        );
        Self { elements, next_attributes: String::new() }
    }

    fn write_element(&mut self, element: &str, class: &str, geometry: &str, tooltip: Option<&str>) {
        let attributes = std::mem::take(&mut self.next_attributes);
        let _ = write!(self.elements, "<{element} class=\"{class}\" {geometry}{attributes}");
        let _ = match tooltip {
            Some(tooltip) => writeln!(self.elements, "><title>{}</title></{element}>", escape_html(tooltip)),
            None => writeln!(self.elements, "/>"),
        };
    }

    /// Returns only the elements, without the enclosing drawing.
    pub(crate) fn into_elements(self) -> String {
        self.elements
    }

    pub(crate) fn finish(self) -> String {
        self.elements + "</svg>\n"
    }
}

impl Canvas for Svg {
    fn rectangle(&mut self, class: &str, (x, y): Point, (width, height): Point, tooltip: Option<&str>) {
        // rounds the positions of the corners instead of the lengths, so that neighbours meet
        // without a seam
        let round = |v: f64| (100.0 * v).round() / 100.0;
        let (width, height) = (round(x + width) - round(x), round(y + height) - round(y));
        let geometry = format!("x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"");
        self.write_element("rect", class, &geometry, tooltip);
    }

    fn lines(&mut self, class: &str, segments: &[[Point; 2]], tooltip: Option<&str>) {
        let path_segment = |[start, end]: &[Point; 2]| {
            let line_to = if start == end { "h0".to_string() } else { format!("L{:.1} {:.1}", end.0, end.1) };
            format!("M{:.1} {:.1}{line_to}", start.0, start.1)
        };
        self.write_element(
            "path",
            class,
            &format!("d=\"{}\"", segments.iter().map(path_segment).collect::<String>()),
            tooltip,
        );
    }

    fn path(&mut self, class: &str, points: &[Point], closed: bool, tooltip: Option<&str>) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let (start, end) = if points.is_empty() { ("", "") } else { ("M", if closed { "Z" } else { "" }) };
        self.write_element("path", class, &format!("d=\"{start}{}{end}\"", points.join("L")), tooltip);
    }

    fn circle(&mut self, class: &str, (x, y): Point, radius: f64, tooltip: Option<&str>) {
        self.write_element("circle", class, &format!("cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\""), tooltip);
    }

    fn word(&mut self, class: &str, word: &str, (x, y): Point, anchor: Anchor) {
        let anchor_name = match anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
            Anchor::Middle | Anchor::Upwards => "middle",
        };
        let rotation = if anchor == Anchor::Upwards { " rotate(-90)" } else { "" };
        let _ = writeln!(
            self.elements,
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}){rotation}\" text-anchor=\"{anchor_name}\">{}</text>",
            escape_html(word)
        );
    }

    fn set_attributes(&mut self, attributes: String) {
        self.next_attributes = format!(" {attributes}");
    }

    fn begin_group(&mut self, attributes: String) {
        let _ = writeln!(self.elements, "<g {attributes}>");
    }

    fn end_group(&mut self) {
        self.elements.push_str("</g>\n");
    }
}
