//! What a training run computes, and what it may use.

use super::Forecast;
use crate::folds::FoldSpec;
pub use crate::iterative::sketch::Preconditioner;
use crate::ridge::Intercept;
pub use crate::task::Task;
use crate::{Error, Result};
use kapprox::kernel::Spec;
use kapprox::map::MapSpec;
use kstore::checkpoint::Journal;
use kstore::pass::Observer;
use kstore::scratch::Scratch;
use kstore::{Selected, Workers};

/// How features are scaled before the kernel sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// Mean 0, population deviation 1, over the training rows.
    #[default]
    Standard,
    /// From 0 to 1 over the training rows.
    Minmax,
    /// As they are.
    None,
}

crate::words::words!(Scaling, "scale", "standard" => Standard, "minmax" => Minmax, "none" => None);

/// By what the cell of the surface is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// Smallest cross-validated squared error.
    #[default]
    Mse,
    /// Smallest cross-validated share of wrong classes: every cell is scored in one more pass.
    Error,
}

/// Where landmarks come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LandmarkSource {
    /// Chosen among the training rows by the scheme of this name, from [`kapprox::landmark::registry`].
    Scheme(String),
    /// The first rows of a table that has the features of the training table, in its units.
    Rows(Box<Selected>),
}

impl LandmarkSource {
    /// The table they are read from, where they are.
    pub fn table(&self) -> Option<&Selected> {
        match self {
            Self::Scheme(_) => None,
            Self::Rows(table) => Some(table),
        }
    }
}

impl std::fmt::Display for LandmarkSource {
    /// Of a table no path: the landmarks are in the model.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scheme(name) => f.write_str(name),
            Self::Rows(_) => f.write_str("a table"),
        }
    }
}

impl Default for LandmarkSource {
    /// Randomly pivoted Cholesky.
    fn default() -> Self {
        Self::Scheme("rpcholesky".to_string())
    }
}

/// How the system of ridge regression is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// Directly where that fits the plan (and, for the exact kernel, has at most [`DIRECT_ROWS`] rows), else by conjugate
    /// gradient. The only choice that looks at the memory budget: name a method for the same bits under any.
    #[default]
    Auto,
    /// By a Cholesky factor.
    Direct,
    /// By preconditioned conjugate gradient, without the matrix.
    Pcg,
}

/// Rows up to which `auto` factors the exact kernel matrix: 400 MB, and 10 s on two cores, which is about what the
/// iteration takes there.
pub const DIRECT_ROWS: usize = 10_000;

/// How the system of ridge regression is solved, how well, and what else is asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SystemOptions {
    /// Directly or by iteration.
    pub method: Method,
    /// What helps the iteration on landmarks.
    pub preconditioner: Preconditioner,
    /// Relative residual at which the iteration ends; `None` for [`SystemOptions::residual`]'s.
    pub residual: Option<f64>,
    /// The error of every row by the others, at the chosen rank and lambda: one more pass.
    pub leave_one_out: bool,
    /// Predictive variances are kept in the model: 16 m² bytes for m landmarks.
    pub variance: bool,
}

impl SystemOptions {
    /// The relative residual at which the iteration ends: 1e-6 in f32 and 1e-9 in f64, unless it was given. It bounds the relative
    /// error of fitted values, and kernel values in f32 are no better.
    pub fn residual<T: kapprox::Real>(&self) -> f64 {
        self.residual.unwrap_or(if size_of::<T>() == size_of::<f32>() { 1e-6 } else { 1e-9 })
    }
}

/// Everything that defines the result of a training run beside the rows.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// What is learned.
    pub task: Task,
    /// Scaling of the features.
    pub scaling: Scaling,
    /// The kernel; a median still to be taken is taken on a sample.
    pub kernel: Spec,
    /// How rows become features.
    pub map: MapSpec,
    /// Where the landmarks come from, for maps that have some.
    pub landmarks: LandmarkSource,
    /// Rows landmarks are chosen among: a uniform sample of this size, or all rows in `None`.
    pub candidates: Option<usize>,
    /// Features of the map: the largest rank.
    pub rank: usize,
    /// Take the smallest rank whose relative trace error is at most this, and no other.
    pub tolerance: Option<f64>,
    /// Ranks of the surface, ascending, at most `rank`.
    pub ranks: Vec<usize>,
    /// Lambdas of the surface, ascending.
    pub lambdas: Vec<f64>,
    /// Which rows are held out together.
    pub folds: FoldSpec,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// By what the cell is chosen.
    pub choice: Choice,
    /// How the system of ridge regression is solved.
    pub system: SystemOptions,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Refuses rows with weights where all count alike.
pub(super) fn refuse_weights(selected: &Selected, what: &str, remedy: &str) -> Result<()> {
    match selected.is_weighted() {
        true => Err(Error::option("--weights", "", format!("{what} takes no weights; {remedy}"))),
        false => Ok(()),
    }
}

impl TrainOptions {
    /// Refuses options that the map cannot follow.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(crate) fn check(&self) -> Result<()> {
        let name = self.map.family().name;
        if self.system.variance && self.task != Task::Regression {
            let remedy = "the variance of a class's score says nothing of the class; leave it out";
            return Err(Error::option("--std", self.task, remedy));
        }
        if self.map.is_exact() || self.system.method == Method::Pcg {
            self.check_one_cell()?;
        }
        if self.tolerance.is_some() && self.map.is_without_rows() {
            let remedy = format!("the map {name} is no projection and has no trace error; leave it out");
            return Err(Error::option("--tolerance", "a tolerance", remedy));
        }
        if self.ranks.len() > 1 && !self.map.family().nested {
            let remedy = format!("the features of the map {name} are not nested; give one --rank");
            return Err(Error::option("--ranks", format!("{} ranks", self.ranks.len()), remedy));
        }
        Ok(())
    }

    /// True where there is one system to solve and no other: conjugate gradient can.
    pub(super) fn is_one_cell(&self) -> bool {
        self.check_one_cell().is_ok()
    }

    /// What only direct solutions bring: surfaces, and features whose error is known.
    fn check_one_cell(&self) -> Result<()> {
        let what = if self.map.is_exact() { "the exact kernel" } else { "--method pcg" };
        if self.system.variance {
            let remedy = format!("{what} has no features to tell variances by; take landmarks and --method direct");
            return Err(Error::option("--std", "", remedy));
        }
        if self.tolerance.is_some() {
            return Err(Error::option(
                "--tolerance",
                "a tolerance",
                format!("{what} has no trace error; leave it out"),
            ));
        }
        if self.lambdas.len() != 1 {
            let remedy = format!("{what} solves for one lambda; give one, such as --lambda 1e-6");
            return Err(Error::option("--lambda", format!("{} values", self.lambdas.len()), remedy));
        }
        if self.ranks.len() != 1 {
            let remedy = format!("{what} solves for one rank; give one --rank");
            return Err(Error::option("--ranks", format!("{} ranks", self.ranks.len()), remedy));
        }
        if self.folds != FoldSpec::None {
            let remedy = format!("{what} has no folds; leave them out");
            return Err(Error::option("--folds", self.folds.to_string(), remedy));
        }
        if !self.map.is_exact() && self.map != MapSpec::default() {
            let remedy = "it solves for the kernel functions of landmarks; leave --map out, or take --method direct";
            return Err(Error::option("--method pcg", format!("with --map {}", self.map), remedy));
        }
        Ok(())
    }
}

/// What a training run may use. Nothing here changes a bit of the result.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// Bytes of resident memory, all of the process.
    pub memory: usize,
    /// Threads.
    pub workers: &'a Workers,
    /// Who watches.
    pub stages: &'a dyn Stages,
    /// What the passes found before this run was stopped, and what they find now; `None` for runs that are begun anew
    /// when they are stopped.
    pub journal: Option<&'a Journal<'a>>,
    /// Where rows are kept, decoded and scaled, for the passes after the first; `None` to decode them in every pass.
    pub scratch: Option<&'a Scratch>,
}

impl std::fmt::Debug for Resources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threads = self.workers.threads();
        f.debug_struct("Resources").field("memory", &self.memory).field("threads", &threads).finish_non_exhaustive()
    }
}

/// Watches the stages of a run: progress, times, warnings.
pub trait Stages: Sync {
    /// Begins a stage over `rows` rows, or one that is no pass; it ends when the observer is dropped.
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a>;
    /// Something the user should know; the run goes on.
    fn warn(&self, text: String);
    /// True for a watch that [`Stages::planned`] is worth up to a second.
    fn wants_plan(&self) -> bool {
        false
    }
    /// What the run is going to do and hold, before it begins.
    fn planned(&self, _forecast: &Forecast) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Stages for Unwatched {
    fn stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(kstore::pass::Unobserved)
    }
    fn warn(&self, _: String) {}
}
