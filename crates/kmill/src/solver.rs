//! The solver of a fit: which options it reads, and which it refuses.

use crate::args::LearnArgs;
use crate::args::learn::{Intercept, Select, Task as TaskArg};
use crate::{Error, Result};
use ksolve::Task;
use ksolve::solver::{self, Family, Solver, SolverOptions};

/// lambda of a solver that takes one, where none is given.
const LAMBDA: f64 = 1e-6;

/// What is learned, and with which numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Learner {
    /// Ridge regression and its surface.
    Ridge(Task),
    /// A solver of the registry.
    Other(&'static str, Task, SolverOptions),
}

impl Learner {
    /// From what was typed.
    ///
    /// # Errors
    /// [`Error::Option`] for an option that the solver does not read.
    pub fn new(name: &str, learn: &LearnArgs) -> Result<Self> {
        match solver::by_name(name) {
            None => Self::ridge(learn),
            Some(family) => Self::other(family, learn),
        }
    }

    fn ridge(learn: &LearnArgs) -> Result<Self> {
        given(learn, &|_| false, "ridge", &["components", "centre", "whiten", "clusters", "starts"])?;
        let task = match learn.task {
            Some(TaskArg::Classification) => Task::Classification,
            Some(TaskArg::Regression) | None => Task::Regression,
        };
        Ok(Self::Ridge(task))
    }

    fn other(family: &'static Family, learn: &LearnArgs) -> Result<Self> {
        let reads = |option: &str| family.options.contains(&option);
        given(
            learn,
            &reads,
            family.name,
            &["components", "centre", "whiten", "clusters", "starts", "lambda", "surface"],
        )?;
        let lambda = match &learn.lambda {
            None => LAMBDA,
            Some(text) => match ksolve::grid::lambdas(text)?[..] {
                [one] => one,
                _ => return Err(Error::option("--lambda", text, "only ridge compares several", "give one number")),
            },
        };
        let clusters = match learn.clusters {
            Some(clusters) => clusters,
            None if reads("clusters") => {
                let why = "it needs the number of groups: --clusters 8";
                return Err(Error::Missing { option: "--clusters", solver: family.name.to_string(), why });
            }
            None => SolverOptions::default().clusters,
        };
        let options = SolverOptions {
            lambda,
            components: learn.components,
            centre: !learn.uncentred,
            whiten: learn.whiten,
            clusters,
            starts: learn.starts.unwrap_or(SolverOptions::default().starts),
        };
        Ok(Self::Other(family.name, family.task, options))
    }

    /// What the functions mean.
    pub fn task(&self) -> Task {
        match self {
            Self::Ridge(task) | Self::Other(_, task, _) => *task,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ridge(_) => "ridge",
            Self::Other(name, ..) => name,
        }
    }

    /// The solver of the registry; `None` for ridge regression.
    pub fn solver<T: solver::Precision>(&self) -> Option<Box<dyn Solver<T>>> {
        match self {
            Self::Ridge(_) => None,
            Self::Other(name, _, options) => solver::by_name(name).map(|family| family.solver(options)),
        }
    }

    /// The numbers that define the result, for the model file.
    pub fn canonical(&self) -> serde_json::Value {
        match self {
            Self::Ridge(_) => serde_json::Value::Null,
            Self::Other(_, _, options) => serde_json::json!({
                "components": options.components,
                "centre": options.centre,
                "whiten": options.whiten,
                "clusters": options.clusters,
                "starts": options.starts,
                "lambda": options.lambda,
            }),
        }
    }
}

/// Refuses the first option that was given and is not read.
fn given(learn: &LearnArgs, reads: &dyn Fn(&str) -> bool, solver: &str, options: &[&str]) -> Result<()> {
    let surface = [
        ("--folds", learn.folds.is_some()),
        ("--ranks", learn.ranks.is_some()),
        ("--tolerance", learn.tolerance.is_some()),
        ("--select", learn.select != Select::default()),
        ("--intercept", learn.intercept != Intercept::default()),
        ("--task", learn.task.is_some()),
    ];
    let all = [
        ("components", "--components", learn.components.is_some()),
        ("centre", "--uncentred", learn.uncentred),
        ("whiten", "--whiten", learn.whiten),
        ("clusters", "--clusters", learn.clusters.is_some()),
        ("starts", "--starts", learn.starts.is_some()),
        ("lambda", "--lambda", learn.lambda.is_some()),
    ];
    let of_surface = surface.into_iter().map(|(option, given)| ("surface", option, given));
    let unread = |(name, _, given): &(&str, &str, bool)| *given && options.contains(name) && !reads(name);
    match all.into_iter().chain(of_surface).find(unread) {
        None => Ok(()),
        Some((_, option, _)) => Err(Error::option(option, "", format!("{solver} does not read it"), "leave it out")),
    }
}
