//! The description of a fit: solver, kernel, map and landmarks.

use super::candidates::Candidates;
use super::text;
use crate::request::{LandmarkSource, MetricSource, Scaling};
use crate::solver::parameter::{C, FOLDS, GROUP, LAMBDA, Parameter, RANKS, TOLERANCE, WEIGHTS, WITH};
use crate::solver::{self, AnySolver, Options, Settings, Solver, SolverFacts, SolverFamily};
use crate::{Error, Result, Task};
use kapprox::Kernel;
use kapprox::map::MapSpec;
use kstore::{Selected, Selection, Table};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// Type of rows, kernel values and features. Sums over rows are in f64 either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit floating point.
    #[default]
    F32,
    /// 64-bit floating point.
    F64,
}

kmodel::enum_of_words!(ElementType, "precision", "f32" => F32, "f64" => F64);

/// A fit to be run: the rows it is of, a solver with its parameters, a kernel, a map and its landmarks.
///
/// It holds everything that changes a bit of the result; [`Run`](super::Run) holds memory, threads and scratch, which do not. As JSON it has the texts that
/// people type, and what is left out has its default; it is what the command, Python and the jobs of shards are told. What the texts say is
/// parsed and checked once, and kept.
///
/// ```
/// use ksolve::job::Fit;
/// let fit = Fit::solver("svm")?.set("C", "0.1..10").set("probabilities", true).rank(500).seed(7);
/// let text = r#"{"solver": "svm", "options": {"C": "0.1..10", "probabilities": "true"}, "rank": 500, "seed": 7}"#;
/// let same: Fit = serde_json::from_str(text)?;
/// assert_eq!(same.settings()?, fit.settings()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Fit {
    #[serde(rename = "solver", with = "text::family")]
    #[doc(hidden)]
    pub family: &'static SolverFamily,
    #[serde(rename = "options", default)]
    given: Options,
    /// `None` where nothing was said: standard, and of sparse rows none.
    #[serde(rename = "scale", default, with = "text::optional")]
    pub(super) scaling: Option<Scaling>,
    #[serde(default)]
    pub(super) clip: bool,
    #[serde(default, skip_serializing_if = "MetricSource::is_none", with = "text::metric")]
    #[doc(hidden)]
    pub metric: MetricSource,
    #[serde(default, with = "text")]
    pub(super) kernel: Kernel,
    #[serde(default, with = "text")]
    pub(super) map: MapSpec,
    /// What chooses the landmarks; `None` where nothing was said, which is randomly pivoted Cholesky.
    #[serde(default, serialize_with = "text::landmarks", deserialize_with = "text::optional::deserialize")]
    pub(super) landmarks: Option<LandmarkSource>,
    #[serde(default, with = "text::optional")]
    pub(super) candidates: Option<Candidates>,
    pub(super) rank: Option<usize>,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default, with = "text")]
    pub(super) precision: ElementType,
    /// `None` where the caller selects rows.
    pub(super) rows: Option<Selection>,
    /// Further options that the caller wants in the model file.
    #[serde(default)]
    pub(super) notes: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    checked: OnceLock<Arc<Checked>>,
}

/// What the parameters of a solver say.
#[doc(hidden)]
#[derive(Debug)]
pub struct Checked {
    pub settings: Settings,
    pub solver: Box<dyn AnySolver>,
}

impl Checked {
    pub(super) fn facts(&self) -> SolverFacts {
        Solver::<f64>::facts(&*self.solver)
    }
}

/// The map that is the kernel itself.
const EXACT: &str = "exact";

impl Fit {
    /// A fit of ridge regression, which chooses lambda by cross-validation in one pass.
    pub fn ridge() -> Self {
        Self::default()
    }

    /// A fit of the solver with this name, from [`crate::solver::registry`].
    ///
    /// # Errors
    /// [`Error::Option`] for a name that no solver has.
    pub fn solver(name: &str) -> Result<Self> {
        Ok(Self { family: solver::named(name)?, ..Self::default() })
    }

    /// Sets a parameter of the solver to a value, as it would be typed: `set("C", 10)`, `set("folds", "blocks:6")`.
    #[must_use]
    pub fn set(self, name: &str, value: impl ToString) -> Self {
        let given = self.given.clone().set(name, value);
        self.options(given)
    }

    /// Sets all parameters of the solver at once.
    #[must_use]
    #[doc(hidden)]
    pub fn options(self, given: Options) -> Self {
        Self { given, checked: OnceLock::new(), ..self }
    }

    /// Sets the rows and columns that it is of, for a fit that is run by [`Fit::select`]. The model file says which rows they are.
    #[must_use]
    #[doc(hidden)]
    pub fn rows(self, rows: Selection) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// Sets the kernel; `sigma=auto` and `sigma=median` are found on a sample of the rows. The default is `gaussian(sigma=auto)`.
    #[must_use]
    pub fn kernel(self, kernel: Kernel) -> Self {
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

    /// Sets how features are scaled before the kernel sees them; to mean 0 and deviation 1 by default, those of sparse rows not at all.
    #[must_use]
    pub fn scaling(self, scaling: Scaling) -> Self {
        Self { scaling: Some(scaling), ..self }
    }

    /// Sets whether each feature of a new row is taken to the range that it has in the rows of the fit, so that a stray value is predicted as
    /// the nearest that was seen. Off by default; kernels that go on outside, such as linear ones, and novelty take rows as they are.
    #[must_use]
    pub fn clip(self, clip: bool) -> Self {
        Self { clip, ..self }
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
    #[doc(hidden)]
    pub fn note(mut self, name: &str, value: serde_json::Value) -> Self {
        self.notes.insert(name.to_string(), value);
        self
    }

    /// The same kernel, metric, map, landmarks and seed for another solver, with its own defaults.
    ///
    /// # Errors
    /// [`Error::Option`] for a name that no solver has.
    #[doc(hidden)]
    pub fn for_solver(&self, name: &str) -> Result<Self> {
        Ok(Self { family: Self::solver(name)?.family, ..self.clone() }.options(Options::new()))
    }

    /// The fit at one rank, where it may have compared several.
    #[doc(hidden)]
    pub fn at_rank(self, rank: usize) -> Self {
        let given = self.given.clone().without(TOLERANCE.name);
        Self { rank: Some(rank), ..self.options(given).without_ranks() }
    }

    /// The parameters that are chosen with the rank.
    fn of_rank(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        std::iter::once(&RANKS).chain(self.family.of_rank)
    }

    /// The fit without the rank, and without the parameters that are chosen with it.
    #[must_use]
    #[doc(hidden)]
    pub fn without_ranks(self) -> Self {
        let given = self.of_rank().fold(self.given.clone(), |given, parameter| given.without(parameter.name));
        Self { rank: None, ..self }.options(given)
    }

    /// The fit with the rank of another fit, and with the parameters that are chosen with it, if
    /// its solver reads them.
    #[must_use]
    #[doc(hidden)]
    pub fn with_ranks_of(self, other: &Self) -> Self {
        let read = self.of_rank().filter(|parameter| self.family.reads(parameter));
        let given: Vec<_> = read.filter_map(|one| Some((one.name, other.given.get(one.name)?))).collect();
        let fit = given.into_iter().fold(self.without_ranks(), |fit, (name, value)| fit.set(name, value));
        Self { rank: other.rank, ..fit }
    }

    /// The fit on the exact kernel, without what only a map has, and no more accurate than a search
    /// needs.
    #[doc(hidden)]
    pub fn on_kernel(self) -> Result<Self> {
        let of_maps = self.of_rank().chain([&TOLERANCE, &FOLDS]);
        let given = of_maps.fold(self.given.clone(), |given, parameter| given.without(parameter.name));
        let given = (self.family.on_kernel)(given);
        Ok(Self { map: EXACT.parse()?, landmarks: None, candidates: None, ..self }.options(given))
    }

    /// The fit with the default map in the place of the kernel itself.
    #[doc(hidden)]
    pub fn on_map(self) -> Self {
        let map = if self.map.is_exact() { MapSpec::default() } else { self.map.clone() };
        Self { map, ..self }
    }

    /// The fit with as many landmarks by a scheme, where they come from a table: that is in the units of another one.
    #[doc(hidden)]
    pub fn with_scheme(self) -> Self {
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
    #[doc(hidden)]
    pub fn gives(&self, name: &str) -> bool {
        self.given.get(name).is_some()
    }

    #[doc(hidden)]
    pub fn gives_penalty(&self) -> bool {
        self.gives(LAMBDA.name) || self.gives(C.name)
    }

    /// The solver of the fit.
    #[doc(hidden)]
    pub fn family(&self) -> &'static SolverFamily {
        self.family
    }

    /// The kernel that was asked for.
    #[doc(hidden)]
    pub fn kernel_spec(&self) -> &Kernel {
        &self.kernel
    }

    /// Where the metric comes from.
    #[doc(hidden)]
    pub fn metric_source(&self) -> &MetricSource {
        &self.metric
    }

    /// The map that was asked for.
    #[doc(hidden)]
    pub fn map_spec(&self) -> &MapSpec {
        &self.map
    }

    /// Type of rows and features that was asked for.
    #[doc(hidden)]
    pub fn element_type(&self) -> ElementType {
        self.precision
    }

    /// The rows and columns that it is of; all of them where nothing was said.
    #[doc(hidden)]
    pub fn selected_rows(&self) -> Selection {
        self.rows.clone().unwrap_or_default()
    }

    /// What the parameters say, parsed the first time that it is asked for.
    #[doc(hidden)]
    pub fn checked(&self) -> Result<&Checked> {
        if let Some(checked) = self.checked.get() {
            return Ok(checked);
        }
        let settings = self.family.settings(&self.given)?;
        let solver = self.family.solver(&settings)?;
        Ok(self.checked.get_or_init(|| Arc::new(Checked { settings, solver })))
    }

    /// The values of the solver's parameters.
    ///
    /// # Errors
    /// [`Error::Option`] for a parameter that the solver does not read, or a value that it does not accept; [`Error::Missing`] for one that it
    /// needs.
    pub fn settings(&self) -> Result<&Settings> {
        Ok(&self.checked()?.settings)
    }

    /// The task of the solver with these parameters, such as regression or components.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`].
    #[doc(hidden)]
    pub fn task(&self) -> Result<Task> {
        Ok(self.family.task(self.settings()?))
    }

    /// The rows and columns of the fit in a table.
    ///
    /// # Errors
    /// The errors of [`Fit::selection`], and columns that are not there.
    #[doc(hidden)]
    pub fn select(&self, table: &Table) -> Result<Selected> {
        Ok(table.select(&self.selection(self.selected_rows())?)?)
    }

    /// A selection with the columns that the solver reads beside features and targets: class, weights, folds.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`]; [`Error::Missing`] without the target of a solver that learns from one, and a target too
    /// many.
    #[doc(hidden)]
    pub fn selection(&self, selection: Selection) -> Result<Selection> {
        let settings = self.settings()?;
        let task = self.family.task(settings);
        let named = selection.targets.join(",");
        match (task, selection.targets.len()) {
            (Task::Regression | Task::Classification | Task::Ranking, 0) => {
                return Err(Error::missing("target", self.family.name, "it learns from a target; name its column"));
            }
            (Task::Classification, 2..) => {
                return Err(Error::option("target", named, "a classification has one column of labels; name one"));
            }
            (Task::Ranking, 2..) => {
                return Err(Error::option("target", named, "a ranking has one column of grades; name one"));
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
            weighing: self.scaling.and_then(Scaling::weighing),
            weight: settings.column(&WEIGHTS),
            group: settings.column(&GROUP).or_else(|| Some(settings.folds(&FOLDS)?.column()?.to_string())),
            ..selection
        })
    }
}
