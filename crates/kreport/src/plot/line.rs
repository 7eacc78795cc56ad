//! The picture of a model with one feature: its function as a line, with the rows.

use super::points::{DrawnRow, Points};
use super::{
    DRAWING_BYTES, Layout, Plot, PlotReport, component_index, describe_model, legend, level_name, quantity_name,
};
use crate::drawing::{Canvas, Drawing, Point};
use crate::page::{Axis, PALETTE_SIZE, Plane, Scale, extent, tick_label};
use crate::table::number;
use ksolve::job::Run;
use ksolve::{Error, Result, Task, predict::Predictor};
use kstore::budget::MemoryTerm;
use std::path::Path;

/// Number of points of the line: one per two units of the drawing.
const LINE_POINTS: usize = 300;

struct LinePlot<'a> {
    feature: &'a str,
    quantity: String,
    bounds: (f64, f64),
    /// For each output that is drawn, its palette index and its values at equal steps of the
    /// feature.
    functions: Vec<(usize, Vec<f64>)>,
    points: &'a Points,
    layout: Layout,
    /// Value of the function at the decision boundary. At the boundary two classes have equal
    /// scores, inliers border on outliers, or the probability is ½.
    boundary: Option<f64>,
}

/// Draws a model with one feature, writes the picture and returns the report.
pub(super) fn write_line_plot(
    predictor: &Predictor,
    feature: &String,
    plot: &Plot,
    output: &Path,
    run: &Run,
) -> Result<PlotReport> {
    for (option, requested) in [("x", &plot.x), ("y", &plot.y)] {
        if let Some(name) = requested.as_ref().filter(|name| *name != feature || option == "y") {
            let why = format!("the model has one feature, {feature}, which is the horizontal axis; omit this option");
            return Err(Error::option(option, name, why));
        }
    }
    let (metadata, output_count, component) =
        (predictor.metadata(), predictor.output_count(), component_index(predictor, plot)?);
    let terms = vec![
        predictor.plan_term(0),
        MemoryTerm::new("line and drawing", 8 * LINE_POINTS * (output_count + 2) + DRAWING_BYTES, ""),
    ];
    let mut points = Points::read_for_model(metadata, plot, output, std::slice::from_ref(feature), terms, run)?;
    let bounds = points.padded_ranges()[0];
    let x: Vec<f64> = (0..LINE_POINTS).map(|i| bounds.0 + fraction(i) * (bounds.1 - bounds.0)).collect();
    let mut scores = vec![0.0; LINE_POINTS * output_count];
    predictor.predict(&x, &mut scores)?;
    // if the model has probabilities, draw the probabilities of all classes
    let (values, values_per_row) = match &metadata.link {
        Some(link) => {
            let (mut probabilities, mut row) = (Vec::new(), Vec::new());
            for scores in scores.chunks_exact(output_count) {
                link.probabilities(scores, &mut row);
                probabilities.extend_from_slice(&row);
            }
            (probabilities, row.len())
        }
        None => (scores, output_count),
    };
    // all quantiles of the first target, or the requested output
    let level_count = metadata.outputs_per_target();
    let shows_levels = plot.component.is_none() && level_count > 1;
    if shows_levels {
        points.colour_names = (0..level_count).filter_map(|k| level_name(metadata, k)).collect();
    }
    let drawn_outputs: Vec<usize> = match (metadata.classes.is_empty(), shows_levels) {
        (true, true) => (0..level_count).collect(),
        (true, false) => vec![component],
        (false, _) => (0..values_per_row).collect(),
    };
    let output_values = |k: usize| (k, values.iter().skip(k).step_by(values_per_row).copied().collect::<Vec<f64>>());
    let functions: Vec<_> = drawn_outputs.into_iter().map(output_values).collect();
    let value_ranges = functions.iter().map(|(_, values)| extent(values.iter().copied())).collect();
    let boundary = match (metadata.task, &metadata.link) {
        (Task::Classification, Some(_)) => (values_per_row == 2).then_some(0.5),
        (Task::Classification, None) => (values_per_row == 1).then_some(0.0),
        (Task::Novelty, _) => Some(0.0),
        _ => None,
    };
    let quantity = match (metadata.task, &metadata.link) {
        (Task::Classification, Some(_)) => format!("{}: probability", quantity_name(metadata, component, output_count)),
        (Task::Classification, None) => format!("{}: score", quantity_name(metadata, component, output_count)),
        _ if shows_levels => metadata.targets.first().unwrap_or(&metadata.solver).clone(),
        _ => quantity_name(metadata, component, output_count),
    };
    let layout = plot.layout()?;
    let line_plot = LinePlot { feature, quantity, bounds, functions, points: &points, layout, boundary };
    super::write(&line_plot, describe_model(metadata, plot), output)?;
    Ok(PlotReport::new([feature.clone(), line_plot.quantity.clone()], &points, value_ranges, output))
}

fn fraction(i: usize) -> f64 {
    i as f64 / (LINE_POINTS - 1) as f64
}

impl Drawing for LinePlot<'_> {
    fn size(&self) -> (f64, f64) {
        self.layout.size
    }

    fn title(&self) -> String {
        format!("{} against {}", self.quantity, self.feature)
    }

    fn title_position(&self) -> Option<Point> {
        Some(self.layout.title_position())
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let truths = self.points.drawn_rows.iter().map(|row| row.coordinates[1]).filter(|_| self.points.has_target);
        let heights = self.functions.iter().flat_map(|(_, values)| values).copied().chain(truths);
        let x_axis = Axis::new(self.feature, Scale::Linear, [self.bounds.0, self.bounds.1]);
        let y_axis = Axis::new(&self.quantity, Scale::Linear, heights.chain(self.boundary));
        // predictions are finite, so the axes exist
        let (Some(x), Some(y)) = (x_axis, y_axis) else { return };
        let edges = self.layout.with_room_for(&y).edges;
        let plane = Plane { x: &x, y: &y, edges };
        let to_plane = |point: (f64, f64)| plane.position(point).unwrap_or((edges.left, edges.bottom));
        plane.draw_grid(canvas);
        for row in &self.points.drawn_rows {
            let (x, y) = to_plane(row.coordinates.into());
            // without a target, the rows are drawn on the axis
            let position = (x, if self.points.has_target { y } else { edges.bottom - 6.0 });
            self.points.draw_row(canvas, row, position, &self.tooltip(row));
        }
        let (low, high) = self.bounds;
        if let Some(boundary) = self.boundary {
            let y = to_plane((low, boundary)).1;
            canvas.lines("floor", &[[(edges.left, y), (edges.right, y)]], Some(&tick_label(boundary)));
        }
        for (palette_index, values) in &self.functions {
            let line_point = |(i, value): (usize, &f64)| to_plane((low + fraction(i) * (high - low), *value));
            let positions: Vec<Point> = values.iter().enumerate().map(line_point).collect();
            let name = self.points.colour_names.get(*palette_index).filter(|_| self.functions.len() > 1);
            canvas.path(
                &format!("line c{}", palette_index % PALETTE_SIZE),
                &positions,
                false,
                name.map(String::as_str),
            );
        }
        plane.draw_axes(canvas);
        plane.draw_y_name(canvas, &self.quantity, super::Y_NAME_BASELINE);
        legend::draw_classes(canvas, &self.points.colour_names, edges);
    }
}

impl LinePlot<'_> {
    fn tooltip(&self, DrawnRow { coordinates: [x, y], .. }: &DrawnRow) -> String {
        let truth =
            if self.points.has_target { format!(", {} {}", self.quantity, number(*y, 4)) } else { String::new() };
        format!("{} {}{truth}", self.feature, number(*x, 4))
    }
}
