//! The drawing: shades or regions, lines, rows, axes.

use super::contour::Grid;
use super::legend;
use super::points::{Drawn, Points};
use crate::drawing::{Anchor, Canvas, Drawing, LETTERS, STYLE};
use crate::page::{Axis, COLOURS, Scale, tick};
use crate::table::number;

/// Width and height of the drawing in its own units; below, the edges of the area between the axes.
pub(super) const SIZE: (f64, f64) = (760.0, 520.0);
const PLANE: (f64, f64, f64, f64) = (66.0, 626.0, 34.0, 460.0);

/// Number of shades between the smallest and the largest value.
const SHADES: usize = 12;

/// The rules of the picture on a page, which has its own for axes and letters.
pub(super) fn page_style() -> String {
    let own = [
        ".region", ".shade", ".h", ".border", ".contour", ".row", ".key", ".tick", ".label", ".line", ".floor", ".grid",
    ];
    let rules = STYLE.split_inclusive('}').map(str::trim).filter(|rule| own.iter().any(|name| rule.starts_with(name)));
    let fills = (0..COLOURS).map(|i| format!("#picture .c{i} {{ color: var(--c{i}); }}\n"));
    let named = |rule: &str| {
        // colours of the page, which has two sets of them
        [("#1b1e23", "--ink"), ("#5a626e", "--soft"), ("#0b62a4", "--c0"), ("#fff", "--paper"), ("#e9ecf0", "--grid")]
            .iter()
            .fold(format!("#picture {rule}\n"), |rule, (colour, name)| rule.replace(colour, &format!("var({name})")))
    };
    rules.map(named).chain(fills).collect()
}

/// The parts of a picture: grid, scores, rows and axes.
pub(super) struct Picture<'a> {
    pub(super) names: &'a [String; 2],
    pub(super) bounds: [(f64, f64); 2],
    pub(super) points: &'a Points,
    pub(super) grids: &'a [Grid],
    /// The class at every grid point, for a classifier; `None` for other models.
    pub(super) regions: Option<Vec<usize>>,
    /// Names of the classes; none for other models.
    pub(super) classes: Vec<String>,
    /// Number of the output that is drawn where there are no classes, from 0.
    pub(super) component: usize,
    /// What is drawn, such as the name of the target.
    pub(super) what: String,
    /// The value whose line tells two kinds of rows apart: 0 for a model of novelty.
    pub(super) border: Option<f64>,
}

impl Drawing for Picture<'_> {
    fn size(&self) -> (f64, f64) {
        SIZE
    }

    fn name(&self) -> String {
        let [x, y] = self.names;
        format!("{} over {y} against {x}", self.what)
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        self.parts(canvas);
        canvas.word("title", &self.name(), ((PLANE.0 + PLANE.1) / 2.0, PLANE.2 - 14.0), Anchor::Middle);
    }
}

impl Picture<'_> {
    /// Draws all parts but the title, from the back to the front.
    pub(super) fn parts(&self, canvas: &mut dyn Canvas) {
        match &self.regions {
            Some(regions) => self.cells(canvas, regions, &|class| format!("region c{}", class % COLOURS)),
            None => self.shades(canvas),
        }
        self.lines(canvas);
        self.rows(canvas);
        self.labels(canvas);
        self.axes(canvas);
        match self.regions {
            Some(_) => legend::classes(canvas, &self.classes, PLANE),
            None => self.bar(canvas),
        }
    }

    /// Writes the name of each class where its region is widest, so that nobody has to know it by its colour.
    fn labels(&self, canvas: &mut dyn Canvas) {
        let (Some(regions), Some(grid)) = (&self.regions, self.grids.first()) else { return };
        for (class, (column, row)) in legend::middles(regions, grid.width, self.classes.len()) {
            let (x, y) = self.place(column as f64, row as f64);
            canvas.word("label", &legend::short(&self.classes[class]), (x, y + 0.34 * LETTERS), Anchor::Middle);
        }
    }

    /// Draws the bar of the shades with its numbers.
    fn bar(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        legend::shades(canvas, range(grid), SHADES, PLANE);
    }

    fn place(&self, column: f64, row: f64) -> (f64, f64) {
        let Some(grid) = self.grids.first() else { return (0.0, 0.0) };
        let share = |at: f64, count: usize| at / (count - 1) as f64;
        let (left, right, top, bottom) = PLANE;
        (left + share(column, grid.width) * (right - left), bottom - share(row, grid.height) * (bottom - top))
    }

    /// Draws the cells of the grid; runs of equal cells in a row become one rectangle.
    fn cells(&self, canvas: &mut dyn Canvas, kinds: &[usize], class: &dyn Fn(usize) -> String) {
        let Some(grid) = self.grids.first() else { return };
        for (row, kinds) in kinds.chunks(grid.width).enumerate() {
            let mut start = 0;
            for run in kinds.chunk_by(|a, b| a == b) {
                let end = start + run.len();
                // a cell reaches half way to its neighbours, and those at the rim to the rim
                let edge = |at: usize, last: usize| if at == 0 { 0.0 } else { (at as f64 - 0.5).min(last as f64) };
                let last = (grid.width - 1, grid.height - 1);
                let right = if end == grid.width { last.0 as f64 } else { edge(end, last.0) };
                let top = if row == last.1 { last.1 as f64 } else { row as f64 + 0.5 };
                let ((x0, y0), (x1, y1)) = (self.place(edge(start, last.0), edge(row, last.1)), self.place(right, top));
                canvas.rectangle(&class(run[0]), (x0, y1), (x1 - x0, y0 - y1));
                start = end;
            }
        }
    }

    /// Draws the values of the component as shades.
    fn shades(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let (low, high) = range(grid);
        let shade = |value: &f64| (((value - low) / (high - low) * SHADES as f64) as usize).min(SHADES - 1);
        let kinds: Vec<usize> = grid.values.iter().map(shade).collect();
        self.cells(canvas, &kinds, &|shade| format!("shade h{shade}"));
    }

    fn lines(&self, canvas: &mut dyn Canvas) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let (low, high) = range(grid);
        let mut ticks = Axis::new("", Scale::Linear, [low, high]).map_or(Vec::new(), |axis| axis.ticks);
        let border = match (&self.regions, self.grids.len()) {
            // scores of two classes are ±1 at the rows: where they are equal, as far as the codes, and beyond
            (Some(_), 1) => {
                ticks.extend([-1.0, 1.0]);
                Some(0.0)
            }
            (Some(_), _) => return self.edges(canvas),
            (None, _) => self.border,
        };
        ticks.extend(border);
        ticks.sort_by(f64::total_cmp);
        // a tick may be a rounding away from a whole number
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

    /// Draws the lines where the largest score changes from one class to another; scores of pairs have none.
    fn edges(&self, canvas: &mut dyn Canvas) {
        let Some(first) = self.grids.first().filter(|_| self.grids.len() == self.classes.len()) else { return };
        for (k, grid) in self.grids.iter().enumerate() {
            let others =
                |at: usize| self.grids.iter().enumerate().filter(move |(j, _)| *j != k).map(move |(_, g)| g.values[at]);
            let ahead = |at: usize| grid.values[at] - others(at).fold(f64::NEG_INFINITY, f64::max);
            let lead = Grid { values: (0..grid.values.len()).map(ahead).collect(), ..*first };
            let placed: Vec<_> =
                lead.contour(0.0).iter().map(|piece| piece.map(|(column, row)| self.place(column, row))).collect();
            if !placed.is_empty() {
                canvas.lines("contour", &placed, None);
            }
        }
    }

    fn rows(&self, canvas: &mut dyn Canvas) {
        let share = |v: f64, (low, high): (f64, f64)| (v - low) / (high - low);
        let (left, right, top, bottom) = PLANE;
        for drawn in &self.points.drawn {
            let x = left + share(drawn.place[0], self.bounds[0]) * (right - left);
            let y = bottom - share(drawn.place[1], self.bounds[1]) * (bottom - top);
            let class = drawn.class.map_or("row".to_string(), |class| format!("row c{}", class % COLOURS));
            canvas.circle(&class, (x, y), 2.2, Some(&self.says(drawn)));
        }
    }

    /// What is said of a row under the pointer: its two features, and its class where it is known.
    fn says(&self, drawn: &Drawn) -> String {
        let [x, y] = self.names;
        let [at, up] = drawn.place.map(|value| number(value, 4));
        let class =
            drawn.class.and_then(|class| self.classes.get(class)).map_or(String::new(), |class| format!("{class}: "));
        format!("{class}{x} {at}, {y} {up}")
    }

    fn axes(&self, canvas: &mut dyn Canvas) {
        let (left, right, top, bottom) = PLANE;
        canvas.lines("axis", &[[(left, top), (left, bottom)], [(left, bottom), (right, bottom)]], None);
        // the plane is what the rows reach: the ticks within it
        let ticks = |(low, high): (f64, f64)| {
            let axis = Axis::new("", Scale::Linear, [low, high]);
            let all: Vec<(f64, String)> = axis.map_or(Vec::new(), |axis| axis.written().collect());
            all.into_iter().filter(move |(tick, _)| (low..=high).contains(tick))
        };
        let share = |v: f64, (low, high): (f64, f64)| (v - low) / (high - low);
        for (v, words) in ticks(self.bounds[0]) {
            let x = left + share(v, self.bounds[0]) * (right - left);
            canvas.word("tick", &words, (x, bottom + 18.0), Anchor::Middle);
        }
        for (v, words) in ticks(self.bounds[1]) {
            // the middle of a digit is a third of its size above the line
            let y = bottom - share(v, self.bounds[1]) * (bottom - top) + 0.34 * LETTERS;
            canvas.word("tick", &words, (left - 7.0, y), Anchor::End);
        }
        let [x, y] = self.names;
        canvas.word("name", x, ((left + right) / 2.0, SIZE.1 - 18.0), Anchor::Middle);
        canvas.word("name", y, (16.0, (top + bottom) / 2.0), Anchor::Upwards);
    }
}

fn range(grid: &Grid) -> (f64, f64) {
    let (low, high) =
        grid.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    if high > low { (low, high) } else { (low, low + 1.0) }
}
