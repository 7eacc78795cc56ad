//! The description of a fit: solver, kernel, map and landmarks.

use super::{Fitted, Run, fitted};
use crate::metric::MetricSource;
use crate::solver::views::WITH;
use crate::solver::{self, Options, Settings, SolverFamily, parameter, ridge};
use crate::statistic::combination::{self, Combination, combine};
use crate::train::{self, Forecast, LandmarkSource, Scaling};
use crate::{AnyModel, Error, Result, Task};
use kapprox::Spec;
use kapprox::map::MapSpec;
use kstore::{Selected, Selection, Table};
use std::path::Path;

/// Type of rows, kernel values and features. Sums over rows are in f64 either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit floating point.
    #[default]
    F32,
    /// 64-bit floating point.
    F64,
}

crate::words::words!(ElementType, "precision", "f32" => F32, "f64" => F64);

/// Rows that landmarks are chosen among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Candidates {
    /// Every row: a pass for each round of the scheme.
    All,
    /// A uniform sample of so many rows, held in memory.
    Rows(u64),
}

impl std::fmt::Display for Candidates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Rows(n) => write!(f, "{n}"),
        }
    }
}

/// A fit to be run: a solver with its parameters, a kernel, a map and its landmarks.
///
/// It holds everything that changes a bit of the result; [`Run`] holds memory, threads and scratch, which do not.
///
/// ```
/// use ksolve::job::Fit;
/// let fit = Fit::solver("svm")?.set("C", "0.1..10").set("probabilities", true).rank(500).seed(7);
/// # Ok::<(), ksolve::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fit {
    pub(super) family: &'static SolverFamily,
    pub(super) given: Options,
    pub(super) scaling: Scaling,
    pub(crate) metric: MetricSource,
    pub(super) kernel: Spec,
    pub(super) map: MapSpec,
    /// What chooses the landmarks; `None` where nothing was said, which is randomly pivoted Cholesky.
    pub(super) landmarks: Option<LandmarkSource>,
    pub(super) candidates: Option<Candidates>,
    pub(super) rank: Option<usize>,
    pub(super) seed: u64,
    pub(super) precision: ElementType,
    /// Further options that the caller wants in the model file.
    pub(super) notes: serde_json::Map<String, serde_json::Value>,
}

impl Fit {
    fn of(family: &'static SolverFamily) -> Self {
        Self {
            family,
            given: Options::new(),
            scaling: Scaling::default(),
            metric: MetricSource::None,
            kernel: Spec::default(),
            map: MapSpec::default(),
            landmarks: None,
            candidates: None,
            rank: None,
            seed: 0,
            precision: ElementType::default(),
            notes: serde_json::Map::new(),
        }
    }

    /// A fit of ridge regression, which chooses lambda by cross-validation in one pass.
    pub fn ridge() -> Self {
        Self::of(&ridge::FAMILY)
    }

    /// A fit of the solver with this name, from [`crate::solver::registry`].
    ///
    /// # Errors
    /// [`Error::Option`] for a name that no solver has.
    pub fn solver(name: &str) -> Result<Self> {
        let known = || solver::registry().iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
        let family = solver::by_name(name);
        family.map(Self::of).ok_or_else(|| Error::option("solver", name, format!("give one of {}", known())))
    }

    /// Sets a parameter of the solver to a value, as it would be typed: `set("C", 10)`, `set("folds", "blocks:6")`.
    #[must_use]
    pub fn set(self, name: &str, value: impl ToString) -> Self {
        Self { given: self.given.set(name, value), ..self }
    }

    /// Sets all parameters of the solver at once.
    #[must_use]
    pub fn options(self, given: Options) -> Self {
        Self { given, ..self }
    }

    /// Sets the kernel; `sigma=median` is found on a sample of the rows. The default is `gaussian(sigma=median)`.
    #[must_use]
    pub fn kernel(self, kernel: Spec) -> Self {
        Self { kernel, ..self }
    }

    /// Sets the metric before the kernel; none by default.
    #[must_use]
    pub fn metric(self, metric: MetricSource) -> Self {
        Self { metric, ..self }
    }

    /// Sets the map from rows to features; the Nyström map by default.
    #[must_use]
    pub fn map(self, map: MapSpec) -> Self {
        Self { map, ..self }
    }

    /// Sets the scheme that chooses landmarks, or a table of them; randomly pivoted Cholesky by default. A fit without landmarks
    /// refuses it.
    #[must_use]
    pub fn landmarks(self, landmarks: LandmarkSource) -> Self {
        Self { landmarks: Some(landmarks), ..self }
    }

    /// Sets the rows that landmarks are chosen among; a sample of max(20·rank, 50,000) by default. A fit that chooses none refuses
    /// it.
    #[must_use]
    pub fn candidates(self, candidates: Candidates) -> Self {
        Self { candidates: Some(candidates), ..self }
    }

    /// Sets the number of features, which is the largest rank; 1,000 by default, or the rows of a table of landmarks.
    #[must_use]
    pub fn rank(self, rank: usize) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// Sets how features are scaled before the kernel sees them; to mean 0 and deviation 1 by default.
    #[must_use]
    pub fn scaling(self, scaling: Scaling) -> Self {
        Self { scaling, ..self }
    }

    /// Sets the seed of every random choice; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the type of rows and features; f32 by default.
    #[must_use]
    pub fn precision(self, precision: ElementType) -> Self {
        Self { precision, ..self }
    }

    /// Adds an entry to the options in the model file, such as the condition that chose the rows.
    #[must_use]
    pub fn note(mut self, name: &str, value: serde_json::Value) -> Self {
        self.notes.insert(name.to_string(), value);
        self
    }

    /// The same kernel, metric, map, landmarks and seed for another solver, with its own defaults.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that no solver has.
    pub fn for_solver(&self, name: &str) -> Result<Self> {
        Ok(Self { family: Self::solver(name)?.family, given: Options::new(), ..self.clone() })
    }

    /// The fit at one rank, where it may have compared several.
    pub(crate) fn at_rank(self, rank: usize) -> Self {
        let given = self.given.without(ridge::RANKS.name).without(parameter::TOLERANCE.name);
        Self { given, rank: Some(rank), ..self }
    }

    /// The fit without the rank and the ranks that were asked for.
    #[must_use]
    pub fn without_ranks(self) -> Self {
        Self { given: self.given.without(ridge::RANKS.name), rank: None, ..self }
    }

    /// The fit with the rank and, where its solver compares some, the ranks of another one.
    #[must_use]
    pub fn with_ranks_of(self, other: &Self) -> Self {
        let compares = self.family.parameters.iter().any(|parameter| parameter.name == ridge::RANKS.name);
        let ranks = other.given.get(ridge::RANKS.name).filter(|_| compares);
        let fit = self.without_ranks();
        let given = ranks.into_iter().fold(fit.given, |given, ranks| given.set(ridge::RANKS.name, ranks));
        Self { given, rank: other.rank, ..fit }
    }

    /// The fit with as many landmarks by a scheme, where they come from a table: that is in the units of another one.
    pub(crate) fn with_scheme(self) -> Self {
        match &self.landmarks {
            Some(LandmarkSource::Rows(table)) => {
                let range = table.range();
                let rank = self.rank.or(usize::try_from(range.end - range.start).ok());
                Self { rank, landmarks: Some(LandmarkSource::Scheme("uniform".to_string())), ..self }
            }
            _ => self,
        }
    }

    /// True where a parameter of the solver was set.
    pub fn gives(&self, name: &str) -> bool {
        self.given.get(name).is_some()
    }

    /// The solver of the fit.
    pub fn family(&self) -> &'static SolverFamily {
        self.family
    }

    /// The kernel that was asked for.
    pub fn kernel_spec(&self) -> &Spec {
        &self.kernel
    }

    /// Where the metric comes from.
    pub fn metric_source(&self) -> &MetricSource {
        &self.metric
    }

    /// The map that was asked for.
    pub fn map_spec(&self) -> &MapSpec {
        &self.map
    }

    /// Type of rows and features that was asked for.
    pub fn element_type(&self) -> ElementType {
        self.precision
    }

    /// The values of the solver's parameters.
    ///
    /// # Errors
    /// [`Error::Option`] for a parameter that the solver does not read, or a value that it does not accept.
    pub fn settings(&self) -> Result<Settings> {
        self.family.settings(&self.given)
    }

    /// The task of the solver with these parameters, such as regression or components.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`].
    pub fn task(&self) -> Result<Task> {
        Ok(self.family.task(&self.settings()?))
    }

    /// A selection with the columns that the solver reads beside features and targets: class, weights, folds.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`]; [`Error::Missing`] without the target of a solver that learns from one, and a target too
    /// many.
    pub fn selection(&self, selection: Selection) -> Result<Selection> {
        let settings = self.settings()?;
        let task = self.family.task(&settings);
        let named = selection.targets.join(",");
        match (task, selection.targets.len()) {
            (Task::Regression | Task::Classification, 0) => {
                return Err(Error::missing("target", self.family.name, "it learns from a target; name its column"));
            }
            (Task::Classification, 2..) => {
                return Err(Error::option("target", named, "a classification has one column of labels; name one"));
            }
            (Task::Components | Task::Clusters | Task::Novelty, 1..) => {
                let why = format!("{} learns without a target; leave it out", self.family.name);
                return Err(Error::option("target", named, why));
            }
            _ => {}
        }
        let mut features = selection.features;
        if !features.is_empty() {
            // the columns of a second view are features too
            features.extend(settings.columns(&WITH).into_iter().flatten());
        }
        Ok(Selection {
            features,
            class_target: task == Task::Classification,
            weight: settings.column(&ridge::WEIGHTS),
            group: match settings.folds(&solver::parameter::FOLDS) {
                Some(crate::FoldSpec::Column(name)) => Some(name),
                _ => None,
            },
            ..selection
        })
    }

    /// Learns the weights of a sum of kernels from the target, for [`Fit::kernel`]: see [`crate::statistic::combination`].
    ///
    /// # Errors
    /// Options that contradict each other; those of [`combine`].
    pub fn combined(&self, kernels: &[Spec], selected: &Selected, run: &Run<'_>) -> Result<Combination> {
        let selected = &run.coded(selected)?;
        let (training, names) = (self.training(selected)?, selected.feature_names());
        let kernels = kernels.iter().map(|kernel| Ok(kernel.resolve_columns(&names)?)).collect::<Result<Vec<_>>>()?;
        match self.precision {
            ElementType::F32 => combine::<f32>(selected, &training, &kernels, &run.resources()),
            ElementType::F64 => combine::<f64>(selected, &training, &kernels, &run.resources()),
        }
    }

    /// The plan of the run: the passes and memory of each stage. Counts the classes, and reads the first rows to tell the bytes of a pass.
    ///
    /// # Errors
    /// Options that contradict each other; errors of reading these rows. A plan over the budget is no error here.
    pub fn plan(&self, selected: &Selected, run: &Run<'_>) -> Result<Forecast> {
        let (selected, resources) = (&run.coded(selected)?, &run.resources());
        let training = self.training(selected)?;
        let solver = self.family.solver(&self.settings()?)?;
        match self.precision {
            ElementType::F32 => train::forecast::<f32>(selected, &training, &*solver, resources),
            ElementType::F64 => train::forecast::<f64>(selected, &training, &*solver, resources),
        }
    }

    /// The plan of a run that learns the weights of a sum of kernels first ([`Fit::combined`]): the stages of both.
    ///
    /// # Errors
    /// The errors of [`Fit::plan`] and [`Fit::combined`].
    pub fn plan_combined(&self, kernels: &[Spec], selected: &Selected, run: &Run<'_>) -> Result<Forecast> {
        let selected = &run.coded(selected)?;
        let (training, names, resources) = (self.training(selected)?, selected.feature_names(), run.resources());
        let found = kernels.iter().map(|kernel| Ok(kernel.resolve_columns(&names)?)).collect::<Result<Vec<_>>>()?;
        let mut stages = match self.precision {
            ElementType::F32 => combination::forecast::<f32>(selected, &training, &found, &resources)?,
            ElementType::F64 => combination::forecast::<f64>(selected, &training, &found, &resources)?,
        };
        // a sum needs as much whatever its weights are
        let sum = kernels.iter().cloned().reduce(std::ops::Add::add);
        let fit = sum.into_iter().fold(self.clone(), Self::kernel).plan(selected, run)?;
        stages.extend(fit.stages);
        Ok(Forecast { stages, ..fit })
    }

    /// Learns from the selected rows, and returns the model with its report.
    ///
    /// # Errors
    /// Options that contradict each other; a plan that does not fit the memory, before the first pass; bad rows with
    /// their place; errors of the solver. [`Error::is_interrupted`] tells a run that was asked to stop.
    pub fn run(&self, selected: &Selected, run: &Run<'_>) -> Result<Fitted> {
        self.run_and(selected, run, &|_| Ok(()))
    }

    /// Learns as [`Fit::run`] does, and writes the model to `path` before the run's checkpoint is removed.
    ///
    /// # Errors
    /// The errors of [`Fit::run`] and of the file system.
    pub fn run_and_save(&self, selected: &Selected, run: &Run<'_>, path: &Path) -> Result<Fitted> {
        self.run_and(selected, run, &|fitted| {
            let _stage = run.stages().stage("write model", None);
            fitted.save(path)
        })
    }

    fn run_and(&self, selected: &Selected, run: &Run<'_>, keep: &dyn Fn(&Fitted) -> Result<()>) -> Result<Fitted> {
        let selected = &run.coded(selected)?;
        let training = self.training(selected)?;
        let solver = self.family.solver(&self.settings()?)?;
        match self.precision {
            ElementType::F32 => fitted::fit::<f32>(self, &*solver, AnyModel::F32, selected, &training, run, keep),
            ElementType::F64 => fitted::fit::<f64>(self, &*solver, AnyModel::F64, selected, &training, run, keep),
        }
    }

    /// Learns from all rows of a table, with every column of numbers or text but the targets as a feature.
    ///
    /// # Errors
    /// Columns that are not there, and the errors of [`Fit::run`].
    pub fn on(&self, table: &Table, targets: &[&str], run: &Run<'_>) -> Result<Fitted> {
        let targets = targets.iter().map(ToString::to_string).collect();
        self.run(&table.select(&self.selection(Selection { targets, ..Selection::default() })?)?, run)
    }
}
