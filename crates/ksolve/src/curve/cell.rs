//! The result of one method at one rank with one seed.

use kapprox::quality::{Evidence, Measure};
use serde::{Deserialize, Serialize};

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
