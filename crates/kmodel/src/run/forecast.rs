//! The plan of a run: the shape of the passes, the stages, and the memory of the stages.

use kstore::MemoryPlan;

/// The shape of passes: tiles, segments and lanes, which [`kstore::pass`] defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassShape {
    /// Rows per tile.
    pub tile_rows: usize,
    /// Stored rows per segment.
    pub segment_rows: u64,
    /// Number of lanes of passes with small states.
    pub scan_lanes: usize,
    /// Number of lanes of the pass that computes the Gram matrix.
    pub gram_lanes: usize,
    /// Number of tiles that each lane decodes ahead.
    pub prefetch_tiles: usize,
}

/// A stage of a run.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Memory plan.
    pub plan: MemoryPlan,
    /// Number of passes over the table.
    pub passes: u64,
}

/// The predicted cost of a run.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Stored rows of the selection: an upper bound on the number of rows.
    pub stored_rows: u64,
    /// Shape of the passes.
    pub pass_shape: PassShape,
    /// Stages, in order.
    pub stages: Vec<Stage>,
    /// Number of threads of the forecast.
    pub threads: usize,
    /// Bytes that a pass reads per stored row; `None` if the first rows give no estimate.
    pub row_bytes: Option<f64>,
    /// True if each iteration of the solver is another pass over the table, because the features of
    /// all rows are not stored. No stage counts these passes.
    pub rereads_table: bool,
}

impl Forecast {
    /// Returns the peak memory of the stages in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.stages.iter().map(|stage| stage.plan.bytes()).max().unwrap_or(0)
    }

    /// Checks that every stage fits the budget.
    ///
    /// # Errors
    /// [`kstore::Error::OverBudget`] of the largest stage, whose terms show what to reduce.
    #[doc(hidden)]
    pub fn check(&self) -> kstore::Result<()> {
        let largest = self.stages.iter().map(|stage| &stage.plan).max_by_key(|plan| plan.bytes());
        largest.map_or(Ok(()), |plan| plan.clone().check().map(drop))
    }

    /// Returns true if every stage fits the budget.
    pub fn fits(&self) -> bool {
        all_fit(&self.stages)
    }

    /// Returns the number of passes over the table.
    pub fn passes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.passes).sum()
    }

    /// Returns the bytes that this many passes read from storage; `None` if [`Self::row_bytes`] is
    /// unknown.
    pub fn bytes_read(&self, passes: u64) -> Option<u64> {
        Some((passes as f64 * self.stored_rows as f64 * self.row_bytes?) as u64)
    }
}

/// Returns true if every stage fits its budget.
pub fn all_fit(stages: &[Stage]) -> bool {
    stages.iter().all(|stage| stage.plan.bytes() <= stage.plan.budget)
}

/// Returns the memory plans of the stages.
pub fn memory_plans(stages: Vec<Stage>) -> Vec<MemoryPlan> {
    stages.into_iter().map(|stage| stage.plan).collect()
}
