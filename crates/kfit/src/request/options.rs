//! Options of a fit: everything that defines the result, except the rows.

use crate::folds::FoldSpec;
use crate::request::{MetricForm, MetricSource};
use crate::task::Task;
use crate::{Error, Result};
use kapprox::kernel::Kernel;
use kapprox::landmark::{self, Scheme, SelectionCost};
use kapprox::map::MapSpec;
use kstore::encoding::Weighting;
use kstore::{SelectedTable, Table, TextOptions};
use std::path::PathBuf;
use std::str::FromStr;

/// Reason in the error for `map` exact with a solver that needs a feature map.
pub(crate) const EXACT_UNSUPPORTED: &str = "only ridge, svm, svr, quantile and oneclass support the exact kernel; leave it out, or raise `rank` of the default map";

/// Scaling of the inputs before the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// Mean 0 and population standard deviation 1 over the training rows.
    #[default]
    Standard,
    /// From 0 to 1 over the training rows.
    Minmax,
    /// (v − median)/spread, where the spread is the median absolute deviation: suits columns with a
    /// few outliers.
    Robust,
    /// asinh((v − median)/spread), with the same spread: suits columns with long tails.
    Asinh,
    /// Quantile transform: maps the rank of a value among the training rows to a fixed
    /// distribution. It suits columns whose values matter only by their order.
    Quantile,
    /// Sparse rows and texts: each column divided by its largest absolute value.
    Maxabs,
    /// Sparse rows and texts: each row divided by its norm.
    Unit,
    /// Sparse rows and texts: each count is multiplied by the inverse document frequency of its
    /// column, then each row is divided by its norm.
    TfIdf,
    /// No scaling.
    None,
}

const WEIGHTINGS: [(Scaling, Weighting); 4] = [
    (Scaling::None, Weighting::None),
    (Scaling::Maxabs, Weighting::Maxabs),
    (Scaling::Unit, Weighting::Unit),
    (Scaling::TfIdf, Weighting::TfIdf),
];

impl Scaling {
    /// True if the scaling needs medians or quantiles of a sample.
    pub(crate) fn needs_medians(self) -> bool {
        matches!(self, Self::Robust | Self::Asinh | Self::Quantile)
    }

    /// Returns how the scaling weights the entries of sparse rows, or `None` if the scaling would
    /// turn zeros into other numbers.
    #[doc(hidden)]
    pub fn weighting(self) -> Option<Weighting> {
        WEIGHTINGS.iter().find(|(scaling, _)| *scaling == self).map(|(_, weighting)| *weighting)
    }

    /// Returns the error for a scaling that applies only to sparse rows.
    #[doc(hidden)]
    pub fn sparse_only_error(self) -> Error {
        Error::option(
            "scale",
            self,
            "it applies only to sparse rows, and to texts (`text`) without other columns; use standard, or another",
        )
    }

    /// Returns the scaling that weights the entries of sparse rows this way.
    #[doc(hidden)]
    pub fn from_weighting(sparse_weighting: Weighting) -> Self {
        WEIGHTINGS
            .iter()
            .find(|(_, weighting)| *weighting == sparse_weighting)
            .map_or(Self::None, |(scaling, _)| *scaling)
    }
}

kmodel::enum_of_words!(Scaling, "scale", "standard" => Standard, "minmax" => Minmax, "robust" => Robust, "asinh" => Asinh,
    "quantile" => Quantile, "maxabs" => Maxabs, "unit" => Unit, "tf-idf" => TfIdf, "none" => None);

/// Source of the landmarks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LandmarkSource {
    /// Training rows chosen by the scheme of this name, from [`kapprox::landmark::registry`].
    Scheme(String),
    /// The rows of the table in this file, which [`Self::open`] opens.
    File(PathBuf),
    /// The first rows of a table with the inputs of the training table, in its units.
    Rows(Box<SelectedTable>),
}

impl LandmarkSource {
    /// Returns the scheme, or `None` for a table or an unknown name.
    #[doc(hidden)]
    pub fn scheme(&self) -> Option<&'static Scheme> {
        match self {
            Self::Scheme(name) => landmark::by_name(name),
            Self::File(_) | Self::Rows(_) => None,
        }
    }

    /// Returns true if a scheme computes distances between rows or means of rows, which sparse rows
    /// do not support.
    #[doc(hidden)]
    pub fn computes_distances(&self) -> bool {
        self.scheme().is_some_and(|scheme| scheme.cost == SelectionCost::Distances)
    }

    /// Opens the file of the landmarks, which must have the input columns; `text_options` has the
    /// options for text files.
    ///
    /// # Errors
    /// A file that cannot be read, or that has other columns.
    #[doc(hidden)]
    pub fn open(self, selected: &SelectedTable, text_options: &TextOptions) -> Result<Self> {
        match self {
            Self::File(path) => {
                let text_options =
                    text_options.clone().with_reading(selected.text_read_options().with_encoding(selected.encoding()));
                let table = Table::open_with(&[path], &text_options)?.select(&selected.same_features())?;
                Ok(Self::Rows(Box::new(table)))
            }
            open => Ok(open),
        }
    }

    /// Returns the open table of landmarks, or `None` for a scheme or a file.
    #[doc(hidden)]
    pub fn table(&self) -> Option<&SelectedTable> {
        match self {
            Self::Scheme(_) | Self::File(_) => None,
            Self::Rows(table) => Some(table),
        }
    }
}

impl std::fmt::Display for LandmarkSource {
    /// Writes the name of the scheme or of the file. For an open table of landmarks it writes "a
    /// table", because the model itself contains the landmarks.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scheme(name) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
            Self::Rows(_) => f.write_str("a table"),
        }
    }
}

impl FromStr for LandmarkSource {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if landmark::by_name(text).is_some() {
            return Ok(Self::Scheme(text.to_string()));
        }
        if text.contains(['.', '/']) {
            return Ok(Self::File(text.into()));
        }
        let names: Vec<&str> = landmark::registry().into_iter().map(|scheme| scheme.name).collect();
        let expected = format!("give one of {}, or a file such as landmarks.parquet", names.join(", "));
        Err(Error::option("landmarks", format!("{text:?}"), expected))
    }
}

impl Default for LandmarkSource {
    fn default() -> Self {
        Self::Scheme(landmark::default_scheme().name.to_string())
    }
}

/// Number of passes of randomly pivoted Cholesky over its candidate rows. On kin40k and
/// beijing-pm25, at ranks 300 and 1,000, it took 7 to 9 rounds of rejection sampling. Other schemes
/// that have several rounds need a similar number of passes.
const SCHEME_ROUNDS: u64 = 8;

/// Everything that defines the result of a training run, except the rows.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Regression, classification, or the task of another solver.
    pub task: Task,
    /// Scaling of the inputs.
    pub scaling: Scaling,
    /// True if predictions clip each input to its training range.
    pub clips_inputs: bool,
    /// Metric before the kernel.
    pub metric: MetricSource,
    /// Kernel; an unresolved length scale is determined from a sample.
    pub kernel: Kernel,
    /// Noise variance divided by the factor of the kernel, if the kernel was found by marginal
    /// likelihood: lambda times the number of rows.
    pub relative_noise: Option<f64>,
    /// True if predictions are exponentials of the functions that are learned. The marginal
    /// likelihood then explains the logarithms of the targets.
    pub has_log_link: bool,
    /// Kernel of the second view, whose features follow the features of `kernel`; `None` if there
    /// is one view.
    pub second_kernel: Option<Kernel>,
    /// Map from rows to features phi.
    pub map: MapSpec,
    /// Landmark scheme or table of landmarks, for maps with landmarks.
    pub landmarks: LandmarkSource,
    /// Number of candidate rows for the landmarks, a uniform sample; `None` for all rows.
    pub candidates: Option<usize>,
    /// Number of features of the map, which is the largest rank.
    pub rank: usize,
    /// True if `rank` is a default. Then a smaller rank without an approximation error needs no
    /// warning.
    pub is_default_rank: bool,
    /// Tolerance of the relative trace error: the fit uses the smallest rank whose error is at most
    /// this number.
    pub tolerance: Option<f64>,
    /// Ranks of the cross-validation surface, ascending, at most `rank`.
    pub ranks: Vec<usize>,
    /// Folds of cross-validation.
    pub folds: FoldSpec,
    /// Seed of every random choice.
    pub seed: u64,
}

impl TrainOptions {
    /// Returns the options of a kernel at one rank. All other options have default values: standard
    /// scaling, landmarks chosen from all rows by randomly pivoted Cholesky, no folds, and seed 0.
    pub fn new(task: Task, kernel: Kernel, rank: usize) -> Self {
        Self {
            task,
            scaling: Scaling::default(),
            clips_inputs: false,
            metric: MetricSource::None,
            kernel,
            relative_noise: None,
            has_log_link: false,
            second_kernel: None,
            map: MapSpec::default(),
            landmarks: LandmarkSource::default(),
            candidates: None,
            rank,
            is_default_rank: false,
            tolerance: None,
            ranks: vec![rank],
            folds: FoldSpec::None,
            seed: 0,
        }
    }

    /// Returns true if the length scale is determined from the target before the fit. If a metric
    /// is learned by kernel ridge regression, returns false, because this determines the length
    /// scale itself.
    #[doc(hidden)]
    pub fn searches_length_scale(&self) -> bool {
        self.kernel.is_auto() && self.task.has_target() && !self.metric.learns_kernel()
    }

    /// Returns the number of passes that choose the landmarks, and the number of passes that build
    /// the map.
    #[doc(hidden)]
    pub fn map_passes(&self) -> [u64; 2] {
        let scheme = self.landmarks.scheme().filter(|_| !self.map.is_data_independent());
        let (selects_landmarks, view_count) = (scheme.is_some(), 1 + u64::from(self.second_kernel.is_some()));
        let samples_for_median = self.kernel.needs_median() && !self.searches_length_scale();
        let draws_sample = self.candidates.is_some() && selects_landmarks || samples_for_median;
        let scheme_passes = match scheme.filter(|_| self.candidates.is_none()).map(|scheme| scheme.cost) {
            None => 0,
            Some(SelectionCost::Draw) => 1,
            Some(SelectionCost::Distances | SelectionCost::Factor) => SCHEME_ROUNDS,
        };
        let map_passes = self.map.build_passes() + u64::from(self.tolerance.is_some());
        [view_count * (u64::from(draws_sample) + scheme_passes), view_count * map_passes]
    }

    /// Rejects options that the map does not support, and a metric that the kernel or the solver
    /// does not support.
    ///
    /// # Errors
    /// [`Error::Option`] for the first such option.
    pub fn check(&self) -> Result<()> {
        self.check_metric()?;
        let name = self.map.family().name;
        if self.tolerance.is_some() && self.map.is_data_independent() {
            let remedy = format!("the map {name} is not a projection and has no trace error; leave it out");
            return Err(Error::option("tolerance", "a tolerance", remedy));
        }
        if self.tolerance.is_some() && !self.map.family().is_nested && !self.map.is_exact_kernel() {
            let remedy = format!(
                "the features of the map {name} are not nested, so it cannot be truncated to a rank; give a `rank`"
            );
            return Err(Error::option("tolerance", "a tolerance", remedy));
        }
        if self.ranks.len() > 1 && !self.map.family().is_nested {
            let remedy = format!("the features of the map {name} are not nested; give one `rank`");
            return Err(Error::option("ranks", format!("{} ranks", self.ranks.len()), remedy));
        }
        Ok(())
    }

    /// Returns the number of landmarks. For a solver on a neighbour graph, `rank` is the number of
    /// nodes, and the landmarks are the first nodes.
    pub(crate) fn landmark_count(&self) -> usize {
        self.ranks.first().map_or(self.rank, |rank| (*rank).min(self.rank))
    }

    /// Rejects a learned metric without a target, and rejects any metric that the kernel does
    /// not support.
    fn check_metric(&self) -> Result<()> {
        let reject = |why: &str| Err(Error::option("metric", &self.metric, why));
        let combines_columns = match &self.metric {
            MetricSource::None => return Ok(()),
            MetricSource::File(_) => return reject("its file is not open yet; Fit::opened opens it"),
            MetricSource::Provided(provided) => !provided.metric.is_diagonal(),
            MetricSource::Learned(_) if !self.task.has_target() => {
                return reject(
                    "it is learned from a target, and this solver has none; name the model of a fit that learned a metric",
                );
            }
            MetricSource::Learned(form) => matches!(form, MetricForm::Full | MetricForm::LowRank(_)),
        };
        match combines_columns && self.kernel.restricts_columns() {
            true => reject("the kernel selects columns by name, and this metric combines columns; use diagonal"),
            false => Ok(()),
        }
    }
}
