//! Drawings as SVG.

use super::{Anchor, Canvas, Point};
use kstore::shown::lines;
use std::fmt::Write;

/// Escapes text for HTML and SVG, including quoted attributes; control characters become escapes.
pub(crate) fn text(raw: &str) -> String {
    // the ampersand comes first, because the other escapes include it
    let escapes = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    escapes.into_iter().fold(lines(raw).into_owned(), |text, (letter, escape)| text.replace(letter, escape))
}

/// The SVG elements drawn so far, and the attributes of the next one. Writing to a string cannot
/// fail.
#[derive(Debug, Default)]
pub(crate) struct Svg {
    elements: String,
    next: String,
}

impl Svg {
    /// Returns an empty drawing with an identifier and a name; a standalone drawing includes its
    /// style rules.
    pub(crate) fn new(id: &str, name: &str, (width, height): Point, style: &str) -> Self {
        let style = if style.is_empty() { String::new() } else { format!("<style>{style}</style>") };
        let elements = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"{id}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{}\">{style}\n",
            text(name)
        );
        Self { elements, next: String::new() }
    }

    fn element(&mut self, element: &str, class: &str, shape: &str, says: Option<&str>) {
        let next = std::mem::take(&mut self.next);
        let _ = write!(self.elements, "<{element} class=\"{class}\" {shape}{next}");
        let _ = match says {
            Some(says) => writeln!(self.elements, "><title>{}</title></{element}>", text(says)),
            None => writeln!(self.elements, "/>"),
        };
    }

    /// Returns only the elements, without the enclosing drawing.
    pub(crate) fn elements(self) -> String {
        self.elements
    }

    pub(crate) fn finish(self) -> String {
        self.elements + "</svg>\n"
    }
}

impl Canvas for Svg {
    fn rectangle(&mut self, class: &str, (x, y): Point, (width, height): Point, says: Option<&str>) {
        // round corners instead of lengths, so that neighbours meet without a seam
        let round = |v: f64| (100.0 * v).round() / 100.0;
        let (width, height) = (round(x + width) - round(x), round(y + height) - round(y));
        let shape = format!("x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"");
        self.element("rect", class, &shape, says);
    }

    fn lines(&mut self, class: &str, pieces: &[[Point; 2]], says: Option<&str>) {
        let piece = |[from, to]: &[Point; 2]| {
            let to = if from == to { "h0".to_string() } else { format!("L{:.1} {:.1}", to.0, to.1) };
            format!("M{:.1} {:.1}{to}", from.0, from.1)
        };
        self.element("path", class, &format!("d=\"{}\"", pieces.iter().map(piece).collect::<String>()), says);
    }

    fn path(&mut self, class: &str, points: &[Point], closed: bool, says: Option<&str>) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let (start, end) = if points.is_empty() { ("", "") } else { ("M", if closed { "Z" } else { "" }) };
        self.element("path", class, &format!("d=\"{start}{}{end}\"", points.join("L")), says);
    }

    fn circle(&mut self, class: &str, (x, y): Point, radius: f64, says: Option<&str>) {
        self.element("circle", class, &format!("cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\""), says);
    }

    fn word(&mut self, class: &str, word: &str, (x, y): Point, anchor: Anchor) {
        let end = match anchor {
            Anchor::Start => "start",
            Anchor::End => "end",
            Anchor::Middle | Anchor::Upwards => "middle",
        };
        let turn = if anchor == Anchor::Upwards { " rotate(-90)" } else { "" };
        let _ = writeln!(
            self.elements,
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}){turn}\" text-anchor=\"{end}\">{}</text>",
            text(word)
        );
    }

    fn mark(&mut self, attributes: String) {
        self.next = format!(" {attributes}");
    }

    fn begin(&mut self, attributes: String) {
        let _ = writeln!(self.elements, "<g {attributes}>");
    }

    fn end(&mut self) {
        self.elements.push_str("</g>\n");
    }
}
