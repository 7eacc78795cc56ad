//! Sources of the metric of a fit.

use crate::{AnyModel, Error, Result, model::match_precision};
use kapprox::metric::Metric;
use kstore::{Digest, ReadSettings, RowBuf, RowSource, Scaler, SelectedTable};
use std::path::{Path, PathBuf};
use std::{fmt, str::FromStr, sync::Arc};

/// Maximum number of rows of a table that is read as a metric.
const MAX_METRIC_ROWS: u64 = 100_000;

/// Number of rows that are read at once from a table of a metric.
const METRIC_TILE_ROWS: usize = 256;

/// Form of a learned metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricForm {
    /// Diagonal or full, whichever has the smaller held-out error. Its name is `learn`.
    DiagonalOrFull,
    /// One factor per input: `diagonal`.
    Diagonal,
    /// A d x d matrix: `full`.
    Full,
    /// An r x d matrix: `low-rank(r)`.
    LowRank(usize),
    /// No matrix, but a length scale per input in each part of the kernel, by maximum marginal
    /// likelihood: `likelihood`.
    Likelihood,
    /// For sparse rows, a factor for each column from the weights of a linear ridge regression:
    /// `linear`.
    #[doc(hidden)]
    Linear,
}

impl fmt::Display for MetricForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiagonalOrFull => f.write_str("learn"),
            Self::Diagonal => f.write_str("diagonal"),
            Self::Full => f.write_str("full"),
            Self::LowRank(r) => write!(f, "low-rank({r})"),
            Self::Likelihood => f.write_str("likelihood"),
            Self::Linear => f.write_str("linear"),
        }
    }
}

impl FromStr for MetricForm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid_form_error = || {
            let expected = "expected learn, diagonal, full, low-rank(5), likelihood or linear";
            Error::option("metric", format!("{text:?}"), expected)
        };
        let parse_rank = |rank_text: &str| {
            rank_text.trim().parse().ok().filter(|r| *r > 0).map(Self::LowRank).ok_or_else(invalid_form_error)
        };
        match text {
            "learn" => Ok(Self::DiagonalOrFull),
            "diagonal" => Ok(Self::Diagonal),
            "full" => Ok(Self::Full),
            "likelihood" => Ok(Self::Likelihood),
            "linear" => Ok(Self::Linear),
            _ => text
                .strip_prefix("low-rank(")
                .and_then(|argument| argument.strip_suffix(')'))
                .map_or_else(|| Err(invalid_form_error()), parse_rank),
        }
    }
}

/// The source of the metric of a fit.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum MetricSource {
    /// No metric; the kernel sees the scaled inputs.
    #[default]
    None,
    /// A metric known before the fit.
    Provided(ProvidedMetric),
    /// A metric learned from the target.
    Learned(MetricForm),
    /// A file, either a model or a table of numbers, which `ksolve::Fit` reads.
    File(PathBuf),
}

impl MetricSource {
    /// Returns the source of a metric that applies to the inputs as this fit scales them.
    pub fn from_metric(metric: Arc<Metric>) -> Self {
        Self::Provided(ProvidedMetric { metric, scaler: None })
    }

    /// Returns true if the fit has no metric.
    #[doc(hidden)]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Returns true if learning the metric also determines the length scale of the kernel.
    pub(crate) fn learns_kernel(&self) -> bool {
        matches!(self, Self::Learned(form) if *form != MetricForm::Linear)
    }

    /// Returns the provided metric, not yet converted to the scaling of a fit. Returns `None` if no
    /// metric was provided.
    #[doc(hidden)]
    pub fn provided(&self) -> Option<&Arc<Metric>> {
        match self {
            Self::Provided(provided) => Some(&provided.metric),
            Self::None | Self::Learned(_) | Self::File(_) => None,
        }
    }

    /// Returns the provided metric, converted to inputs scaled by `scaler`. Returns `None` if no
    /// metric was provided.
    ///
    /// # Errors
    /// [`Error::Option`] if the number of inputs differs, or if the metric was learned with a
    /// scaling from which it cannot be converted.
    #[doc(hidden)]
    pub fn provided_for(&self, scaler: &Scaler) -> Result<Option<Arc<Metric>>> {
        match self {
            Self::Provided(provided) => provided.for_scaler(scaler).map(Some),
            Self::None | Self::Learned(_) | Self::File(_) => Ok(None),
        }
    }

    /// Returns the number of columns that the kernel sees if a row has d inputs.
    #[doc(hidden)]
    pub fn output_count(&self, d: usize) -> usize {
        match self {
            Self::Learned(MetricForm::LowRank(r)) => *r.min(&d),
            Self::Provided(provided) => provided.metric.output_count(),
            Self::None | Self::Learned(_) | Self::File(_) => d,
        }
    }
}

impl fmt::Display for MetricSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Provided(_) | Self::File(_) => f.write_str("given"),
            Self::Learned(form) => form.fmt(f),
        }
    }
}

impl FromStr for MetricSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse() {
            _ if text == "none" => Ok(Self::None),
            Ok(form) => Ok(Self::Learned(form)),
            Err(_) if text.contains(['.', '/']) || Path::new(text).is_file() => Ok(Self::File(text.into())),
            Err(_) => {
                let expected = "expected none, learn, diagonal, full, low-rank(5), likelihood, linear, or a file such as model.safetensors";
                Err(Error::option("metric", format!("{text:?}"), expected))
            }
        }
    }
}

/// A metric known before the fit.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct ProvidedMetric {
    /// The metric, for inputs scaled by `scaler`.
    pub metric: Arc<Metric>,
    /// Scaling of the inputs in the fit that learned the metric; `None` for the scaling of the
    /// current fit.
    pub scaler: Option<Scaler>,
}

impl ProvidedMetric {
    /// Returns a digest of the numbers, which identifies the metric in a checkpoint.
    #[doc(hidden)]
    pub fn digest(&self) -> String {
        let numbers = self.metric.to_row_major().into_iter().chain(self.scaler.iter().flat_map(|s| &s.scale).copied());
        let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        format!("{} of {} features, {}", self.metric.output_count(), self.metric.input_count(), Digest::hex_of(&bytes))
    }

    /// Returns the metric for inputs scaled by `scaler`. If the divisors of the two scalings
    /// differ, the metric is converted; if both scalings are nonlinear, it is unchanged.
    fn for_scaler(&self, scaler: &Scaler) -> Result<Arc<Metric>> {
        let scale = &scaler.scale;
        if self.metric.input_count() != scale.len() {
            let got = format!("of {} features", self.metric.input_count());
            return Err(Error::option(
                "metric",
                got,
                format!("the rows have {} features; give one number for each", scale.len()),
            ));
        }
        let learned_scale = match &self.scaler {
            None => return Ok(self.metric.clone()),
            Some(learned_scaler) if learned_scaler.knots != scaler.knots => {
                let why = "it was learned with other quantiles of the features and cannot be converted; learn it again";
                return Err(Error::option("metric", "", why));
            }
            Some(learned_scaler) if learned_scaler.asinh != scaler.asinh => {
                let (has, required_scaling) =
                    if learned_scaler.asinh { ("with", "asinh") } else { ("without", "standard") };
                let why = format!(
                    "it was learned {has} asinh scaling and cannot be converted; set `scale` {required_scaling}"
                );
                return Err(Error::option("metric", "", why));
            }
            Some(learned_scaler) if learned_scaler.is_nonlinear() => return Ok(self.metric.clone()),
            Some(learned_scaler) => &learned_scaler.scale,
        };
        // a constant input has divisor 0, and no effect in either scaling
        let ratio = |(new_divisor, old_divisor): (&f64, &f64)| {
            if *old_divisor == 0.0 { 0.0 } else { new_divisor / old_divisor }
        };
        let ratios: Vec<f64> = scale.iter().zip(learned_scale).map(ratio).collect();
        Ok(match ratios.iter().all(|ratio| *ratio == 1.0) {
            true => self.metric.clone(),
            false => Arc::new(self.metric.rescaled(&ratios)),
        })
    }
}

impl MetricSource {
    /// Returns the metric of a model for rows with these input columns. If the fit scales the
    /// inputs differently from the model, the fit converts the metric. The metric is thus the same
    /// in the units of the table.
    ///
    /// # Errors
    /// [`Error::Option`] for a model without a metric, or with other inputs.
    #[doc(hidden)]
    pub fn from_model(model: &AnyModel, features: &[String]) -> Result<Self> {
        let (metric, scaler) = match_precision!(AnyModel: model, model => (&model.metric, &model.scaler));
        let Some(metric) = metric else {
            let why = "the model has no metric; name one that was fitted with `metric` learn";
            return Err(Error::option("metric", "a model", why));
        };
        if model.metadata().features != features {
            let why = "its features differ from the features of the rows, or their order does; name a model of the same columns";
            return Err(Error::option("metric", "a model", why));
        }
        Ok(Self::Provided(ProvidedMetric { metric: metric.clone(), scaler: Some(scaler.clone()) }))
    }

    /// Reads the metric from a table with one column per input. A single row is a diagonal, and r
    /// rows are an r x d matrix. The metric applies to the inputs as the fit scales them.
    ///
    /// # Errors
    /// A table without rows or with more than 100,000 rows; invalid numbers; read errors.
    #[doc(hidden)]
    pub fn from_table(table: &SelectedTable) -> Result<Self> {
        let source = table.rows::<f64>(ReadSettings::default())?;
        let range = RowSource::<f64>::range(&source);
        if range.end - range.start > MAX_METRIC_ROWS {
            let got = format!("{} rows", range.end - range.start);
            return Err(Error::option(
                "metric",
                got,
                "expected at most 100,000 rows: one row for a diagonal, or the rows of a matrix",
            ));
        }
        let (mut cursor, mut tile) = (RowSource::<f64>::open(&source, range)?, RowBuf::new(METRIC_TILE_ROWS));
        let (mut numbers, mut row_count) = (Vec::new(), 0);
        while cursor.next(&mut tile)? {
            numbers.extend_from_slice(&tile.x);
            row_count += tile.row_numbers.len();
        }
        let metric = if row_count == 1 { Metric::diagonal(numbers)? } else { Metric::matrix(&numbers, row_count)? };
        Ok(Self::from_metric(Arc::new(metric)))
    }
}
