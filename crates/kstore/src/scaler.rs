//! Shift and scale of features, learned from the training rows.

use crate::Statistics;
use serde::{Deserialize, Serialize};

/// Transforms each feature to `(v - centre) * (1 / scale)`, in f64, before a value is narrowed to the working
/// precision.
///
/// A feature of scale 0 becomes 0, whatever its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    /// Subtracted from each feature.
    pub centre: Vec<f64>,
    /// Each feature is divided by it; 0 for a constant feature.
    pub scale: Vec<f64>,
    /// The value that replaces a missing one when `missing` is mean, per feature, in the units of the file.
    pub mean: Vec<f64>,
}

/// How far apart values must be, in units of the last place of the largest, to count as different: a column computed
/// as a constant by slightly different routes differs by a few such units, and dividing by its deviation would blow
/// rounding noise up to the size of a real feature.
const CONSTANT_ULPS: f64 = 8.0;

impl Scaler {
    /// A scaler to mean 0 and (population) deviation 1.
    pub fn standard(statistics: &Statistics) -> Self {
        let features = || statistics.features.iter();
        let scale = features().map(|f| if f.is_constant() { 0.0 } else { f.deviation() }).collect();
        let mean: Vec<f64> = features().map(|f| f.mean).collect();
        Self { centre: mean.clone(), scale, mean }
    }

    /// A scaler to the range from 0 to 1.
    pub fn minmax(statistics: &Statistics) -> Self {
        let features = || statistics.features.iter();
        Self {
            centre: features().map(|f| if f.count == 0 { 0.0 } else { f.min }).collect(),
            scale: features().map(|f| if f.is_constant() { 0.0 } else { f.max - f.min }).collect(),
            mean: features().map(|f| f.mean).collect(),
        }
    }

    /// A scaler that leaves values as they are.
    pub fn identity(statistics: &Statistics) -> Self {
        let d = statistics.features.len();
        Self { centre: vec![0.0; d], scale: vec![1.0; d], mean: statistics.features.iter().map(|f| f.mean).collect() }
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.centre.len()
    }

    /// The scaled value of feature `i`.
    #[inline]
    pub fn apply(&self, i: usize, value: f64) -> f64 {
        (value - self.centre[i]) * factor(self.scale[i])
    }
}

/// The factor that a centred value is multiplied by: 1 / `scale`, or 0 for a scale of 0.
#[inline]
pub(crate) fn factor(scale: f64) -> f64 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// True where a deviation is rounding noise beside values as large as `magnitude`.
pub(crate) fn is_noise(deviation: f64, magnitude: f64) -> bool {
    deviation <= CONSTANT_ULPS * f64::EPSILON * magnitude
}
