//! Shift and scale of the inputs, learned from the training rows.

use crate::quantiles::{self, KNOTS_PER_INPUT};
use crate::{Statistics, statistics::is_rounding_noise};
use serde::{Deserialize, Serialize};

/// Transforms each input to `u = (v - centre) * (1 / scale)`, to `asinh(u)`, or to the score of u
/// among the quantiles of the input. Computes in f64, and then rounds to the working precision.
///
/// An input of scale 0 becomes 0, whatever its value. Near 0, `asinh(u)` is about u; far from 0, it
/// is about sign(u) ln(2|u|). It therefore shortens both tails of inputs such as counts, amounts
/// and durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    /// Centre, subtracted from each input.
    pub centre: Vec<f64>,
    /// Scale, by which each input is divided; 0 for a constant input.
    pub scale: Vec<f64>,
    /// Replacement of missing values if `missing` is mean, per input, in the units of the file.
    pub mean: Vec<f64>,
    /// True if asinh is applied after shifting and scaling.
    #[serde(default)]
    pub asinh: bool,
    /// Quantiles of each input, shifted and scaled, for the quantile transform; empty for other
    /// scalings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knots: Vec<f64>,
}

impl Scaler {
    /// Returns a scaler to mean 0 and population standard deviation 1.
    pub fn standard(statistics: &Statistics) -> Self {
        let inputs = || statistics.inputs.iter();
        let scale = inputs().map(|input| if input.is_constant() { 0.0 } else { input.deviation() }).collect();
        let mean: Vec<f64> = inputs().map(|input| input.mean).collect();
        Self { centre: mean.clone(), scale, mean, ..Self::default() }
    }

    /// Returns a scaler to the range from 0 to 1.
    pub fn minmax(statistics: &Statistics) -> Self {
        let inputs = || statistics.inputs.iter();
        let centre = inputs().map(|input| if input.count == 0 { 0.0 } else { input.min }).collect();
        let scale = inputs().map(|input| if input.is_constant() { 0.0 } else { input.max - input.min }).collect();
        Self { centre, scale, ..Self::standard(statistics) }
    }

    /// Returns a scaler to asinh of the result of [`robust`](Self::robust).
    pub fn asinh(statistics: &Statistics, sample: &[f64], weights: &[f64]) -> Self {
        Self { asinh: true, ..Self::robust(statistics, sample, weights) }
    }

    /// Returns a scaler that maps a value v to (v - median) / spread. The spread is the median
    /// absolute deviation. If this is 0, as in a column in which more than half of the values are
    /// equal, the spread is the standard deviation.
    ///
    /// `sample` has some rows of the table, row-major, with NaN for missing values;
    /// `weights` are their weights, empty if all are equal. Costs d sorts of the rows.
    pub fn robust(statistics: &Statistics, sample: &[f64], weights: &[f64]) -> Self {
        let d = statistics.inputs.len();
        let (mut scaler, mut values) = (Self::standard(statistics), Vec::new());
        for (j, input) in statistics.inputs.iter().enumerate().filter(|(_, input)| !input.is_constant()) {
            values.clear();
            values.extend(
                weighted_rows(sample, d, weights).map(|(row, weight)| (row[j], weight)).filter(has_finite_value),
            );
            let Some(centre) = median(&mut values) else { continue };
            values.iter_mut().for_each(|(value, _)| *value = (*value - centre).abs());
            let spread =
                median(&mut values).filter(|spread| !is_rounding_noise(*spread, input.min.abs().max(input.max.abs())));
            (scaler.centre[j], scaler.scale[j]) = (centre, spread.unwrap_or(scaler.scale[j]));
        }
        scaler
    }

    /// Returns a scaler that maps each value, by its rank in `sample`, to a quantile of a
    /// distribution that is the same for all inputs. `sample` and `weights` are as in
    /// [`robust`](Self::robust).
    pub fn quantile(statistics: &Statistics, sample: &[f64], weights: &[f64]) -> Self {
        let (d, mut values) = (statistics.inputs.len(), Vec::new());
        let mut scaler = Self::standard(statistics);
        for j in 0..d {
            values.clear();
            let scale_value = |(row, weight): (&[f64], f64)| (scaler.apply_linear(j, row[j]), weight);
            values.extend(weighted_rows(sample, d, weights).map(scale_value).filter(has_finite_value));
            sort_by_value(&mut values);
            match values.is_empty() {
                true => scaler.knots.extend(quantiles::identity_knots()),
                false => scaler.knots.extend(quantiles::knots(&values)),
            }
        }
        scaler
    }

    /// Sets the transform of an input to the identity, for example for an input that is 0 or 1.
    pub fn set_identity(&mut self, i: usize) {
        // asinh is applied after this scale: asinh(v sinh 1) is 0 for v = 0, and 1 for v = 1
        (self.centre[i], self.scale[i]) = (0.0, if self.asinh { 1.0 / 1f64.sinh() } else { 1.0 });
        let input_knots = self.knots.iter_mut().skip(i * KNOTS_PER_INPUT).take(KNOTS_PER_INPUT);
        input_knots.zip(quantiles::identity_knots()).for_each(|(knot, score)| *knot = score);
    }

    /// Returns true if the transform is not linear.
    pub fn is_nonlinear(&self) -> bool {
        self.asinh || !self.knots.is_empty()
    }

    /// Returns the length of `knots` for d inputs, if the scaler has knots.
    pub fn knot_count(d: usize) -> usize {
        d * KNOTS_PER_INPUT
    }

    fn apply_linear(&self, i: usize, value: f64) -> f64 {
        (value - self.centre[i]) * inverse_scale(self.scale[i])
    }

    /// Returns a scaler that leaves values unchanged.
    pub fn identity(statistics: &Statistics) -> Self {
        let d = statistics.inputs.len();
        Self { centre: vec![0.0; d], scale: vec![1.0; d], ..Self::standard(statistics) }
    }

    /// Returns the number of inputs.
    pub fn input_count(&self) -> usize {
        self.centre.len()
    }

    /// Returns the scaled value of input `i`.
    #[inline]
    pub fn apply(&self, i: usize, value: f64) -> f64 {
        self.apply_nonlinear(i, self.apply_linear(i, value))
    }

    /// Applies asinh or the quantile transform, if there is one, to a shifted and scaled value of
    /// input `i`.
    #[inline]
    pub fn apply_nonlinear(&self, i: usize, scaled: f64) -> f64 {
        match self.knots.get(i * KNOTS_PER_INPUT..(i + 1) * KNOTS_PER_INPUT) {
            Some(knots) => quantiles::apply(knots, scaled),
            None if self.asinh => scaled.asinh(),
            None => scaled,
        }
    }

    /// Returns the value of input `i` that becomes `scaled`: the inverse of [`Self::apply`], or the
    /// centre of a constant input.
    #[inline]
    pub fn invert(&self, i: usize, scaled: f64) -> f64 {
        let scaled = match self.knots.get(i * KNOTS_PER_INPUT..(i + 1) * KNOTS_PER_INPUT) {
            Some(knots) => quantiles::invert(knots, scaled),
            None if self.asinh => scaled.sinh(),
            None => scaled,
        };
        scaled * self.scale[i] + self.centre[i]
    }
}

fn weighted_rows<'a>(rows: &'a [f64], d: usize, weights: &'a [f64]) -> impl Iterator<Item = (&'a [f64], f64)> {
    rows.chunks_exact(d).zip(weights.iter().copied().chain(std::iter::repeat(1.0)))
}

fn has_finite_value((value, _): &(f64, f64)) -> bool {
    value.is_finite()
}

fn sort_by_value(values: &mut [(f64, f64)]) {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
}

/// Returns the lower median of values with weights; `None` without values. Sorts the
/// values.
fn median(values: &mut [(f64, f64)]) -> Option<f64> {
    sort_by_value(values);
    let total_weight = values.iter().map(|(_, weight)| weight).sum::<f64>();
    (!values.is_empty()).then(|| quantiles::quantile(values, total_weight, 2.0, true))
}

/// Returns the factor for a centred value: 1 / `scale`, or 0 for a scale of 0.
#[inline]
pub fn inverse_scale(scale: f64) -> f64 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
