//! All rows in memory, for a solver that combines the kernel sections of all rows: the pass shape,
//! the memory plan, and the pass that loads the rows.

use crate::prepare::{candidates::LabelCodeColumns, stage_plans};
use crate::request::{PassShape, ProblemSize, Resources, tile_rows};
use crate::{Error, Result, Targets, row_weights};
use kapprox::Real;
use kstore::{MemoryPlan, MemoryRows, Pass, RowSource};

/// Returns the pass shape: scans, whose states are small, use all lanes; the pass that loads the
/// rows uses one lane, which keeps their order.
pub(crate) fn exact_pass_shape(size: &ProblemSize) -> PassShape {
    let tile_rows = tile_rows(size.d, size.map.p, size.element_bytes);
    PassShape {
        tile_rows,
        segment_rows: 16 * tile_rows as u64,
        scan_lanes: size.threads,
        gram_lanes: 1,
        prefetch_tiles: 2,
    }
}

/// Plans two copies of the rows, targets, weights, codes and row numbers. The second copy is the
/// model's.
pub(crate) fn exact_plan(stage: &str, size: &ProblemSize, budget: usize) -> MemoryPlan {
    let row_bytes = size.d * size.element_bytes + 8 * (size.t + 2 + usize::from(size.has_weights));
    let remedy = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";
    stage_plans::base_plan(stage, size, budget).term(
        "rows, which are the model",
        2 * size.n as usize * row_bytes,
        remedy,
    )
}

/// Reads all rows in one pass into buffers of the final size. One lane reads, so that the rows keep
/// their order. The targets are the centred regression targets. Weights, if there are any, are in
/// the units of the table. Class codes and group codes are included.
///
/// # Errors
/// The rows cannot be read; a target or a weight of a row cannot be used.
pub fn load_rows<T: Real>(
    source: &dyn RowSource<T>,
    targets: &Targets,
    weight_unit: f64,
    n: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<MemoryRows<T>> {
    let (n, shape) = (n as usize, source.shape());
    let t = targets.count();
    let observer = resources.start_stage_over("rows", source.range());
    let (mut x, mut y) = (Vec::with_capacity(n * shape.input_count), Vec::with_capacity(n * t));
    let mut weights = shape.has_weights.then(|| Vec::with_capacity(n));
    let (mut row_numbers, mut codes) = (Vec::with_capacity(n), LabelCodeColumns::default());
    let pass = Pass { journal: None, ..pass_shape.pass(1, resources, &*observer) };
    pass.visit(source, |block| {
        row_numbers.extend_from_slice(block.row_numbers);
        x.extend_from_slice(block.x);
        codes.add(block, 0..block.len());
        for i in 0..block.len() {
            targets.append_to(block, i, &mut y)?;
            let row_weight = row_weights::block_weight(block, i)?.map(|weight| weight * weight_unit);
            weights.iter_mut().for_each(|weight| weight.extend(row_weight));
        }
        Ok::<(), Error>(())
    })?;
    codes.attach_to(
        MemoryRows::new(x, shape.input_count)?
            .with_targets(y, t)?
            .with_weights(weights)?
            .with_row_numbers(row_numbers)?,
    )
}
