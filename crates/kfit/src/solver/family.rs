//! The interface of a solver: the method [`Solver`], and its description [`SolverFamily`].

use super::found::Found;
use super::parameter::{self, Options, Parameter, Settings};
use crate::request::{FitRequest, NO_EXACT, PassShape, ProblemSize, Resources, RowAccess, Stage, TrainOptions};
use crate::{Error, Result, Task, features::FitData, prepare::plan};
use kapprox::{MapSpec, PrecisionPair, Real};
use kstore::{Plan, Reading, Selected, named::Named, pass::Observer};
use std::{borrow::Cow, fmt::Debug};

/// Returns [`Error::Option`] for the value of an option if a condition holds; the last argument
/// says what is expected.
pub(super) fn refuse(is: bool, option: &'static str, given: impl ToString, why: impl Into<String>) -> Result<()> {
    if is { Err(Error::option(option, given, why)) } else { Ok(()) }
}

/// Returns [`kstore::Error::Interrupted`] if the observer requests a stop.
pub(super) fn heed(observer: &dyn Observer) -> Result<()> {
    if observer.stop() { Err(kstore::Error::Interrupted.into()) } else { Ok(()) }
}

/// Properties of a solver that are known before it reads a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolverFacts {
    /// True for a solver that reads the features in many passes through
    /// [`crate::features::StoredFeatures`], which stores them if they fit.
    pub keeps: bool,
    /// True for a solver that uses validation rows to choose its regularisation parameter or to
    /// learn probabilities.
    pub holds_out: bool,
    /// True for a solver whose folds may test later rows with fits to earlier ones.
    pub forward: bool,
    /// True for a solver that accepts row weights.
    pub weights: bool,
    /// True for a solver that combines kernel functions of all rows itself if the map is exact.
    pub exact: bool,
    /// True for a solver that iterates on the exact kernel with a preconditioner made of landmarks.
    pub preconditioned: bool,
    /// Why a `preconditioned` solver uses no landmarks for the exact kernel under these settings;
    /// `None` if it uses them.
    pub no_landmarks: Option<&'static str>,
    /// True for a solver that computes with the columns of the rows and rejects sparse rows.
    pub dense: bool,
    /// True for a solver that needs validation rows even if there is nothing to choose.
    pub needs_folds: bool,
    /// Name of the solver if it uses distances between landmarks instead of a feature map.
    pub by_distances: Option<&'static str>,
    /// Default number of landmarks; `None` for the default of [`crate::job`].
    pub usual_rank: Option<usize>,
    /// Default landmark scheme; `None` for the default of [`crate::job`].
    pub usual_landmarks: Option<&'static str>,
}

/// A method that learns linear functions of the features.
pub trait Solver<T: Real>: Debug + Send + Sync {
    /// Returns the properties of the solver that are known before it reads a row.
    fn facts(&self) -> SolverFacts {
        SolverFacts::default()
    }
    /// Returns true if the solver's models give class probabilities.
    fn has_probabilities(&self) -> bool {
        false
    }
    /// Returns the number of target columns in the second moments of the features: t, or the number
    /// of target features.
    fn moment_columns(&self, _options: &TrainOptions, t: usize) -> usize {
        t
    }
    /// Returns the number of classes with separate second moments; 1 if the moments of all rows are
    /// summed.
    fn moment_classes(&self, _t: usize) -> usize {
        1
    }
    /// Rejects requests that the solver cannot fulfil. Row weights are rejected by its
    /// [`facts`](Self::facts).
    ///
    /// # Errors
    /// [`crate::Error::Option`].
    fn check(&self, _work: &FitRequest<'_>) -> Result<()> {
        Ok(())
    }
    /// Returns how the solver reads the rows.
    ///
    /// # Errors
    /// The solver cannot use the kernel or the map.
    fn view(&self, work: &FitRequest<'_>) -> Result<RowAccess> {
        let (facts, map, exact) = (self.facts(), &work.options.map, work.options.map.is_exact());
        if let Some(solver) = facts.by_distances {
            let why = format!("{solver} uses distances between rows instead of a feature map; leave it out");
            refuse(*map != MapSpec::default(), "map", map, why)?;
            return Ok(RowAccess::Landmarks);
        }
        refuse(exact && !facts.exact, "map", map, NO_EXACT)?;
        Ok(if exact { RowAccess::Rows } else { RowAccess::Features })
    }
    /// Returns the name of the pass if a fit with these options makes a single pass over the
    /// features. Such a pass can be split into shards (`ksolve::shards`).
    ///
    /// # Errors
    /// The reason for several passes, or what to change.
    fn only_pass(&self, _options: &TrainOptions) -> Result<&'static str, &'static str> {
        Err("it reads the features more than once")
    }
    /// Adds the memory of the solver, without rows and map, to the plan of its stage.
    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan;
    /// Returns the numbers of further passes that the solver makes over the table, before and after
    /// the pass over the features.
    fn own_passes(&self, _work: &FitRequest<'_>) -> [u64; 2] {
        [0, 0]
    }
    /// Returns the shape of the passes and the stages of a run, which are planned, forecast and
    /// executed.
    ///
    /// # Errors
    /// Errors of the map.
    fn stages(&self, view: RowAccess, work: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let add = |plan, cut| self.plan(plan, &work.shape, cut);
        Ok(match view {
            RowAccess::Landmarks => plan::landmark_stages(work, &add),
            RowAccess::Features | RowAccess::Rows => plan::on_features(work, &add, self.own_passes(work)),
        })
    }
    /// Fits the solver to the rows.
    ///
    /// # Errors
    /// The rows cannot be read, the options do not suit them, or the numerical problem has no
    /// solution.
    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>>;
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
    /// Builds the solver from its settings.
    pub make: fn(&Settings) -> Result<Box<dyn AnySolver>>,
    /// Parameters that are chosen together with the rank, in addition to `ranks`; a fit at another
    /// rank omits them.
    pub of_rank: &'static [Parameter],
    /// Converts the options of a fit on a map to the options of the same fit on the exact kernel.
    /// `ranks`, `tolerance`, `folds` and `rank_parameters` are already removed.
    pub on_kernel: fn(Options) -> Options,
}

impl SolverFamily {
    /// Returns a family with the defaults of the optional fields: no parameters are chosen with the
    /// rank, and a fit on the exact kernel has the options of a fit on a map.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        task: Task,
        parameters: &'static [Parameter],
        make: fn(&Settings) -> Result<Box<dyn AnySolver>>,
    ) -> Self {
        Self { name, about, task, parameters, make, of_rank: &[], on_kernel: |given| given }
    }

    /// Builds the solver with these settings, for rows of either element type.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn solver(&self, settings: &Settings) -> Result<Box<dyn AnySolver>> {
        (self.make)(settings)
    }

    /// Returns true if the solver reads this parameter. Other modules call this method instead of
    /// comparing solver names.
    pub fn reads(&self, parameter: &Parameter) -> bool {
        self.parameters.iter().any(|own| own.name == parameter.name)
    }

    /// Returns true if these settings need validation rows: to choose a regularisation parameter,
    /// or to learn probabilities.
    pub(crate) fn compares(&self, settings: &Settings) -> bool {
        self.reads(&parameter::FOLDS) && (settings.penalties().len() > 1 || settings.flag(&parameter::PROBABILITIES))
    }

    /// Returns the task under these settings: the parameter `task` of ridge regression selects
    /// regression or classification.
    pub fn task(&self, settings: &Settings) -> Task {
        match settings.word(&parameter::TASK) {
            Some("classification") => Task::Classification,
            _ => self.task,
        }
    }
}

impl Named for SolverFamily {
    const WHAT: &'static str = "solver";
    fn name(&self) -> &'static str {
        self.name
    }
}

impl<'a> FitRequest<'a> {
    /// Returns the request of a solver on selected rows with `t` targets and this many folds.
    pub(crate) fn new<T: Real>(
        selected: &Selected,
        options: &'a TrainOptions,
        resources: &'a Resources<'a>,
        (t, folds): (usize, usize),
        solver: &dyn Solver<T>,
    ) -> Result<Self> {
        let options = match options.map.is_exact() {
            // candidates would be copies of rows that are in memory anyway
            true => Cow::Owned(TrainOptions { candidates: None, ..options.clone() }),
            false => Cow::Borrowed(options),
        };
        let (moment_columns, classes) = (solver.moment_columns(&options, t), solver.moment_classes(t));
        let source = selected.rows::<T>(Reading::default())?;
        let shape = ProblemSize::of(&source, &options, resources.workers.threads(), t, folds)?;
        let shape = ProblemSize { keeps: solver.facts().keeps, moment_columns, classes, ..shape };
        Ok(Self { options, resources, shape })
    }
}
