//! What a picture is drawn on.

/// Where a word stands to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
    /// It goes upwards, and its middle is there.
    Upwards,
}

/// Shapes in units of the drawing, y downwards. The look of a shape is that of its classes in `picture.css`.
pub(super) trait Canvas {
    /// A rectangle, from its upper left corner.
    fn rectangle(&mut self, class: &str, corner: (f64, f64), size: (f64, f64));
    /// Pieces of lines; what they show, if anything is to be said of them.
    fn lines(&mut self, class: &str, pieces: &[[(f64, f64); 2]], says: Option<&str>);
    /// A circle.
    fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64);
    /// A word on its line.
    fn word(&mut self, class: &str, word: &str, place: (f64, f64), anchor: Anchor);
}
