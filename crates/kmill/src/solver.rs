//! The solver of a fit: which options it reads, and which it refuses.

use crate::args::LearnArgs;
use crate::args::learn::{ClassWeight, Intercept, Loss, Method, Select, Task as TaskArg};
use crate::{Error, Result};
use ksolve::Task;
use ksolve::solver::{self, Family, Penalty, Solver, SolverOptions};

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
        given(learn, &|option| ["surface", "folds", "lambda", "intercept", "iteration"].contains(&option), "ridge")?;
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
        given(learn, &reads, family.name)?;
        let penalties = penalties(learn)?;
        if let (several, Some(text)) = (penalties.len(), learn.lambda.as_ref().or(learn.c.as_ref()))
            && several > 1
            && !reads("path")
        {
            let option = if learn.c.is_some() { "--C" } else { "--lambda" };
            return Err(Error::option(option, text, "only ridge and svm compare several", "give one number"));
        }
        if learn.pairs && learn.probabilities {
            let why = "pairs of classes have no probabilities";
            return Err(Error::option("--probabilities", "", why, "leave --pairs out"));
        }
        if learn.map.is_exact() {
            let why = "only ridge learns with the kernel itself";
            return Err(Error::option("--map", &learn.map, why, "leave it out, or raise --rank of the default map"));
        }
        let default = SolverOptions::default();
        let clusters = match learn.clusters {
            Some(clusters) => clusters,
            None if reads("clusters") => {
                let why = "it needs the number of groups: --clusters 8";
                return Err(Error::Missing { option: "--clusters", solver: family.name.to_string(), why });
            }
            None => default.clusters,
        };
        let options = SolverOptions {
            penalty: penalties[0],
            path: if penalties.len() > 1 { penalties } else { Vec::new() },
            pairs: learn.pairs,
            probabilities: learn.probabilities,
            intercept: learn.intercept.into(),
            balanced: learn.class_weight == Some(ClassWeight::Balanced),
            squared: learn.loss == Loss::SquaredHinge,
            gap: learn.gap.unwrap_or(default.gap),
            steps: learn.steps.unwrap_or(default.steps),
            epsilon: learn.epsilon.unwrap_or(default.epsilon),
            nu: learn.nu.unwrap_or(default.nu),
            components: learn.components,
            centre: !learn.uncentred,
            whiten: learn.whiten,
            novelty: learn.novelty,
            clusters,
            starts: learn.starts.unwrap_or(default.starts),
            averaged: !learn.last,
        };
        Ok(Self::Other(family.name, family.task, options))
    }

    /// True where rows are held out to choose a penalty or to learn probabilities.
    pub fn holds_out(&self) -> bool {
        match self {
            Self::Ridge(_) => false,
            Self::Other(.., options) => !options.path.is_empty() || options.probabilities,
        }
    }

    /// True where folds may be asked for.
    pub fn reads_folds(&self) -> bool {
        match self {
            Self::Ridge(_) => true,
            Self::Other(name, ..) => solver::by_name(name).is_some_and(|family| family.options.contains(&"folds")),
        }
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

    /// The numbers that define the result, for the model file: those that the solver reads.
    pub fn canonical(&self) -> serde_json::Value {
        let Self::Other(name, _, options) = self else { return serde_json::Value::Null };
        let read = solver::by_name(name).map_or(&[][..], |family| family.options);
        let value = |option: &&str| match *option {
            "components" => serde_json::json!(options.components),
            "centre" => serde_json::json!(options.centre),
            "whiten" => serde_json::json!(options.whiten),
            "lambda" | "c" if options.path.is_empty() => serde_json::json!(options.penalty),
            "path" if !options.path.is_empty() => serde_json::json!(options.path),
            "pairs" if options.pairs => true.into(),
            "probabilities" if options.probabilities => true.into(),
            "class_weight" => serde_json::json!(options.balanced),
            "loss" => serde_json::json!(if options.squared { "squared-hinge" } else { "hinge" }),
            "gap" => serde_json::json!(options.gap),
            "steps" => serde_json::json!(options.steps),
            "epsilon" => serde_json::json!(options.epsilon),
            "nu" => serde_json::json!(options.nu),
            "clusters" => serde_json::json!(options.clusters),
            "starts" => serde_json::json!(options.starts),
            "averaged" => serde_json::json!(options.averaged),
            // the card holds it
            _ => serde_json::Value::Null,
        };
        read.iter().map(|option| (option.to_string(), value(option))).filter(|(_, value)| !value.is_null()).collect()
    }
}

/// The penalties that were given, strongest first.
fn penalties(learn: &LearnArgs) -> Result<Vec<Penalty>> {
    match (&learn.c, &learn.lambda) {
        (Some(c), _) => Ok(ksolve::grid::costs(c)?.into_iter().map(Penalty::C).collect()),
        (None, None) => Ok(vec![Penalty::Lambda(LAMBDA)]),
        (None, Some(text)) => Ok(ksolve::grid::lambdas(text)?.into_iter().rev().map(Penalty::Lambda).collect()),
    }
}

/// Refuses the first option that was given and is not read.
fn given(learn: &LearnArgs, reads: &dyn Fn(&str) -> bool, solver: &str) -> Result<()> {
    let all = [
        ("components", "--components", learn.components.is_some()),
        ("centre", "--uncentred", learn.uncentred),
        ("whiten", "--whiten", learn.whiten),
        ("novelty", "--novelty", learn.novelty),
        ("clusters", "--clusters", learn.clusters.is_some()),
        ("starts", "--starts", learn.starts.is_some()),
        ("averaged", "--last", learn.last),
        ("lambda", "--lambda", learn.lambda.is_some()),
        ("c", "--C", learn.c.is_some()),
        ("intercept", "--intercept", learn.intercept != Intercept::default()),
        ("class_weight", "--class-weight", learn.class_weight.is_some()),
        ("loss", "--loss", learn.loss != Loss::default()),
        ("epsilon", "--epsilon", learn.epsilon.is_some()),
        ("nu", "--nu", learn.nu.is_some()),
        ("gap", "--gap", learn.gap.is_some()),
        ("steps", "--steps", learn.steps.is_some()),
        ("folds", "--folds", learn.folds.is_some()),
        ("pairs", "--pairs", learn.pairs),
        ("probabilities", "--probabilities", learn.probabilities),
        ("surface", "--ranks", learn.ranks.is_some()),
        ("surface", "--tolerance", learn.tolerance.is_some()),
        ("surface", "--select", learn.select != Select::default()),
        ("surface", "--task", learn.task.is_some()),
        ("iteration", "--method", learn.method != Method::default()),
        ("iteration", "--preconditioner", learn.preconditioner.is_some()),
        ("iteration", "--residual", learn.residual.is_some()),
        ("surface", "--loo", learn.loo),
        ("surface", "--std", learn.std),
        ("surface", "--weights", learn.weights.is_some()),
    ];
    match all.into_iter().find(|(name, _, given)| *given && !reads(name)) {
        None => Ok(()),
        Some((_, option, _)) => Err(Error::option(option, "", format!("{solver} does not read it"), "leave it out")),
    }
}
