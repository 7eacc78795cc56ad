//! How the passes outside a fit are cut: statistics, prediction, rewriting.

use crate::Result;
use crate::args::run::Run;
use crate::progress::Stage;
use kstore::budget::Term;
use kstore::{Pass, Plan, Real, RowSource, Workers};

/// Rows per tile: enough to make a product of it worthwhile, few enough to stay near the cache.
pub const TILE: usize = 1024;

/// Stored rows per segment: enough that opening a cursor in the middle of a row group costs little.
pub const SEGMENT: u64 = 65_536;

/// Tiles decoded ahead of each lane.
const PREFETCH: usize = 2;

/// What a lane of a verb holds besides its cursor and tiles.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Rows of a tile.
    pub tile: usize,
    /// Name of the bytes below in a refusal.
    pub name: &'static str,
    /// Bytes of its state and scratch.
    pub bytes: usize,
    /// What all lanes share, such as the model.
    pub shared: Vec<Term>,
}

/// Lanes that fit, and the bytes that they leave of the budget.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// How many.
    pub count: usize,
    /// Bytes of the budget that nothing was planned for.
    pub spare: usize,
}

/// A term of a plan.
pub fn term(name: &str, bytes: usize, remedy: &'static str) -> Term {
    Term { name: name.to_string(), bytes, remedy }
}

/// The most lanes, up to the threads, that fit the budget.
///
/// # Errors
/// [`kstore::Error::OverBudget`] where not even one fits.
pub fn lanes<T: Real>(what: &str, source: &dyn RowSource<T>, lane: &Lane, run: &Run) -> Result<Lanes> {
    let tiles = source.footprint().at(lane.tile * (PREFETCH + 1));
    let plan = |lanes: usize| {
        let mut plan = Plan::process(what, run.memory, run.threads, source.held())
            .term("decoder and tiles", lanes * tiles, "choose fewer columns with --features")
            // one more for the state that waits for its turn
            .term(lane.name, (lanes + 1) * lane.bytes, "choose fewer columns with --features");
        plan.terms.extend_from_slice(&lane.shared);
        plan
    };
    let fits = |lanes: &usize| plan(*lanes).bytes() <= run.memory;
    match (1..=run.threads).rev().find(fits) {
        Some(count) => Ok(Lanes { count, spare: run.memory - plan(count).bytes() }),
        None => Ok(plan(1).check().map(|_| Lanes { count: 1, spare: 0 })?),
    }
}

/// A pass with `lanes` lanes, observed by `stage`.
pub fn pass<'a>(lanes: usize, workers: &'a Workers, stage: &'a Stage<'_>) -> Pass<'a> {
    Pass { tile: TILE, segment: SEGMENT, lanes, prefetch: PREFETCH, workers, observer: stage, journal: None }
}
