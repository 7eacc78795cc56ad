//! The report of a metric.

use serde::{Deserialize, Serialize};

/// The metric of a fit.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MetricReport {
    /// How it was come to: `given`, `learn`, `full`, `diagonal`, `low-rank(5)`.
    pub source: String,
    /// Number of features that the kernel sees.
    pub features: usize,
    /// Each feature with its share in the metric, the largest first; the shares sum to 1.
    pub importance: Vec<(String, f64)>,
    /// In the same order, the standard deviation of the share over folds of the sample: of the averages of the gradients of one function
    /// over the rows of each fold. Empty where the metric was not learned here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<f64>,
    /// The rounds in which it was learned.
    pub rounds: Vec<RoundReport>,
    /// Its error on rows that it was not learned from; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judgement>,
}

impl MetricReport {
    /// The report of a metric of so many outputs, from the shares of the features in any order, and the deviations of these where they are
    /// known.
    pub fn new(
        source: String,
        features: usize,
        shares: Vec<(String, f64)>,
        deviations: &[f64],
        rounds: Vec<RoundReport>,
    ) -> Self {
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by(|a, b| shares[*b].1.total_cmp(&shares[*a].1));
        let importance = order.iter().map(|j| shares[*j].clone()).collect();
        let spread = order.iter().filter_map(|j| deviations.get(*j)).copied().collect();
        Self { source, features, importance, spread, rounds, judged: None }
    }

    /// Each feature with its share and the deviation of that, where it is known.
    pub fn shares(&self) -> impl Iterator<Item = (&str, f64, Option<f64>)> {
        let spread = self.spread.iter().copied().map(Some).chain(std::iter::repeat(None));
        self.importance.iter().zip(spread).map(|((name, share), spread)| (name.as_str(), *share, spread))
    }
}

/// The errors of ridge regression with and without a metric, on the rows of a fold that the metric was not learned from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The fold.
    pub fold: usize,
    /// Number of its rows in the sample.
    pub rows: u64,
    /// Squared error with the metric.
    pub with: f64,
    /// Squared error of the best kernel without a metric.
    pub without: f64,
}

impl Judgement {
    /// True if the metric is better than none.
    pub fn is_better(&self) -> bool {
        self.with < self.without
    }
}

/// A round of the search, for the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// What was tried: `none`, `full`, `diagonal`, `low-rank(5)`.
    pub form: String,
    /// Number of the round, from 1; 0 for the features as they are.
    pub round: usize,
    /// The kernel, every parameter a number.
    pub kernel: String,
    /// Number of rows.
    pub rows: u64,
    /// Number of landmarks.
    pub rank: usize,
    /// Penalty.
    pub lambda: f64,
    /// Squared error of rows that were held out.
    pub cv_mse: f64,
    /// Share of the variance that was explained on rows that were held out; `None` where the target does not vary.
    pub cv_r2: Option<f64>,
}
