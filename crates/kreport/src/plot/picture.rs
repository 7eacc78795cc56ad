//! The drawing: shades or regions, lines, rows, axes.

use super::legend::{self, SHADES, shade_index};
use super::points::{DrawnRow, Points};
use super::{Layout, contour::FunctionGrid};
use crate::drawing::{Anchor, Canvas, Drawing, FONT_SIZE, Point, text_width};
use crate::page::{Axis, PALETTE_SIZE, Plane, Scale, extent, tick_label};
use crate::table::number;

pub(super) struct Picture<'a> {
    pub(super) axis_names: &'a [String; 2],
    pub(super) bounds: [(f64, f64); 2],
    pub(super) points: &'a Points,
    pub(super) layout: Layout,
    pub(super) grids: &'a [FunctionGrid],
    /// Class or cluster at every grid point; `None` if the picture has no regions.
    pub(super) regions: Option<Vec<usize>>,
    /// Index of the output that is drawn without classes, from 0.
    pub(super) component: usize,
    pub(super) quantity: String,
    /// Level of the boundary between two kinds of rows: 0 for anomaly detection.
    pub(super) boundary: Option<f64>,
}

impl Drawing for Picture<'_> {
    fn size(&self) -> (f64, f64) {
        self.layout.size
    }

    fn title(&self) -> String {
        let ([x, y], quantity) = (self.axis_names, &self.quantity);
        match (self.grids.is_empty(), quantity.is_empty()) {
            (true, true) => format!("{y} against {x}"),
            (true, false) => format!("{y} against {x}, coloured by {quantity}"),
            (false, _) => format!("{quantity} over {y} against {x}"),
        }
    }

    fn title_position(&self) -> Option<Point> {
        Some(self.layout.title_position())
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        match &self.regions {
            Some(regions) => self.draw_cells(canvas, regions, &|class| format!("region c{}", class % PALETTE_SIZE)),
            None => self.draw_shades(canvas),
        }
        self.draw_contours(canvas);
        self.draw_veil(canvas);
        let [x, y] = [0, 1].map(|axis| Axis::with_range(&self.axis_names[axis], self.bounds[axis]));
        let plane = Plane { x: &x, y: &y, edges: self.layout.edges };
        for drawn in &self.points.drawn_rows {
            let position = plane.position(drawn.coordinates.into());
            position.into_iter().for_each(|point| self.points.draw_row(canvas, drawn, point, &self.tooltip(drawn)));
        }
        self.draw_class_names(canvas);
        plane.draw_axes(canvas);
        plane.draw_y_name(canvas, &y.label, super::Y_NAME_BASELINE);
        match self.points.shade_range {
            Some(ends) => legend::draw_shades(canvas, ends, SHADES, "key v", self.layout.edges),
            None if self.grids.is_empty() || self.regions.is_some() => {
                legend::draw_classes(canvas, &self.points.colour_names, self.layout.edges);
            }
            None => self.draw_colour_bar(canvas),
        }
    }
}

impl<'a> Picture<'a> {
    /// Returns a picture of the rows alone.
    pub(super) fn new(axis_names: &'a [String; 2], points: &'a Points, layout: Layout) -> Self {
        let (bounds, quantity) = (points.padded_ranges(), String::new());
        let layout = layout.with_room_for(&Axis::with_range(&axis_names[1], bounds[1]));
        Self { axis_names, bounds, points, layout, grids: &[], regions: None, component: 0, quantity, boundary: None }
    }
}

impl Picture<'_> {
    /// Writes the name of each class where its region is widest, so that no colour legend is
    /// needed.
    fn draw_class_names(&self, canvas: &mut dyn Canvas) {
        let (Some(regions), Some(grid)) = (&self.regions, self.grids.first()) else { return };
        for (class, (column, row)) in legend::label_positions(regions, grid.width, self.points.colour_names.len()) {
            let (x, y) = self.position(column as f64, row as f64);
            let name = legend::shorten(&self.points.colour_names[class]);
            // a name near an edge of the plot area is moved inwards
            let half_width = text_width(&name, FONT_SIZE) / 2.0 + 2.0;
            let x = x.min(self.layout.edges.right - half_width).max(self.layout.edges.left + half_width);
            canvas.word("label", &name, (x, y + 0.34 * FONT_SIZE), Anchor::Middle);
        }
    }

    fn draw_colour_bar(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        legend::draw_shades(canvas, value_range(grid), SHADES, "shade h", self.layout.edges);
    }

    fn position(&self, column: f64, row: f64) -> Point {
        let Some(grid) = self.grids.first() else { return (0.0, 0.0) };
        let fraction = |coordinate: f64, count: usize| coordinate / (count - 1) as f64;
        let (width, height) =
            (self.layout.edges.right - self.layout.edges.left, self.layout.edges.bottom - self.layout.edges.top);
        (
            self.layout.edges.left + fraction(column, grid.width) * width,
            self.layout.edges.bottom - fraction(row, grid.height) * height,
        )
    }

    /// Draws the cells of the grid; runs of equal cells in a row are merged into one rectangle.
    /// `class` returns the style class of a value; empty for a cell that is not drawn.
    fn draw_cells(&self, canvas: &mut dyn Canvas, values: &[usize], class: &dyn Fn(usize) -> String) {
        let Some(grid) = self.grids.first() else { return };
        for (row, row_values) in values.chunks(grid.width).enumerate() {
            let mut start = 0;
            for run in row_values.chunk_by(|a, b| a == b) {
                let end = start + run.len();
                // a cell extends half way to its neighbours, and to the edge at the border
                let edge =
                    |index: usize, last: usize| if index == 0 { 0.0 } else { (index as f64 - 0.5).min(last as f64) };
                let (last_column, last_row) = (grid.width - 1, grid.height - 1);
                let right = if end == grid.width { last_column as f64 } else { edge(end, last_column) };
                let top = if row == last_row { last_row as f64 } else { row as f64 + 0.5 };
                let ((x0, y0), (x1, y1)) =
                    (self.position(edge(start, last_column), edge(row, last_row)), self.position(right, top));
                let class = class(run[0]);
                if !class.is_empty() {
                    canvas.rectangle(&class, (x0, y1), (x1 - x0, y0 - y1), None);
                }
                start = end;
            }
        }
    }

    /// Pales the cells that are far from all drawn rows: there the model extrapolates.
    fn draw_veil(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.first() else { return };
        let rows: Vec<Point> = self.points.drawn_rows.iter().map(|row| self.grid_position(grid, row)).collect();
        let is_veiled: Vec<usize> =
            distant_cells(&rows, grid.width, grid.height).into_iter().map(usize::from).collect();
        if is_veiled.contains(&1) {
            self.draw_cells(canvas, &is_veiled, &|veiled| if veiled == 1 { "veil".to_string() } else { String::new() });
        }
    }

    /// Returns the position of a row on the grid, in cells.
    fn grid_position(&self, grid: &FunctionGrid, row: &DrawnRow) -> Point {
        let cell = |axis: usize, count: usize| {
            let (low, high) = self.bounds[axis];
            (row.coordinates[axis] - low) / (high - low) * (count - 1) as f64
        };
        (cell(0, grid.width), cell(1, grid.height))
    }

    fn draw_shades(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let value_ends = value_range(grid);
        let shade_indices: Vec<usize> = grid.values.iter().map(|value| shade_index(*value, value_ends)).collect();
        self.draw_cells(canvas, &shade_indices, &|shade| format!("shade h{shade}"));
    }

    fn draw_contours(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let (low, high) = value_range(grid);
        let mut ticks = Axis::new("", Scale::Linear, [low, high]).map_or(Vec::new(), |axis| axis.ticks);
        let boundary = match (&self.regions, self.grids.len()) {
            // the scores of two classes are near ±1 at the rows: draw the levels −1, 0 and 1 too
            (Some(_), 1) => {
                ticks.extend([-1.0, 1.0]);
                Some(0.0)
            }
            (Some(_), _) => return self.draw_class_edges(canvas),
            (None, _) => self.boundary,
        };
        ticks.extend(boundary);
        ticks.sort_by(f64::total_cmp);
        // a tick may differ from an integer by rounding
        let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (high - low);
        ticks.dedup_by(|a, b| is_near(*a, *b));
        for level in ticks {
            let class = if boundary.is_some_and(|border| is_near(border, level)) { "border" } else { "contour" };
            let segments = grid.contour(level);
            if segments.is_empty() {
                continue;
            }
            let positions: Vec<_> =
                segments.iter().map(|segment| segment.map(|(column, row)| self.position(column, row))).collect();
            canvas.lines(class, &positions, Some(&tick_label(level)));
        }
    }

    /// Draws the lines where the class with the largest score changes; one-vs-one scores have no
    /// such lines.
    fn draw_class_edges(&self, canvas: &mut dyn Canvas) {
        let Some(first_grid) = self.grids.first().filter(|_| self.grids.len() == self.points.colour_names.len()) else {
            return;
        };
        for (k, grid) in self.grids.iter().enumerate() {
            let other_scores = |cell: usize| {
                self.grids.iter().enumerate().filter(move |(j, _)| *j != k).map(move |(_, g)| g.values[cell])
            };
            let margin_at = |cell: usize| grid.values[cell] - other_scores(cell).fold(f64::NEG_INFINITY, f64::max);
            let margin = FunctionGrid { values: (0..grid.values.len()).map(margin_at).collect(), ..*first_grid };
            let positions: Vec<_> = margin
                .contour(0.0)
                .iter()
                .map(|segment| segment.map(|(column, row)| self.position(column, row)))
                .collect();
            if !positions.is_empty() {
                canvas.lines("contour", &positions, None);
            }
        }
    }

    fn tooltip(&self, drawn: &DrawnRow) -> String {
        let [x, y] = self.axis_names;
        let [x_text, y_text] = drawn.coordinates.map(|value| number(value, 4));
        let value = self
            .points
            .shade_range
            .map_or(String::new(), |_| format!(", {} {}", self.quantity, number(drawn.colour_value, 4)));
        format!("{x} {x_text}, {y} {y_text}{value}")
    }
}

/// Distance from the nearest drawn row, in cells, beyond which a cell is paled: about a tenth of
/// the width of the picture.
const MAX_ROW_DISTANCE: f64 = 18.0;

/// Returns, for each cell of a grid, whether all rows are farther than [`MAX_ROW_DISTANCE`]. The
/// positions of the rows are in cells. All false without rows.
fn distant_cells(rows: &[Point], width: usize, height: usize) -> Vec<bool> {
    let mut is_distant = vec![!rows.is_empty(); width * height];
    let cells = |centre: f64, reach: f64, count: usize| {
        let last = count as f64 - 1.0;
        (centre - reach).ceil().clamp(0.0, last) as usize..=(centre + reach).floor().clamp(0.0, last) as usize
    };
    for (x, y) in rows {
        for row in cells(*y, MAX_ROW_DISTANCE, height) {
            let reach = (MAX_ROW_DISTANCE.powi(2) - (row as f64 - y).powi(2)).max(0.0).sqrt();
            cells(*x, reach, width).for_each(|column| is_distant[row * width + column] = false);
        }
    }
    is_distant
}

/// Returns the range of the values of a grid, with positive length.
fn value_range(grid: &FunctionGrid) -> (f64, f64) {
    let (low, high) = extent(grid.values.iter().copied());
    if high > low { (low, high) } else { (low, low + 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_far_from_every_row_are_paled() {
        let distant = distant_cells(&[(50.0, 40.0), (199.0, 0.0)], 200, 150);
        let at = |x: usize, y: usize| distant[y * 200 + x];
        assert!(!at(50, 40) && !at(68, 40) && at(69, 40) && !at(50, 58) && at(50, 59) && at(64, 54));
        assert!(!at(199, 18) && at(199, 19) && at(180, 0) && !at(182, 0));
        let is_inside = |x: f64, y: f64| (x - 50.0).hypot(y - 40.0) <= 18.0 || (x - 199.0).hypot(y) <= 18.0;
        assert!((0..200 * 150).all(|cell| distant[cell] != is_inside((cell % 200) as f64, (cell / 200) as f64)));
        assert!(distant_cells(&[], 10, 10).iter().all(|distant| !distant));
    }
}
