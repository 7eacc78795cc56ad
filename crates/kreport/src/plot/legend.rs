//! Legends: the names of classes, and the values of shades.

use crate::drawing::{Anchor, Canvas, FONT_SIZE, shorten_to};
use crate::page::{Axis, Edges, PALETTE_SIZE};
use std::collections::HashMap;

/// Number of shades between the smallest and the largest value.
pub(super) const SHADES: usize = 12;

const LEGEND_LINE_HEIGHT: f64 = 21.0;

/// Maximum width of a name, in units of the drawing.
const MAX_NAME_WIDTH: f64 = 100.0;

/// Minimum distance, in cells, between the position of a name and the edge of its region.
const MIN_LABEL_DISTANCE: usize = 7;

pub(super) fn shorten(name: &str) -> String {
    shorten_to(name, MAX_NAME_WIDTH, FONT_SIZE)
}

/// Draws the names of the classes next to their colours, to the right of the plot area.
pub(super) fn draw_classes(canvas: &mut dyn Canvas, names: &[String], edges: Edges) {
    let Edges { right, top, bottom, .. } = edges;
    let max_lines = ((bottom - top) / LEGEND_LINE_HEIGHT) as usize;
    let name_count = if names.len() > max_lines { max_lines - 1 } else { names.len() };
    let line_y = |line: usize| top + LEGEND_LINE_HEIGHT * (line as f64 + 0.5);
    for (class, name) in names[..name_count].iter().enumerate() {
        canvas.circle(&format!("key c{}", class % PALETTE_SIZE), (right + 18.0, line_y(class)), 5.0, None);
        canvas.word("tick entry", &shorten(name), (right + 28.0, line_y(class) + 0.34 * FONT_SIZE), Anchor::Start);
    }
    if name_count < names.len() {
        let omitted_note = format!("and {} more", names.len() - name_count);
        canvas.word("tick entry", &omitted_note, (right + 28.0, line_y(name_count) + 0.34 * FONT_SIZE), Anchor::Start);
    }
}

/// Draws a colour bar from the smallest to the largest value, with ticks, to the right of the plot
/// area; the style classes are `class_prefix` followed by a number.
pub(super) fn draw_shades(
    canvas: &mut dyn Canvas,
    range: (f64, f64),
    shade_count: usize,
    class_prefix: &str,
    edges: Edges,
) {
    let Edges { right, top, bottom, .. } = edges;
    let height = (bottom - top) / shade_count as f64;
    for shade in 0..shade_count {
        let corner = (right + 16.0, bottom - (shade + 1) as f64 * height);
        canvas.rectangle(&format!("{class_prefix}{shade}"), corner, (16.0, height), None);
    }
    let axis = Axis::with_range("", range);
    for (y, label) in
        axis.labelled_ticks().filter_map(|(value, label)| Some((axis.position(value, bottom, top)?, label)))
    {
        canvas.word("tick entry", &label, (right + 38.0, y + 0.34 * FONT_SIZE), Anchor::Start);
    }
}

/// Returns the classes with the grid cell, as column and row, where the name of the class has most
/// room. `regions` has the class of each grid cell. Classes whose regions are too narrow are left
/// out.
///
/// The room of a cell is the number of steps to the nearest cell of another class. Two passes over
/// the grid compute it. Reference: Rosenfeld and Pfaltz, "Sequential operations in digital picture
/// processing", 1966.
pub(super) fn label_positions(regions: &[usize], width: usize, class_count: usize) -> Vec<(usize, (usize, usize))> {
    let height = regions.len() / width.max(1);
    let is_same_class = |a: usize, b: usize| regions[a] == regions[b];
    // close to the edge a name would be cut off
    let mut distances: Vec<usize> = (0..regions.len())
        .map(|cell| {
            [cell % width, width - 1 - cell % width, cell / width, height - 1 - cell / width]
                .into_iter()
                .min()
                .unwrap_or(0)
                + 1
        })
        .collect();
    for cell in 0..regions.len() {
        for previous in
            [cell.checked_sub(1).filter(|_| cell % width > 0), cell.checked_sub(width)].into_iter().flatten()
        {
            distances[cell] =
                distances[cell].min(if is_same_class(cell, previous) { distances[previous] + 1 } else { 1 });
        }
    }
    for cell in (0..regions.len()).rev() {
        // the cells to the right and above; 0 stands for no cell and is filtered out
        for next in
            [(cell + 1) * usize::from((cell + 1) % width > 0), cell + width].into_iter().filter(|next| *next > cell)
        {
            if next < regions.len() {
                distances[cell] = distances[cell].min(if is_same_class(cell, next) { distances[next] + 1 } else { 1 });
            }
        }
    }
    let mut best_cells: HashMap<usize, usize> = HashMap::new();
    for (cell, class) in regions.iter().enumerate() {
        let best_cell = best_cells.entry(*class).or_insert(cell);
        if distances[cell] > distances[*best_cell] {
            *best_cell = cell;
        }
    }
    let label_position = |class| {
        best_cells
            .get(&class)
            .filter(|cell| distances[**cell] >= MIN_LABEL_DISTANCE)
            .map(|cell| (class, (cell % width, cell / width)))
    };
    (0..class_count).filter_map(label_position).collect()
}

pub(super) fn shade_index(value: f64, (low, high): (f64, f64)) -> usize {
    (((value - low) / (high - low) * SHADES as f64) as usize).min(SHADES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::text_width;

    #[test]
    fn names_stand_in_the_middle_of_their_regions() {
        // There are a disc of class 1 in the middle of class 0, and a single cell of class 2.
        let (width, height) = (80, 60);
        let class = |cell: usize| {
            let (x, y) = ((cell % width) as f64, (cell / width) as f64);
            match (x - 50.0).hypot(y - 30.0) {
                _ if cell == 0 => 2,
                away if away < 15.0 => 1,
                _ => 0,
            }
        };
        let regions: Vec<usize> = (0..width * height).map(class).collect();
        let positions = label_positions(&regions, width, 3);
        let [(0, zero), (1, one)] = positions[..] else { panic!("{positions:?}") };
        assert!((zero.0 as f64 - 20.0).abs() < 12.0 && (15..45).contains(&zero.1), "{zero:?}");
        assert!((one.0 as f64 - 50.0).abs() <= 2.0 && (one.1 as f64 - 30.0).abs() <= 2.0, "{one:?}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shorten("cat"), "cat");
        let short = shorten("a very long name of a class");
        assert!(short.starts_with("a very long") && short.ends_with('…'), "{short}");
        assert!(text_width(&shorten(&"W".repeat(40)), FONT_SIZE) <= MAX_NAME_WIDTH, "wide letters have room too");
    }
}
