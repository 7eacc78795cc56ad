//! Error against rank: the errors and the costs of landmark schemes and maps on the same rows.
//!
//! Let K be the kernel matrix of n rows, and K̂ = ΦΦᵀ the kernel matrix of a map with r features Φ
//! (n x r). For one method, rank and seed, a [`CurveCell`] holds
//!
//! | quantity | definition |
//! |---|---|
//! | trace error | tr(K − K̂)/tr K, exact over all rows; projections only |
//! | Frobenius error | ‖K − K̂‖_F/‖K‖_F; beyond [`EXACT_ROWS`] rows on sampled columns of K |
//! | spectral error | ‖K − K̂‖₂/‖K‖₂ by block Krylov; beyond [`EXACT_ROWS`] rows an interval |
//! | test error | ridge regression on the r features, on rows that no method uses |
//! | seconds, passes, bytes | to select landmarks, build the map, and compute all features once |
//! | kernel evaluations | of the selection, r² for the factor, n·r for the features |
//!
//! Up to [`EXACT_ROWS`] rows, the Frobenius error is exact and the block Krylov iteration uses all
//! rows. For more rows, the iteration uses [`SPECTRAL_ROWS`] of them; the reported interval holds
//! for all rows.
//!
//! All methods use the same rows, the same scaling, the same kernel (a length scale that is a
//! median distance is computed once) and the same sampled columns of K. Differences between cells
//! are therefore differences between methods.
//!
//! A scheme with nested landmarks runs once, at the largest rank. The first r landmarks are the
//! selection for rank r, and their cost is the cost of the run up to the r-th landmark. Every other
//! method runs again at every rank. A deterministic method runs with the first seed only.
//!
//! If the journal uses a [`kstore::pass::Engine`], several processes share the passes over the
//! table. The cells of these processes differ only in seconds and bytes. The pass that times the
//! computation of the features is executed completely by each process.
//!
//! ```text
//! rows ─▶ Setting ─▶ CurveRun ─▶ landmarks ─▶ map ─▶ features ─▶ errors, Gram ─▶ ridge ─▶ cells
//!         scaling    method     └───── timed costs ────────┘
//!         kernel     repeat                         └────── one pass ─────┘
//!         spectrum   ranks
//! ```
//!
//! References for the compared quantities: Kumar, Mohri, Talwalkar, "Sampling methods for the
//! Nyström method", JMLR 13, 2012; Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", 2022.

mod cost;
mod error_reductions;
mod execution;
mod method;
mod run_plan;
mod setting;

pub use method::{CurveRun, Method};
pub use setting::{MinimumErrors, Setting, TestErrorKind};

use crate::{Intercept, request::Scaling, task::Task};
use kapprox::kernel::Kernel;
use kapprox::quality::{Evidence, Measure};
use serde::{Deserialize, Serialize};

/// Number of rows up to which Frobenius and spectral errors are computed over all pairs. The norm
/// of a matrix of 5,000 rows takes about a second, and a curve needs a hundred of them.
pub const EXACT_ROWS: u64 = 5_000;

/// For more than [`EXACT_ROWS`] rows, the number of columns of K − K̂ for the Frobenius error; all
/// cells use the same columns.
pub(crate) const SAMPLED_COLUMNS: usize = 500;

/// Number of sampled rows on which the spectral error of a larger table is estimated. The interval
/// of the estimate holds for all rows. If the residual K − K̂ has a flat spectrum, its relative
/// norm is smaller on more rows, so the estimate is biased upwards.
pub const SPECTRAL_ROWS: usize = 1_000;

/// Maximum number of rows whose spectrum gives the minimum errors: 4,000 rows take 128 MB for the
/// matrix and some twenty seconds.
pub(crate) const MAX_SPECTRUM_ROWS: usize = 4_000;

/// The options of a curve, which determine its numbers for given rows.
#[derive(Clone, Debug)]
pub struct CurveOptions {
    /// Methods to compare.
    pub methods: Vec<Method>,
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
    /// Number of seeds to try, starting with `seed`.
    pub repeats: u64,
    /// Landmark scheme for maps that need landmarks.
    pub landmark_scheme: &'static kapprox::landmark::Scheme,
    /// Size of the uniform sample to measure on, in memory; `None` for all rows.
    pub sample_rows: Option<usize>,
    /// Scaling of the features, computed from all rows.
    pub scaling: Scaling,
    /// Kernel; an unresolved median is computed on a sample.
    pub kernel: Kernel,
    /// Regression or classification, for the test error.
    pub task: Task,
    /// Regularisation parameter lambda of the ridge regression for the test error: (1/n)Σ loss +
    /// lambda‖w‖².
    pub lambda: f64,
    /// Treatment of the intercept.
    pub intercept: Intercept,
    /// First seed.
    pub seed: u64,
}

/// A number that was measured exactly, or an estimate with an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Best estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval; `None` if unbounded.
    pub high: Option<f64>,
    /// `exact`, `bounds`, or the confidence level of the interval, such as `95 % confidence`.
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

/// The errors and costs of a method at one rank, with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurveCell {
    /// Name of the method, as requested.
    pub method: String,
    /// Requested rank.
    pub rank: usize,
    /// Index of the repetition, from 0.
    pub repeat: u64,
    /// Number of features: fewer than the rank if the rows span fewer dimensions.
    pub features: usize,
    /// Time to select landmarks, build the map and compute the features of every row once, in
    /// seconds. If processes share the passes, this is the time of this process, including waits
    /// for other processes. If features are timed during the measurement of errors, the time of all
    /// processes counts.
    pub seconds: f64,
    /// Number of kernel evaluations for these steps.
    pub kernel_evaluations: u64,
    /// Number of passes over the rows for these steps.
    pub passes: u64,
    /// Bytes that this process read from storage for these steps; 0 for a sample in memory.
    pub bytes_read: u64,
    /// Planned memory of the run, measurements included, in bytes.
    #[doc(hidden)]
    pub planned_bytes: usize,
    /// Trace error tr(K − K̂)/tr K; `None` for maps that are not projections.
    pub trace_error: Option<f64>,
    /// Upper bound of the rounding error in `trace_error`.
    #[doc(hidden)]
    pub trace_rounding: f64,
    /// Frobenius error ‖K − K̂‖_F/‖K‖_F.
    pub frobenius: Estimate,
    /// Spectral error ‖K − K̂‖₂/‖K‖₂; `None` if ‖K‖₂ is unknown.
    pub spectral: Option<Estimate>,
    /// Mean squared error, or error rate, on the test rows; `None` without test rows, or if
    /// the system could not be solved.
    pub test_error: Option<f64>,
    /// Effective dimension tr G(G + lambda·n·I)⁻¹ of the ridge regression for the test error, where
    /// G is the Gram matrix of the features of the n training rows, centred if the intercept is
    /// free; `None` without test rows, or if the system could not be solved.
    #[doc(hidden)]
    pub effective_dimension: Option<f64>,
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
