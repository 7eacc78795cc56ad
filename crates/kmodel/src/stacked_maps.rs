//! Several feature maps of the same rows, concatenated.

use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, Real, landmark::LandmarkSet, map::Expansion};
use kstore::{Footprint, Workers};

/// The concatenated features of several maps. They have no certificate, because they approximate
/// several kernels. Solvers that combine kernel functions themselves use the empty list, which has
/// no features.
#[derive(Debug)]
pub struct StackedMaps<T: Real>(pub Vec<Box<dyn FeatureMap<T>>>);

impl<T: Real> FeatureMap<T> for StackedMaps<T> {
    fn dims(&self) -> (usize, usize) {
        let d = self.0.first().map_or(0, |map| map.dims().0);
        (d, self.0.iter().map(|map| map.dims().1).sum())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let mut remaining = out;
        for map in &self.0 {
            let (columns, remaining_columns) = remaining.split_at_col_mut(map.dims().1);
            map.apply(x, columns, workers);
            remaining = remaining_columns;
        }
    }

    /// Returns the landmarks of all maps, concatenated, or, if a map has no landmarks, the
    /// features.
    fn expand(&self, weights: MatRef<'_, f64>, workers: &Workers) -> Expansion<T> {
        let (mut first_feature, mut points, mut row_numbers) = (0, Vec::new(), Vec::new());
        let (mut coefficient_blocks, mut needs_f64): (Vec<Mat<f64>>, bool) = (Vec::new(), false);
        for map in &self.0 {
            let p = map.dims().1;
            let Expansion::Landmarks { landmarks, dual_coefficients, needs_f64: map_needs_f64 } =
                map.expand(weights.subrows(first_feature, p), workers)
            else {
                return Expansion::Features { weights: weights.to_owned() };
            };
            points.extend(landmarks.points);
            row_numbers.extend(landmarks.row_numbers);
            needs_f64 |= map_needs_f64;
            coefficient_blocks.push(dual_coefficients);
            first_feature += p;
        }
        let stacked_rows: Vec<(usize, &Mat<f64>)> =
            coefficient_blocks.iter().flat_map(|part| (0..part.nrows()).map(move |i| (i, part))).collect();
        let coefficients =
            Mat::from_fn(stacked_rows.len(), weights.ncols(), |i, j| stacked_rows[i].1[(stacked_rows[i].0, j)]);
        let landmarks = LandmarkSet { points, row_numbers, d: self.dims().0, passes: 0, evaluations: 0 };
        Expansion::Landmarks { landmarks, dual_coefficients: coefficients, needs_f64 }
    }

    fn footprint(&self) -> Footprint {
        self.0.iter().fold(Footprint::default(), |sum, map| sum + map.footprint())
    }
}
