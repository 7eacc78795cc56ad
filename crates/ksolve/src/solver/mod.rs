//! Solvers: the methods that learn functions of the features.
//!
//! A solver sees rows as features `phi` (and targets `y`), in as many passes as it likes, and leaves t linear functions of
//! the features: wᵀphi(x) + c. What they mean is its [`Task`]: values, scores of classes, coordinates, or nearness to
//! centres. Saving, predicting and evaluating know nothing else of it. One that needs no features may combine kernel functions
//! of landmarks, or of all rows, instead ([`RowAccess`]).
//! To add a solver: one file here with its `FAMILY`, one line in [`registry()`].

mod centred;
mod class_weight;
mod features;
mod fisher;
mod fitted;
mod gradients;
mod held_out;
mod isomap;
mod kdr;
pub(crate) mod kept;
mod kmeans;
pub(crate) mod kpca;
mod kpca_l1;
mod laplacian;
mod lle;
mod lloyd;
mod logistic;
mod mds;
mod mean;
mod mvu;
pub mod parameter;
mod perceptron;
mod pls;
pub mod ridge;
mod spca;
mod spectral;
mod svm;
mod target;
pub(crate) mod views;

pub use class_weight::ClassWeight;
pub use features::FEATURES;
pub(crate) use features::MapFeatures;
pub use fitted::{Figure, Fitted, Projection};
pub(crate) use held_out::AT_EACH;
pub use kept::{FeatureTier, Gathered, StoredFeatures, Sums, Tile, Values, Wanted};
pub use parameter::{Options, Parameter, Penalty, Settings, Value};
pub use svm::{OneClass, Svm, Svr};

use crate::train::plan::GRAM;
use crate::train::{self, FitRequest, PassShape, ProblemSize, Resources, RowAccess, Stage, TrainOptions};
use crate::{Classes, Error, FoldSpec, Folds, Result, RidgeFold, RidgeState, Targets, Task};
use kapprox::landmark::LandmarkSet;
use kapprox::{FeatureMap, PrecisionPair, Real, Spec};
use kstore::checkpoint::Persist;
use kstore::named::{Named, Registry};
use kstore::{Fold, MemoryRows, Merge, Pass, Plan, Reading, RowSource};
use std::fmt::Debug;

/// The points whose kernel functions a solver combines: see [`RowAccess`].
#[derive(Clone, Debug)]
pub enum Points<'a, T: Real> {
    /// Those of the map: the solver combines its features.
    Map,
    /// The landmarks, in [`RowAccess::Landmarks`], and the shape of the work.
    Landmarks(&'a LandmarkSet<T>, &'a ProblemSize),
    /// All rows with their targets, in [`RowAccess::Rows`], the shape of the work, and how the rows were read.
    Rows(&'a MemoryRows<T>, &'a ProblemSize, Reading),
}

/// The rows of a table as a solver sees them: what it folds over.
#[derive(Debug)]
pub struct FitData<'a, T: Real> {
    /// The source of the rows.
    pub source: &'a dyn RowSource<T>,
    /// The kernel, every parameter a number.
    pub kernel: &'a Spec,
    /// The map; it has no features for a solver that combines kernel functions itself.
    pub map: &'a dyn FeatureMap<T>,
    /// Number of features of the second view, which are the last ones; 0 for one view.
    pub second: usize,
    /// The targets of the rows; empty for solvers without.
    pub targets: &'a Targets,
    /// Number of selected rows, n.
    pub rows: u64,
    /// How passes are cut into tiles, segments and lanes.
    pub cut: PassShape,
    /// What defines the result beside the solver's own settings.
    pub options: &'a TrainOptions,
    /// Memory, threads, progress, checkpoints.
    pub resources: &'a Resources<'a>,
    /// Where features that are read many times are kept.
    pub keep: FeatureTier,
    /// Bytes that the plan leaves, for copies that only save time.
    pub spare: usize,
    /// Which rows are held out together, for solvers that choose by it.
    pub folds: &'a Folds,
    /// The points whose kernel functions the solver combines.
    pub points: Points<'a, T>,
}

impl<T: Real> FitData<'_, T> {
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

    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        self.cut.pass(self.cut.gram_lanes, self.resources, observer)
    }

    /// The rule that puts all rows in one fold.
    pub fn whole(&self) -> Result<Folds> {
        Folds::new(&FoldSpec::None, self.options.seed, self.source.range(), &[])
    }

    pub(crate) fn warn_of_fewer(&self, asked: usize, there: usize, why: &str) {
        if there < asked {
            self.resources.stages.warn(format!("components reduced from {asked} to {there}: {why}"));
        }
    }

    /// Computes the second moments of features and targets, and the certificate of every rank: one pass.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn moments(&self) -> Result<RidgeState> {
        self.moments_with(None)
    }

    /// The moments of [`FitData::moments`] with features of the targets, where there are some, in the place of the targets.
    pub(crate) fn moments_with(&self, target_features: Option<&dyn FeatureMap<f64>>) -> Result<RidgeState> {
        let folds = self.whole()?;
        let fold = RidgeFold::new(self.map, &folds, self.targets).with_target_features(target_features);
        self.fold(GRAM, &fold.with_bin(self.cut.tile))
    }

    /// The moments of [`FitData::moments`], fold by fold.
    pub(crate) fn moments_of_folds(&self) -> Result<RidgeState> {
        self.fold(GRAM, &RidgeFold::new(self.map, self.folds, self.targets).with_bin(self.cut.tile))
    }
}

pub(crate) const NO_EXACT: &str =
    "only ridge, svm, svr and oneclass learn with the kernel itself; leave it out, or raise `rank` of the default map";

/// A method that learns linear functions of the features.
pub trait Solver<T: Real>: Debug + Send + Sync {
    /// True for a solver that reads the features in many passes, by [`StoredFeatures`]: they are kept where there is room.
    fn keeps(&self) -> bool {
        false
    }
    /// True for a solver that holds rows out to choose its penalty or to learn probabilities.
    fn holds_out(&self) -> bool {
        false
    }
    /// The number of landmarks unless a rank is asked for; `None` for that of [`crate::job`].
    fn usual_rank(&self) -> Option<usize> {
        None
    }
    /// The scheme that chooses landmarks unless one is named; `None` for that of [`crate::job`].
    fn usual_landmarks(&self) -> Option<&'static str> {
        None
    }
    /// Number of columns that the second moments of the features are taken with: t targets, or features of them.
    fn moment_columns(&self, _options: &TrainOptions, t: usize) -> usize {
        t
    }
    /// Refuses work that the solver cannot do; rows with weights unless a solver says otherwise.
    ///
    /// # Errors
    /// [`crate::Error::Option`].
    fn check(&self, work: &FitRequest<'_>) -> Result<()> {
        work.refuse_weights("the solver", "only ridge does")
    }
    /// How the solver sees the rows.
    ///
    /// # Errors
    /// A kernel or a map that the solver cannot use.
    fn view(&self, work: &FitRequest<'_>) -> Result<RowAccess> {
        match work.options.map.is_exact() {
            true => Err(Error::option("map", &work.options.map, NO_EXACT)),
            false => Ok(RowAccess::Features),
        }
    }
    /// The name of the pass, for a solver whose fit makes a single pass over features under these options: its rows may
    /// be folded in shards ([`crate::job::shards`]). The reason, for a solver whose fit makes more.
    ///
    /// # Errors
    /// The reason, and what to change.
    fn only_pass(&self, _options: &TrainOptions) -> Result<&'static str, &'static str> {
        Err("it reads the features more than once")
    }
    /// Adds what the solver holds beside rows and map to the plan of its stage.
    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan;
    /// The solver's own passes over the table before the one over the features, and after it.
    fn own_passes(&self, _work: &FitRequest<'_>) -> [u64; 2] {
        [0, 0]
    }
    /// The stages of a run, and how its passes are cut: what is planned, forecast and done.
    ///
    /// # Errors
    /// Errors of the map.
    fn stages(&self, view: RowAccess, work: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let add = |plan, cut| self.plan(plan, &work.shape, cut);
        Ok(match view {
            RowAccess::Landmarks => train::landmark_stages(work, &add),
            RowAccess::Features | RowAccess::Rows => train::on_features::<T>(work, &add, self.own_passes(work)),
        })
    }
    /// Learns.
    ///
    /// # Errors
    /// Errors of reading the rows; options that do not suit them; numbers that cannot be solved for.
    fn fit(&self, data: &FitData<'_, T>) -> Result<Fitted<T>>;
}

/// A solver for rows of either element type.
pub trait AnySolver: Solver<f32> + Solver<f64> {}

impl<S: Solver<f32> + Solver<f64>> AnySolver for S {}

impl<'a> PrecisionPair for &'a dyn AnySolver {
    type For<T: Real> = &'a dyn Solver<T>;
    fn single(self) -> &'a dyn Solver<f32> {
        self
    }
    fn double(self) -> &'a dyn Solver<f64> {
        self
    }
}

/// The description of a solver: its name, its help, its task and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct SolverFamily {
    /// The name of the solver.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The task of the solver, such as regression or components.
    pub task: Task,
    /// The parameters that it reads.
    pub parameters: &'static [Parameter],
    /// Makes the solver of its settings.
    pub make: fn(&Settings) -> Result<Box<dyn AnySolver>>,
}

impl SolverFamily {
    /// The solver with these settings, for rows of either element type.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn solver(&self, settings: &Settings) -> Result<Box<dyn AnySolver>> {
        (self.make)(settings)
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

static SOLVERS: Registry<SolverFamily> = Registry::new(&[
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
    laplacian::FAMILY,
    mds::FAMILY,
    isomap::FAMILY,
    lle::FAMILY,
    mvu::FAMILY,
    perceptron::FAMILY,
    pls::FAMILY,
    spca::FAMILY,
    kdr::FAMILY,
    views::CCA,
    views::COVARIANCE,
    features::FAMILY,
]);

impl Named for SolverFamily {
    const WHAT: &'static str = "solver";
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Every solver: those of this crate, then those that were registered.
pub fn registry() -> Vec<&'static SolverFamily> {
    SOLVERS.all()
}

/// The solver of a name; `None` where there is none.
pub fn by_name(name: &str) -> Option<&'static SolverFamily> {
    SOLVERS.by_name(name)
}

/// Makes a solver of another crate known by its name, in this process and from now on: jobs, model files, and the options and
/// help of a command that is built with it.
///
/// # Errors
/// [`kstore::Error::Register`] for a name that is taken or is no word.
pub fn register(family: &'static SolverFamily) -> Result<()> {
    Ok(SOLVERS.register(family)?)
}

/// The parameters of all solvers; one that several solvers read comes several times.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().into_iter().flat_map(|family| family.parameters)
}
