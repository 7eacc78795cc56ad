//! Explanations of anomalous rows: the columns that make a row anomalous, and normal values for
//! these columns.
//!
//! A greedy search first changes the column whose change makes the row most normal, then a second
//! and a third column. It ends when the row is normal or the gain of a change is small. The values
//! that the search tries in a column are those of the landmarks or, if the model has no landmarks
//! or has a metric, values up to two standard deviations from the mean. The search needs only
//! scores, so it works with every kernel, map and solver. Alternatives are worse: the gradient of
//! the score is only a local direction, and vanishes far from all rows; a fixed-point iteration for
//! the nearest normal point exists for Gaussian kernels only, and changes all columns at once.
//!
//! *Cost* per row: 32d predictions for each reason (d columns, 32 trial values).
//!
//! Reference: Wachter, Mittelstadt, Russell, "Counterfactual explanations without opening the black
//! box", 2017: the nearest row with another decision.

use super::prepared_model::{InputBuffers, PREDICT_TILE_ROWS, PreparedModel};
use crate::{Result, Task};
use kapprox::{KernelFunction, Real};
use kstore::Scaler;
use std::sync::Arc;

/// Maximum number of reasons per row.
pub(super) const MAX_REASONS: usize = 3;
/// Maximum number of trial values per column.
const MAX_TRIAL_VALUES: usize = 32;
/// Minimum gain of a change, relative to the total gain of the previous changes.
const MIN_RELATIVE_GAIN: f64 = 0.1;

/// Distance from the mean, in standard deviations, above which
/// [`ExplanationSearch::farthest_columns`] reports a column.
const FAR_DEVIATIONS: f64 = 3.0;

/// Bound on the rounding error of a value that is scaled and unscaled, in units of ε.
const ROUNDING_UNITS: f64 = 8.0;

/// Trial values if the model has no landmarks, in eighths of a standard deviation from the mean.
const TRIAL_EIGHTHS: std::ops::RangeInclusive<i32> = -16..=16;

/// A column that makes a row anomalous.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct FeatureContribution {
    /// Feature name.
    pub feature: String,
    /// Value in the row.
    pub value: f64,
    /// Trial value that makes the row most normal.
    pub expected: f64,
}

impl std::fmt::Display for FeatureContribution {
    /// Writes values with six digits and expected values with four: `load 74, expected 60`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [value, expected] = [round_to_digits(self.value, 6), round_to_digits(self.expected, 4)];
        write!(f, "{} {value}, expected {expected}", self.feature)
    }
}

/// Rounds a number to this many significant digits. Values of a table have six: rows are in f32.
pub(super) fn round_to_digits(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// Converts a scaled value of feature `j` to the units of the table. `epsilon` is the relative
/// rounding error of the scaled value.
pub(super) fn unscale(scaler: &Scaler, j: usize, scaled: f64, epsilon: f64) -> f64 {
    round_to_zero(scaler, j, scaler.invert(j, scaled), epsilon)
}

/// Returns the value, or 0 if it is within the rounding error of the scaling, so that a reason
/// shows `0`, not `2.7e-15`.
fn round_to_zero(scaler: &Scaler, j: usize, value: f64, epsilon: f64) -> f64 {
    let rounding_error =
        ROUNDING_UNITS * epsilon * (scaler.centre[j].abs() + scaler.scale[j].abs() + scaler.mean[j].abs());
    if value.abs() <= rounding_error { 0.0 } else { value }
}

/// Formats reasons: `load 74, expected 60; flow 3, expected 2.5`.
pub(super) fn explanation_text(reasons: &[FeatureContribution]) -> String {
    reasons.iter().map(FeatureContribution::to_string).collect::<Vec<_>>().join("; ")
}

pub(super) struct ExplanationSearch<'a, T: Real> {
    prepared: &'a PreparedModel<T>,
    kernel: Arc<dyn KernelFunction<T>>,
    /// Trial values of each column, in the units of the table.
    trial_values: Vec<Vec<f64>>,
}

impl<'a, T: Real> ExplanationSearch<'a, T> {
    pub(super) fn new(prepared: &'a PreparedModel<T>) -> Result<Self> {
        let (scaler, d) = (&prepared.model.scaler, prepared.model.scaler.input_count());
        let landmarks = prepared.model.basis.landmarks().filter(|_| prepared.model.metric.is_none());
        let trial_values_of = |j: usize| {
            let mut values: Vec<f64> = match landmarks {
                Some((rows, _)) => rows.iter().skip(j).step_by(d).map(|v| v.to_f64()).collect(),
                None => TRIAL_EIGHTHS.map(|step| f64::from(step) / 8.0).collect(),
            };
            values.sort_unstable_by(f64::total_cmp);
            values.dedup();
            let (n, trial_count) = (values.len(), values.len().min(MAX_TRIAL_VALUES));
            (0..trial_count)
                .map(|i| unscale(scaler, j, values[(2 * i + 1) * n / (2 * trial_count)], T::EPSILON))
                .collect()
        };
        Ok(Self { prepared, kernel: prepared.model.kernel()?, trial_values: (0..d).map(trial_values_of).collect() })
    }

    /// Returns the normality of rows `x` (row-major, in the units of the table): their scores or,
    /// for components, minus the squared distance from their span.
    fn normality(&self, x: &[f64]) -> Result<Vec<f64>> {
        let (prepared, n) = (self.prepared, x.len() / self.trial_values.len().max(1));
        let mut out = vec![0.0; n];
        if prepared.model.metadata.task == Task::Novelty {
            prepared.predict(x, &mut out)?;
            return Ok(out);
        }
        prepared.for_each_tile(x, PREDICT_TILE_ROWS, &mut InputBuffers::default(), |rows, first_row| {
            let out = &mut out[first_row..first_row + rows.nrows()];
            let workers = kstore::Workers::sequential();
            prepared.model.predict_quadratic(&prepared.basis_functions, &*self.kernel, rows, out, &workers)
        })?;
        out.iter_mut().for_each(|square| *square = -*square);
        Ok(out)
    }

    /// Returns the reasons why a row is anomalous, the strongest first.
    pub(super) fn explain(&self, x: &[f64]) -> Result<Vec<FeatureContribution>> {
        let (mut row, mut reasons) = (x.to_vec(), Vec::new());
        let mut normality = self.normality(x)?.first().copied().unwrap_or(0.0);
        let (initial_normality, mut is_changed) = (normality, vec![false; row.len()]);
        while reasons.len() < MAX_REASONS && (reasons.is_empty() || normality < 0.0) {
            let unchanged_columns = (0..row.len()).filter(|j| !is_changed[*j]);
            let trials: Vec<(usize, f64)> =
                unchanged_columns.flat_map(|j| self.trial_values[j].iter().map(move |v| (j, *v))).collect();
            let rows = trials.iter().flat_map(|(j, value)| {
                let mut row = row.clone();
                row[*j] = *value;
                row
            });
            let normalities = self.normality(&rows.collect::<Vec<_>>())?;
            let Some((best_trial, best_normality)) =
                normalities.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
            else {
                break;
            };
            if best_normality - normality
                <= (MIN_RELATIVE_GAIN * (normality - initial_normality)).max(f64::from(f32::EPSILON) * normality.abs())
            {
                break;
            }
            let (j, expected) = trials[best_trial];
            reasons.push(FeatureContribution {
                feature: self.prepared.model.metadata.features[j].clone(),
                value: row[j],
                expected,
            });
            (row[j], is_changed[j], normality) = (expected, true, best_normality);
        }
        Ok(if reasons.is_empty() { self.farthest_columns(x) } else { reasons })
    }

    /// Returns the columns farthest from their means, for a row that is so far from normal rows
    /// that no change of a single column has an effect.
    fn farthest_columns(&self, x: &[f64]) -> Vec<FeatureContribution> {
        let (scaler, features) = (&self.prepared.model.scaler, &self.prepared.model.metadata.features);
        let deviation = |j: usize| scaler.apply(j, x[j]).abs();
        let mut far_columns: Vec<usize> = (0..x.len()).filter(|j| deviation(*j) > FAR_DEVIATIONS).collect();
        far_columns.sort_by(|a, b| deviation(*b).total_cmp(&deviation(*a)));
        let expected_value = |j: usize| round_to_zero(scaler, j, scaler.mean[j], f64::EPSILON);
        let reason =
            |j: usize| FeatureContribution { feature: features[j].clone(), value: x[j], expected: expected_value(j) };
        far_columns.into_iter().take(MAX_REASONS).map(reason).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_table_keep_six_digits() {
        let reason = FeatureContribution { feature: "apps".to_string(), value: 48_094.0, expected: 584.999_999_9 };
        assert_eq!(reason.to_string(), "apps 48094, expected 585");
    }

    #[test]
    fn zeros_and_small_values_are_printed() {
        let scaler = Scaler { centre: vec![5.3], scale: vec![0.7], mean: vec![5.3], ..Scaler::default() };
        for value in [0.0, 0.02, -3.0, 1e-3] {
            let scaled = scaler.apply(0, value);
            let text = |feature| {
                FeatureContribution { feature, value: unscale(&scaler, 0, scaled, f64::EPSILON), expected: 1.0 }
                    .to_string()
            };
            assert_eq!(text("x".to_string()), format!("x {value}, expected 1"));
            let single = unscale(&scaler, 0, f64::from(scaled as f32), f64::from(f32::EPSILON));
            assert!(if value == 0.0 { single == 0.0 } else { (single - value).abs() < 1e-5 && single != 0.0 });
        }
    }
}
