//! The solver of a fit: which options it reads, and which it refuses.

use crate::args::LearnArgs;
use crate::args::learn::{Intercept, Method, Select, Task as TaskArg};
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
        given(learn, &|_| false, "ridge", &["components", "centre", "whiten"])?;
        let unread = |option: &'static str, why: &str| Err(Error::option(option, "", why, "leave it out"));
        let (exact, direct) = (learn.map.is_exact(), learn.method == Method::Direct);
        match (learn.preconditioner.is_some(), learn.residual.is_some()) {
            (true, _) if exact => {
                return unread(
                    "--preconditioner",
                    "the exact kernel is preconditioned by the landmarks of --landmarks",
                );
            }
            (true, _) if direct => return unread("--preconditioner", "--method direct does not iterate"),
            (_, true) if direct => return unread("--residual", "--method direct does not iterate"),
            _ => {}
        }
        let task = match learn.task {
            Some(TaskArg::Classification) => Task::Classification,
            Some(TaskArg::Regression) | None => Task::Regression,
        };
        Ok(Self::Ridge(task))
    }

    fn other(family: &'static Family, learn: &LearnArgs) -> Result<Self> {
        let reads = |option: &str| family.options.contains(&option);
        given(learn, &reads, family.name, &["components", "centre", "whiten", "lambda", "surface"])?;
        let lambda = match &learn.lambda {
            None => LAMBDA,
            Some(text) => match ksolve::grid::lambdas(text)?[..] {
                [one] => one,
                _ => return Err(Error::option("--lambda", text, "only ridge compares several", "give one number")),
            },
        };
        let (components, centre, whiten) = (learn.components, !learn.uncentred, learn.whiten);
        Ok(Self::Other(family.name, family.task, SolverOptions { lambda, components, centre, whiten }))
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
        ("--method", learn.method != Method::default()),
        ("--preconditioner", learn.preconditioner.is_some()),
        ("--residual", learn.residual.is_some()),
        ("--loo", learn.loo),
    ];
    let all = [
        ("components", "--components", learn.components.is_some()),
        ("centre", "--uncentred", learn.uncentred),
        ("whiten", "--whiten", learn.whiten),
        ("lambda", "--lambda", learn.lambda.is_some()),
    ];
    let of_surface = surface.into_iter().map(|(option, given)| ("surface", option, given));
    let unread = |(name, _, given): &(&str, &str, bool)| *given && options.contains(name) && !reads(name);
    match all.into_iter().chain(of_surface).find(unread) {
        None => Ok(()),
        Some((_, option, _)) => Err(Error::option(option, "", format!("{solver} does not read it"), "leave it out")),
    }
}
