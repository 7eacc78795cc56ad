//! Solvers: the methods that learn functions of the features.
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
    /// The source of the rows.
    pub source: &'a dyn RowSource<T>,
    /// The map from rows to features.
    pub map: &'a dyn FeatureMap<T>,
    /// The targets of the rows; empty for solvers without.
    pub targets: &'a Targets,
    /// Number of selected rows, n.
    pub rows: u64,
    /// How passes are cut into tiles, segments and lanes.
    pub cut: Cut,
    /// The memory, the threads, the observer and the journal.
    pub resources: &'a Resources<'a>,
    /// Seed of random choices.
    pub seed: u64,
    /// The place for features that are read many times.
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

    /// Runs a fold over all rows in one pass and returns its state. The name must be unique among the passes of a fit:
    /// progress shows it, and a resumed fit finds its state by it.
    ///
    /// # Errors
    /// Errors of reading the rows and of the fold.
    pub fn fold<F>(&self, name: &str, fold: &F) -> Result<F::State>
    where
        F: Fold<T, Error = crate::Error>,
        F::State: Merge + Persist,
    {
        let range = self.source.range();
        let observer = self.resources.stages.stage(name, Some(range.end - range.start));
        Ok(self.pass(&*observer).resume(name, self.source, fold)?.0)
    }

    /// A pass over the rows, cut for these features.
    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        self.cut.pass(self.cut.gram_lanes, self.resources, observer)
    }

    /// The rule that puts all rows in one fold.
    pub fn whole(&self) -> Result<Folds> {
        Folds::new(&FoldSpec::None, self.seed, self.source.range(), &[])
    }

    /// Computes the second moments of features and targets, and the certificate of every rank: one pass.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn moments(&self) -> Result<RidgeState> {
        let folds = self.whole()?;
        let fold = RidgeFold::new(self.map, &folds, self.targets).with_bin(self.cut.tile);
        self.fold("Gram matrix", &fold)
    }
}

/// The functions that a solver found, with its report.
#[derive(Debug)]
pub struct Fitted {
    /// Coefficients w of the leading r features, r x t.
    pub weights: Mat<f64>,
    /// The constants c, t numbers.
    pub intercept: Vec<f64>,
    /// How scores become probabilities.
    pub link: Option<Link>,
    /// True where the scores are those of pairs of classes.
    pub pairs: bool,
    /// A quadratic function of the features to be kept with the linear ones.
    pub quadratic: Option<OnFeatures>,
    /// Residuals of the map at every rank, where the solver's passes saw them.
    pub certificate: Option<CertificateState>,
    /// The penalty lambda, where there is one.
    pub lambda: Option<f64>,
    /// Numbers that the solver reports about its result: eigenvalues, gradient norm, duality gap.
    pub figures: Vec<Figure>,
    /// Number of passes over the rows.
    pub passes: u64,
}

impl Default for Fitted {
    /// A result without functions.
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

/// Named numbers of a solver's report.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Name of the numbers in the report.
    pub name: &'static str,
    /// The numbers: one, or one for each component.
    pub values: Vec<f64>,
}

/// A method that learns linear functions of the features.
pub trait Solver<T: Real>: Debug + Send + Sync {
    /// True for a solver that reads the features in many passes, by [`Kept`]: they are kept where there is room.
    fn keeps(&self) -> bool {
        false
    }
    /// True for a solver that holds rows out to choose its penalty or to learn probabilities.
    fn holds_out(&self) -> bool {
        false
    }
    /// Adds the memory that the solver holds beside rows and map to the plan of its stage.
    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan;
    /// Learns from the features of all rows.
    ///
    /// # Errors
    /// Errors of reading the rows; options that do not suit them; numbers that cannot be solved for.
    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted>;
}

/// How strongly coefficients are held down: one number in either of two conventions.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// The factor lambda of (1/n) Σ loss + lambda ‖w‖².
    Lambda(f64),
    /// The factor C of ½‖w‖² + C Σ loss.
    C(f64),
}

impl Penalty {
    /// The penalty as lambda, for n rows: lambda = 1/(2nC).
    pub fn lambda(self, rows: u64) -> f64 {
        match self {
            Self::Lambda(lambda) => lambda,
            Self::C(c) => 0.5 / (c * rows as f64),
        }
    }

    /// The penalty as C, for n rows: C = 1/(2n lambda).
    pub fn c(self, rows: u64) -> f64 {
        match self {
            Self::Lambda(lambda) => 0.5 / (lambda * rows as f64),
            Self::C(c) => c,
        }
    }
}

/// The description of a solver: its name, its help, its task and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name of the solver.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The task of the solver, such as regression or components.
    pub task: Task,
    /// The parameters that it reads.
    pub parameters: &'static [Parameter],
    make: Option<Make>,
}

/// A function that makes a solver from its settings.
type Of<T> = fn(&Settings) -> Result<Box<dyn Solver<T>>>;

/// The functions that make a solver for features in f32 and in f64.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Make(Of<f32>, Of<f64>);

/// The types that solvers exist for.
pub trait Precision: Real {
    #[doc(hidden)]
    fn make(make: &Make) -> Of<Self>;
    /// Wraps a model as one of either precision.
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

    /// The task under these settings: ridge regression learns values or classes, as its parameter `task` says.
    pub fn task(&self, settings: &Settings) -> Task {
        match settings.word(&ridge::TASK) {
            Some("classification") => Task::Classification,
            _ => self.task,
        }
    }
}

/// The descriptions of all solvers.
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

/// The solver with this name; `None` where there is none.
pub fn by_name(name: &str) -> Option<&'static Family> {
    registry().iter().find(|family| family.name == name)
}

/// The parameters of all solvers; one that several solvers read comes several times.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().iter().flat_map(|family| family.parameters)
}
