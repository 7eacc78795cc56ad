//! The options and the resources of a training run.

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
    /// No scaling.
    None,
}

crate::words::words!(Scaling, "scale", "standard" => Standard, "minmax" => Minmax, "none" => None);

/// The error by which the cell of the surface is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Smallest cross-validated squared error.
    #[default]
    Mse,
    /// Smallest cross-validated share of wrong classes: every cell is scored in one more pass.
    Error,
}

/// The source of landmarks: a scheme or a table.
#[derive(Clone, Debug)]
pub enum LandmarkSource {
    /// Chosen among the training rows by the scheme of this name, from [`kapprox::landmark::registry`].
    Scheme(String),
    /// The first rows of a table that has the features of the training table, in its units.
    Rows(Box<Selected>),
}

impl LandmarkSource {
    /// The table of landmarks; `None` for a scheme.
    pub fn table(&self) -> Option<&Selected> {
        match self {
            Self::Scheme(_) => None,
            Self::Rows(table) => Some(table),
        }
    }
}

impl std::fmt::Display for LandmarkSource {
    /// Writes the name of the scheme, or "a table" without its path: the landmarks are in the model.
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
    /// The method: directly or by iteration.
    pub method: Method,
    /// The preconditioner of the iteration on landmarks.
    pub preconditioner: Preconditioner,
    /// Relative residual at which the iteration ends; `None` for the default of [`SystemOptions::residual`].
    pub residual: Option<f64>,
    /// True to compute leave-one-out errors at the chosen rank and lambda: one more pass.
    pub leave_one_out: bool,
    /// True to keep predictive variances in the model: 16 m² bytes for m landmarks.
    pub variance: bool,
}

impl SystemOptions {
    /// The relative residual at which the iteration ends: 1e-6 in f32 and 1e-9 in f64, unless it was given. It bounds the relative
    /// error of fitted values, and kernel values in f32 are no better.
    pub fn residual<T: kapprox::Real>(&self) -> f64 {
        self.residual.unwrap_or(if size_of::<T>() == size_of::<f32>() { 1e-6 } else { 1e-9 })
    }
}

/// The options of a training run, which define the result for given rows.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Regression or classification, or the task of another solver.
    pub task: Task,
    /// Scaling of the features.
    pub scaling: Scaling,
    /// The kernel; a median still to be taken is taken on a sample.
    pub kernel: Spec,
    /// The map from rows to features.
    pub map: MapSpec,
    /// The landmark scheme, or the table with the landmarks, for maps that have some.
    pub landmarks: LandmarkSource,
    /// Number of rows that landmarks are chosen among, a uniform sample; `None` for all rows.
    pub candidates: Option<usize>,
    /// Number of features of the map, which is the largest rank.
    pub rank: usize,
    /// Relative trace error that chooses the rank: the smallest rank whose error is at most this.
    pub tolerance: Option<f64>,
    /// Ranks of the surface, ascending, at most `rank`.
    pub ranks: Vec<usize>,
    /// Lambdas of the surface, ascending.
    pub lambdas: Vec<f64>,
    /// The folds of cross-validation.
    pub folds: FoldSpec,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// The error by which the cell is chosen.
    pub choice: Choice,
    /// The options for solving the system of ridge regression.
    pub system: SystemOptions,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Refuses weights of rows, for methods where all rows count alike.
pub(super) fn refuse_weights(selected: &Selected, what: &str, remedy: &str) -> Result<()> {
    match selected.is_weighted() {
        true => Err(Error::option("weights", "", format!("{what} takes no weights; {remedy}"))),
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
            return Err(Error::option("std", self.task, remedy));
        }
        if self.map.is_exact() || self.system.method == Method::Pcg {
            self.check_one_cell()?;
        }
        if self.tolerance.is_some() && self.map.is_without_rows() {
            let remedy = format!("the map {name} is no projection and has no trace error; leave it out");
            return Err(Error::option("tolerance", "a tolerance", remedy));
        }
        if self.ranks.len() > 1 && !self.map.family().nested {
            let remedy = format!("the features of the map {name} are not nested; give one `rank`");
            return Err(Error::option("ranks", format!("{} ranks", self.ranks.len()), remedy));
        }
        Ok(())
    }

    /// True where there is only one system to solve, so that conjugate gradient can be used.
    pub(super) fn is_one_cell(&self) -> bool {
        self.check_one_cell().is_ok()
    }

    /// Refuses options that only direct solutions can follow: surfaces, and errors of the features.
    fn check_one_cell(&self) -> Result<()> {
        let what = if self.map.is_exact() { "the exact kernel" } else { "`method` pcg" };
        if self.system.variance {
            let remedy = format!("{what} has no features to tell variances by; take landmarks and `method` direct");
            return Err(Error::option("std", "", remedy));
        }
        if self.tolerance.is_some() {
            return Err(Error::option("tolerance", "a tolerance", format!("{what} has no trace error; leave it out")));
        }
        if self.lambdas.len() != 1 {
            let remedy = format!("{what} solves for one lambda; give one, such as `lambda` 1e-6");
            return Err(Error::option("lambda", format!("{} values", self.lambdas.len()), remedy));
        }
        if self.ranks.len() != 1 {
            let remedy = format!("{what} solves for one rank; give one `rank`");
            return Err(Error::option("ranks", format!("{} ranks", self.ranks.len()), remedy));
        }
        if self.folds != FoldSpec::None {
            let remedy = format!("{what} has no folds; leave them out");
            return Err(Error::option("folds", self.folds.to_string(), remedy));
        }
        if !self.map.is_exact() && self.map != MapSpec::default() {
            let remedy = "it solves for the kernel functions of landmarks; leave `map` out, or take `method` direct";
            return Err(Error::option("method", format!("pcg with `map` {}", self.map), remedy));
        }
        Ok(())
    }
}

/// The resources that a training run may use. None of them changes a bit of the result.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    /// Memory budget of the whole process, in bytes.
    pub memory: usize,
    /// The pool of threads.
    pub workers: &'a Workers,
    /// The observer of the stages.
    pub stages: &'a dyn Stages,
    /// The journal that saves the results of passes, with which a stopped run can go on; `None` for runs that begin
    /// anew.
    pub journal: Option<&'a Journal<'a>>,
    /// The scratch folder, where decoded and scaled rows are kept for the passes after the first; `None` to decode them
    /// in every pass.
    pub scratch: Option<&'a Scratch>,
}

impl std::fmt::Debug for Resources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let threads = self.workers.threads();
        f.debug_struct("Resources").field("memory", &self.memory).field("threads", &threads).finish_non_exhaustive()
    }
}

/// An observer of the stages of a run, for progress, times and warnings.
pub trait Stages: Sync {
    /// Begins a stage over `rows` rows, or one that is no pass; it ends when the observer is dropped.
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a>;
    /// Takes a warning for the user; the run goes on.
    fn warn(&self, text: String);
    /// True where [`Stages::planned`] should be called, whose forecast may take a second.
    fn wants_plan(&self) -> bool {
        false
    }
    /// Takes the forecast of the run before it begins.
    fn planned(&self, _forecast: &Forecast) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Stages for Unwatched {
    fn stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(kstore::pass::Unobserved)
    }
    fn warn(&self, _: String) {}
}
