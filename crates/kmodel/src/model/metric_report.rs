//! The report of a metric.

use serde::{Deserialize, Serialize};

/// The metric of a fit.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MetricReport {
    /// Source of the metric: `given`, `learn`, `full`, `diagonal`, `low-rank(5)`.
    pub source: String,
    /// Number of inputs of the kernel.
    pub features: usize,
    /// Importance of each feature, in descending order; the importances sum to 1.
    pub importance: Vec<(String, f64)>,
    /// Standard deviations of the importances over the folds of the sample, in the order of
    /// `importance`. The importances of a fold come from the gradients of one function, averaged
    /// over the rows of the fold. Empty if the metric was not learned in this fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<f64>,
    /// Rounds of the learning.
    pub rounds: Vec<RoundReport>,
    /// Errors on rows from which the metric was not learned; `None` without such rows.
    #[serde(rename = "judged", skip_serializing_if = "Option::is_none")]
    pub test_errors: Option<MetricTestErrors>,
}

impl MetricReport {
    /// Returns the report of a metric with `features` outputs. `importances` may be in any order;
    /// `deviations` are their standard deviations, or empty.
    #[doc(hidden)]
    pub fn new(
        source: String,
        features: usize,
        importances: Vec<(String, f64)>,
        deviations: &[f64],
        rounds: Vec<RoundReport>,
    ) -> Self {
        let mut order: Vec<usize> = (0..importances.len()).collect();
        order.sort_by(|a, b| importances[*b].1.total_cmp(&importances[*a].1));
        let importance = order.iter().map(|j| importances[*j].clone()).collect();
        let spread = order.iter().filter_map(|j| deviations.get(*j)).copied().collect();
        Self { source, features, importance, spread, rounds, test_errors: None }
    }

    /// Returns each feature with its importance and the standard deviation of the importance, if
    /// available.
    #[doc(hidden)]
    pub fn importances(&self) -> impl Iterator<Item = (&str, f64, Option<f64>)> {
        let spread = self.spread.iter().copied().map(Some).chain(std::iter::repeat(None));
        self.importance.iter().zip(spread).map(|((name, importance), spread)| (name.as_str(), *importance, spread))
    }
}

/// Errors of ridge regression with and without a metric, on a fold from which the metric was not
/// learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricTestErrors {
    /// The fold.
    pub fold: usize,
    /// Number of its rows in the sample.
    pub rows: u64,
    /// Squared error with the metric.
    #[serde(rename = "with")]
    pub error_with_metric: f64,
    /// Squared error of the best kernel without a metric.
    #[serde(rename = "without")]
    pub error_without_metric: f64,
}

impl MetricTestErrors {
    /// Returns true if the error with the metric is smaller.
    pub fn is_better(&self) -> bool {
        self.error_with_metric < self.error_without_metric
    }
}

/// A round of the learning of a metric, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// Form of the metric: `none`, `full`, `diagonal`, `low-rank(5)`.
    pub form: String,
    /// Number of the round, from 1. Round 0 uses the unchanged features.
    pub round: usize,
    /// Kernel, with all parameters as numbers.
    pub kernel: String,
    /// Number of rows.
    pub rows: u64,
    /// Number of landmarks.
    pub rank: usize,
    /// Regularisation parameter.
    pub lambda: f64,
    /// Mean squared error of held-out rows.
    pub cv_mse: f64,
    /// R² of held-out rows; `None` if the target does not vary.
    pub cv_r2: Option<f64>,
}
