//! The interface of a solver: the method [`Solver`], and its description [`SolverFamily`].

use super::parameter::{self, Options, Parameter, Settings};
use super::solution::Solution;
use crate::request::{
    EXACT_UNSUPPORTED, FitRequest, PassShape, ProblemSize, Resources, RowAccess, Stage, TrainOptions,
};
use crate::{Error, FoldSpec, Result, Task, features::FitData, prepare::stage_plans};
use kapprox::{MapSpec, PrecisionPair, Real};
use kstore::{MemoryPlan, ReadSettings, SelectedTable, pass::Observer, registry::RegistryEntry};
use std::{borrow::Cow, fmt::Debug};

/// If a condition holds, returns [`Error::Option`] for the value of an option; `why` says what is
/// wrong and what to do.
pub(super) fn reject_if(
    condition: bool,
    option: &'static str,
    value: impl ToString,
    why: impl Into<String>,
) -> Result<()> {
    if condition { Err(Error::option(option, value, why)) } else { Ok(()) }
}

/// Returns [`kstore::Error::Interrupted`] if the observer requests a stop.
pub(super) fn check_stop(observer: &dyn Observer) -> Result<()> {
    if observer.should_stop() { Err(kstore::Error::Interrupted.into()) } else { Ok(()) }
}

/// Properties of a solver that are known before it reads a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolverProperties {
    /// True for a solver that reads the features in many passes through
    /// [`crate::features::StoredFeatures`], which stores them if they fit.
    pub stores_features: bool,
    /// True for a solver that uses validation rows to choose its regularisation parameter or to
    /// learn probabilities.
    pub uses_validation_rows: bool,
    /// True for a solver that supports forward folds: fits on earlier rows, tested on later rows.
    pub supports_forward_folds: bool,
    /// True for a solver that accepts row weights.
    pub accepts_row_weights: bool,
    /// True for a solver that combines kernel functions of all rows itself if the map is exact.
    pub supports_exact_kernel: bool,
    /// True for a solver that iterates on the exact kernel with a preconditioner made of landmarks.
    pub uses_preconditioner: bool,
    /// If a solver with `uses_preconditioner` solves the exact kernel without its preconditioner
    /// under these settings: the reason, for the message that refuses landmark options. Otherwise
    /// `None`.
    pub landmarks_unused_why: Option<&'static str>,
    /// True for a solver that computes with the columns of the rows and rejects sparse rows.
    pub dense_only: bool,
    /// The parameter of these settings that computes with the columns of the rows, so that the fit
    /// rejects sparse rows; `None` if no parameter does.
    pub dense_only_parameter: Option<&'static str>,
    /// True if the models are scored by the loss that they minimise: a quantile, expectile or Huber
    /// loss, or a deviance.
    pub scores_own_loss: bool,
    /// True if predictions are exponentials of the functions that are learned.
    pub has_log_link: bool,
    /// True if the fit needs folds under these settings even though cross-validation chooses no
    /// parameter (ridge regression with leaves).
    pub always_needs_validation_rows: bool,
    /// True if the model stores the distribution of every numeric column of its training rows, with
    /// which new rows are compared.
    pub stores_distributions: bool,
    /// For a solver that uses distances between landmarks instead of a feature map: its name, for
    /// error messages. Otherwise `None`.
    pub distance_solver_name: Option<&'static str>,
    /// Default number of landmarks; `None` for the default of `ksolve::Fit`.
    pub default_rank: Option<usize>,
    /// Default landmark scheme; `None` for the default of `ksolve::Fit`.
    pub default_landmarks: Option<&'static str>,
}

/// A method that learns linear functions of the features.
pub trait Solver<T: Real>: Debug + Send + Sync {
    /// Returns the properties of the solver that are known before it reads a row.
    fn properties(&self) -> SolverProperties {
        SolverProperties::default()
    }
    /// Returns true if the solver's models give class probabilities.
    fn has_probabilities(&self) -> bool {
        false
    }
    /// Returns the number of columns of B = Σ φyᵀ, where φ are the features and y the targets of a
    /// row: t, or the number of target features if the solver has a kernel on the targets.
    fn moment_columns(&self, _options: &TrainOptions, t: usize) -> usize {
        t
    }
    /// Returns the number of classes with separate second moments, or 1 if the moments of all rows
    /// are summed.
    fn moment_classes(&self, _t: usize) -> usize {
        1
    }
    /// Rejects requests that the solver cannot fulfil. Implementations need not check row weights:
    /// the caller rejects them unless [`SolverProperties::accepts_row_weights`] is true.
    ///
    /// # Errors
    /// [`crate::Error::Option`].
    fn check(&self, _request: &FitRequest<'_>) -> Result<()> {
        Ok(())
    }
    /// Returns how the solver reads the rows.
    ///
    /// # Errors
    /// The solver cannot use the kernel or the map.
    fn access(&self, request: &FitRequest<'_>) -> Result<RowAccess> {
        let (properties, map, is_exact) =
            (self.properties(), &request.options.map, request.options.map.is_exact_kernel());
        if let Some(solver) = properties.distance_solver_name {
            let why = format!("{solver} uses distances between rows instead of a feature map; leave it out");
            reject_if(*map != MapSpec::default(), "map", map, why)?;
            return Ok(RowAccess::Landmarks);
        }
        reject_if(is_exact && !properties.supports_exact_kernel, "map", map, EXACT_UNSUPPORTED)?;
        Ok(if is_exact { RowAccess::Rows } else { RowAccess::Features })
    }
    /// Returns the name of the pass if a fit with these options makes a single pass over the
    /// features. Such a pass can be split into shards (`ksolve::shards`).
    ///
    /// # Errors
    /// A text that says why the fit needs several passes, or which option to change.
    fn single_pass_name(&self, _options: &TrainOptions) -> Result<&'static str, &'static str> {
        Err("it reads the features more than once")
    }
    /// Adds the memory of the solver, without rows and map, to the plan of its stage.
    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan;
    /// Returns the numbers of further passes that the solver makes over the table, before and after
    /// the pass over the features.
    fn further_passes(&self, _request: &FitRequest<'_>) -> [u64; 2] {
        [0, 0]
    }
    /// Returns the shape of the passes, and the stages of a run. The plan, the forecast and the fit
    /// use the same stages.
    ///
    /// # Errors
    /// Errors of the map.
    fn stages(&self, access: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let add_solver = |plan, pass_shape| self.plan(plan, &request.size, pass_shape);
        Ok(match access {
            RowAccess::Landmarks => stage_plans::landmark_stages(request, &add_solver),
            RowAccess::Features | RowAccess::Rows => {
                stage_plans::feature_stages(request, &add_solver, self.further_passes(request))
            }
        })
    }
    /// Fits the solver to the rows.
    ///
    /// # Errors
    /// The rows cannot be read, the options do not suit them, or the numerical problem has no
    /// solution.
    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>>;
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

/// The description of a solver: name, help, task and parameters.
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
    pub build: fn(&Settings) -> Result<Box<dyn AnySolver>>,
    /// Parameters that are chosen jointly with the rank, in addition to `ranks`. They are removed
    /// from the options of a fit whose rank is fixed.
    pub joint_rank_parameters: &'static [Parameter],
    /// Converts the options of a fit on a map to the options of the same fit on the exact kernel.
    /// The caller has already removed `ranks`, `tolerance`, `folds` and `joint_rank_parameters`.
    pub options_for_exact_kernel: fn(Options) -> Options,
}

impl SolverFamily {
    /// Returns a family with defaults for the optional fields: no parameter is chosen together with
    /// the rank, and a fit on the exact kernel has the same options as a fit on a map.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        task: Task,
        parameters: &'static [Parameter],
        build: fn(&Settings) -> Result<Box<dyn AnySolver>>,
    ) -> Self {
        Self {
            name,
            about,
            task,
            parameters,
            build,
            joint_rank_parameters: &[],
            options_for_exact_kernel: |options| options,
        }
    }

    /// Builds the solver with these settings, for rows of either element type.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn build_solver(&self, settings: &Settings) -> Result<Box<dyn AnySolver>> {
        if let Some(levels) = settings.levels(&parameter::INTERVAL) {
            let (level, why) =
                (levels[0], "prediction intervals need held-out rows; leave `folds` out, or give their number");
            reject_if(settings.folds(&parameter::FOLDS) == Some(FoldSpec::None), parameter::INTERVAL.name, level, why)?;
        }
        (self.build)(settings)
    }

    /// Returns true if the solver reads this parameter. Other modules call this method instead of
    /// comparing solver names.
    pub fn reads(&self, parameter: &Parameter) -> bool {
        self.parameters.iter().any(|read| read.name == parameter.name)
    }

    /// Returns true if these settings need validation rows: to choose a regularisation parameter,
    /// to learn probabilities, or for prediction intervals.
    #[doc(hidden)]
    pub fn needs_validation_rows(&self, settings: &Settings) -> bool {
        self.reads(&parameter::FOLDS)
            && (settings.regularisations().len() > 1
                || settings.flag(&parameter::PROBABILITIES)
                || settings.levels(&parameter::INTERVAL).is_some())
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

impl RegistryEntry for SolverFamily {
    const KIND: &'static str = "solver";
    fn name(&self) -> &'static str {
        self.name
    }
}

impl<'a> FitRequest<'a> {
    /// Returns the request of a solver on selected rows with `t` targets and `fold_count` folds.
    ///
    /// # Errors
    /// Unknown values of category columns; errors of the kernel and the map.
    #[doc(hidden)]
    pub fn new<T: Real>(
        selected: &SelectedTable,
        options: &'a TrainOptions,
        resources: &'a Resources<'a>,
        t: usize,
        fold_count: usize,
        solver: &dyn Solver<T>,
    ) -> Result<Self> {
        let options = match options.map.is_exact_kernel() {
            // candidates would be copies of rows that are in memory anyway
            true => Cow::Owned(TrainOptions { candidates: None, ..options.clone() }),
            false => Cow::Borrowed(options),
        };
        let (moment_columns, class_count) = (solver.moment_columns(&options, t), solver.moment_classes(t));
        let source = selected.rows::<T>(ReadSettings::default())?;
        let size = ProblemSize::from_source(&source, &options, resources.workers.threads(), t, fold_count)?;
        let size = ProblemSize {
            stores_features: solver.properties().stores_features,
            moment_columns,
            moment_class_count: class_count,
            ..size
        };
        Ok(Self { options, resources, size })
    }
}
