//! Error against rank: the errors and the costs of landmark schemes and maps on the same rows.
//!
//! With K the kernel matrix of n rows and K̂ = ΦΦᵀ that of a map with r features, a [`CurveCell`] holds, for one method, rank
//! and seed,
//!
//! | number | what it is |
//! |---|---|
//! | trace error | tr(K − K̂)/tr K, exact over all rows; projections only |
//! | Frobenius error | ‖K − K̂‖_F/‖K‖_F; exact up to [`EXACT_ROWS`] rows, beyond from [`Setting::columns`] of them |
//! | spectral error | ‖K − K̂‖₂/‖K‖₂; block Krylov up to [`EXACT_ROWS`] rows, beyond on [`SPECTRAL_ROWS`] of them, within bounds |
//! | test error | ridge regression on the r features, on rows that no method has seen |
//! | seconds, passes, bytes read | to choose landmarks, to make the map, and to form the features of every row once |
//! | kernel evaluations | the same: those of the choice, r² for the factor, n·r for the features |
//!
//! All methods see the same rows, scaled the same way, the same kernel (a median is taken once) and the same sampled
//! columns, so that differences between cells are differences between methods.
//!
//! A scheme whose landmarks are nested runs once, at the largest rank. Its first r landmarks are its choice for rank r, and
//! their cost is what the run had spent when it had r landmarks. Every other method runs anew at every rank. A
//! method that makes no random choice runs with the first seed only.
//!
//! With a journal that goes through a [`kstore::pass::Engine`], several processes share the passes over the table: each has the same
//! cells, but for seconds and bytes. The pass that forms the features of every row once, to time it, is done whole by each.
//!
//! ```text
//! rows ─▶ Setting ─▶ CurveRun: method, repeat, ranks ─▶ landmarks ─▶ map ─▶ features ─▶ errors, Gram matrix ─▶ ridge ─▶ Cells
//!         scaling, kernel, floor                  └──── what it costs ────┘   └──── one pass ────┘
//! ```
//!
//! Reference for the quantities compared: Kumar, Mohri, Talwalkar, "Sampling methods for the Nyström method", JMLR 13,
//! 2012; Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", 2022.

mod cost;
mod measuring;
mod method;
mod plan;
mod run;
mod setting;

pub use method::{CurveRun, Method};
pub use setting::{Floor, Setting, Tested};

use crate::{Intercept, request::Scaling, task::Task};
use kapprox::kernel::Kernel;
use kapprox::quality::{Evidence, Measure};
use serde::{Deserialize, Serialize};

/// Rows up to which Frobenius and spectral errors are taken over all pairs: a matrix of 5,000 rows has its norm in about
/// a second, and a curve asks for it a hundred times.
pub const EXACT_ROWS: u64 = 5_000;

/// Columns of K − K̂ that are formed for the Frobenius error of more rows; the same columns for all cells.
pub(crate) const SAMPLED_COLUMNS: usize = 500;

/// Rows on which the spectral error of more rows is estimated, from the matrices among them. Its interval holds for all
/// rows. A residual whose spectrum is flat has a smaller share of the norm among more rows, so the estimate errs
/// upwards.
pub const SPECTRAL_ROWS: usize = 1_000;

/// Most rows whose spectrum gives the least possible errors: 4,000 take 128 MB for the matrix and some twenty seconds.
pub(crate) const FLOOR_ROWS: usize = 4_000;

/// The options of a curve, which define its numbers for given rows.
#[derive(Clone, Debug)]
pub struct CurveOptions {
    /// The methods to compare.
    pub methods: Vec<Method>,
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
    /// Number of seeds to try, from `seed` on.
    pub repeats: u64,
    /// The landmark scheme for methods that are a map with landmarks.
    pub landmarks: &'static kapprox::landmark::Scheme,
    /// Rows to measure on: a uniform sample of so many, held in memory, or all in `None`.
    pub sample: Option<usize>,
    /// Scaling of the features, from all rows.
    pub scaling: Scaling,
    /// The kernel; a median still to be taken is taken on a sample.
    pub kernel: Kernel,
    /// Regression or classification, for the test error.
    pub task: Task,
    /// The penalty of the test error, per row: (1/n)Σ loss + lambda‖w‖².
    pub lambda: f64,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// The first seed.
    pub seed: u64,
}

/// A number that was measured exactly, or estimated with an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end; `None` where nothing bounds the number.
    pub high: Option<f64>,
    /// `exact`, `bounds`, or the probability that the interval holds, such as `95 % confidence`.
    pub evidence: String,
}

impl From<Measure> for Estimate {
    fn from(measure: Measure) -> Self {
        let evidence = match measure.evidence {
            Evidence::Exact => "exact".to_string(),
            Evidence::Bounds => "bounds".to_string(),
            Evidence::Confidence(level) => format!("{} % confidence", (1e6 * level).round() / 1e4),
        };
        let high = measure.high.is_finite().then_some(measure.high);
        Self { value: measure.value, low: measure.low, high, evidence }
    }
}

/// Errors and costs of a method at a rank, with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveCell {
    /// The method, as it is asked for.
    pub method: String,
    /// Rank asked for.
    pub rank: usize,
    /// Number of the repetition, from 0.
    pub repeat: u64,
    /// Number of features: fewer than the rank where the rows span no more.
    pub features: usize,
    /// Seconds to choose landmarks, make the map and form the features of every row once. Where processes share the passes, the time
    /// of this one, in which it may wait for others; features that are timed while errors are measured count the time of all.
    pub seconds: f64,
    /// Number of kernel evaluations for that.
    pub kernel_evaluations: u64,
    /// Number of passes over the rows for that.
    pub passes: u64,
    /// Bytes that this process read from storage for that; 0 where the rows are a sample in memory.
    pub bytes_read: u64,
    /// Bytes of memory planned for the run, measures included.
    pub planned_bytes: usize,
    /// The trace error tr(K − K̂)/tr K; `None` for maps that are no projection.
    pub trace_error: Option<f64>,
    /// Largest part of `trace_error` that may come from rounding.
    pub trace_rounding: f64,
    /// The Frobenius error ‖K − K̂‖_F/‖K‖_F.
    pub frobenius: Estimate,
    /// The spectral error ‖K − K̂‖₂/‖K‖₂; `None` where ‖K‖₂ is not known.
    pub spectral: Option<Estimate>,
    /// Mean squared error, or share of wrong classes, on the test rows; `None` without test rows, and where the system
    /// could not be solved.
    pub test_error: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_confidence_read_as_they_are_said() {
        let measure = |evidence| Measure { value: 1.0, low: 0.5, high: f64::INFINITY, evidence };
        let text = |evidence| Estimate::from(measure(evidence)).evidence;
        assert_eq!(text(Evidence::Confidence(0.95)), "95 % confidence");
        assert_eq!(text(Evidence::Confidence(1.0 - 1e-6)), "99.9999 % confidence");
        assert_eq!(Estimate::from(measure(Evidence::Bounds)).high, None);
    }
}
