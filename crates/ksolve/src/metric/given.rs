//! Metrics that are known before a fit: those of a model, and those in a table.

use super::MetricSource;
use crate::{AnyModel, Error, Result};
use kapprox::metric::Metric;
use kstore::{Digest, Reading, RowBuf, RowSource, Scaler, Selected};
use std::sync::Arc;

/// Most rows of a table that is read as a metric: more features than this are no reduction of anything.
const MOST_ROWS: u64 = 100_000;

const TILE: usize = 256;

/// A metric that is known before the fit.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownMetric {
    /// The metric, for features that are scaled by `scaler`.
    pub metric: Arc<Metric>,
    /// The scaling of the features that it was learned with; `None` for that of the fit it is used in.
    pub scaler: Option<Scaler>,
}

impl KnownMetric {
    /// A digest of the numbers, by which a job knows its metric.
    pub(crate) fn digest(&self) -> String {
        let numbers = self.metric.numbers().into_iter().chain(self.scaler.iter().flat_map(|s| &s.scale).copied());
        let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        format!("{} of {} features, {}", self.metric.outputs(), self.metric.inputs(), Digest::of(&bytes))
    }

    /// The metric for features that are scaled so: converted where the divisors differ, and as it is behind asinh.
    pub(super) fn scaled(&self, scaler: &Scaler) -> Result<Arc<Metric>> {
        let scale = &scaler.scale;
        if self.metric.inputs() != scale.len() {
            let got = format!("of {} features", self.metric.inputs());
            return Err(Error::option("metric", got, format!("the rows have {}; give a number for each", scale.len())));
        }
        let before = match &self.scaler {
            None => return Ok(self.metric.clone()),
            Some(before) if before.asinh != scaler.asinh => {
                let (has, want) = if before.asinh { ("behind", "asinh") } else { ("without", "standard") };
                let why = format!("it was learned {has} asinh, which no metric can make up for; set `scale` {want}");
                return Err(Error::option("metric", "", why));
            }
            Some(before) if before.asinh => return Ok(self.metric.clone()),
            Some(before) => &before.scale,
        };
        // a feature that did not vary has a divisor of 0 and no effect, there or here
        let ratio = |(now, before): (&f64, &f64)| if *before == 0.0 { 0.0 } else { now / before };
        let ratios: Vec<f64> = scale.iter().zip(before).map(ratio).collect();
        Ok(match ratios.iter().all(|ratio| *ratio == 1.0) {
            true => self.metric.clone(),
            false => Arc::new(self.metric.rescaled(&ratios)),
        })
    }
}

impl MetricSource {
    /// The metric of a model, for rows whose features have these names. Where the divisors of the features differ from the model's,
    /// the metric is converted, so that it means the same in the units of the table.
    ///
    /// # Errors
    /// [`Error::Option`] for a model without a metric, or of other features.
    pub fn of_model(model: &AnyModel, features: &[String]) -> Result<Self> {
        let (metric, scaler) = match model {
            AnyModel::F32(model) => (&model.metric, model.scaler()),
            AnyModel::F64(model) => (&model.metric, model.scaler()),
        };
        let Some(metric) = metric else {
            let why = "the model has no metric; take one that was fitted with `metric` learn";
            return Err(Error::option("metric", "a model", why));
        };
        if model.card().features != features {
            let why = "its features are not those of the rows, in their order";
            return Err(Error::option("metric", "a model", why));
        }
        Ok(Self::Given(KnownMetric { metric: metric.clone(), scaler: Some(scaler) }))
    }

    /// The metric in a table with a column for each feature: one row is a diagonal, r rows are a matrix. It is for features as the
    /// fit scales them.
    ///
    /// # Errors
    /// A table without rows, or with more than 100,000; numbers that are no metric; errors of reading.
    pub fn of_table(table: &Selected) -> Result<Self> {
        let source = table.rows::<f64>(Reading::default())?;
        let range = RowSource::<f64>::range(&source);
        if range.end - range.start > MOST_ROWS {
            let got = format!("{} rows", range.end - range.start);
            return Err(Error::option("metric", got, "give one row for a diagonal, or a matrix of a few rows"));
        }
        let (mut cursor, mut tile) = (RowSource::<f64>::open(&source, range)?, RowBuf::new(TILE));
        let (mut numbers, mut rows) = (Vec::new(), 0);
        while cursor.next(&mut tile)? {
            numbers.extend_from_slice(&tile.x);
            rows += tile.rows.len();
        }
        let metric = if rows == 1 { Metric::diagonal(numbers)? } else { Metric::matrix(&numbers, rows)? };
        Ok(Self::of(Arc::new(metric)))
    }
}
