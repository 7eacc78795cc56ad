//! A run as a list of stages: what each holds, how often it passes over the table, and how long it takes.

use super::options::{Resources, TrainOptions};
use super::plan::Shape;
use super::prepare;
use super::rates::Rates;
use crate::solver::Solver;
use crate::{Error, Result};
use kapprox::Real;
use kstore::{Plan, Selected};
use std::borrow::Cow;

/// How a solver sees the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// As features of a map.
    Features,
    /// As kernel values with landmarks: the solver combines the landmarks' kernel functions itself.
    Landmarks,
    /// As they are, all of them in memory: the solver combines the kernel functions of all rows.
    Rows,
}

/// What a solver is asked to do, as far as it is known.
#[derive(Debug)]
pub struct Work<'a> {
    /// What defines the result.
    pub options: Cow<'a, TrainOptions>,
    /// What may be used.
    pub resources: &'a Resources<'a>,
    /// Rows, features, targets, folds and map.
    pub shape: Shape,
    /// Rows have weights.
    pub weighted: bool,
}

impl<'a> Work<'a> {
    /// The work of a solver on selected rows with `t` targets and so many folds.
    pub(crate) fn new<T: Real>(
        selected: &Selected,
        options: &'a TrainOptions,
        resources: &'a Resources<'a>,
        (t, folds): (usize, usize),
        solver: &dyn Solver<T>,
    ) -> Result<Self> {
        let options = match options.map.is_exact() {
            // candidates would be copies of rows that are in memory anyway
            true => Cow::Owned(TrainOptions { candidates: None, ..options.clone() }),
            false => Cow::Borrowed(options),
        };
        let moment_columns = solver.moment_columns(&options, t);
        let shape = prepare::shape::<T>(selected, &options, resources, t, folds)?;
        let shape = Shape { keeps: solver.keeps(), moment_columns, ..shape };
        Ok(Self { options, resources, shape, weighted: selected.is_weighted() })
    }

    /// Refuses rows with weights where all count alike: `what` takes none, and the `remedy` says what does.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub fn refuse_weights(&self, what: &str, remedy: &str) -> Result<()> {
        match self.weighted {
            true => Err(Error::option("weights", "", format!("{what} takes no weights; {remedy}"))),
            false => Ok(()),
        }
    }
}

/// Seconds of a stage on a machine of such rates.
pub(crate) type Seconds = Box<dyn Fn(&Rates) -> f64>;

/// A stage of a run.
pub struct Stage {
    /// What is resident.
    pub plan: Plan,
    /// Passes over the table.
    pub passes: u64,
    /// How long it takes; `None` where that cannot be told.
    pub(crate) seconds: Option<Seconds>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("plan", &self.plan).field("passes", &self.passes).finish_non_exhaustive()
    }
}

impl Stage {
    /// A stage whose time cannot be told.
    pub fn new(plan: Plan, passes: u64) -> Self {
        Self { plan, passes, seconds: None }
    }
}

/// True where every stage fits the budget.
pub(crate) fn fit(stages: &[Stage]) -> bool {
    stages.iter().all(|stage| stage.plan.bytes() <= stage.plan.budget)
}

/// What the stages hold.
pub(crate) fn plans(stages: Vec<Stage>) -> Vec<Plan> {
    stages.into_iter().map(|stage| stage.plan).collect()
}
