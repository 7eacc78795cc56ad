//! What a training run computes, and what it may use.

use super::Forecast;
use crate::folds::FoldSpec;
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

/// Where landmarks come from.
#[derive(Clone, Debug)]
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
    /// Which rows are held out together.
    pub folds: FoldSpec,
    /// Seed of every random choice.
    pub seed: u64,
}

impl TrainOptions {
    /// A kernel at one rank with the usual rest: standard scaling, landmarks by randomly pivoted Cholesky among all rows, no folds,
    /// seed 0.
    pub fn new(task: Task, kernel: Spec, rank: usize) -> Self {
        Self {
            task,
            scaling: Scaling::default(),
            kernel,
            map: MapSpec::default(),
            landmarks: LandmarkSource::default(),
            candidates: None,
            rank,
            tolerance: None,
            ranks: vec![rank],
            folds: FoldSpec::None,
            seed: 0,
        }
    }

    /// Refuses options that the map cannot follow.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(crate) fn check(&self) -> Result<()> {
        let name = self.map.family().name;
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
