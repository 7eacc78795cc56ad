//! The description of a fit: solver, kernel, map and landmarks.

use super::candidates::Candidates;
use super::serde_text;
use crate::request::{LandmarkSource, MetricSource, Scaling};
use crate::solver::parameter::{C, EXPOSURE, FOLDS, GROUP, LAMBDA, Parameter, RANKS, SECOND_VIEW, TOLERANCE, WEIGHTS};
use crate::solver::{self, AnySolver, Options, Settings, Solver, SolverFamily, SolverProperties};
use crate::{Error, Result, Task};
use kapprox::Kernel;
use kapprox::map::MapSpec;
use kstore::{Lags, SelectedTable, Selection, Table};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// The element type of rows, kernel values and features. Sums over rows are in f64 in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit floating point.
    #[default]
    F32,
    /// 64-bit floating point.
    F64,
}

kmodel::enum_of_words!(ElementType, "precision", "f32" => F32, "f64" => F64);

/// A description of a fit: rows, solver with parameters, kernel, map and landmarks.
///
/// A fit contains everything that affects the result. [`Run`](super::Run) contains memory, threads
/// and the scratch folder, which do not affect the result. The JSON form contains the texts that
/// users type; for a missing entry, the default applies. The command line, Python and sharded jobs
/// use the JSON form. Each text is parsed and checked once, and the result is cached.
///
/// ```
/// use ksolve::job::Fit;
/// let fit = Fit::solver("svm")?.set("C", "0.1..10").set("probabilities", true).rank(500).seed(7);
/// let text = r#"{"solver": "svm", "options": {"C": "0.1..10", "probabilities": "true"},
///     "rank": 500, "seed": 7}"#;
/// let same: Fit = serde_json::from_str(text)?;
/// assert_eq!(same.settings()?, fit.settings()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Fit {
    #[serde(rename = "solver", with = "serde_text::family")]
    #[doc(hidden)]
    pub solver_family: &'static SolverFamily,
    #[serde(rename = "options", default)]
    pub(super) options: Options,
    /// `None` selects the default: standard scaling, or no scaling for sparse rows.
    #[serde(rename = "scale", default, with = "serde_text::optional")]
    pub(super) scaling: Option<Scaling>,
    #[serde(default)]
    pub(super) clip: bool,
    #[serde(default, skip_serializing_if = "MetricSource::is_none", with = "serde_text::metric")]
    #[doc(hidden)]
    pub metric: MetricSource,
    #[serde(default, with = "serde_text")]
    pub(super) kernel: Kernel,
    /// Kernels of further members: if there are any, the model is the mean of a fit with each
    /// kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "serde_text::list")]
    pub(super) members: Vec<Kernel>,
    #[serde(default, with = "serde_text")]
    pub(super) map: MapSpec,
    /// Source of the landmarks; `None` selects randomly pivoted Cholesky.
    #[serde(default, serialize_with = "serde_text::landmarks", deserialize_with = "serde_text::optional::deserialize")]
    pub(super) landmarks: Option<LandmarkSource>,
    #[serde(default, with = "serde_text::optional")]
    pub(super) candidates: Option<Candidates>,
    pub(super) rank: Option<usize>,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default, with = "serde_text")]
    pub(super) precision: ElementType,
    /// The rows and columns of the fit; `None` if the caller selects them.
    #[serde(rename = "rows")]
    pub(super) selection: Option<Selection>,
    /// Further options that the caller stores in the model file.
    #[serde(rename = "notes", default)]
    pub(super) extra_options: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    parsed: OnceLock<Arc<ParsedOptions>>,
}

/// Parsed parameters of a solver.
#[doc(hidden)]
#[derive(Debug)]
pub struct ParsedOptions {
    pub settings: Settings,
    pub solver: Box<dyn AnySolver>,
}

impl ParsedOptions {
    pub(super) fn properties(&self) -> SolverProperties {
        Solver::<f64>::properties(&*self.solver)
    }
}

/// Name of the map for the exact kernel.
const EXACT_MAP: &str = "exact";

impl Fit {
    /// Returns a fit of ridge regression. If lambda is a grid, one pass cross-validates all its
    /// values.
    pub fn ridge() -> Self {
        Self::default()
    }

    /// Returns a fit of the solver with this name, from [`crate::solver::registry`].
    ///
    /// # Errors
    /// [`Error::Option`] for an unknown name.
    pub fn solver(name: &str) -> Result<Self> {
        Ok(Self { solver_family: solver::solver_named(name)?, ..Self::default() })
    }

    /// Sets a parameter of the solver to a value in the form that users type: `set("C", 10)`,
    /// `set("folds", "blocks:6")`.
    #[must_use]
    pub fn set(self, name: &str, value: impl ToString) -> Self {
        let options = self.options.clone().set(name, value);
        self.with_options(options)
    }

    /// Removes a parameter of the solver.
    #[must_use]
    #[doc(hidden)]
    pub fn without_option(self, name: &str) -> Self {
        let options = self.options.clone().without(name);
        self.with_options(options)
    }

    /// Sets all parameters of the solver at once.
    #[must_use]
    #[doc(hidden)]
    pub fn with_options(self, options: Options) -> Self {
        Self { options, parsed: OnceLock::new(), ..self }
    }

    /// Sets the rows and columns that [`Fit::select`] reads. The model file records the range of
    /// rows, the condition on the rows and the treatment of missing values.
    #[must_use]
    #[doc(hidden)]
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { selection: Some(selection), ..self }
    }

    /// Sets the kernel. For `sigma=auto` and `sigma=median`, the length scale is determined from a
    /// sample of the rows. The default is `gaussian(sigma=auto)`.
    #[must_use]
    pub fn kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Makes the model the mean of several fits of ridge regression: one with the kernel of
    /// [`Fit::kernel`], and one with each of these kernels. If the metric is `likelihood`, each fit
    /// learns its own length scales and its own regularisation parameter.
    #[doc(hidden)]
    #[must_use]
    pub fn with_members(self, members: Vec<Kernel>) -> Self {
        Self { members, ..self }
    }

    /// Returns the fit with the kernels of all members replaced by the result of `replace`.
    ///
    /// # Errors
    /// The errors of `replace`.
    pub(crate) fn map_kernels(self, replace: impl Fn(&Kernel) -> kapprox::Result<Kernel>) -> Result<Self> {
        let members = self.members.iter().map(&replace).collect::<Result<_, _>>()?;
        Ok(Self { kernel: replace(&self.kernel)?, members, ..self })
    }

    /// Sets the metric, a matrix that multiplies the scaled inputs before the kernel; the default
    /// is no metric.
    #[must_use]
    pub fn metric(self, metric: MetricSource) -> Self {
        Self { metric, ..self }
    }

    /// Sets the map from rows to features; the Nyström map by default.
    #[must_use]
    pub fn map(self, map: MapSpec) -> Self {
        Self { map, ..self }
    }

    /// Sets the landmark scheme or a table of landmarks; the default is randomly pivoted Cholesky.
    /// If the fit needs no landmarks, this option is an error.
    #[must_use]
    pub fn landmarks(self, landmarks: LandmarkSource) -> Self {
        Self { landmarks: Some(landmarks), ..self }
    }

    /// Sets the candidate rows for the landmarks; the default is a sample of max(20·rank, 50,000)
    /// rows. If the fit does not choose landmarks, this option is an error.
    #[must_use]
    pub fn candidates(self, candidates: Candidates) -> Self {
        Self { candidates: Some(candidates), ..self }
    }

    /// Sets the rank, the number of features of the map; if the fit compares several ranks, the
    /// largest of them. The default is 1,000 or, for a table of landmarks, its number of rows.
    #[must_use]
    pub fn rank(self, rank: usize) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// Sets the scaling of the inputs; by default mean 0 and standard deviation 1, or none for
    /// sparse rows.
    #[must_use]
    pub fn scaling(self, scaling: Scaling) -> Self {
        Self { scaling: Some(scaling), ..self }
    }

    /// Sets whether predictions clip each input of a new row to its training range, so that an
    /// outlier is predicted like the nearest training value. Off by default. Novelty detectors and
    /// unbounded or periodic kernels are not clipped.
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

    /// Adds an entry to the options stored in the model file, such as the condition that selected
    /// the rows.
    #[must_use]
    #[doc(hidden)]
    pub fn extra_option(mut self, name: &str, value: serde_json::Value) -> Self {
        self.extra_options.insert(name.to_string(), value);
        self
    }

    /// Returns the fit of another solver with the same kernel, metric, map, landmarks and seed, and
    /// with the solver's own defaults.
    ///
    /// # Errors
    /// [`Error::Option`] for an unknown name.
    #[doc(hidden)]
    pub fn for_solver(&self, name: &str) -> Result<Self> {
        Ok(Self { solver_family: Self::solver(name)?.solver_family, ..self.clone() }.with_options(Options::new()))
    }

    /// Returns the fit at this rank, without a grid of ranks, and without the tolerance, which
    /// would choose a smaller rank.
    #[doc(hidden)]
    pub fn with_single_rank(self, rank: usize) -> Self {
        let options = self.options.clone().without(TOLERANCE.name);
        Self { rank: Some(rank), ..self.with_options(options).without_rank_parameters() }
    }

    /// Returns the parameters that a search chooses together with the rank, and the grid of ranks.
    fn rank_parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        std::iter::once(&RANKS).chain(self.solver_family.joint_rank_parameters)
    }

    /// Returns the fit without the rank and without the parameters chosen with it.
    #[must_use]
    #[doc(hidden)]
    pub fn without_rank_parameters(self) -> Self {
        let options =
            self.rank_parameters().fold(self.options.clone(), |options, parameter| options.without(parameter.name));
        Self { rank: None, ..self }.with_options(options)
    }

    /// Returns the fit with the rank of another fit. Also copies the other parameters that a search
    /// chooses together with the rank, if this solver reads them.
    #[must_use]
    #[doc(hidden)]
    pub fn with_rank_parameters_of(self, other: &Self) -> Self {
        let read_parameters = self.rank_parameters().filter(|parameter| self.solver_family.reads(parameter));
        let parameters: Vec<_> = read_parameters
            .filter_map(|parameter| Some((parameter.name, other.options.get(parameter.name)?)))
            .collect();
        let fit =
            parameters.into_iter().fold(self.without_rank_parameters(), |fit, (name, value)| fit.set(name, value));
        Self { rank: other.rank, ..fit }
    }

    /// Returns the same fit with the exact kernel. Removes the options of the approximation (ranks,
    /// folds, landmarks, candidates, tolerance), and lets the solver adapt its other options, such
    /// as the stopping tolerance of ridge.
    #[doc(hidden)]
    pub fn with_exact_kernel(self) -> Result<Self> {
        let approximation_parameters = self.rank_parameters().chain([&TOLERANCE, &FOLDS]);
        let options =
            approximation_parameters.fold(self.options.clone(), |options, parameter| options.without(parameter.name));
        let options = (self.solver_family.options_for_exact_kernel)(options);
        Ok(Self { map: EXACT_MAP.parse()?, landmarks: None, candidates: None, ..self }.with_options(options))
    }

    /// Returns the fit with the default map if it has the exact kernel.
    #[doc(hidden)]
    pub fn with_approximate_map(self) -> Self {
        let map = if self.map.is_exact_kernel() { MapSpec::default() } else { self.map.clone() };
        Self { map, ..self }
    }

    /// Replaces a table of landmarks by `uniform` with the same number of landmarks. A search fits
    /// on transformed columns, which the values in the table would not match.
    #[doc(hidden)]
    pub fn with_landmark_scheme(self) -> Self {
        match &self.landmarks {
            Some(LandmarkSource::Rows(table)) => {
                let range = table.range();
                let rank = self.rank.or(usize::try_from(range.end - range.start).ok());
                Self { rank, landmarks: Some(LandmarkSource::Scheme("uniform".to_string())), ..self }
            }
            _ => self,
        }
    }

    /// Returns true if a parameter of the solver is set.
    #[doc(hidden)]
    pub fn has_option(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    /// Returns the text of a parameter; `None` if it is not set.
    #[doc(hidden)]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name)
    }

    /// Returns true if the regularisation parameter (`lambda` or `C`) is set.
    #[doc(hidden)]
    pub fn sets_regularisation(&self) -> bool {
        self.has_option(LAMBDA.name) || self.has_option(C.name)
    }

    /// Returns the solver of the fit.
    #[doc(hidden)]
    pub fn family(&self) -> &'static SolverFamily {
        self.solver_family
    }

    /// Returns the requested kernel.
    #[doc(hidden)]
    pub fn requested_kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the kernels of the further members of a mean of fits.
    #[doc(hidden)]
    pub fn member_kernels(&self) -> &[Kernel] {
        &self.members
    }

    /// Returns the source of the metric.
    #[doc(hidden)]
    pub fn metric_source(&self) -> &MetricSource {
        &self.metric
    }

    /// Returns the requested map.
    #[doc(hidden)]
    pub fn requested_map(&self) -> &MapSpec {
        &self.map
    }

    /// Returns the requested type of rows and features.
    #[doc(hidden)]
    pub fn requested_precision(&self) -> ElementType {
        self.precision
    }

    /// Returns the rows and columns of the fit; all by default.
    #[doc(hidden)]
    pub fn requested_selection(&self) -> Selection {
        self.selection.clone().unwrap_or_default()
    }

    /// Returns the parsed parameters; the first call parses them.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`].
    #[doc(hidden)]
    pub fn parsed_options(&self) -> Result<&ParsedOptions> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed);
        }
        let settings = self.solver_family.settings(&self.options)?;
        let solver = self.solver_family.build_solver(&settings)?;
        Ok(self.parsed.get_or_init(|| Arc::new(ParsedOptions { settings, solver })))
    }

    /// Returns the values of the solver's parameters.
    ///
    /// # Errors
    /// [`Error::Option`] for a parameter that the solver does not read, or an invalid value;
    /// [`Error::MissingOption`] for a required parameter.
    pub fn settings(&self) -> Result<&Settings> {
        Ok(&self.parsed_options()?.settings)
    }

    /// Returns the task of the solver with these parameters, such as regression or components.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`].
    #[doc(hidden)]
    pub fn task(&self) -> Result<Task> {
        Ok(self.solver_family.task(self.settings()?))
    }

    /// Selects the rows and columns of the fit in a table.
    ///
    /// # Errors
    /// The errors of [`Fit::complete_selection`], and errors for missing columns.
    #[doc(hidden)]
    pub fn select(&self, table: &Table) -> Result<SelectedTable> {
        Ok(table.select(&self.complete_selection(self.requested_selection())?)?)
    }

    /// Returns the selection with all columns that the solver reads: inputs, targets, class,
    /// weights, folds.
    ///
    /// # Errors
    /// The errors of [`Fit::settings`]; [`Error::MissingOption`] for a missing target;
    /// [`Error::Option`] for too many targets.
    #[doc(hidden)]
    pub fn complete_selection(&self, selection: Selection) -> Result<Selection> {
        let settings = self.settings()?;
        let task = self.solver_family.task(settings);
        let target_names = selection.targets.join(",");
        match (task, selection.targets.len()) {
            (Task::Regression | Task::Classification | Task::Ranking, 0) => {
                return Err(Error::missing(
                    "target",
                    self.solver_family.name,
                    "it learns from a target; name its column",
                ));
            }
            (Task::Classification, 2..) => {
                return Err(Error::option(
                    "target",
                    target_names,
                    "a classification has one column of labels; name one",
                ));
            }
            (Task::Ranking, 2..) => {
                return Err(Error::option("target", target_names, "a ranking has one column of grades; name one"));
            }
            (Task::Components | Task::Clusters | Task::Novelty, 1..) => {
                let expected = format!("{} learns without a target; leave it out", self.solver_family.name);
                return Err(Error::option("target", target_names, expected));
            }
            _ => {}
        }
        if let Some(difference) = selection.lags.as_ref().and_then(|lags| lags.difference.as_ref()) {
            if task != Task::Regression {
                return Err(Error::option(
                    "difference",
                    difference,
                    format!("{task} has no changes of a number; leave it out"),
                ));
            }
            if selection.targets != [difference.column.clone()] {
                let expected =
                    format!("expected the only target, not {target_names}; name one target, and its column here");
                return Err(Error::option("difference", difference, expected));
            }
        }
        let mut features = selection.features;
        if !features.is_empty() {
            // the columns of a second view are inputs too
            features.extend(settings.columns(&SECOND_VIEW).into_iter().flatten());
        }
        if features.iter().any(|name| !name.starts_with('!')) {
            features.extend(selection.lags.iter().flat_map(Lags::feature_names));
        }
        Ok(Selection {
            features,
            class_target: task == Task::Classification,
            weighting: self.scaling.and_then(Scaling::weighting),
            weight: settings.column(&WEIGHTS).or_else(|| settings.column(&EXPOSURE)),
            group: settings.column(&GROUP).or_else(|| Some(settings.folds(&FOLDS)?.column()?.to_string())),
            ..selection
        })
    }
}
