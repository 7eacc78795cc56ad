//! Samples whole groups of rows, for solvers that compare the rows of a group (ranking).

use crate::Result;
use crate::prepare::{candidates, survey::Survey};
use crate::request::{PassShape, Resources};
use kapprox::{Real, landmark::RowSample};
use kstore::key::{Purpose, Stream};
use kstore::{LabelCodes, MemoryRows, Pass, RowSource};
use std::cmp::Reverse;

/// Draws random groups, in descending order of their keys, until their rows would exceed
/// `max_rows`. Returns the rows twice: in table order with targets, and as a sample in the order of
/// the keys. Returns `None` if the table has no groups or the first group is too large. Two passes.
pub(super) fn draw<T: Real>(
    source: &dyn RowSource<T>,
    survey: &Survey,
    max_rows: usize,
    seed: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<Option<(MemoryRows<T>, RowSample<T>)>> {
    let row_counts = survey.statistics.groups.sorted_counts();
    let stream = Stream::new(seed, Purpose::Candidates, 0);
    let mut group_order = Vec::from_iter(0..row_counts.len());
    group_order.sort_by_key(|group| Reverse(stream.word(*group as u64)));
    let (mut position_of_group, mut row_count) = (vec![None; row_counts.len()], 0);
    for (position, group) in group_order.into_iter().enumerate() {
        row_count += usize::try_from(row_counts[group].1).unwrap_or(usize::MAX).min(max_rows + 1);
        if row_count > max_rows {
            break;
        }
        position_of_group[group] = Some(position);
    }
    if position_of_group.iter().all(Option::is_none) {
        return Ok(None);
    }
    let d = source.shape().input_count;
    let observer = resources.start_stage_over("sampling groups", source.range());
    let pass = Pass { journal: None, ..pass_shape.pass(1, resources, &*observer) };
    let (mut selected_rows, mut x) = (Vec::new(), Vec::new());
    pass.visit(source, |block| {
        for (i, row) in block.row_numbers.iter().enumerate() {
            let code = block.groups.map_or(LabelCodes::UNKNOWN, |coded| coded.codes[i]);
            if let Some(Some(position)) = position_of_group.get(code as usize) {
                selected_rows.push((*position, *row, selected_rows.len()));
                x.extend_from_slice(&block.x[i * d..(i + 1) * d]);
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    selected_rows.sort_unstable();
    let sorted_x = selected_rows.iter().flat_map(|(_, _, index)| &x[index * d..(index + 1) * d]).copied().collect();
    let sample = RowSample {
        row_numbers: selected_rows.iter().map(|(_, row, _)| *row).collect(),
        x: sorted_x,
        d,
        weights: Vec::new(),
    };
    let memory_rows = candidates::sort_by_row_number(sample.clone())?;
    Ok(Some((candidates::with_targets(memory_rows, source, pass)?, sample)))
}
