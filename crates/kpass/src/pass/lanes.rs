//! Sizes of passes outside a fit, for statistics, prediction and conversion: tiles, segments and
//! lanes, which [`pass`](crate::pass) defines.

use super::{Observer, Pass, Workers};
use crate::budget::{MemoryPlan, MemoryTerm};
use crate::{Float, Result, RowSource};

/// Number of rows per tile: enough for an efficient matrix product, few enough to stay near the
/// cache.
pub const TILE_ROWS: usize = 1024;

/// Number of stored rows per segment: enough that opening a cursor in the middle of a row group
/// costs little.
pub const SEGMENT_ROWS: u64 = 65_536;

/// Number of tiles decoded ahead per lane.
const PREFETCH_TILES: usize = 2;

/// The memory of a lane of a command, in addition to its cursor and tiles.
#[derive(Clone, Debug)]
pub struct LaneMemory {
    /// Number of rows of a tile.
    pub tile_rows: usize,
    /// Name of `bytes`, for the message if they do not fit.
    pub name: &'static str,
    /// Bytes of the state and the buffers of a lane.
    pub bytes: usize,
    /// Memory that all lanes share, such as the model.
    pub shared_terms: Vec<MemoryTerm>,
}

/// The lanes that fit the memory, and the remaining bytes of the budget.
#[derive(Clone, Copy, Debug)]
pub struct FittingLanes {
    /// Number of lanes.
    pub count: usize,
    /// Bytes of the budget that are not planned for anything.
    pub spare_bytes: usize,
}

/// Returns the largest number of lanes, up to the number of threads, that fits the budget.
///
/// # Errors
/// [`crate::Error::OverBudget`] if not even one lane fits.
pub fn fitting_lanes<T: Float>(
    stage: &str,
    source: &dyn RowSource<T>,
    lane_memory: &LaneMemory,
    budget: usize,
    threads: usize,
) -> Result<FittingLanes> {
    let tile_bytes = source.footprint().bytes_for(lane_memory.tile_rows * (PREFETCH_TILES + 1));
    let plan = |lane_count: usize| {
        let mut memory_plan = MemoryPlan::for_process(stage, budget, threads, source.metadata_bytes())
            .term("decoder and tiles", lane_count * tile_bytes, "choose fewer columns with `features`")
            // one state more than lanes, because a state may wait for its turn
            .term(lane_memory.name, (lane_count + 1) * lane_memory.bytes, "choose fewer columns with `features`");
        memory_plan.terms.extend_from_slice(&lane_memory.shared_terms);
        memory_plan
    };
    let fits = |lane_count: &usize| plan(*lane_count).bytes() <= budget;
    match (1..=threads).rev().find(fits) {
        Some(count) => Ok(FittingLanes { count, spare_bytes: budget - plan(count).bytes() }),
        None => plan(1).check().map(|_| FittingLanes { count: 1, spare_bytes: 0 }),
    }
}

/// Returns a pass of these sizes with `lane_count` lanes.
pub fn default_pass<'a>(lane_count: usize, workers: &'a Workers, observer: &'a dyn Observer) -> Pass<'a> {
    Pass {
        tile_rows: TILE_ROWS,
        segment_rows: SEGMENT_ROWS,
        lane_count,
        prefetch_tiles: PREFETCH_TILES,
        workers,
        observer,
        journal: None,
    }
}
