//! The picture of a model with one feature: its function as a line, with the rows.

use super::points::{Drawn, Points};
use super::{DRAWING, HEADING, PLANE, Plot, PlotReport, SIZE, about, component, legend, what};
use crate::drawing::{Canvas, Drawing, Point};
use crate::page::{Axis, COLOURS, Plane, Scale, extent, tick};
use crate::table::number;
use ksolve::job::Run;
use ksolve::{Error, Result, Task, predict::Predictor};
use kstore::budget::Term;
use std::path::Path;

/// Number of points of the line: one per two units of the drawing.
const STEPS: usize = 300;

struct Line<'a> {
    feature: &'a str,
    what: String,
    bounds: (f64, f64),
    /// Palette index and values at equal steps of each output that is drawn.
    functions: Vec<(usize, Vec<f64>)>,
    points: &'a Points,
    /// Decision boundary: equal scores, the boundary of novelty, or probability ½.
    border: Option<f64>,
}

/// Draws a model with one feature, writes the picture and returns the report.
pub(super) fn write(
    predictor: &Predictor,
    feature: &String,
    plot: &Plot,
    output: &Path,
    run: &Run,
) -> Result<PlotReport> {
    for (option, given) in [("x", &plot.x), ("y", &plot.y)] {
        if let Some(name) = given.as_ref().filter(|name| *name != feature || option == "y") {
            let why = format!("the model has one feature, {feature}, which is the horizontal axis; omit this option");
            return Err(Error::option(option, name, why));
        }
    }
    let (card, outputs, component) = (predictor.card(), predictor.outputs(), component(predictor, plot)?);
    let terms = vec![predictor.term(0), Term::new("line and drawing", 8 * STEPS * (outputs + 2) + DRAWING, "")];
    let points = Points::read(card, plot, output, std::slice::from_ref(feature), terms, run)?;
    let bounds = points.bounds()[0];
    let x: Vec<f64> = (0..STEPS).map(|i| bounds.0 + share(i) * (bounds.1 - bounds.0)).collect();
    let mut scores = vec![0.0; STEPS * outputs];
    predictor.predict(&x, &mut scores)?;
    // if the model has probabilities, those of all classes are drawn
    let (values, width) = match &card.link {
        Some(link) => {
            let (mut all, mut row) = (Vec::new(), Vec::new());
            for scores in scores.chunks_exact(outputs) {
                link.probabilities(scores, &mut row);
                all.extend_from_slice(&row);
            }
            (all, row.len())
        }
        None => (scores, outputs),
    };
    let drawn: Vec<usize> = if card.classes.is_empty() { vec![component] } else { (0..width).collect() };
    let function = |k: usize| (k, values.iter().skip(k).step_by(width).copied().collect::<Vec<f64>>());
    let functions: Vec<_> = drawn.into_iter().map(function).collect();
    let scores = functions.iter().map(|(_, values)| extent(values.iter().copied())).collect();
    let border = match (card.task, &card.link) {
        (Task::Classification, Some(_)) => (width == 2).then_some(0.5),
        (Task::Classification, None) => (width == 1).then_some(0.0),
        (Task::Novelty, _) => Some(0.0),
        _ => None,
    };
    let what = match (card.task, &card.link) {
        (Task::Classification, Some(_)) => format!("{}: probability", what(card, component, outputs)),
        (Task::Classification, None) => format!("{}: score", what(card, component, outputs)),
        _ => what(card, component, outputs),
    };
    let line = Line { feature, what, bounds, functions, points: &points, border };
    super::write(&line, about(card, plot), output)?;
    Ok(PlotReport::new([feature.clone(), line.what.clone()], &points, scores, output))
}

fn share(i: usize) -> f64 {
    i as f64 / (STEPS - 1) as f64
}

impl Drawing for Line<'_> {
    fn size(&self) -> (f64, f64) {
        SIZE
    }

    fn name(&self) -> String {
        format!("{} against {}", self.what, self.feature)
    }

    fn heading(&self) -> Option<Point> {
        Some(HEADING)
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let truths = self.points.drawn.iter().map(|row| row.place[1]).filter(|_| self.points.truth);
        let heights = self.functions.iter().flat_map(|(_, values)| values).copied().chain(truths);
        let across = Axis::new(self.feature, Scale::Linear, [self.bounds.0, self.bounds.1]);
        let up = Axis::new(&self.what, Scale::Linear, heights.chain(self.border));
        // predictions are finite, so the axes exist
        let (Some(x), Some(y)) = (across, up) else { return };
        let plane = Plane { x: &x, y: &y, edges: PLANE };
        let place = |point: (f64, f64)| plane.place(point).unwrap_or((PLANE.left, PLANE.bottom));
        plane.grid(canvas);
        for row in &self.points.drawn {
            let (x, y) = place(row.place.into());
            // without a target, the rows are drawn on the axis
            let place = (x, if self.points.truth { y } else { PLANE.bottom - 6.0 });
            self.points.circle(canvas, row, place, &self.says(row));
        }
        let (low, high) = self.bounds;
        if let Some(border) = self.border {
            let y = place((low, border)).1;
            canvas.lines("floor", &[[(PLANE.left, y), (PLANE.right, y)]], Some(&tick(border)));
        }
        for (colour, values) in &self.functions {
            let at = |(i, value): (usize, &f64)| place((low + share(i) * (high - low), *value));
            let places: Vec<Point> = values.iter().enumerate().map(at).collect();
            let name = self.points.labels.get(*colour).filter(|_| self.functions.len() > 1);
            canvas.path(&format!("line c{}", colour % COLOURS), &places, false, name.map(String::as_str));
        }
        plane.axes(canvas);
        plane.name_upwards(canvas, &self.what, 16.0);
        legend::classes(canvas, &self.points.labels, PLANE);
    }
}

impl Line<'_> {
    fn says(&self, Drawn { place: [x, y], .. }: &Drawn) -> String {
        let truth = if self.points.truth { format!(", {} {}", self.what, number(*y, 4)) } else { String::new() };
        format!("{} {}{truth}", self.feature, number(*x, 4))
    }
}
