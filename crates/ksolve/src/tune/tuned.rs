//! The result of a search.

use super::Rung;
use crate::folds::FoldSpec;
use crate::metric::{MetricSource, RoundReport};
use crate::train::Scaling;
use kapprox::kernel::Spec;
use kapprox::metric::Metric;
use std::sync::Arc;

/// The result of a search: the best kernel, and all scores.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Tuned {
    /// The best kernel, every parameter a number.
    #[serde(serialize_with = "as_text")]
    pub kernel: Spec,
    /// The kernel as it was asked for.
    #[serde(skip)]
    pub named: Spec,
    /// The scaling of the features before the metric.
    #[serde(serialize_with = "as_text")]
    pub scaling: Scaling,
    /// The metric before it; `None` where there is none.
    #[serde(skip)]
    pub metric: Option<Arc<Metric>>,
    /// The form of that metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// The deviation of each feature's share in the metric over folds; `None` where none was learned.
    pub spread: Option<Vec<f64>>,
    /// The folds by which kernels were compared.
    #[serde(serialize_with = "as_text")]
    pub folds: FoldSpec,
    /// Number of classes; 0 for a regression.
    pub classes: usize,
    /// The rounds in which the metric of each kernel was learned.
    pub learned: Vec<RoundReport>,
    /// The rungs of the search, each with the scores of its kernels.
    pub rungs: Vec<Rung>,
    /// Number of passes over the table.
    pub passes: u64,
    /// Bytes of memory that were planned: those of the stage that needs most.
    pub planned_bytes: usize,
}

impl Tuned {
    /// The best metric for a fit whose features are scaled as those of the search.
    pub fn source(&self) -> MetricSource {
        self.metric.clone().map_or(MetricSource::None, MetricSource::of)
    }

    /// The kernel of the round with the least error among those without a metric.
    pub(super) fn best_without_metric(&self) -> Option<&str> {
        let plain = self.learned.iter().filter(|round| round.form == "none");
        plain.min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse)).map(|round| round.kernel.as_str())
    }
}

fn as_text<V: std::fmt::Display, S: serde::Serializer>(value: &V, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
