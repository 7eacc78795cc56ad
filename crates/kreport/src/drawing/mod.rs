//! Drawings of shapes and words, as SVG, as PDF and as raster images, with the same style: the
//! rules of `drawing.css`.

mod font;
mod pdf;
mod raster;
mod shape_style;
mod svg;

use pdf::PdfPage;
pub(crate) use raster::RasterImage;
pub(crate) use svg::{Svg, escape_html};

use crate::output;
use kstore::Result;
use std::path::Path;

/// A point in units of the drawing, y downwards.
pub(crate) type Point = (f64, f64);

/// Font size in units of the drawing, as in the style rules.
pub(crate) const FONT_SIZE: f64 = 12.0;

/// Style rules of drawings. The colours in these rules are variables that the page defines.
pub(crate) const DRAWING_STYLE: &str = include_str!("drawing.css");

/// The colours of a light page, as variables.
pub(crate) const COLOUR_VARIABLES: &str = include_str!("colours.css");

/// Returns the style rules of a standalone drawing, with the colours of a light page.
fn standalone_style() -> String {
    let colour = |rule: &'static str| {
        let (name, colour) = rule.split_once(':')?;
        Some((&name[name.find("--")?..], colour.trim()))
    };
    // `:root {` precedes the rules
    let rules = COLOUR_VARIABLES.split_once('{').map_or("", |(_, rules)| rules).split(';');
    rules
        .filter_map(colour)
        .fold(DRAWING_STYLE.to_string(), |style, (name, colour)| style.replace(&format!("var({name})"), colour))
}

/// The position of a word relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    /// Centres the word at the point.
    Middle,
    End,
    /// Runs the word upwards, centred at the point.
    Upwards,
}

/// A target for drawing shapes. The rules of `drawing.css` for `class` set the style of a shape;
/// `tooltip` is optional.
pub(crate) trait Canvas {
    fn rectangle(&mut self, class: &str, corner: Point, size: Point, tooltip: Option<&str>);
    fn lines(&mut self, class: &str, segments: &[[Point; 2]], tooltip: Option<&str>);
    /// Draws a polyline, or a filled polygon if `closed`.
    fn path(&mut self, class: &str, points: &[Point], closed: bool, tooltip: Option<&str>);
    fn circle(&mut self, class: &str, centre: Point, radius: f64, tooltip: Option<&str>);
    /// Draws a word with its baseline at `position`.
    fn word(&mut self, class: &str, word: &str, position: Point, anchor: Anchor);
    /// Adds attributes to the next shape, for the script of a page.
    fn set_attributes(&mut self, _attributes: String) {}
    /// Begins a group of shapes with attributes, for the script of a page.
    fn begin_group(&mut self, _attributes: String) {}
    fn end_group(&mut self) {}
}

/// Returns the width of a word, in units of the drawing; an estimate for the fonts of a browser.
/// The widths are from a wide font; East Asian letters, which it lacks, are squares.
pub(crate) fn text_width(word: &str, font_size: f64) -> f64 {
    const FIRST_SQUARE_LETTER: char = '\u{1100}';
    let (square, other): (String, String) = word.chars().partition(|letter| *letter >= FIRST_SQUARE_LETTER);
    square.chars().count() as f64 * font_size + f64::from(font::shared().text_width(&other, font_size as f32))
}

/// Shortens a word to a width, in units of the drawing, at a font size.
pub(crate) fn shorten_to(word: &str, max_width: f64, font_size: f64) -> String {
    if text_width(word, font_size) <= max_width {
        return word.to_string();
    }
    // letter by letter, because a name may have any length
    let mut room = max_width - text_width("…", font_size);
    let fits = |letter: &char| {
        room -= text_width(letter.encode_utf8(&mut [0; 4]), font_size);
        room >= 0.0
    };
    word.chars().take_while(fits).chain(['…']).collect()
}

pub(crate) trait Drawing {
    fn size(&self) -> Point;
    /// Returns the title, in one line.
    fn title(&self) -> String;
    /// Returns the centre of the title in a standalone drawing; `None` if the drawing has no title.
    fn title_position(&self) -> Option<Point> {
        None
    }
    /// Draws everything but the title, from the back to the front.
    fn draw(&self, canvas: &mut dyn Canvas);
}

/// Draws a standalone picture on a background.
fn draw_standalone<C: Canvas>(picture: &dyn Drawing, mut canvas: C) -> C {
    canvas.rectangle("paper", (0.0, 0.0), picture.size(), None);
    picture.draw(&mut canvas);
    if let Some(position) = picture.title_position() {
        let room = 2.0 * position.0.min(picture.size().0 - position.0);
        canvas.word("title", &shorten_to(&picture.title(), room, FONT_SIZE), position, Anchor::Middle);
    }
    canvas
}

pub(crate) fn svg(picture: &dyn Drawing) -> String {
    draw_standalone(picture, Svg::new("picture", &picture.title(), picture.size(), &standalone_style())).finish()
}

pub(crate) fn png(picture: &dyn Drawing) -> std::io::Result<Vec<u8>> {
    draw_standalone(picture, RasterImage::new(picture.size())).png()
}

pub(crate) fn pdf(picture: &dyn Drawing) -> std::io::Result<Vec<u8>> {
    draw_standalone(picture, PdfPage::new(picture.size(), &picture.title())).pdf()
}

/// Writes a drawing, as SVG or PDF if the file name ends with .svg or .pdf, otherwise as PNG.
pub(crate) fn write(picture: &dyn Drawing, path: &Path) -> Result<()> {
    let bytes = match output::extension(path).as_deref() {
        Some("svg") => svg(picture).into_bytes(),
        Some("pdf") => pdf(picture).map_err(kstore::Error::io("write", path))?,
        _ => png(picture).map_err(kstore::Error::io("write", path))?,
    };
    output::write_file(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shortened_to_a_width() {
        assert_eq!(shorten_to("rank", 100.0, 12.0), "rank");
        let short = shorten_to("Durchschnittstemperatur", 100.0, 12.0);
        assert!(short.starts_with("Durchschn") && short.ends_with('…'), "{short}");
        assert!((80.0..=100.0).contains(&text_width(&short, 12.0)), "{short}");
        assert_eq!(text_width("日本", 12.0), 24.0, "squares");
        // in linear time
        assert_eq!(shorten_to(&"x".repeat(1_000_000), 100.0, 12.0), shorten_to(&"x".repeat(100), 100.0, 12.0));
    }
}
