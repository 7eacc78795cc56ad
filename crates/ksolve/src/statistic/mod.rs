//! Hypothesis tests in feature space: do two samples come from the same distribution, do two sets
//! of columns depend on each other?
//!
//! A statistic is a function of means and covariances of features phi. The same features also give
//! the distribution of the statistic under the null hypothesis, in three ways. All three are
//! reported:
//!
//! * **permutation**: the distribution under random labels; exact for any number of rows;
//! * **spectrum**: the limit distribution for many rows, a weighted sum of chi-squared variables.
//!   The weights are eigenvalues of covariances of the features. A map of low rank has so few
//!   eigenvalues that all are computed;
//! * **gamma**: the gamma distribution with the mean and variance of the limit distribution, for
//!   comparison with other programs.
//!
//! With `map` exact, two samples are compared with the exact kernel, without a map and without an n
//! x n matrix in memory. The result has the biased and the unbiased statistic, and the p-value of
//! the permutations.
//!
//! Results are bitwise reproducible: a random label is a function of the position of a row among
//! the rows of the test, sums run in row order, and features are bit-identical wherever they are
//! stored.
//!
//! ```
//! use ksolve::statistic::{TestInput, by_name, default_options, measure};
//! use kfit::request::Resources;
//! use ksolve::job::NoStageObserver;
//! use kstore::{Selection, Table, Workers};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("rows.csv");
//! # let value = |i: i32| (f64::from(i) * 0.7).sin() + if i < 100 { 0.0 } else { 1.0 };
//! # let rows: String = (0..250).map(|i| format!("{}\n", value(i))).collect();
//! # std::fs::write(&path, format!("x\n{rows}")).unwrap();
//! let table = Table::open(&[path])?; // 100 rows about 0, then 150 about 1
//! let sample = |rows| table.select(&Selection { rows: Some(rows), ..Selection::default() });
//! let (first, second) = (sample(0..100)?, sample(100..250)?);
//! let options = default_options("gaussian(sigma=median)".parse()?);
//! let workers = Workers::new(2);
//! let stage_observer = &NoStageObserver;
//! let (journal, scratch) = (None, None);
//! let resources =
//!     Resources { memory: 1 << 30, workers: &workers, stage_observer, journal, scratch };
//! let mmd = by_name("mmd").ok_or("no such statistic")?;
//! let samples = TestInput::Samples(&first, &second);
//! let outcome = measure::<f64>(mmd, samples, &options, 199, &resources)?;
//! assert_eq!(outcome.rows, [100, 150]);
//! // no random labelling gives a statistic as large as the observed one
//! assert_eq!(outcome.statistic.p_values.permutation, Some(1.0 / 200.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To add a statistic: write one file here with its `FAMILY`, and add one line to `FAMILIES`.
//! [`register`] adds a statistic of another crate.

mod aggregated_mmd;
mod column_histogram;
mod column_tests;
mod column_values;
mod conditional_hsic;
mod exact_mmd;
mod herding;
mod hsic;
mod mmd;
mod model_mmd;
mod null_distribution;
mod random_labels;
mod residual_components;
mod row_groups;
mod stored_columns;
mod table_test;

#[doc(hidden)]
pub use column_histogram::Histogram;
#[doc(hidden)]
pub use column_tests::ColumnDifference;
#[doc(hidden)]
pub use conditional_hsic::{Conditioning, DEFAULT_COMPONENTS, default_given_rank};
pub use herding::{Herd, Representatives, herd, represent};
#[doc(hidden)]
pub use model_mmd::{GroupDifference, ModelComparison, compare_with_model};
pub use table_test::{TestInput, default_options, measure};

use crate::request::{PassShape, ProblemSize};
use crate::{Certificate, Result, features::FitData};
use kapprox::{PrecisionPair, Real};
use kstore::MemoryPlan;
use kstore::registry::{Registry, RegistryEntry};

/// The kind of samples that a statistic compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Two samples of the same columns.
    Samples,
    /// Two sets of columns of the same rows.
    Columns,
}

/// The description of a statistic: name, help and the kind of samples that it compares.
#[derive(Clone, Copy, Debug)]
pub struct StatisticFamily {
    /// Name of the statistic.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Kind of samples that the statistic compares.
    pub sample_kind: SampleKind,
    /// Function that adds memory other than the features to a plan. Its arguments are the plan, the
    /// size of the problem, the shape of the pass, and the number of permutations.
    #[doc(hidden)]
    pub plan: fn(MemoryPlan, &ProblemSize, PassShape, usize) -> MemoryPlan,
    /// True if permutations need random access to the features.
    #[doc(hidden)]
    pub stores_features: bool,
    /// Function that measures, in f32 and in f64.
    #[doc(hidden)]
    pub measure: MeasurePair,
}

impl RegistryEntry for StatisticFamily {
    const KIND: &'static str = "statistic";
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The split of the features: for two samples, the number of rows of the first sample; for two sets
/// of columns, the number of features of the first set.
#[doc(hidden)]
pub type SplitPoint = usize;

/// A function that computes a statistic. Its arguments are the features of all rows, the split of
/// the features, and the number of permutations.
#[doc(hidden)]
pub type MeasureFeatures<T> = fn(&FitData<'_, T>, SplitPoint, usize) -> Result<TestStatistic>;

/// The function that measures, in f32 and in f64.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct MeasurePair(pub MeasureFeatures<f32>, pub MeasureFeatures<f64>);

impl PrecisionPair for MeasurePair {
    type For<T: Real> = MeasureFeatures<T>;
    fn single(self) -> MeasureFeatures<f32> {
        self.0
    }
    fn double(self) -> MeasureFeatures<f64> {
        self.1
    }
}

/// Probabilities, under the null hypothesis, of a value at least as large as the measured value.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PValues {
    /// The p-value from random labels; at least 1/(permutations + 1). `None` if there are no
    /// permutations.
    pub permutation: Option<f64>,
    /// The p-value from the limit distribution; p-values below 1e-12 are reported as 1e-12. `None`
    /// for the exact kernel, and for constant features.
    pub spectrum: Option<f64>,
    /// The p-value from the gamma distribution with the mean and variance of the limit
    /// distribution. `None` for the exact kernel, and for constant features.
    pub gamma: Option<f64>,
}

/// The measured statistic with its p-values.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TestStatistic {
    /// The statistic as a squared norm, which is never negative and biased upwards. The p-values
    /// refer to this statistic.
    pub biased: f64,
    /// Unbiased estimate, which may be negative. It is computed from the features of the map, whose
    /// inner products differ from the kernel by the error of the map.
    pub unbiased: f64,
    /// Centred alignment of two kernels, between 0 and 1; `None` for two samples, and for constant
    /// features.
    pub alignment: Option<f64>,
    /// Area under the ROC curve of the witness function, learned from half of the rows of two
    /// samples and measured on other rows: the probability that a row of the first sample has a
    /// larger value than a row of the second. `None` for other tests, and for the exact kernel.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// Difference of the means of the witness function over the training rows of a model and over
    /// new rows, in standard deviations over the new rows; `None` for other tests.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness_difference: Option<f64>,
    /// Effect size and regressions of a test of conditional independence; `None` for other tests.
    #[doc(hidden)]
    #[serde(flatten)]
    pub conditional: Option<ConditionalFigures>,
    /// p-values of the statistic.
    pub p_values: PValues,
    /// p-value of each kernel alone, by permutations, if several kernels are aggregated; not
    /// corrected for the number of kernels.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_p_values: Vec<f64>,
    /// Biased statistic under each of the random labels.
    #[serde(skip)]
    pub permuted: Vec<f64>,
    /// Error of the map; `None` for maps that do not project onto a subspace, such as random
    /// Fourier features, and for two maps.
    pub certificate: Option<Certificate>,
}

/// Effect size of a test of conditional independence, and the regressions of the features of both
/// sets of columns on the features of the columns C.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ConditionalFigures {
    /// Correlation of the functions of the residuals with the largest covariance, on rows from
    /// which the functions were not learned; `None` if a half of the rows is empty.
    pub correlation: Option<f64>,
    /// Fractions of the variance of the features of both sets that the columns C explain.
    pub explained: [f64; 2],
    /// Ridge penalties of both regressions, on the covariance of the features of C.
    pub lambdas: [f64; 2],
    /// Degrees of freedom of both regressions.
    pub degrees_of_freedom: [f64; 2],
    /// Numbers of principal components of the residuals of both sets.
    pub components: [usize; 2],
}

/// The measured statistic, with its samples, kernels and costs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TestOutcome {
    /// Statistic with its p-values.
    #[serde(flatten)]
    pub statistic: TestStatistic,
    /// Number of rows of each sample.
    pub rows: Vec<u64>,
    /// Tests of the single columns of two samples, the columns that differ most first.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub column_tests: Vec<ColumnDifference>,
    /// Number of rows of each sample on which the single columns were tested; empty if the columns
    /// were not tested.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub column_test_rows: Vec<u64>,
    /// Kernels, with numeric parameters.
    pub kernels: Vec<String>,
    /// Number of features of each map; empty for the exact kernel.
    pub ranks: Vec<usize>,
    /// Number of passes over the rows.
    pub passes: u64,
    /// Planned memory of the largest stage, in bytes.
    pub planned_bytes: usize,
}

static FAMILIES: Registry<StatisticFamily> = Registry::new(&[mmd::FAMILY, hsic::FAMILY]);

/// Returns every statistic: first the statistics of this crate, then the [registered](register)
/// statistics.
pub fn registry() -> Vec<&'static StatisticFamily> {
    FAMILIES.entries()
}

/// Returns the statistic with this name, of this crate or [registered](register).
pub fn by_name(name: &str) -> Option<&'static StatisticFamily> {
    FAMILIES.by_name(name)
}

/// Registers a statistic of another crate by its name, in this process and from now on.
///
/// # Errors
/// [`kstore::Error::Register`] if the name is already registered or is not valid.
pub fn register(family: &'static StatisticFamily) -> Result<()> {
    Ok(FAMILIES.register(family)?)
}

fn require_rows(what: &'static str, needed: u64, rows: u64) -> Result<()> {
    if rows >= needed { Ok(()) } else { Err(crate::Error::TooFewRowsFor { what, needed, rows }) }
}
