//! Pictures of shapes and words, as SVG and as pixels, with one look: the rules of `drawing.css`.

mod canvas;
mod ink;
mod letters;
mod pixels;
mod svg;

pub(crate) use canvas::{Anchor, Canvas};
pub(crate) use pixels::Pixels;
pub(crate) use svg::Svg;

use crate::{Result, output};
use std::path::Path;

/// Size of letters in units of the drawing, as in the style rules.
pub(crate) const LETTERS: f64 = 12.0;

/// Style rules of a picture that stands alone: the colours of the page on white.
pub(crate) const STYLE: &str = include_str!("drawing.css");

/// A picture that can be drawn on any canvas.
pub(crate) trait Drawing {
    /// Width and height, in units of the drawing.
    fn size(&self) -> (f64, f64);
    /// The title, in a line.
    fn name(&self) -> String;
    /// Draws everything, from the back to the front, also the title.
    fn draw(&self, canvas: &mut dyn Canvas);
}

/// The picture as a file of SVG, with its own rules and a ground of paper.
pub(crate) fn svg(picture: &dyn Drawing) -> String {
    let mut svg = Svg::new(&picture.name(), picture.size(), true);
    svg.rectangle("paper", (0.0, 0.0), picture.size());
    picture.draw(&mut svg);
    svg.finish()
}

/// Writes a picture, as SVG where the name ends with .svg and as PNG elsewhere.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn write(picture: &dyn Drawing, path: &Path) -> Result<()> {
    let bytes = match output::extension(path).as_deref() {
        Some("svg") => svg(picture).into_bytes(),
        _ => png(picture).map_err(kstore::Error::io("write", path))?,
    };
    output::file(path, &bytes)
}

/// The picture as a file of PNG.
///
/// # Errors
/// None in practice: the file is written to memory.
pub(crate) fn png(picture: &dyn Drawing) -> std::io::Result<Vec<u8>> {
    let mut pixels = Pixels::new(picture.size());
    pixels.rectangle("paper", (0.0, 0.0), picture.size());
    picture.draw(&mut pixels);
    pixels.png()
}
