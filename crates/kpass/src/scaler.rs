//! Shift and scale of features, learned from the training rows.

use crate::quantiles::{self, KNOTS};
use crate::{Statistics, statistics::is_noise};
use serde::{Deserialize, Serialize};

/// Transforms each feature to `u = (v - centre) * (1 / scale)`, to `asinh(u)` or to the score of u among the quantiles of the feature, in f64, before a value is narrowed to
/// the working precision.
///
/// A feature of scale 0 becomes 0, whatever its value. `asinh` is the line u near 0 and the logarithm sign(u) ln(2|u|) far from it: it
/// draws in the tails of counts, amounts and durations, on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    /// Subtracted from each feature.
    pub centre: Vec<f64>,
    /// Each feature is divided by it; 0 for a constant feature.
    pub scale: Vec<f64>,
    /// The value that replaces a missing one when `missing` is mean, per feature, in the units of the file.
    pub mean: Vec<f64>,
    /// True where a value goes through asinh after it was shifted and scaled.
    #[serde(default)]
    pub asinh: bool,
    /// For each feature the quantiles, shifted and scaled, by which a value becomes its score; empty where it stays what it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knots: Vec<f64>,
}

impl Scaler {
    /// A scaler to mean 0 and (population) deviation 1.
    pub fn standard(statistics: &Statistics) -> Self {
        let features = || statistics.features.iter();
        let scale = features().map(|f| if f.is_constant() { 0.0 } else { f.deviation() }).collect();
        let mean: Vec<f64> = features().map(|f| f.mean).collect();
        Self { centre: mean.clone(), scale, mean, ..Self::default() }
    }

    /// A scaler to the range from 0 to 1.
    pub fn minmax(statistics: &Statistics) -> Self {
        let features = || statistics.features.iter();
        let centre = features().map(|f| if f.count == 0 { 0.0 } else { f.min }).collect();
        let scale = features().map(|f| if f.is_constant() { 0.0 } else { f.max - f.min }).collect();
        Self { centre, scale, ..Self::standard(statistics) }
    }

    /// A scaler to asinh of what [`robust`](Self::robust) gives.
    pub fn asinh(statistics: &Statistics, rows: &[f64], weights: &[f64]) -> Self {
        Self { asinh: true, ..Self::robust(statistics, rows, weights) }
    }

    /// A scaler to (v - median) / spread: the spread is the median distance from the median, or the deviation where that is 0, as in a
    /// column that is mostly one value. `rows` are some rows of the table, row-major, and `weights` theirs, empty if all count alike; missing values are NaN. Costs d sorts of them.
    pub fn robust(statistics: &Statistics, rows: &[f64], weights: &[f64]) -> Self {
        let d = statistics.features.len();
        let (mut scaler, mut values) = (Self::standard(statistics), Vec::new());
        for (j, feature) in statistics.features.iter().enumerate().filter(|(_, feature)| !feature.is_constant()) {
            values.clear();
            values.extend(weighed(rows, d, weights).map(|(row, weight)| (row[j], weight)).filter(is_number));
            let Some(centre) = median(&mut values) else { continue };
            values.iter_mut().for_each(|(value, _)| *value = (*value - centre).abs());
            let spread =
                median(&mut values).filter(|spread| !is_noise(*spread, feature.min.abs().max(feature.max.abs())));
            (scaler.centre[j], scaler.scale[j]) = (centre, spread.unwrap_or(scaler.scale[j]));
        }
        scaler
    }

    /// A scaler to the quantiles of one distribution for all features: a value by its rank among `rows`, which are those of [`robust`](Self::robust).
    pub fn quantile(statistics: &Statistics, rows: &[f64], weights: &[f64]) -> Self {
        let (d, mut values) = (statistics.features.len(), Vec::new());
        let mut scaler = Self::standard(statistics);
        for j in 0..d {
            values.clear();
            let scaled = |(row, weight): (&[f64], f64)| (scaler.apply_line(j, row[j]), weight);
            values.extend(weighed(rows, d, weights).map(scaled).filter(is_number));
            ascend(&mut values);
            match values.is_empty() {
                true => scaler.knots.extend(quantiles::identity()),
                false => scaler.knots.extend(quantiles::knots(&values)),
            }
        }
        scaler
    }

    /// Lets a feature stay what it is, such as one that is 0 or 1.
    pub fn keep(&mut self, i: usize) {
        // asinh comes last
        (self.centre[i], self.scale[i]) = (0.0, if self.asinh { 1.0 / 1f64.sinh() } else { 1.0 });
        let own = self.knots.iter_mut().skip(i * KNOTS).take(KNOTS);
        own.zip(quantiles::identity()).for_each(|(knot, score)| *knot = score);
    }

    /// True where values are not on a line with those of the file.
    pub fn bends(&self) -> bool {
        self.asinh || !self.knots.is_empty()
    }

    /// Number of numbers in `knots` for d features, where there are any.
    pub fn knots_of(d: usize) -> usize {
        d * KNOTS
    }

    fn apply_line(&self, i: usize, value: f64) -> f64 {
        (value - self.centre[i]) * factor(self.scale[i])
    }

    /// A scaler that leaves values as they are.
    pub fn identity(statistics: &Statistics) -> Self {
        let d = statistics.features.len();
        Self { centre: vec![0.0; d], scale: vec![1.0; d], ..Self::standard(statistics) }
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.centre.len()
    }

    /// The scaled value of feature `i`.
    #[inline]
    pub fn apply(&self, i: usize, value: f64) -> f64 {
        self.bend(i, self.apply_line(i, value))
    }

    /// A value of feature `i` on the line, through asinh or among its knots.
    #[inline]
    pub fn bend(&self, i: usize, scaled: f64) -> f64 {
        match self.knots.get(i * KNOTS..(i + 1) * KNOTS) {
            Some(knots) => quantiles::apply(knots, scaled),
            None if self.asinh => scaled.asinh(),
            None => scaled,
        }
    }

    /// The value of feature `i` that becomes `scaled`: the inverse of [`Self::apply`], and the centre of a constant feature.
    #[inline]
    pub fn invert(&self, i: usize, scaled: f64) -> f64 {
        let scaled = match self.knots.get(i * KNOTS..(i + 1) * KNOTS) {
            Some(knots) => quantiles::invert(knots, scaled),
            None if self.asinh => scaled.sinh(),
            None => scaled,
        };
        scaled * self.scale[i] + self.centre[i]
    }
}

fn weighed<'a>(rows: &'a [f64], d: usize, weights: &'a [f64]) -> impl Iterator<Item = (&'a [f64], f64)> {
    rows.chunks_exact(d).zip(weights.iter().copied().chain(std::iter::repeat(1.0)))
}

fn is_number((value, _): &(f64, f64)) -> bool {
    value.is_finite()
}

fn ascend(values: &mut [(f64, f64)]) {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
}

/// The lower median of values with weights; `None` of nothing. Sorts the values.
fn median(values: &mut [(f64, f64)]) -> Option<f64> {
    ascend(values);
    let total = values.iter().map(|(_, weight)| weight).sum::<f64>();
    (!values.is_empty()).then(|| quantiles::quantile(values, total, 2.0, true))
}

/// The factor that a centred value is multiplied by: 1 / `scale`, or 0 for a scale of 0.
#[inline]
pub fn factor(scale: f64) -> f64 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
