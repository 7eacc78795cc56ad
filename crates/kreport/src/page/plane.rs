//! The plot area of a chart: its edges, and the two axes.

use super::axis::Axis;
use crate::drawing::{Anchor, Canvas, FONT_SIZE, Point, shorten_to};

/// Largest font size of a chart, in units of the drawing: the style sheet enlarges the letters on
/// narrow screens. Labels that have room at this size have room at all sizes.
pub(crate) const MAX_FONT_SIZE: f64 = 15.0;

/// Part of a letter below its baseline, relative to the font size.
pub(super) const DESCENT: f64 = 0.25;

/// Distance between the vertical axis and its labels.
const Y_LABEL_DISTANCE: f64 = 7.0;

/// The edges of a plot area, in units of the drawing.
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

impl Edges {
    /// Returns the plot area with a left margin that has room for the labels of the vertical axis
    /// and for its name, if the name has this baseline.
    pub(crate) fn with_room_for(self, y: &Axis, name_baseline: f64, font_size: f64) -> Self {
        let margin = name_baseline + 2.0 * DESCENT * font_size + y.label_width(font_size) + Y_LABEL_DISTANCE;
        Self { left: self.left.max(margin), ..self }
    }
}

impl Plane<'_> {
    /// Returns the position of a point; `None` if one of its coordinates has no position.
    pub(crate) fn position(&self, (x, y): (f64, f64)) -> Option<Point> {
        let Edges { left, right, top, bottom } = self.edges;
        Some((self.x.position(x, left, right)?, self.y.position(y, bottom, top)?))
    }

    pub(crate) fn draw_grid(&self, canvas: &mut dyn Canvas) {
        let Edges { left, right, top, bottom } = self.edges;
        let x = self.x.with_room(right - left, MAX_FONT_SIZE);
        let x_positions = x.ticks.iter().filter_map(|tick| x.position(*tick, left, right));
        let y_positions = self.y.ticks.iter().filter_map(|tick| self.y.position(*tick, bottom, top));
        let lines = x_positions.map(|x| [(x, top), (x, bottom)]).chain(y_positions.map(|y| [(left, y), (right, y)]));
        canvas.lines("grid", &lines.collect::<Vec<_>>(), None);
    }

    pub(crate) fn draw_axes(&self, canvas: &mut dyn Canvas) {
        let Edges { left, right, top, bottom } = self.edges;
        canvas.path("axis", &[(left, top), (left, bottom), (right, bottom)], false, None);
        let x_axis = self.x.with_room(right - left, MAX_FONT_SIZE);
        for (label, x) in
            x_axis.labelled_ticks().filter_map(|(tick, label)| Some((label, x_axis.position(tick, left, right)?)))
        {
            canvas.word("tick", &label, (x, bottom + 18.0), Anchor::Middle);
        }
        for (label, y) in
            self.y.labelled_ticks().filter_map(|(tick, label)| Some((label, self.y.position(tick, bottom, top)?)))
        {
            // the middle of a digit is a third of the font size above the baseline
            canvas.word("tick", &label, (left - Y_LABEL_DISTANCE, y + 0.34 * FONT_SIZE), Anchor::End);
        }
        let name = shorten_to(&self.x.label, right - left, MAX_FONT_SIZE);
        canvas.word("name", &name, ((left + right) / 2.0, bottom + 40.0), Anchor::Middle);
    }

    /// Draws the name of the vertical axis at `x`.
    pub(crate) fn draw_y_name(&self, canvas: &mut dyn Canvas, name: &str, x: f64) {
        let Edges { top, bottom, .. } = self.edges;
        let name = shorten_to(name, bottom - top, MAX_FONT_SIZE);
        canvas.word("name", &name, (x, (top + bottom) / 2.0), Anchor::Upwards);
    }
}
