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
pub mod parameter;
mod perceptron;
pub mod ridge;
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
pub use parameter::{Options, Parameter, Settings, Value};
pub use perceptron::Perceptron;
pub use spectral::Spectral;
pub use svm::{OneClass, Svm, Svr};

use crate::quadratic::OnFeatures;
use crate::train::{Cut, Resources, Shape};
use crate::{
    AnyModel, CertificateState, Classes, FoldSpec, Folds, Link, Model, Result, RidgeFold, RidgeState, Targets, Task,
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
#[non_exhaustive]
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

/// A solver by name, with what it can be told.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name after `kmill fit`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// What its functions mean.
    pub task: Task,
    /// What it can be told.
    pub parameters: &'static [Parameter],
    make: Option<Make>,
}

/// Makes a solver.
type Of<T> = fn(&Settings) -> Result<Box<dyn Solver<T>>>;

/// The same solver in both precisions.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Make(Of<f32>, Of<f64>);

/// The types that solvers exist for.
pub trait Precision: Real {
    #[doc(hidden)]
    fn make(make: &Make) -> Of<Self>;
    /// The model, whatever its type.
    fn any(model: Model<Self>) -> AnyModel;
}

impl Precision for f32 {
    fn make(make: &Make) -> Of<f32> {
        make.0
    }
    fn any(model: Model<f32>) -> AnyModel {
        AnyModel::F32(model)
    }
}

impl Precision for f64 {
    fn make(make: &Make) -> Of<f64> {
        make.1
    }
    fn any(model: Model<f64>) -> AnyModel {
        AnyModel::F64(model)
    }
}

impl Family {
    /// The solver with these settings; `None` for ridge regression, whose surface has a run of its own
    /// ([`crate::train::train`]).
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn solver<T: Precision>(&self, settings: &Settings) -> Result<Option<Box<dyn Solver<T>>>> {
        self.make.as_ref().map(|make| T::make(make)(settings)).transpose()
    }

    /// True where rows are held out under these settings: to choose a penalty, or to learn probabilities.
    pub(crate) fn compares(&self, settings: &Settings) -> bool {
        let reads_folds = self.parameters.iter().any(|parameter| parameter.name == parameter::FOLDS.name);
        reads_folds && (settings.penalties().len() > 1 || settings.flag(&svm::PROBABILITIES))
    }

    /// What the functions mean under these settings: ridge regression learns values or classes.
    pub fn task(&self, settings: &Settings) -> Task {
        match settings.word(&ridge::TASK) {
            Some("classification") => Task::Classification,
            _ => self.task,
        }
    }
}

/// Every solver. One line each.
pub fn registry() -> &'static [Family] {
    const FAMILIES: &[Family] = &[
        ridge::FAMILY,
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

/// The parameters of all solvers; one that several read comes as often.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().iter().flat_map(|family| family.parameters)
}
