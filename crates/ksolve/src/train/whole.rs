//! All rows in memory, for a solver that combines their kernel functions.

use super::options::Resources;
use super::plan::Cut;
use crate::{Error, Result, Targets};
use kapprox::Real;
use kstore::{Fold, MemoryRows, Merge, Pass, RowBlock, RowSource, Workers};
use std::sync::{Mutex, PoisonError};

/// Features, targets as they are learned, and numbers of all rows.
struct Loaded<T> {
    x: Vec<T>,
    /// Row-major.
    y: Vec<f64>,
    rows: Vec<u64>,
}

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
    let loaded = Loaded {
        x: Vec::with_capacity(n * shape.features),
        y: Vec::with_capacity(n * targets.count()),
        rows: Vec::with_capacity(n),
    };
    let loading = Loading { targets, loaded: Mutex::new(loaded) };
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.fold(source, &loading)?;
    let Loaded { x, y, rows } = loading.loaded.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(MemoryRows::new(x, shape.features)?.with_targets(y, targets.count())?.numbered(rows)?)
}

struct Loading<'a, T> {
    targets: &'a Targets,
    loaded: Mutex<Loaded<T>>,
}

/// The state of a fold whose result is in memory.
struct Read;

impl Merge for Read {
    fn merge(&mut self, _later: &Self) {}
}

impl<T: Real> Fold<T> for Loading<'_, T> {
    type State = Read;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Read {
        Read
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Read, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.rows.extend_from_slice(block.rows);
        loaded.x.extend_from_slice(block.x);
        for i in 0..block.len() {
            for j in 0..self.targets.count() {
                loaded.y.push(self.targets.value(block, i, j)?);
            }
        }
        Ok(())
    }
}
