//! The drawing operations that pictures are made with, for SVG and for pixels.

/// The position of a word relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The word begins at the point.
    Start,
    /// The middle of the word is at the point.
    Middle,
    /// The word ends at the point.
    End,
    /// The word runs upwards, and its middle is at the point.
    Upwards,
}

/// Draws shapes in units of the drawing, y downwards. The rules of `drawing.css` for `class` set the look of a shape.
pub(crate) trait Canvas {
    /// Draws a rectangle, from its upper left corner.
    fn rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64));
    /// Draws pieces of lines; `says` is the text under the pointer, where there is one.
    fn lines(&mut self, class: &str, pieces: &[[(f64, f64); 2]], says: Option<&str>);
    /// Draws a circle; `says` is the text under the pointer, where there is one.
    fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64, says: Option<&str>);
    /// Fills the area within a line through the corners, which is closed; `says` as above.
    fn area(&mut self, class: &str, corners: &[(f64, f64)], says: Option<&str>);
    /// Draws a word whose baseline is at the height of `place`.
    fn word(&mut self, class: &str, word: &str, place: (f64, f64), anchor: Anchor);
}
