//! A basis that clips its rows and applies the metric itself, so that other parts of the model see
//! the rows before both.

use faer::{MatMut, MatRef};
use kapprox::metric::Metric;
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};
use std::sync::Arc;

/// Rounds a value to f32, as in the fit, although the model predicts in f64. Categories that
/// equalled a landmark's category in the fit must also equal it in predictions.
pub(crate) fn round_to_f32(value: f64) -> f64 {
    f64::from((value as f32).clamp(f32::MIN, f32::MAX))
}

/// Clips a value to a range.
fn clip<T: Real>(value: T, [min, max]: [T; 2]) -> T {
    if value < min {
        min
    } else if value > max {
        max
    } else {
        value
    }
}

/// Clips rows to ranges, if there are ranges. Before a row is clipped, calls `on_outside` with the
/// row and the ranges.
pub(crate) fn clip_rows<T: Real>(
    rows: &mut [T],
    ranges: Option<&[[T; 2]]>,
    mut on_outside: impl FnMut(&[T], &[[T; 2]]),
) {
    let Some(ranges) = ranges else { return };
    let is_outside = |row: &[T]| row.iter().zip(ranges).any(|(value, range)| clip(*value, *range) != *value);
    for row in rows.chunks_exact_mut(ranges.len()).filter(|row| is_outside(row)) {
        on_outside(row, ranges);
        row.iter_mut().zip(ranges).for_each(|(value, range)| *value = clip(*value, *range));
    }
}

/// The basis functions b(A clip(x)) of scaled rows x, for a metric A.
#[derive(Debug)]
pub(super) struct ClippedBasis<T: Real> {
    pub(super) basis: Box<dyn FeatureMap<T>>,
    /// Scaled training range of each feature, if rows are clipped to it.
    pub(super) ranges: Option<Vec<[T; 2]>>,
    pub(super) metric: Option<Arc<Metric>>,
    /// True if the outputs of the metric are rounded to f32, as in the fit.
    pub(super) rounds_to_f32: bool,
    pub(super) input_count: usize,
}

impl<T: Real> FeatureMap<T> for ClippedBasis<T> {
    fn dims(&self) -> (usize, usize) {
        (self.input_count, self.basis.dims().1)
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let mut rows: Vec<T> = x.row_iter().flat_map(|row| row.iter().copied()).collect();
        clip_rows(&mut rows, self.ranges.as_deref(), |_, _| {});
        if let Some(metric) = &self.metric {
            let scaled_rows = std::mem::take(&mut rows);
            rows.resize(x.nrows() * metric.output_count(), T::default());
            metric.apply(&scaled_rows, &mut rows);
            if self.rounds_to_f32 {
                rows.iter_mut().for_each(|value| *value = T::from_f64(round_to_f32(value.to_f64())));
            }
        }
        self.basis.apply(MatRef::from_row_major_slice(&rows, x.nrows(), self.basis.dims().0), out, workers);
    }

    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.basis.footprint();
        Footprint { fixed, per_row: per_row + (self.input_count + self.basis.dims().0) * size_of::<T>() }
    }
}
