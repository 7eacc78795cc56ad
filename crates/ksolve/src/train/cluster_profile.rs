//! A pass that describes the clusters of a fit by the columns of their rows.
//!
//! The pass reads the rows in the units of the table, assigns each row to a cluster by the
//! functions of the solver, and sums its values. For every cluster the profile has
//!
//! - the columns whose mean in the cluster differs most from the mean of all rows, in standard
//!   deviations of the column over all rows; for a category, the level with the largest lift, the
//!   fraction of the cluster's rows divided by the fraction of all rows;
//! - the rows nearest to the centroid in the space of the clustering.
//!
//! It also chooses the two columns of a picture that separate the clusters best. With pooled
//! variances within the clusters, two clusters whose means are s apart in standard deviations have
//! the Bhattacharyya coefficient exp(−s²/8), a bound on the overlap of two normal distributions.
//! The axes minimise greedily the mean of this coefficient over pairs of rows from different
//! clusters, as if the two columns were independent.
//!
//! *Passes*: one. *Flops*: the flops of the map, and 2pk per row for p features and k clusters.
//! *Bytes*: 16kd for each state of d columns.
//!
//! Reference: Bhattacharyya, "On a measure of divergence between two statistical populations",
//! Bull. Calcutta Math. Soc. 35, 1943.

use super::cluster_columns::{Columns, column_groups, distinctive_columns, separating_axes};
use crate::linalg::strips::for_each_strip;
use crate::model::ClusterProfile;
use crate::request::Resources;
use crate::solver::Solution;
use crate::train::prepared::PreparedFit;
use crate::{Error, Result, Task};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::{FeatureMap, Real, metric::Metric};
use kmodel::row_weights::block_weight;
use kstore::{Merge, ReadSettings, Reduction, RowBlock, RowSource, Scaler, SelectedTable, Workers};

/// Number of typical rows of a cluster.
const TYPICAL_ROWS: usize = 3;
/// Number of rows that one thread scores at once.
const STRIP_ROWS: usize = 288;

/// The profiles of the clusters, in their order, and the features of a picture.
#[derive(Debug, Default)]
pub(super) struct ClusterProfiles {
    pub(super) profiles: Vec<ClusterProfile>,
    pub(super) axes: Vec<String>,
}

/// Returns the profiles of the clusters of a solution, in one pass. They are empty for other tasks
/// and for sparse rows, whose columns are too many.
pub(super) fn cluster_profiles<T: Real>(
    selected: &SelectedTable,
    prepared: &PreparedFit<T>,
    solution: &Solution<T>,
    resources: &Resources<'_>,
) -> Result<ClusterProfiles> {
    if prepared.options.task != Task::Clusters || selected.sparse_shape().is_some() || solution.basis.is_some() {
        return Ok(ClusterProfiles::default());
    }
    let (k, r) = (solution.weights.ncols(), solution.weights.nrows());
    let projection_columns = solution.cluster_projection.as_ref().map_or(0, Mat::ncols);
    let functions = Mat::from_fn(r, k + projection_columns, |i, j| match (j < k, &solution.cluster_projection) {
        (false, Some(projection)) => projection[(i, j - k)],
        _ => solution.weights[(i, j)],
    });
    let source = selected.rows::<f64>(ReadSettings {
        weight_unit: Some(prepared.survey.weight_unit()).filter(|unit| *unit != 1.0),
        ..ReadSettings::default()
    })?;
    let d = RowSource::<f64>::shape(&source).input_count;
    let reduction = ProfileReduction {
        map: &*prepared.built_map.map,
        scaler: &prepared.survey.scaler,
        metric: prepared.options.metric.provided().map(|metric| &**metric),
        functions,
        intercept: &solution.intercept,
        k,
        d,
    };
    let observer = resources.start_stage_over("cluster profiles", source.range());
    let pass_shape = prepared.pass_shape;
    let pass = pass_shape.pass(pass_shape.gram_lanes, resources, &*observer);
    let state = pass.resume("cluster profiles", &source, &reduction)?.0;
    let is_binary = selected.encoding().map_or_else(|| vec![false; d], |encoding| encoding.binary_mask());
    let columns = Columns { names: selected.feature_names(), groups: column_groups(selected, d), is_binary };
    let statistics = &prepared.survey.statistics.inputs;
    let means: Vec<f64> = prepared.survey.scaler.mean.clone();
    let deviations: Vec<f64> =
        statistics.iter().map(|input| if input.is_constant() { 0.0 } else { input.deviation() }).collect();
    Ok(state.into_profiles(&columns, &means, &deviations))
}

struct ProfileReduction<'a, T: Real> {
    map: &'a dyn FeatureMap<T>,
    scaler: &'a Scaler,
    metric: Option<&'a Metric>,
    /// The score functions of the clusters, followed by the directions of the clustering, as
    /// columns.
    functions: Mat<f64>,
    intercept: &'a [f64],
    k: usize,
    d: usize,
}

/// Buffers of a lane.
struct ProfileScratch<T: Real> {
    scaled_rows: Vec<T>,
    after_metric: Vec<T>,
    phi: Mat<T>,
    /// Values of the functions, and the squared norm of the features, row-major.
    values: Vec<f64>,
}

/// Sums over the rows of each cluster.
struct ProfileState {
    row_counts: Vec<f64>,
    weights: Vec<f64>,
    /// Weight of the rows of each cluster that have a value in each column, k x d.
    value_weights: Vec<f64>,
    /// Weighted sums of the values minus the mean of the column, k x d.
    sums: Vec<f64>,
    /// Weighted sums of the squares of these differences over all rows, d numbers.
    squares: Vec<f64>,
    nearest: NearestRows,
}

kstore::summed!(ProfileState {
    fill "rows": row_counts, fill "weights": weights, fill "value weights": value_weights, fill "sums": sums,
    fill "squares": squares, part "nearest": nearest,
});

/// The rows nearest to each centroid, [`TYPICAL_ROWS`] for each cluster, in ascending order of the
/// distance. The distance of a missing row is infinite.
struct NearestRows {
    distances: Vec<f64>,
    row_numbers: Vec<u64>,
}

kstore::persist!(NearestRows { fill "distances": distances, fill "numbers": row_numbers });

impl NearestRows {
    fn new(k: usize) -> Self {
        Self { distances: vec![f64::INFINITY; k * TYPICAL_ROWS], row_numbers: vec![0; k * TYPICAL_ROWS] }
    }

    /// Adds a row; of equally near rows, the earlier row comes first.
    fn push(&mut self, cluster: usize, distance: f64, row_number: u64) {
        let range = cluster * TYPICAL_ROWS..(cluster + 1) * TYPICAL_ROWS;
        let (distances, row_numbers) = (&mut self.distances[range.clone()], &mut self.row_numbers[range]);
        let position = distances.partition_point(|other| *other <= distance);
        if position < TYPICAL_ROWS {
            distances[position..].rotate_right(1);
            row_numbers[position..].rotate_right(1);
            (distances[position], row_numbers[position]) = (distance, row_number);
        }
    }

    fn rows_of(&self, cluster: usize) -> Vec<u64> {
        let slots = cluster * TYPICAL_ROWS..(cluster + 1) * TYPICAL_ROWS;
        slots.filter(|slot| self.distances[*slot] < f64::INFINITY).map(|slot| self.row_numbers[slot]).collect()
    }
}

impl Merge for NearestRows {
    fn merge(&mut self, later: &Self) {
        for (slot, distance) in later.distances.iter().enumerate().filter(|(_, distance)| distance.is_finite()) {
            self.push(slot / TYPICAL_ROWS, *distance, later.row_numbers[slot]);
        }
    }
}

impl<T: Real> ProfileReduction<'_, T> {
    /// Computes the functions of the rows of a tile, and the squared norms of their features.
    fn compute_values(&self, rows: &RowBlock<'_, f64>, scratch: &mut ProfileScratch<T>, workers: &Workers) {
        let (b, scaler) = (rows.len(), self.scaler);
        scratch.scaled_rows.clear();
        scratch.scaled_rows.extend(rows.x.iter().enumerate().map(|(i, value)| {
            let j = i % self.d;
            T::from_f64(scaler.apply(j, if value.is_nan() { scaler.mean[j] } else { *value }))
        }));
        let x = match self.metric {
            None => &scratch.scaled_rows,
            Some(metric) => {
                scratch.after_metric.resize(b * metric.output_count(), T::ZERO);
                metric.apply(&scratch.scaled_rows, &mut scratch.after_metric);
                &scratch.after_metric
            }
        };
        let ((inputs, p), (r, count)) = (self.map.dims(), self.functions.shape());
        if scratch.phi.nrows() < b {
            scratch.phi = Mat::zeros(b, p);
        }
        self.map.apply(MatRef::from_row_major_slice(x, b, inputs), scratch.phi.as_mut().subrows_mut(0, b), workers);
        scratch.values.resize(b * (count + 1), 0.0);
        let phi = scratch.phi.as_ref();
        for_each_strip(workers, &mut scratch.values, STRIP_ROWS * (count + 1), |strip, values| {
            let (first, rows) = (strip * STRIP_ROWS, values.len() / (count + 1));
            let phi = phi.subrows(first, rows);
            let features = Mat::from_fn(rows, r, |i, j| phi[(i, j)].to_f64());
            let mut values = MatMut::from_row_major_slice_mut(values, rows, count + 1);
            let products = values.as_mut().subcols_mut(0, count);
            matmul(products, Accum::Replace, features.as_ref(), self.functions.as_ref(), 1.0, Par::Seq);
            (0..rows).for_each(|i| {
                values[(i, count)] = (0..p).map(|j| phi[(i, j)].to_f64().powi(2)).sum();
            });
        });
    }

    /// Returns the cluster of a row, and a number that grows with its distance from the centroid.
    fn cluster_and_distance(&self, values: &[f64]) -> (usize, f64) {
        let score = |j: usize| values[j] + self.intercept[j];
        let cluster = (1..self.k).fold(0, |best, j| if score(j) > score(best) { j } else { best });
        let (coordinates, squared_norm) = (&values[self.k..values.len() - 1], values[values.len() - 1]);
        let distance = match coordinates {
            // ‖φ − c‖² = ‖φ‖² − 2 (φᵀc − ‖c‖²/2)
            [] => squared_norm - 2.0 * score(cluster),
            // the angle to a centroid of norm 1
            coordinates => {
                let norm = coordinates.iter().map(|v| v * v).sum::<f64>().sqrt();
                if norm > 0.0 { -score(cluster) / norm } else { 0.0 }
            }
        };
        (cluster, distance)
    }
}

impl<T: Real> Reduction<f64> for ProfileReduction<'_, T> {
    type State = ProfileState;
    type Scratch = ProfileScratch<T>;
    type Error = Error;

    fn init(&self) -> ProfileState {
        let (k, d) = (self.k, self.d);
        ProfileState {
            row_counts: vec![0.0; k],
            weights: vec![0.0; k],
            value_weights: vec![0.0; k * d],
            sums: vec![0.0; k * d],
            squares: vec![0.0; d],
            nearest: NearestRows::new(k),
        }
    }

    fn scratch(&self) -> ProfileScratch<T> {
        ProfileScratch { scaled_rows: Vec::new(), after_metric: Vec::new(), phi: Mat::new(), values: Vec::new() }
    }

    fn step(
        &self,
        state: &mut ProfileState,
        scratch: &mut ProfileScratch<T>,
        block: &RowBlock<'_, f64>,
        workers: &Workers,
    ) -> Result<()> {
        self.compute_values(block, scratch, workers);
        let value_count = self.functions.ncols() + 1;
        let rows = block.x.chunks_exact(self.d.max(1)).zip(scratch.values.chunks_exact(value_count));
        for (i, (row, values)) in rows.enumerate() {
            let (weight, (cluster, distance)) =
                (block_weight(block, i)?.unwrap_or(1.0), self.cluster_and_distance(values));
            state.row_counts[cluster] += 1.0;
            state.weights[cluster] += weight;
            state.nearest.push(cluster, distance, block.row_numbers[i]);
            let columns = cluster * self.d..(cluster + 1) * self.d;
            let sums = state.value_weights[columns.clone()].iter_mut().zip(&mut state.sums[columns]);
            for (((value, mean), (value_weight, sum)), square) in
                row.iter().zip(&self.scaler.mean).zip(sums).zip(&mut state.squares)
            {
                if !value.is_nan() {
                    let difference = value - mean;
                    *value_weight += weight;
                    *sum += weight * difference;
                    *square += weight * difference * difference;
                }
            }
        }
        Ok(())
    }
}

impl ProfileState {
    /// Returns the profiles, and the axes of a picture. `means` and `deviations` describe the
    /// columns over all rows; the deviation of a constant column is 0.
    fn into_profiles(self, columns: &Columns, means: &[f64], deviations: &[f64]) -> ClusterProfiles {
        let (k, d) = (self.weights.len(), means.len());
        let total_weight = self.weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        // mean difference from the mean of all rows, k x d; 0 without values
        let shifts: Vec<f64> = self
            .sums
            .iter()
            .zip(&self.value_weights)
            .map(|(sum, weight)| if *weight > 0.0 { sum / weight } else { 0.0 })
            .collect();
        let profile = |cluster: usize| {
            let shifts = &shifts[cluster * d..(cluster + 1) * d];
            ClusterProfile {
                rows: self.row_counts[cluster] as u64,
                fraction: self.weights[cluster] / total_weight,
                columns: distinctive_columns(shifts, columns, means, deviations),
                typical_rows: self.nearest.rows_of(cluster),
                typical_names: Vec::new(),
            }
        };
        let fractions: Vec<f64> = self.weights.iter().map(|weight| weight / total_weight).collect();
        let within_deviation = |j: usize| {
            let weight = (0..k).map(|c| self.value_weights[c * d + j]).sum::<f64>();
            let between: f64 = (0..k).map(|c| self.sums[c * d + j] * shifts[c * d + j]).sum();
            ((self.squares[j] - between).max(0.0) / weight.max(f64::MIN_POSITIVE)).sqrt()
        };
        let candidates = (0..d).filter(|j| !columns.is_binary[*j] && deviations[*j] > 0.0).map(|j| {
            // a column without variance within clusters separates them as far as rounding permits
            let unit = within_deviation(j).max(1e-6 * deviations[j]);
            (j, (0..k).map(|c| shifts[c * d + j] / unit).collect())
        });
        let axes = separating_axes(&candidates.collect::<Vec<_>>(), &fractions);
        ClusterProfiles {
            profiles: (0..k).map(profile).collect(),
            axes: axes.into_iter().map(|j| columns.names[j].clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rows_do_not_depend_on_the_order_of_merges() {
        let rows = [(5.0, 3), (1.0, 4), (2.0, 7), (1.0, 8), (0.5, 9), (7.0, 11)];
        let nearest = |rows: &[(f64, u64)]| {
            let mut nearest = NearestRows::new(2);
            rows.iter().for_each(|(distance, row)| nearest.push(1, *distance, *row));
            nearest
        };
        for cut in 0..=rows.len() {
            let mut first = nearest(&rows[..cut]);
            first.merge(&nearest(&rows[cut..]));
            assert_eq!((first.rows_of(1), first.rows_of(0)), (vec![9, 4, 8], vec![]), "{cut}");
        }
    }
}
