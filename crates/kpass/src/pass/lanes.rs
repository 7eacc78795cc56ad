//! The sizes of passes outside a fit, for statistics, prediction and conversion: tiles, segments and lanes.

use super::{Observer, Pass, Workers};
use crate::budget::{Plan, Term};
use crate::{Real, Result, RowSource};

/// Rows per tile: enough to make a product of it worthwhile, few enough to stay near the cache.
pub const TILE: usize = 1024;

/// Stored rows per segment: enough that opening a cursor in the middle of a row group costs little.
pub const SEGMENT: u64 = 65_536;

/// Tiles decoded ahead of each lane.
const PREFETCH: usize = 2;

/// The memory that a lane of a verb holds besides its cursor and tiles.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Number of rows of a tile.
    pub tile: usize,
    /// Name of the memory below, for the message where it does not fit.
    pub name: &'static str,
    /// Bytes of the state and the buffers of a lane.
    pub bytes: usize,
    /// The memory that all lanes share, such as the model.
    pub shared: Vec<Term>,
}

/// The lanes that fit the memory, and the bytes of the budget that they leave.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// Number of lanes.
    pub count: usize,
    /// Bytes of the budget that nothing was planned for.
    pub spare: usize,
}

/// The largest number of lanes, up to the number of threads, that fits the budget.
///
/// # Errors
/// [`crate::Error::OverBudget`] where not even one fits.
pub fn lanes<T: Real>(
    what: &str,
    source: &dyn RowSource<T>,
    lane: &Lane,
    memory: usize,
    threads: usize,
) -> Result<Lanes> {
    let tiles = source.footprint().at(lane.tile * (PREFETCH + 1));
    let plan = |lanes: usize| {
        let mut plan = Plan::process(what, memory, threads, source.held())
            .term("decoder and tiles", lanes * tiles, "choose fewer columns with `features`")
            // one more for the state that waits for its turn
            .term(lane.name, (lanes + 1) * lane.bytes, "choose fewer columns with `features`");
        plan.terms.extend_from_slice(&lane.shared);
        plan
    };
    let fits = |lanes: &usize| plan(*lanes).bytes() <= memory;
    match (1..=threads).rev().find(fits) {
        Some(count) => Ok(Lanes { count, spare: memory - plan(count).bytes() }),
        None => plan(1).check().map(|_| Lanes { count: 1, spare: 0 }),
    }
}

/// A pass of these sizes with `lanes` lanes.
pub fn scan<'a>(lanes: usize, workers: &'a Workers, observer: &'a dyn Observer) -> Pass<'a> {
    Pass { tile: TILE, segment: SEGMENT, lanes, prefetch: PREFETCH, workers, observer, journal: None }
}
