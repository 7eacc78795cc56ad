//! What a solver is asked to do, and the run of it as a list of stages: what each holds, and how often it passes over the table.

use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::{Error, Result};
use kapprox::landmark::Effort;
use kstore::Plan;
use std::borrow::Cow;

/// How a solver sees the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAccess {
    /// As features of a map.
    Features,
    /// As kernel values with landmarks: the solver combines the landmarks' kernel functions itself.
    Landmarks,
    /// As they are, all of them in memory: the solver combines the kernel functions of all rows.
    Rows,
}

/// Passes over its rows that randomly pivoted Cholesky takes: measured 7 to 9 rounds with rejections on kin40k and beijing-pm25 at ranks
/// 300 and 1,000. Schemes that do more than to draw take about as many.
const ROUNDS: u64 = 8;

/// What a solver is asked to do, as far as it is known.
#[derive(Debug)]
pub struct FitRequest<'a> {
    /// What defines the result.
    pub options: Cow<'a, TrainOptions>,
    /// What may be used.
    pub resources: &'a Resources<'a>,
    /// Rows, features, targets, folds and map.
    pub shape: ProblemSize,
}

impl FitRequest<'_> {
    /// Passes that choose the landmarks, and those that make the map of them.
    pub(crate) fn passes_of_map(&self) -> [u64; 2] {
        let options = &self.options;
        let scheme = options.landmarks.scheme().filter(|_| !options.map.is_without_rows());
        let (chooses, views) = (scheme.is_some(), 1 + u64::from(options.with.is_some()));
        let median = options.kernel.needs_median() && !options.finds_length();
        let samples = options.candidates.is_some() && chooses || median;
        let rounds = match scheme.filter(|_| options.candidates.is_none()).map(|scheme| scheme.effort) {
            None => 0,
            Some(Effort::Draw) => 1,
            Some(Effort::Distances | Effort::Factor) => ROUNDS,
        };
        let making = options.map.passes() + u64::from(options.tolerance.is_some());
        [views * (u64::from(samples) + rounds), views * making]
    }

    /// Refuses rows with weights where all count alike: `what` takes none, and the `remedy` says what does.
    pub(crate) fn refuse_weights(&self, what: &str, remedy: &str) -> Result<()> {
        match self.shape.weighted {
            true => Err(Error::option("weights", "", format!("{what} takes no weights; {remedy}"))),
            false => Ok(()),
        }
    }
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

pub(crate) fn fit(stages: &[Stage]) -> bool {
    stages.iter().all(|stage| stage.plan.bytes() <= stage.plan.budget)
}

pub(crate) fn plans(stages: Vec<Stage>) -> Vec<Plan> {
    stages.into_iter().map(|stage| stage.plan).collect()
}
