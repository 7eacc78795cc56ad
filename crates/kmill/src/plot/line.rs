//! The picture of a model with one feature: its function as a line, with the rows.

use super::points::Points;
use super::{Kind, PlotReport, component, legend, page, what};
use crate::args::PlotArgs;
use crate::args::run::Run;
use crate::drawing::{self, Anchor, Canvas, Drawing, LETTERS, Svg};
use crate::page::{Axis, COLOURS, Scale, tick};
use crate::table::number;
use crate::{Error, Result};
use ksolve::Task;
use ksolve::predict::Predictor;
use kstore::budget::Term;

/// Points of the line: one for every other unit of the drawing.
const STEPS: usize = 300;

/// Width and height of the drawing, and the edges of the area between the axes: left, right, top, bottom.
const SIZE: (f64, f64) = (760.0, 520.0);
const PLANE: (f64, f64, f64, f64) = (76.0, 626.0, 34.0, 460.0);

/// Bytes of the drawing and of the file made of it.
const DRAWING: usize = 8 << 20;

/// The line of an output: its place among the colours, and its values at equal steps.
struct Function {
    colour: usize,
    values: Vec<f64>,
}

/// The parts of the picture.
struct Line<'a> {
    feature: &'a str,
    what: String,
    bounds: (f64, f64),
    functions: Vec<Function>,
    /// Names of the classes, for the legend; none for other models.
    classes: Vec<String>,
    points: &'a Points,
    /// The value that decides: equal scores, the border of novelty, or even chances.
    border: Option<f64>,
}

/// Draws a model with one feature, writes the picture and returns the report.
pub(super) fn run(
    predictor: &Predictor,
    kind: Kind,
    feature: &String,
    args: &PlotArgs,
    run: &Run,
) -> Result<PlotReport> {
    for (option, given) in [("--x", &args.x), ("--y", &args.y)] {
        if let Some(name) = given.as_ref().filter(|name| *name != feature || option == "--y") {
            let why = format!("the model has one feature, {feature}, which is drawn from left to right");
            return Err(Error::option(option, name, why, "leave it out"));
        }
    }
    let (card, outputs, component) = (predictor.card(), predictor.outputs(), component(predictor, args)?);
    let held = vec![predictor.term(0), Term::new("line and drawing", 8 * STEPS * (outputs + 2) + DRAWING, "")];
    let points = Points::read(card, args, std::slice::from_ref(feature), held, run)?;
    let bounds = points.bounds()[0];
    let x: Vec<f64> = (0..STEPS).map(|i| bounds.0 + share(i) * (bounds.1 - bounds.0)).collect();
    let mut scores = vec![0.0; STEPS * outputs];
    predictor.predict(&x, &mut scores)?;
    // classes are drawn by their probabilities where there are some, all of them
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
    let functions = drawn
        .into_iter()
        .map(|k| Function { colour: k, values: values.iter().skip(k).step_by(width).copied().collect() })
        .collect::<Vec<_>>();
    let range = |function: &Function| extent(function.values.iter().copied());
    let ranges = functions.iter().map(range).collect();
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
    let classes = card.classes.iter().map(ToString::to_string).collect();
    let line = Line { feature, what, bounds, functions, classes, points: &points, border };
    match kind {
        Kind::Alone => drawing::write(&line, &args.output)?,
        Kind::Page => {
            let mut drawing = Svg::new(&line.name(), line.size(), false);
            line.parts(&mut drawing);
            page(&line, drawing, card, args).write(&args.output)?;
        }
    }
    let (x, y, output) = (feature.clone(), line.what.clone(), args.output.clone());
    Ok(PlotReport { x, y, rows: points.rows, drawn: points.drawn.len(), scores: ranges, output })
}

/// The step i as a share of the way.
fn share(i: usize) -> f64 {
    i as f64 / (STEPS - 1) as f64
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

impl Drawing for Line<'_> {
    fn size(&self) -> (f64, f64) {
        SIZE
    }

    fn name(&self) -> String {
        format!("{} against {}", self.what, self.feature)
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        self.parts(canvas);
        canvas.word("title", &self.name(), ((PLANE.0 + PLANE.1) / 2.0, PLANE.2 - 14.0), Anchor::Middle);
    }
}

impl Line<'_> {
    /// Draws all parts but the title, from the back to the front.
    fn parts(&self, canvas: &mut dyn Canvas) {
        let (left, right, top, bottom) = PLANE;
        let truths = self.points.drawn.iter().map(|row| row.place[1]).filter(|_| self.points.truth);
        let heights = self.functions.iter().flat_map(|function| function.values.iter().copied()).chain(truths);
        let across = Axis::new(self.feature, Scale::Linear, [self.bounds.0, self.bounds.1]);
        let up = Axis::new(&self.what, Scale::Linear, heights.chain(self.border));
        // predictions are finite: there always is an axis
        let (Some(across), Some(up)) = (across, up) else { return };
        let x = |value: f64| across.place(value, left, right).unwrap_or(left);
        let y = |value: f64| up.place(value, bottom, top).unwrap_or(bottom);
        for (value, words) in across.written() {
            canvas.lines("grid", &[[(x(value), top), (x(value), bottom)]], None);
            canvas.word("tick", &words, (x(value), bottom + 18.0), Anchor::Middle);
        }
        for (value, words) in up.written() {
            canvas.lines("grid", &[[(left, y(value)), (right, y(value))]], None);
            canvas.word("tick", &words, (left - 7.0, y(value) + 0.34 * LETTERS), Anchor::End);
        }
        for row in &self.points.drawn {
            // without a truth the rows stand on the axis
            let height = if self.points.truth { y(row.place[1]) } else { bottom - 6.0 };
            let class = row.class.map_or("row".to_string(), |class| format!("row c{}", class % COLOURS));
            canvas.circle(&class, (x(row.place[0]), height), 2.2, Some(&self.says(row.place, row.class)));
        }
        if let Some(border) = self.border {
            canvas.lines("floor", &[[(left, y(border)), (right, y(border))]], Some(&tick(border)));
        }
        let (low, high) = self.bounds;
        for Function { colour, values } in &self.functions {
            let at = |(i, value): (usize, &f64)| (x(low + share(i) * (high - low)), y(*value));
            let places: Vec<(f64, f64)> = values.iter().enumerate().map(at).collect();
            let pieces: Vec<_> = places.windows(2).map(|pair| [pair[0], pair[1]]).collect();
            let name = self.classes.get(*colour).filter(|_| self.functions.len() > 1);
            canvas.lines(&format!("line c{}", colour % COLOURS), &pieces, name.map(String::as_str));
        }
        canvas.lines("axis", &[[(left, top), (left, bottom)], [(left, bottom), (right, bottom)]], None);
        canvas.word("name", self.feature, ((left + right) / 2.0, SIZE.1 - 18.0), Anchor::Middle);
        canvas.word("name", &self.what, (16.0, (top + bottom) / 2.0), Anchor::Upwards);
        legend::classes(canvas, &self.classes, PLANE);
    }

    /// What is said of a row under the pointer.
    fn says(&self, [x, y]: [f64; 2], class: Option<usize>) -> String {
        let class = class.and_then(|class| self.classes.get(class)).map_or(String::new(), |class| format!("{class}: "));
        let truth = if self.points.truth { format!(", {} {}", self.what, number(y, 4)) } else { String::new() };
        format!("{class}{} {}{truth}", self.feature, number(x, 4))
    }
}
