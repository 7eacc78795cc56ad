//! All rows in memory, for a solver that combines their kernel sections: pass shape, memory plan,
//! and the pass that loads the rows.

use crate::prepare::{candidates::Codes, plan};
use crate::request::{PassShape, ProblemSize, Resources, tile_rows};
use crate::{Error, Result, Targets, row_weights};
use kapprox::Real;
use kstore::{MemoryRows, Pass, Plan, RowSource};

/// Returns the pass shape: all lanes for scans with small states, one lane to load rows in order.
pub(crate) fn cut(shape: &ProblemSize) -> PassShape {
    let tile = tile_rows(shape.d, shape.map.p, shape.element);
    PassShape { tile, segment: 16 * tile as u64, scan_lanes: shape.threads, gram_lanes: 1, prefetch: 2 }
}

/// Plans two copies of rows, targets, weights, codes and row numbers; the model is the second.
pub(crate) fn plan(what: &str, shape: &ProblemSize, budget: usize) -> Plan {
    let row = shape.d * shape.element + 8 * (shape.t + 2 + usize::from(shape.weighted));
    let fewer = "learn from fewer rows (`rows`), or approximate the kernel (`map` nystrom)";
    plan::base(what, shape, budget).term("rows, which are the model", 2 * shape.n as usize * row, fewer)
}

/// Reads all rows in one pass into buffers of the right size; one lane keeps their order. Targets
/// are the centred regression targets. Weights, if any, are in the units of the table. Class and
/// group codes are included.
pub(crate) fn load<T: Real>(
    source: &dyn RowSource<T>,
    (targets, weight_unit): (&Targets, f64),
    n: u64,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<MemoryRows<T>> {
    let (n, shape) = (n as usize, source.shape());
    let t = targets.count();
    let observer = resources.over("rows", source.range());
    let (mut x, mut y) = (Vec::with_capacity(n * shape.features), Vec::with_capacity(n * t));
    let mut weight = shape.weighted.then(|| Vec::with_capacity(n));
    let (mut rows, mut codes) = (Vec::with_capacity(n), Codes::default());
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.visit(source, |block| {
        rows.extend_from_slice(block.rows);
        x.extend_from_slice(block.x);
        codes.add(block, 0..block.len());
        for i in 0..block.len() {
            targets.push(block, i, &mut y)?;
            let own = row_weights::weight(block, i)?.map(|weight| weight * weight_unit);
            weight.iter_mut().for_each(|weight| weight.extend(own));
        }
        Ok::<(), Error>(())
    })?;
    codes.of(MemoryRows::new(x, shape.features)?.with_targets(y, t)?.with_weights(weight)?.numbered(rows)?)
}
