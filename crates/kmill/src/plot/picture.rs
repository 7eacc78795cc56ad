//! The drawing: shades or regions, lines, rows, axes.

use super::contour::Grid;
use super::points::Points;
use crate::page::{Axis, COLOURS, Scale, text, tick};
use std::fmt::Write;

/// Units of the drawing, and of the plane in it: left, right, top, bottom.
const SIZE: (f64, f64) = (640.0, 500.0);
const PLANE: (f64, f64, f64, f64) = (58.0, 626.0, 14.0, 440.0);

/// Shades of a value, from its smallest to its largest.
const SHADES: usize = 12;

/// Rules of a picture that stands alone: the palette of the page on white.
const STYLE: &str = include_str!("picture.css");

/// The rules of the picture on a page, which has its own for axes and letters.
pub(super) fn page_style() -> String {
    let own = [".region", ".shade", ".h", ".border", ".contour", ".row"];
    let rules = STYLE.split_inclusive('}').map(str::trim).filter(|rule| own.iter().any(|name| rule.starts_with(name)));
    let fills = (0..COLOURS).map(|i| format!("#picture circle.c{i} {{ fill: var(--c{i}); }}\n"));
    let named = |rule: &str| {
        // colours of the page, which has two sets of them
        [("#1b1e23", "--ink"), ("#5a626e", "--soft"), ("#0b62a4", "--c0"), ("#fff", "--paper")]
            .iter()
            .fold(format!("#picture {rule}\n"), |rule, (colour, name)| rule.replace(colour, &format!("var({name})")))
    };
    rules.map(named).chain(fills).collect()
}

/// Everything that is drawn.
pub(super) struct Picture<'a> {
    pub(super) names: &'a [String; 2],
    pub(super) bounds: [(f64, f64); 2],
    pub(super) points: &'a Points,
    pub(super) grids: &'a [Grid],
    /// The class of every grid point, for a classifier.
    pub(super) regions: Option<Vec<usize>>,
    /// The output that is drawn where there are no classes.
    pub(super) component: usize,
}

impl Picture<'_> {
    /// The drawing; `alone` with its own rules and ground.
    pub(super) fn svg(&self, alone: bool) -> String {
        let (width, height) = SIZE;
        let style = if alone {
            format!("<style>{STYLE}</style><rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>")
        } else {
            String::new()
        };
        let [x, y] = self.names.each_ref().map(|name| text(name));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"picture\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{y} against {x}\">{style}\n"
        );
        match &self.regions {
            Some(regions) => self.cells(&mut svg, regions, &|class| format!("region c{}", class % COLOURS)),
            None => self.shades(&mut svg),
        }
        self.lines(&mut svg);
        self.rows(&mut svg);
        self.axes(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn place(&self, column: f64, row: f64) -> (f64, f64) {
        let Some(grid) = self.grids.first() else { return (0.0, 0.0) };
        let share = |at: f64, count: usize| at / (count - 1) as f64;
        let (left, right, top, bottom) = PLANE;
        (left + share(column, grid.width) * (right - left), bottom - share(row, grid.height) * (bottom - top))
    }

    /// Runs of equal cells in a row become one rectangle.
    fn cells(&self, svg: &mut String, kinds: &[usize], class: &dyn Fn(usize) -> String) {
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
                // writing to a string cannot fail
                let _ = writeln!(
                    svg,
                    "<rect class=\"{}\" x=\"{x0:.2}\" y=\"{y1:.2}\" width=\"{:.2}\" height=\"{:.2}\"/>",
                    class(run[0]),
                    x1 - x0,
                    y0 - y1
                );
                start = end;
            }
        }
    }

    /// Shades of the component.
    fn shades(&self, svg: &mut String) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let (low, high) = range(grid);
        let shade = |value: &f64| (((value - low) / (high - low) * SHADES as f64) as usize).min(SHADES - 1);
        let kinds: Vec<usize> = grid.values.iter().map(shade).collect();
        self.cells(svg, &kinds, &|shade| format!("shade h{shade}"));
    }

    fn lines(&self, svg: &mut String) {
        let Some(grid) = self.grids.get(self.component) else { return };
        let levels: Vec<(f64, &str)> = match (&self.regions, self.grids.len()) {
            // scores of two classes are ±1 at the rows: where they are equal, and as far as the codes
            (Some(_), 1) => vec![(-1.0, "contour"), (0.0, "border"), (1.0, "contour")],
            (Some(_), _) => Vec::new(),
            (None, _) => {
                let (low, high) = range(grid);
                let ticks = Axis::new("", Scale::Linear, [low, high]).map_or(Vec::new(), |axis| axis.ticks);
                ticks.into_iter().map(|level| (level, "contour")).collect()
            }
        };
        for (level, class) in levels {
            let pieces = grid.contour(level);
            if pieces.is_empty() {
                continue;
            }
            let _ = write!(svg, "<path class=\"{class}\" d=\"");
            for [a, b] in pieces {
                let ((x0, y0), (x1, y1)) = (self.place(a.0, a.1), self.place(b.0, b.1));
                let _ = write!(svg, "M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}");
            }
            let _ = writeln!(svg, "\"><title>{}</title></path>", tick(level));
        }
    }

    fn rows(&self, svg: &mut String) {
        let share = |v: f64, (low, high): (f64, f64)| (v - low) / (high - low);
        let (left, right, top, bottom) = PLANE;
        for drawn in &self.points.drawn {
            let x = left + share(drawn.place[0], self.bounds[0]) * (right - left);
            let y = bottom - share(drawn.place[1], self.bounds[1]) * (bottom - top);
            let class = drawn.class.map_or("row".to_string(), |class| format!("row c{}", class % COLOURS));
            let _ = writeln!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>");
        }
    }

    fn axes(&self, svg: &mut String) {
        let (left, right, top, bottom) = PLANE;
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{left} {top}V{bottom}H{right}\"/><g class=\"ticks\">");
        // the plane is what the rows reach: the ticks within it
        let ticks = |(low, high): (f64, f64)| {
            let all = Axis::new("", Scale::Linear, [low, high]).map_or(Vec::new(), |axis| axis.ticks);
            all.into_iter().filter(move |tick| (low..=high).contains(tick))
        };
        for v in ticks(self.bounds[0]) {
            let x = left + (v - self.bounds[0].0) / (self.bounds[0].1 - self.bounds[0].0) * (right - left);
            let _ =
                writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", bottom + 18.0, tick(v));
        }
        for v in ticks(self.bounds[1]) {
            let y = bottom - (v - self.bounds[1].0) / (self.bounds[1].1 - self.bounds[1].0) * (bottom - top);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{y:.1}\" dy=\".34em\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                tick(v)
            );
        }
        let [x, y] = self.names.each_ref().map(|name| text(name));
        let _ = writeln!(
            svg,
            "</g><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{x}</text>",
            (left + right) / 2.0,
            SIZE.1 - 18.0
        );
        let middle = (top + bottom) / 2.0;
        let _ =
            writeln!(svg, "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{y}</text>");
    }
}

fn range(grid: &Grid) -> (f64, f64) {
    let (low, high) =
        grid.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    if high > low { (low, high) } else { (low, low + 1.0) }
}
