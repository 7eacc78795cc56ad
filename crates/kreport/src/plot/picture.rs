//! The drawing: shades or regions, lines, rows, axes.

use super::legend::{self, SHADES, shade};
use super::points::{Drawn, Points};
use super::{HEADING, PLANE, SIZE, contour::FunctionGrid};
use crate::drawing::{Anchor, Canvas, Drawing, LETTERS, Point};
use crate::page::{Axis, COLOURS, Plane, Scale, extent, tick};
use crate::table::number;

pub(super) struct Picture<'a> {
    pub(super) names: &'a [String; 2],
    pub(super) bounds: [(f64, f64); 2],
    pub(super) points: &'a Points,
    pub(super) grids: &'a [FunctionGrid],
    /// Class at every grid point, for a classifier; `None` for other models.
    pub(super) regions: Option<Vec<usize>>,
    /// Index of the output that is drawn if there are no classes, from 0.
    pub(super) component: usize,
    pub(super) what: String,
    /// Level of the boundary between two kinds of rows: 0 for novelty detection.
    pub(super) border: Option<f64>,
}

impl Drawing for Picture<'_> {
    fn size(&self) -> (f64, f64) {
        SIZE
    }

    fn name(&self) -> String {
        let ([x, y], what) = (self.names, &self.what);
        match (self.grids.is_empty(), what.is_empty()) {
            (true, true) => format!("{y} against {x}"),
            (true, false) => format!("{y} against {x}, coloured by {what}"),
            (false, _) => format!("{what} over {y} against {x}"),
        }
    }

    fn heading(&self) -> Option<Point> {
        Some(HEADING)
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        match &self.regions {
            Some(regions) => self.cells(canvas, regions, &|class| format!("region c{}", class % COLOURS)),
            None => self.shades(canvas),
        }
        self.lines(canvas);
        let [x, y] = [0, 1].map(|axis| Axis::within(&self.names[axis], self.bounds[axis]));
        let plane = Plane { x: &x, y: &y, edges: PLANE };
        for drawn in &self.points.drawn {
            let place = plane.place(drawn.place.into());
            place.into_iter().for_each(|place| self.points.circle(canvas, drawn, place, &self.says(drawn)));
        }
        self.labels(canvas);
        plane.axes(canvas);
        plane.name_upwards(canvas, &y.label, 16.0);
        match self.points.shades {
            Some(ends) => legend::shades(canvas, ends, (SHADES, "key v"), PLANE),
            None if self.grids.is_empty() || self.regions.is_some() => {
                legend::classes(canvas, &self.points.labels, PLANE);
            }
            None => self.bar(canvas),
        }
    }
}

impl<'a> Picture<'a> {
    /// Returns a picture of the rows alone.
    pub(super) fn new(names: &'a [String; 2], points: &'a Points) -> Self {
        let (bounds, what) = (points.bounds(), String::new());
        Self { names, bounds, points, grids: &[], regions: None, component: 0, what, border: None }
    }
}

impl Picture<'_> {
    /// Writes the name of each class where its region is widest, so that no colour legend is
    /// needed.
    fn labels(&self, canvas: &mut dyn Canvas) {
        let (Some(regions), Some(grid)) = (&self.regions, self.grids.first()) else { return };
        for (class, (column, row)) in legend::middles(regions, grid.width, self.points.labels.len()) {
            let (x, y) = self.place(column as f64, row as f64);
            canvas.word("label", &legend::short(&self.points.labels[class]), (x, y + 0.34 * LETTERS), Anchor::Middle);
        }
    }

    fn bar(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        legend::shades(canvas, range(grid), (SHADES, "shade h"), PLANE);
    }

    fn place(&self, column: f64, row: f64) -> Point {
        let Some(grid) = self.grids.first() else { return (0.0, 0.0) };
        let share = |at: f64, count: usize| at / (count - 1) as f64;
        let (width, height) = (PLANE.right - PLANE.left, PLANE.bottom - PLANE.top);
        (PLANE.left + share(column, grid.width) * width, PLANE.bottom - share(row, grid.height) * height)
    }

    /// Draws the cells of the grid; runs of equal cells in a row are merged into one rectangle.
    fn cells(&self, canvas: &mut dyn Canvas, kinds: &[usize], class: &dyn Fn(usize) -> String) {
        let Some(grid) = self.grids.first() else { return };
        for (row, kinds) in kinds.chunks(grid.width).enumerate() {
            let mut start = 0;
            for run in kinds.chunk_by(|a, b| a == b) {
                let end = start + run.len();
                // a cell extends half way to its neighbours, and to the edge at the border
                let edge = |at: usize, last: usize| if at == 0 { 0.0 } else { (at as f64 - 0.5).min(last as f64) };
                let last = (grid.width - 1, grid.height - 1);
                let right = if end == grid.width { last.0 as f64 } else { edge(end, last.0) };
                let top = if row == last.1 { last.1 as f64 } else { row as f64 + 0.5 };
                let ((x0, y0), (x1, y1)) = (self.place(edge(start, last.0), edge(row, last.1)), self.place(right, top));
                canvas.rectangle(&class(run[0]), (x0, y1), (x1 - x0, y0 - y1), None);
                start = end;
            }
        }
    }

    fn shades(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let ends = range(grid);
        let kinds: Vec<usize> = grid.values.iter().map(|value| shade(*value, ends)).collect();
        self.cells(canvas, &kinds, &|shade| format!("shade h{shade}"));
    }

    fn lines(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let (low, high) = range(grid);
        let mut ticks = Axis::new("", Scale::Linear, [low, high]).map_or(Vec::new(), |axis| axis.ticks);
        let border = match (&self.regions, self.grids.len()) {
            // the scores of two classes are near ±1 at the rows: draw the levels −1, 0 and 1 too
            (Some(_), 1) => {
                ticks.extend([-1.0, 1.0]);
                Some(0.0)
            }
            (Some(_), _) => return self.edges(canvas),
            (None, _) => self.border,
        };
        ticks.extend(border);
        ticks.sort_by(f64::total_cmp);
        // a tick may differ from an integer by rounding
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (high - low);
        ticks.dedup_by(|a, b| near(*a, *b));
        for level in ticks {
            let class = if border.is_some_and(|border| near(border, level)) { "border" } else { "contour" };
            let pieces = grid.contour(level);
            if pieces.is_empty() {
                continue;
            }
            let placed: Vec<_> =
                pieces.iter().map(|piece| piece.map(|(column, row)| self.place(column, row))).collect();
            canvas.lines(class, &placed, Some(&tick(level)));
        }
    }

    /// Draws the lines where the class with the largest score changes; one-vs-one scores have no
    /// such lines.
    fn edges(&self, canvas: &mut dyn Canvas) {
        let Some(first) = self.grids.first().filter(|_| self.grids.len() == self.points.labels.len()) else { return };
        for (k, grid) in self.grids.iter().enumerate() {
            let others =
                |at: usize| self.grids.iter().enumerate().filter(move |(j, _)| *j != k).map(move |(_, g)| g.values[at]);
            let ahead = |at: usize| grid.values[at] - others(at).fold(f64::NEG_INFINITY, f64::max);
            let lead = FunctionGrid { values: (0..grid.values.len()).map(ahead).collect(), ..*first };
            let placed: Vec<_> =
                lead.contour(0.0).iter().map(|piece| piece.map(|(column, row)| self.place(column, row))).collect();
            if !placed.is_empty() {
                canvas.lines("contour", &placed, None);
            }
        }
    }

    fn says(&self, drawn: &Drawn) -> String {
        let [x, y] = self.names;
        let [at, up] = drawn.place.map(|value| number(value, 4));
        let value = self.points.shades.map_or(String::new(), |_| format!(", {} {}", self.what, number(drawn.value, 4)));
        format!("{x} {at}, {y} {up}{value}")
    }
}

/// Returns the range of the values of a grid, with positive length.
fn range(grid: &FunctionGrid) -> (f64, f64) {
    let (low, high) = extent(grid.values.iter().copied());
    if high > low { (low, high) } else { (low, low + 1.0) }
}
