//! The plan of a run: how its passes are cut, its stages, and the memory that each of them needs.

use kstore::Plan;

/// How passes are cut and how many lanes they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassShape {
    /// Number of rows of a tile.
    pub tile: usize,
    /// Number of stored rows of a segment.
    pub segment: u64,
    /// Number of lanes of passes with small states.
    pub scan_lanes: usize,
    /// Number of lanes of the pass that fills the Gram matrix.
    pub gram_lanes: usize,
    /// Number of tiles that each lane decodes ahead.
    pub prefetch: usize,
}

/// A stage of a run.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What is resident.
    pub plan: Plan,
    /// Passes over the table.
    pub passes: u64,
}

/// What a run would need.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Stored rows of the selection: an upper bound on the rows.
    pub rows: u64,
    /// How passes are cut into tiles, segments and lanes.
    pub cut: PassShape,
    /// The stages, in their order.
    pub stages: Vec<Stage>,
    /// Number of threads that it was made for.
    pub threads: usize,
    /// Bytes that a pass reads for a stored row; `None` where the first rows tell nothing.
    pub row_bytes: Option<f64>,
    /// True if each iteration of the solver is one more pass over the table, which no stage counts: the features of all rows are kept nowhere.
    pub repeats: bool,
}

impl Forecast {
    /// Bytes of memory of the stage that needs most.
    pub fn bytes(&self) -> usize {
        self.stages.iter().map(|stage| stage.plan.bytes()).max().unwrap_or(0)
    }

    /// True where every stage fits the budget.
    pub fn fits(&self) -> bool {
        fit(&self.stages)
    }

    /// Number of passes over the table.
    pub fn passes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.passes).sum()
    }

    /// Bytes that so many passes read from storage.
    pub fn bytes_read(&self, passes: u64) -> Option<u64> {
        Some((passes as f64 * self.rows as f64 * self.row_bytes?) as u64)
    }
}

/// Returns true if every stage fits its budget.
pub fn fit(stages: &[Stage]) -> bool {
    stages.iter().all(|stage| stage.plan.bytes() <= stage.plan.budget)
}

/// Returns the memory plans of the stages.
pub fn plans(stages: Vec<Stage>) -> Vec<Plan> {
    stages.into_iter().map(|stage| stage.plan).collect()
}
