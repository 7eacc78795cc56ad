//! All rows in memory, for a solver that combines their kernel functions.

use super::options::Resources;
use super::plan::Cut;
use crate::{Error, Result, Targets};
use kapprox::Real;
use kstore::{MemoryRows, Pass, RowSource};

/// Reads all rows in one pass: one lane, so that they come in their order, into buffers of the right size. The targets are those
/// of the regression, less their centre.
pub(super) fn load<T: Real>(
    source: &dyn RowSource<T>,
    targets: &Targets,
    n: u64,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<MemoryRows<T>> {
    let (n, shape, range) = (n as usize, source.shape(), source.range());
    let observer = resources.stages.stage("rows", Some(range.end - range.start));
    let (mut x, mut y) = (Vec::with_capacity(n * shape.features), Vec::with_capacity(n * targets.count()));
    let mut rows = Vec::with_capacity(n);
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.visit(source, |block| {
        rows.extend_from_slice(block.rows);
        x.extend_from_slice(block.x);
        for i in 0..block.len() {
            for j in 0..targets.count() {
                y.push(targets.value(block, i, j)?);
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(MemoryRows::new(x, shape.features)?.with_targets(y, targets.count())?.numbered(rows)?)
}
