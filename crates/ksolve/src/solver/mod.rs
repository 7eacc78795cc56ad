//! Solvers: what is learned on the features.
//!
//! A solver sees rows as features `phi` (and targets `y`), in as many passes as it likes, and leaves t linear functions of
//! the features: wᵀphi(x) + c. What they mean is its [`Task`]: values, scores of classes, coordinates, or nearness to
//! centres. Saving, predicting and evaluating know nothing else of it.
//!
//! To add a solver: one file here with its `FAMILY`, one line in [`registry()`].

mod fisher;
mod fold;
mod kmeans;
mod kpca;
mod lloyd;
mod spectral;

pub use fisher::Fisher;
pub use fold::{FeatureFold, Filled, Take};
pub use kmeans::KernelKMeans;
pub use kpca::KernelPca;
pub use spectral::Spectral;

use crate::train::{Cut, Resources, Shape};
use crate::{CertificateState, Classes, FoldSpec, Folds, Result, RidgeFold, RidgeState, Targets, Task};
use faer::Mat;
use kapprox::{FeatureMap, Real};
use kstore::checkpoint::Persist;
use kstore::{Fold, Merge, Pass, Plan, RowSource};
use std::fmt::Debug;

/// The rows of a table as features: what a solver folds over.
#[derive(Debug)]
pub struct Features<'a, T: Real> {
    /// The rows.
    pub source: &'a dyn RowSource<T>,
    /// The map.
    pub map: &'a dyn FeatureMap<T>,
    /// What is learned from them; no target for solvers without.
    pub targets: &'a Targets,
    /// Selected rows, n.
    pub rows: u64,
    /// Tiles, segments and lanes.
    pub cut: Cut,
    /// Memory, threads, progress, checkpoints.
    pub resources: &'a Resources<'a>,
    /// Seed of random choices.
    pub seed: u64,
}

impl<T: Real> Features<'_, T> {
    /// The classes of a classification.
    pub fn classes(&self) -> Option<&Classes> {
        match self.targets {
            Targets::Classes(classes) => Some(classes),
            Targets::Numeric { .. } => None,
        }
    }

    /// One pass over all rows as one fold. Its name is unique among the passes of a fit: progress shows it, and a resumed fit
    /// finds its state by it.
    ///
    /// # Errors
    /// Those of the rows and of the fold.
    pub fn fold<F>(&self, name: &str, fold: &F) -> Result<F::State>
    where
        F: Fold<T, Error = crate::Error>,
        F::State: Merge + Persist,
    {
        let range = self.source.range();
        let observer = self.resources.stages.stage(name, Some(range.end - range.start));
        Ok(self.pass(&*observer).resume(name, self.source, fold)?.0)
    }

    /// How a pass over the rows is cut.
    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        Pass {
            tile: self.cut.tile,
            segment: self.cut.segment,
            lanes: self.cut.gram_lanes,
            prefetch: self.cut.prefetch,
            workers: self.resources.workers,
            observer,
            journal: self.resources.journal,
        }
    }

    /// All rows in one fold.
    pub fn whole(&self) -> Result<Folds> {
        Folds::new(&FoldSpec::None, self.seed, self.source.range(), &[])
    }

    /// Second moments of features and targets, and the certificate of every rank: one pass.
    ///
    /// # Errors
    /// Those of the rows.
    pub fn moments(&self) -> Result<RidgeState> {
        let folds = self.whole()?;
        let fold = RidgeFold::new(self.map, &folds, self.targets).with_bin(self.cut.tile);
        self.fold("Gram matrix", &fold)
    }
}

/// What a solver found.
#[derive(Debug)]
pub struct Fitted {
    /// w, r x t: coefficients of the leading r features.
    pub weights: Mat<f64>,
    /// c, t.
    pub intercept: Vec<f64>,
    /// Residuals of the map at every rank, where the solver's passes saw them.
    pub certificate: Option<CertificateState>,
    /// The penalty, where there is one.
    pub lambda: Option<f64>,
    /// What the solver says of its result: eigenvalues, gradient norm, duality gap.
    pub figures: Vec<Figure>,
    /// Passes over the rows.
    pub passes: u64,
}

/// Numbers under a name.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// What they are, in the words of the report.
    pub name: &'static str,
    /// One, or one for each component.
    pub values: Vec<f64>,
}

/// Learns linear functions of the features.
pub trait Solver<T: Real>: Debug + Send + Sync {
    /// Adds what the solver holds beside rows and map to the plan of its stage.
    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan;
    /// Learns.
    ///
    /// # Errors
    /// Those of the rows; options that do not suit them; numbers that cannot be solved for.
    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted>;
}

/// Options of all solvers; each reads those it names in its `FAMILY`.
#[derive(Clone, Debug, PartialEq)]
pub struct SolverOptions {
    /// lambda.
    pub lambda: f64,
    /// Components of a decomposition.
    pub components: Option<usize>,
    /// Features are centred.
    pub centre: bool,
    /// Components are divided by their standard deviation.
    pub whiten: bool,
    /// Groups of a clustering.
    pub clusters: usize,
    /// Starts of a search that depends on where it begins.
    pub starts: usize,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self { lambda: 1e-6, components: None, centre: true, whiten: false, clusters: 8, starts: 10 }
    }
}

/// A solver as the command line sees it.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name after `kmill fit`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// What its functions mean.
    pub task: Task,
    /// The options it reads.
    pub options: &'static [&'static str],
    make: Make,
}

/// Makes a solver.
type Of<T> = fn(&SolverOptions) -> Box<dyn Solver<T>>;

/// The same solver in both precisions.
#[derive(Clone, Copy, Debug)]
struct Make(Of<f32>, Of<f64>);

/// The types that solvers exist for.
pub trait Precision: Real {
    #[doc(hidden)]
    fn make(family: &Family) -> fn(&SolverOptions) -> Box<dyn Solver<Self>>;
}

impl Precision for f32 {
    fn make(family: &Family) -> Of<f32> {
        family.make.0
    }
}

impl Precision for f64 {
    fn make(family: &Family) -> Of<f64> {
        family.make.1
    }
}

impl Family {
    /// The solver with these options.
    pub fn solver<T: Precision>(&self, options: &SolverOptions) -> Box<dyn Solver<T>> {
        T::make(self)(options)
    }
}

/// Every solver but ridge regression, whose surface has a run of its own ([`crate::train::train`]). One line each.
pub fn registry() -> &'static [Family] {
    const FAMILIES: &[Family] = &[kpca::FAMILY, fisher::FAMILY, kmeans::FAMILY, spectral::FAMILY];
    FAMILIES
}

/// The solver of a name.
pub fn by_name(name: &str) -> Option<&'static Family> {
    registry().iter().find(|family| family.name == name)
}
