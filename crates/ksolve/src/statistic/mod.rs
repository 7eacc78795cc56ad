//! Statistics of samples in feature space: do two samples come from the same distribution, do two sets of columns depend on each other.
//!
//! A statistic is a function of means and covariances of features phi, and its law under the null hypothesis follows
//! from the same features in three ways, all reported:
//!
//! * **permutation**: of random labels; exact at any number of rows, for the very statistic;
//! * **spectrum**: the weighted sum of chi-squared variables that it tends to, with the eigenvalues of the features'
//!   covariances as weights, which a map of low rank has all of;
//! * **gamma**: the gamma law of the same mean and variance, for comparison with other programs.
//!
//! With `map` exact two samples are compared by the kernel itself, without a map and without an n x n matrix: the
//! biased and the unbiased statistic, and their permutations.
//!
//! Every random label belongs to the position of a row among the rows of the test, sums run in the order of the rows,
//! and features have the same bits wherever they are kept: so do the results.
//!
//! ```
//! use ksolve::statistic::{Compared, by_name, measure, options};
//! use kfit::request::Resources;
//! use ksolve::job::Unwatched;
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
//! let options = options("gaussian(sigma=median)".parse()?);
//! let workers = Workers::new(2);
//! let resources = Resources { memory: 1 << 30, workers: &workers, stages: &Unwatched, journal: None, scratch: None };
//! let mmd = by_name("mmd").ok_or("no such statistic")?;
//! let outcome = measure::<f64>(mmd, Compared::Samples(&first, &second), &options, 199, &resources)?;
//! assert_eq!(outcome.rows, [100, 150]);
//! // no random label has the two as far apart as they are
//! assert_eq!(outcome.measured.p_values.permutation, Some(1.0 / 200.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To add a statistic: one file here with its `FAMILY`, one line in [`registry()`].

mod exact;
mod herding;
mod hsic;
mod mmd;
mod null;
mod relabel;
mod run;

pub use herding::{Herd, Represented, herd, represent};
pub use run::{Compared, measure, options};

use crate::request::{PassShape, ProblemSize};
use crate::{Certificate, Result, features::FitData};
use kapprox::{PrecisionPair, Real};
use kstore::Plan;

/// The kind of samples that a statistic compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compares {
    /// Two samples of the same columns.
    Samples,
    /// Two sets of columns of the same rows.
    Columns,
}

/// The description of a statistic: its name, its help and the samples it compares.
#[derive(Clone, Copy, Debug)]
pub struct StatisticFamily {
    /// The name of the statistic.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The kind of samples that it compares.
    pub compares: Compares,
    /// Adds the memory that is held beside the features to a plan.
    plan: fn(Plan, &ProblemSize, PassShape, usize) -> Plan,
    /// True where permutations need the features of any row at any time.
    keeps: bool,
    measure: MeasurePair,
}

/// The division of the two samples: the number of rows of the first sample, or of features of the first columns.
type Division = usize;

/// A function that measures, from the features of all rows, the division and the number of permutations.
type MeasureFeatures<T> = fn(&FitData<'_, T>, Division, usize) -> Result<Measured>;

#[derive(Clone, Copy, Debug)]
struct MeasurePair(MeasureFeatures<f32>, MeasureFeatures<f64>);

impl PrecisionPair for MeasurePair {
    type For<T: Real> = MeasureFeatures<T>;
    fn single(self) -> MeasureFeatures<f32> {
        self.0
    }
    fn double(self) -> MeasureFeatures<f64> {
        self.1
    }
}

/// Probabilities, under the null hypothesis, of a value at least as large as the measured one.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PValues {
    /// By random labels: at least 1/(permutations + 1). `None` without permutations.
    pub permutation: Option<f64>,
    /// By the limit law; 1e-12 stands for anything below. `None` without a map, and for features that do not vary.
    pub spectrum: Option<f64>,
    /// By the gamma law with the limit's mean and variance. `None` without a map, and for features that do not vary.
    pub gamma: Option<f64>,
}

/// The measured statistic with its p-values.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Measured {
    /// The statistic as a squared norm of means: never negative, too large on average. p-values are of this one.
    pub biased: f64,
    /// The unbiased estimate, which may be negative. It is that of the map's features, which differs from the kernel's
    /// by the error of the map.
    pub unbiased: f64,
    /// Centred alignment of two kernels, between 0 and 1; `None` for two samples, and for features that do not vary.
    pub alignment: Option<f64>,
    /// The p-values of the statistic.
    pub p_values: PValues,
    /// The biased statistic under each of the random labels.
    #[serde(skip)]
    pub permuted: Vec<f64>,
    /// Error of the map; `None` for maps that are no projection, and for two maps.
    pub certificate: Option<Certificate>,
}

/// The measured statistic, with its samples, kernels and costs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Outcome {
    /// The statistic with its p-values.
    #[serde(flatten)]
    pub measured: Measured,
    /// Number of rows of each sample, or of the only one.
    pub rows: Vec<u64>,
    /// The kernels, every parameter a number.
    pub kernels: Vec<String>,
    /// Number of features of each map; empty for the kernel itself.
    pub ranks: Vec<usize>,
    /// Number of passes over the rows.
    pub passes: u64,
    /// Bytes of memory that were planned: those of the stage that needs most.
    pub planned_bytes: usize,
}

/// The descriptions of all statistics.
pub fn registry() -> &'static [StatisticFamily] {
    const FAMILIES: &[StatisticFamily] = &[mmd::FAMILY, hsic::FAMILY];
    FAMILIES
}

/// The statistic with this name; `None` where there is none.
pub fn by_name(name: &str) -> Option<&'static StatisticFamily> {
    registry().iter().find(|family| family.name == name)
}

fn require(what: &'static str, needed: u64, rows: u64) -> Result<()> {
    if rows >= needed { Ok(()) } else { Err(crate::Error::TooFewFor { what, needed, rows }) }
}
