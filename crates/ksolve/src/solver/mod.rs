//! Solvers: what is learned on the features.
//!
//! A solver sees rows as features `phi` (and targets `y`), in as many passes as it likes, and leaves t linear functions of
//! the features: wᵀphi(x) + c. What they mean is its [`Task`]: values, scores of classes, coordinates, or nearness to
//! centres. Saving, predicting and evaluating know nothing else of it.
//!
//! To add a solver: one file here with its `FAMILY`, one line in [`registry()`].

mod fisher;
mod fold;
pub(crate) mod kept;
mod kmeans;
pub(crate) mod kpca;
mod kpca_l1;
mod lloyd;
mod logistic;
mod mean;
mod perceptron;
mod spectral;
mod svm;

pub use fisher::Fisher;
pub use fold::{FeatureFold, Filled, Take};
pub use kept::{Gathered, Kept, Place, Tile, Wanted};
pub use kmeans::KernelKMeans;
pub use kpca::KernelPca;
pub use kpca_l1::KernelPcaL1;
pub use logistic::Logistic;
pub use mean::MeanEmbedding;
pub use perceptron::Perceptron;
pub use spectral::Spectral;
pub use svm::{OneClass, Svm, Svr};

use crate::quadratic::OnFeatures;
use crate::train::{Cut, Resources, Shape};
use crate::{
    CertificateState, Classes, FoldSpec, Folds, Intercept, Link, Result, RidgeFold, RidgeState, Targets, Task,
};
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
    /// Where features that are read many times are kept.
    pub keep: Place,
    /// Bytes that the plan leaves, for copies that only save time.
    pub spare: usize,
    /// Which rows are held out together, for solvers that choose by it.
    pub folds: &'a Folds,
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
        self.cut.pass(self.cut.gram_lanes, self.resources, observer)
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
    /// How scores become probabilities.
    pub link: Option<Link>,
    /// Scores are those of pairs of classes.
    pub pairs: bool,
    /// A quadratic function of the features to be kept with the linear ones.
    pub quadratic: Option<OnFeatures>,
    /// Residuals of the map at every rank, where the solver's passes saw them.
    pub certificate: Option<CertificateState>,
    /// The penalty, where there is one.
    pub lambda: Option<f64>,
    /// What the solver says of its result: eigenvalues, gradient norm, duality gap.
    pub figures: Vec<Figure>,
    /// Passes over the rows.
    pub passes: u64,
}

impl Default for Fitted {
    /// No functions.
    fn default() -> Self {
        Self {
            weights: Mat::new(),
            intercept: Vec::new(),
            link: None,
            pairs: false,
            quadratic: None,
            certificate: None,
            lambda: None,
            figures: Vec::new(),
            passes: 0,
        }
    }
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
    /// True for a solver that reads the features in many passes, by [`Kept`]: they are kept where there is room.
    fn keeps(&self) -> bool {
        false
    }
    /// True for a solver that holds rows out to choose its penalty or to learn probabilities.
    fn holds_out(&self) -> bool {
        false
    }
    /// Adds what the solver holds beside rows and map to the plan of its stage.
    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan;
    /// Learns.
    ///
    /// # Errors
    /// Those of the rows; options that do not suit them; numbers that cannot be solved for.
    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted>;
}

/// How strongly coefficients are held down: one number in either of two conventions.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// lambda of (1/n) Σ loss + lambda ‖w‖².
    Lambda(f64),
    /// C of ½‖w‖² + C Σ loss.
    C(f64),
}

impl Penalty {
    /// lambda = 1/(2nC).
    pub fn lambda(self, rows: u64) -> f64 {
        match self {
            Self::Lambda(lambda) => lambda,
            Self::C(c) => 0.5 / (c * rows as f64),
        }
    }

    /// C = 1/(2n lambda).
    pub fn c(self, rows: u64) -> f64 {
        match self {
            Self::Lambda(lambda) => 0.5 / (lambda * rows as f64),
            Self::C(c) => c,
        }
    }
}

/// Options of all solvers; each reads those it names in its `FAMILY`.
#[derive(Clone, Debug, PartialEq)]
pub struct SolverOptions {
    /// lambda, or C instead.
    pub penalty: Penalty,
    /// Penalties to choose among by rows held out, strongest first; empty for `penalty` alone.
    pub path: Vec<Penalty>,
    /// A machine for every pair of classes.
    pub pairs: bool,
    /// Probabilities are learned from rows held out.
    pub probabilities: bool,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// Rows weigh by the inverse of the size of their class.
    pub balanced: bool,
    /// Squared hinge instead of hinge.
    pub squared: bool,
    /// Relative duality gap at which a solver stops.
    pub gap: f64,
    /// Most Newton steps.
    pub steps: usize,
    /// Half the width of the tube of support vector regression, in the unit of the target.
    pub epsilon: f64,
    /// Share of the rows that may lie outside, of the one-class machine.
    pub nu: f64,
    /// Components of a decomposition.
    pub components: Option<usize>,
    /// Features are centred.
    pub centre: bool,
    /// Components are divided by their standard deviation.
    pub whiten: bool,
    /// What tells the distance from the components is kept.
    pub novelty: bool,
    /// Groups of a clustering.
    pub clusters: usize,
    /// Starts of a search that depends on where it begins.
    pub starts: usize,
    /// Gives the average over a search, not its end.
    pub averaged: bool,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self {
            penalty: Penalty::Lambda(1e-6),
            path: Vec::new(),
            pairs: false,
            probabilities: false,
            intercept: Intercept::Free,
            balanced: false,
            squared: false,
            gap: 1e-3,
            steps: 200,
            epsilon: 0.1,
            nu: 0.5,
            components: None,
            centre: true,
            whiten: false,
            novelty: false,
            clusters: 8,
            starts: 10,
            averaged: true,
        }
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
    const FAMILIES: &[Family] = &[
        kpca::FAMILY,
        kpca_l1::FAMILY,
        fisher::FAMILY,
        logistic::FAMILY,
        svm::SVM,
        svm::SVR,
        svm::ONE_CLASS,
        mean::FAMILY,
        kmeans::FAMILY,
        spectral::FAMILY,
        perceptron::FAMILY,
    ];
    FAMILIES
}

/// The solver of a name.
pub fn by_name(name: &str) -> Option<&'static Family> {
    registry().iter().find(|family| family.name == name)
}
