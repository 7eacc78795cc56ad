//! Where a fit takes its metric from.

use super::KnownMetric;
use crate::{Error, Result};
use kapprox::metric::Metric;
use kstore::Scaler;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The form of a metric that is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricForm {
    /// Diagonal or full, whichever has the smaller held-out error: `learn`.
    Best,
    /// A number for each feature: `diagonal`.
    Diagonal,
    /// A d x d matrix: `full`.
    Full,
    /// An r x d matrix: `low-rank(r)`.
    LowRank(usize),
}

impl fmt::Display for MetricForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("learn"),
            Self::Diagonal => f.write_str("diagonal"),
            Self::Full => f.write_str("full"),
            Self::LowRank(r) => write!(f, "low-rank({r})"),
        }
    }
}

impl FromStr for MetricForm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::option("metric", format!("{text:?}"), "expected learn, diagonal, full or low-rank(5)");
        let rank = |inside: &str| inside.trim().parse().ok().filter(|r| *r > 0).map(Self::LowRank).ok_or_else(refuse);
        match text {
            "learn" => Ok(Self::Best),
            "diagonal" => Ok(Self::Diagonal),
            "full" => Ok(Self::Full),
            _ => text
                .strip_prefix("low-rank(")
                .and_then(|rest| rest.strip_suffix(')'))
                .map_or_else(|| Err(refuse()), rank),
        }
    }
}

/// Where the metric of a fit comes from.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum MetricSource {
    /// There is none: the kernel sees the scaled features.
    #[default]
    None,
    /// It is known.
    Given(KnownMetric),
    /// It is learned from the target.
    Learned(MetricForm),
}

impl MetricSource {
    /// A metric that is known, for the features of the fit as they are scaled.
    pub fn of(metric: Arc<Metric>) -> Self {
        Self::Given(KnownMetric { metric, scaler: None })
    }

    pub(crate) fn known(&self) -> Option<&Arc<Metric>> {
        match self {
            Self::Given(given) => Some(&given.metric),
            Self::None | Self::Learned(_) => None,
        }
    }

    /// The metric of a source whose metric is known, for features that are scaled so.
    pub(crate) fn known_for(&self, scaler: &Scaler) -> Result<Option<Arc<Metric>>> {
        match self {
            Self::Given(given) => given.scaled(scaler).map(Some),
            Self::None | Self::Learned(_) => Ok(None),
        }
    }

    /// Number of features that the kernel sees, of rows with d.
    pub(crate) fn outputs(&self, d: usize) -> usize {
        match self {
            Self::None | Self::Learned(MetricForm::Best | MetricForm::Diagonal | MetricForm::Full) => d,
            Self::Learned(MetricForm::LowRank(r)) => *r.min(&d),
            Self::Given(given) => given.metric.outputs(),
        }
    }
}

impl fmt::Display for MetricSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Given(_) => f.write_str("given"),
            Self::Learned(form) => form.fmt(f),
        }
    }
}
