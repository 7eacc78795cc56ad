//! K-means of points that are linear in the features: Lloyd's iterations, one pass each.
//!
//! Minimises Σ_i w_i min_j ‖e_i − c_j‖² over k centroids c_j, where w_i is 1 or the weight of row
//! i. The point e_i is φ_i or Aᵀφ_i. In clustering on the sphere, the point is divided by its norm.
//! An iteration assigns every point to the nearest centroid and moves every centroid to the mean of
//! its points, so the sum never increases. The features are
//! [stored](crate::features::StoredFeatures) between iterations.
//!
//! The initial centroids are computed on a sample of max(2,000, 100 k) rows. Several starts of
//! k-means++ are iterated on the sample until nothing changes, and the best of them continues on
//! all rows. A centroid without points moves to a point that is far from every centroid.
//!
//! *Passes*: one for the sample and one for each iteration. *Flops*: the flops of the map, and 2kq
//! per row for points with q coordinates, in the element type of the features. *Bytes*: kq numbers
//! in f64 for each state, and the sample.
//!
//! References: Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 28, 1982;
//! Arthur, Vassilvitskii, "k-means++", SODA 2007. On the sphere: Dhillon, Modha, "Concept
//! decompositions", Machine Learning 42, 2001.

use super::parameter::{CLUSTERS, STARTS, Settings};
use crate::features::{self, FitData, StoredFeatures, Tile};
use crate::linalg::strips::{BufferPool, for_each_strip};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result};
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::landmark::{ClusterSums, NearestCentroids, squared_distance};
use kapprox::{Real, vectorised};
use kstore::key::{Purpose, Stream};
use kstore::{MemoryPlan, Workers, checkpoint::Steps};

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusteringOptions {
    pub(super) cluster_count: usize,
    pub(super) start_count: usize,
}

impl ClusteringOptions {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let missing_error = || Error::missing(CLUSTERS.name, settings.solver, "the number of clusters, such as 8");
        let cluster_count = settings.count(&CLUSTERS).ok_or_else(missing_error)?;
        Ok(Self { cluster_count, start_count: settings.required(&STARTS, Settings::count) })
    }
}

/// Number of points that one thread computes at once.
const STRIP_POINTS: usize = 288;
/// Number of strips per thread whose points are assigned and then summed, so that they are still in
/// the cache when they are summed.
const GROUP_STRIPS: usize = 4;
/// Number of sampled rows for each cluster, chosen.
const SAMPLE_ROWS_PER_CLUSTER: usize = 100;
/// Minimum number of sampled rows, chosen.
const MIN_CLUSTER_SAMPLE_ROWS: usize = 2000;
/// Number of candidates that replace centroids without points. If more centroids lose all points in
/// one iteration, the remaining centroids wait for the next iteration.
const MAX_FARTHEST_POINTS: usize = 16;
/// Maximum number of iterations on the sample.
const MAX_SAMPLE_ITERATIONS: usize = 300;
/// Maximum number of iterations on all rows.
const MAX_PASSES: u64 = 100;
/// The iterations over all rows end if an iteration reduces the sum of squares by less than this
/// fraction.
const MIN_RELATIVE_DECREASE: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
pub(super) struct PointSpace<'a> {
    /// A, p x q; `None` for the features.
    pub(super) projection: Option<MatRef<'a, f64>>,
    /// True if points and centroids are normalised.
    pub(super) is_spherical: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Clusters {
    /// Centroids c_j as columns, q x k, the heaviest cluster first.
    pub(super) centroids: Mat<f64>,
    /// Weight of the rows of each cluster; the number of rows if rows have no weights.
    pub(super) cluster_weights: Vec<f64>,
    /// Sum of squared distances Σ w min ‖e − c‖².
    pub(super) inertia: f64,
    pub(super) passes: u64,
}

/// Adds to the plan the memory for k clusters of p features that are projected to q coordinates.
pub(super) fn plan(plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape, q: usize, k: usize) -> MemoryPlan {
    // the number of clusters is checked later, when the number of rows is known
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let (q, k, sample_rows) = (q.min(n), k.min(n), sample_row_count(k).min(n));
    let (p, element_bytes, tile_rows) = (size.map.p, size.element_bytes, pass_shape.tile_rows);
    plan.term(
        "sums of clusters",
        features::STATES_PER_REDUCTION * 8 * (k + MAX_FARTHEST_POINTS) * q,
        "lower `clusters`",
    )
    .term("centroids", 2 * (8 + element_bytes) * k * q, "lower `clusters`")
    .term("sample of points", sample_rows * element_bytes * (q + p), "lower `rank`")
    .term("points of a tile", tile_rows * (element_bytes * q + 12), "lower `rank`")
    .term("points of a strip", size.threads * STRIP_POINTS * (8 * (q + p) + element_bytes * k), "lower `rank`")
}

fn sample_row_count(k: usize) -> usize {
    SAMPLE_ROWS_PER_CLUSTER.saturating_mul(k).max(MIN_CLUSTER_SAMPLE_ROWS)
}

impl PointSpace<'_> {
    fn point_dimension(&self, p: usize) -> usize {
        self.projection.map_or(p, |a| a.ncols())
    }

    /// True if the point of a row is its features.
    fn points_are_features(&self) -> bool {
        self.projection.is_none() && !self.is_spherical
    }

    /// Computes the points of some rows of p features, b x q row-major. Products and norms are
    /// computed in f64.
    fn compute_points<T: Real>(&self, phi: &[T], p: usize, points: &mut Vec<T>, workers: &Workers) {
        let (q, buffers) = (self.point_dimension(p), BufferPool::<(Vec<f64>, Vec<f64>)>::default());
        points.resize(phi.len() / p * q, T::ZERO);
        for_each_strip(workers, points, STRIP_POINTS * q, |strip, points| {
            let (b, phi) = (points.len() / q, &phi[strip * STRIP_POINTS * p..]);
            buffers.with_buffer(Default::default, |(phi_f64, points_f64)| {
                phi_f64.clear();
                phi_f64.extend(phi[..b * p].iter().map(|v| kstore::Float::to_f64(*v)));
                let computed = match self.projection {
                    None => &mut *phi_f64,
                    Some(a) => {
                        points_f64.resize(b * q, 0.0);
                        let phi = MatRef::from_row_major_slice(&phi_f64[..], b, p);
                        let product = MatMut::from_row_major_slice_mut(points_f64, b, q);
                        matmul(product, Accum::Replace, phi, a, 1.0, Par::Seq);
                        points_f64
                    }
                };
                if self.is_spherical {
                    computed.chunks_exact_mut(q).for_each(normalise);
                }
                points.iter_mut().zip(computed).for_each(|(point, v)| *point = T::from_f64(*v));
            });
        });
    }

    /// Computes the centroid of a cluster from the sum of its points: their mean. In clustering on
    /// the sphere, the centroid is divided by its norm.
    fn centroid(&self, sum: &[f64], weight: f64) -> Vec<f64> {
        let mut centroid: Vec<f64> = sum.iter().map(|v| v / weight).collect();
        if self.is_spherical {
            normalise(&mut centroid);
        }
        centroid
    }
}

/// Divides a vector by its norm; a zero vector stays unchanged.
fn normalise(v: &mut [f64]) {
    let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
    if norm > 0.0 {
        v.iter_mut().for_each(|v| *v /= norm);
    }
}

/// A sample of the rows.
struct PointSample<T> {
    /// Points, row-major.
    points: Vec<T>,
    /// Weights of the rows.
    weights: Vec<f64>,
}

/// Assigns points to their nearest centroids. The buffers serve all tiles of all iterations.
struct Assignment<'a, T> {
    space: PointSpace<'a>,
    /// Points of a tile, row-major; empty if the points are the features.
    points: Vec<T>,
    /// Nearest centroid of each point of a group of strips.
    nearest: Vec<u32>,
    squared_distances: Vec<f64>,
}

impl<'a, T: Real> Assignment<'a, T> {
    fn new(space: PointSpace<'a>) -> Self {
        Self { space, points: Vec::new(), nearest: Vec::new(), squared_distances: Vec::new() }
    }

    /// Adds the rows of a tile to the sums of their clusters.
    fn add_tile(
        &mut self,
        features: &StoredFeatures<'_, T>,
        tile: &Tile<'_, T>,
        centroids: &NearestCentroids<T>,
        cluster_sums: &mut ClusterSums,
    ) {
        let weight = |i: usize| features.weights.get(tile.first_row + i);
        if self.space.points_are_features() {
            self.add_points(tile.phi, tile.row_count(), weight, centroids, cluster_sums, features.workers());
        } else {
            let mut points = std::mem::take(&mut self.points);
            self.space.compute_points(tile.phi, features.p, &mut points, features.workers());
            self.add_points(&points, tile.row_count(), weight, centroids, cluster_sums, features.workers());
            self.points = points;
        }
    }

    /// Adds points to the sums of their clusters; `weight(i)` is the weight of point i.
    fn add_points(
        &mut self,
        points: &[T],
        point_count: usize,
        weight: impl Fn(usize) -> f64 + Sync,
        centroids: &NearestCentroids<T>,
        cluster_sums: &mut ClusterSums,
        workers: &Workers,
    ) {
        let (group_points, q) = (GROUP_STRIPS * STRIP_POINTS * workers.threads(), points.len() / point_count.max(1));
        for first in (0..point_count).step_by(group_points) {
            let b = group_points.min(point_count - first);
            self.nearest.resize(b, 0);
            self.squared_distances.resize(b, 0.0);
            let points = &points[first * q..][..b * q];
            centroids.find(points, &mut self.nearest, &mut self.squared_distances, workers);
            let weight = |i: usize| weight(first + i);
            cluster_sums.add_points(points, &self.nearest, &self.squared_distances, weight, workers);
        }
    }

    fn next_centroids(&self, centroids: &[f64], cluster_sums: &ClusterSums) -> Vec<f64> {
        cluster_sums.next_centroids(centroids, |sum, weight| self.space.centroid(sum, weight))
    }
}

/// Clusters the rows.
///
/// # Errors
/// [`Error::TooFewPoints`] for fewer distinct points than clusters; errors of reading the rows.
pub(super) fn cluster<T: Real>(
    data: &FitData<'_, T>,
    features: &StoredFeatures<'_, T>,
    space: PointSpace<'_>,
    ClusteringOptions { cluster_count: k, start_count }: ClusteringOptions,
) -> Result<Clusters> {
    let (q, mut assignment) = (space.point_dimension(features.p), Assignment::new(space));
    let mut state = LloydState { centroids: vec![0.0; k * q], previous_inertia: f64::INFINITY };
    let mut steps = Steps::resume(data.resources.journal, "clusters", &mut state)?;
    if steps.completed_steps() == 0 {
        let sample = draw_sample(data, features, space, k)?;
        state.centroids = best_start(&mut assignment, &sample, q, k, start_count, data)?;
    }
    loop {
        let centroids = NearestCentroids::new(&state.centroids, q);
        let stage = data.resources.stage_observer.start_stage("clusters", Some(data.n));
        let reduced_sums = features.reduce(
            "clusters",
            &*stage,
            &|| ClusterSums::new(k, q, MAX_FARTHEST_POINTS),
            |cluster_sums, tile| {
                assignment.add_tile(features, tile, &centroids, cluster_sums);
                Ok(())
            },
        );
        let cluster_sums = match reduced_sums {
            Ok(cluster_sums) => cluster_sums,
            Err(error) => {
                steps.save_before_stop(&state);
                return Err(error);
            }
        };
        let iteration = steps.completed_steps() + 1;
        let has_converged = cluster_sums.inertia >= state.previous_inertia * (1.0 - MIN_RELATIVE_DECREASE);
        if has_converged || iteration == MAX_PASSES {
            if !has_converged {
                data.resources
                    .stage_observer
                    .warn(format!("the clusters have not converged after {MAX_PASSES} passes"));
            }
            return Ok(sort_clusters(&state.centroids, &cluster_sums, q, iteration + 1));
        }
        let centroids = assignment.next_centroids(&state.centroids, &cluster_sums);
        state = LloydState { centroids, previous_inertia: cluster_sums.inertia };
        steps.record_step(&state);
    }
}

struct LloydState {
    centroids: Vec<f64>,
    /// Sum of squared distances before the iteration.
    previous_inertia: f64,
}

kstore::persist!(LloydState { fill "centroids": centroids, one "before": previous_inertia });

/// Sorts the clusters by size, the largest first. Of clusters of equal size, the cluster whose
/// centroid has the largest scalar product with the mean of all rows comes first, so that the order
/// of the rows does not matter.
fn sort_clusters(centroids: &[f64], cluster_sums: &ClusterSums, q: usize, passes: u64) -> Clusters {
    let centroid = |j: usize| &centroids[j * q..][..q];
    let mut mean = vec![0.0; q];
    for (j, size) in cluster_sums.weights.iter().enumerate() {
        mean.iter_mut().zip(centroid(j)).for_each(|(sum, v)| *sum += size * v);
    }
    let projections: Vec<f64> =
        (0..cluster_sums.weights.len()).map(|j| centroid(j).iter().zip(&mean).map(|(c, m)| c * m).sum()).collect();
    let mut order = Vec::from_iter(0..projections.len());
    order.sort_by(|a, b| {
        cluster_sums.weights[*b].total_cmp(&cluster_sums.weights[*a]).then(projections[*b].total_cmp(&projections[*a]))
    });
    Clusters {
        centroids: Mat::from_fn(q, order.len(), |i, j| centroids[order[j] * q + i]),
        cluster_weights: order.iter().map(|j| cluster_sums.weights[*j]).collect(),
        inertia: cluster_sums.inertia,
        passes,
    }
}

/// Draws a uniform sample of the rows, in row order.
///
/// The method is selection sampling: row i of n is selected with probability (number of rows still
/// to draw)/(n − i). This makes all subsets of this size equally likely (Knuth, *The Art of
/// Computer Programming* 2, 3.4.2, algorithm S).
fn draw_sample<T: Real>(
    data: &FitData<'_, T>,
    features: &StoredFeatures<'_, T>,
    space: PointSpace<'_>,
    k: usize,
) -> Result<PointSample<T>> {
    let stage = data.resources.stage_observer.start_stage("sample for clusters", Some(data.n));
    let (stream, mut remaining_draws) =
        (Stream::new(data.options.seed, Purpose::Clusters, 0), sample_row_count(k).min(features.n));
    let mut positions = Vec::with_capacity(remaining_draws);
    for position in 0..features.n {
        if stream.uniform(position as u64) * ((features.n - position) as f64) < remaining_draws as f64 {
            positions.push(position);
            remaining_draws -= 1;
        }
    }
    let mut phi: Vec<T> = Vec::with_capacity(positions.len() * features.p);
    features.visit_selected(&positions, &*stage, |tile| {
        phi.extend_from_slice(tile.phi);
        Ok(())
    })?;
    let points = if space.points_are_features() {
        phi
    } else {
        let mut points = Vec::new();
        space.compute_points(&phi, features.p, &mut points, features.workers());
        points
    };
    Ok(PointSample { points, weights: positions.into_iter().map(|i| features.weights.get(i)).collect() })
}

fn best_start<T: Real>(
    assignment: &mut Assignment<'_, T>,
    PointSample { points, weights }: &PointSample<T>,
    q: usize,
    k: usize,
    start_count: usize,
    data: &FitData<'_, T>,
) -> Result<Vec<f64>> {
    let (workers, weight) = (data.resources.workers, |i: usize| weights[i]);
    let stage = data.resources.stage_observer.start_steps("starts", start_count as u64);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for start in 0..start_count.max(1) {
        let stream = Stream::new(data.options.seed, Purpose::Clusters, 1 + start as u64);
        let mut centroids = kmeans_plus_plus(points, weights, k, &stream, workers);
        if centroids.len() < k * q {
            return Err(Error::TooFewPoints { asked: k, distinct: centroids.len() / q });
        }
        let mut previous_inertia = f64::INFINITY;
        for _ in 0..MAX_SAMPLE_ITERATIONS {
            let nearest_centroids = NearestCentroids::new(&centroids, q);
            let mut cluster_sums = ClusterSums::new(k, q, MAX_FARTHEST_POINTS);
            assignment.add_points(points, weights.len(), weight, &nearest_centroids, &mut cluster_sums, workers);
            if cluster_sums.inertia >= previous_inertia {
                break;
            }
            previous_inertia = cluster_sums.inertia;
            centroids = assignment.next_centroids(&centroids, &cluster_sums);
        }
        if best.as_ref().is_none_or(|(best_inertia, _)| previous_inertia < *best_inertia) {
            best = Some((previous_inertia, centroids));
        }
        stage.advance(1);
    }
    Ok(best.map(|(_, centroids)| centroids).unwrap_or_default())
}

/// Chooses initial centroids by greedy k-means++: for each seed, draws 2 + ln k candidates and
/// takes the candidate that reduces the sum most. The probability of drawing a point is
/// proportional to its weight times its squared distance from the nearest earlier seed. Returns
/// fewer than k seeds if there are fewer distinct points.
fn kmeans_plus_plus<T: Real>(points: &[T], weights: &[f64], k: usize, stream: &Stream, workers: &Workers) -> Vec<f64> {
    let n = weights.len();
    let q = points.len() / n.max(1);
    let point = |i: usize| &points[i * q..][..q];
    let trial_count = 2 + (k as f64).ln() as usize;
    // before the first seed all points are equally far
    let mut squared_distances = vec![f64::INFINITY; n];
    let mut seeds: Vec<f64> = Vec::with_capacity(k * q);
    for seed_index in 0..k.min(n) {
        let mass = |(distance, weight): (&f64, &f64)| weight * if seed_index == 0 { 1.0 } else { *distance };
        let total_mass: f64 = squared_distances.iter().zip(weights).map(mass).sum();
        let mut best: Option<(f64, usize, Vec<f64>)> = None;
        for trial in 0..trial_count {
            let mut remaining_mass = stream.uniform((seed_index * trial_count + trial) as u64) * total_mass;
            let candidate = squared_distances.iter().zip(weights).position(|point| {
                remaining_mass -= mass(point);
                remaining_mass < 0.0
            });
            // rounding may leave a remainder: take the last point with a positive distance
            let Some(candidate) =
                candidate.or_else(|| (0..n).rev().find(|i| squared_distances[*i] > 0.0 && weights[*i] > 0.0))
            else {
                break;
            };
            if squared_distances[candidate] <= 0.0 {
                break;
            }
            let mut reduced_distances = squared_distances.clone();
            for_each_strip(workers, &mut reduced_distances, STRIP_POINTS, |strip, distances| {
                vectorised!({
                    for (distance, other) in
                        distances.iter_mut().zip(points[strip * STRIP_POINTS * q..].chunks_exact(q))
                    {
                        *distance = distance.min(squared_distance(other, point(candidate)));
                    }
                });
            });
            let inertia =
                reduced_distances.iter().zip(weights).map(|(distance, weight)| weight * distance).sum::<f64>();
            if best.as_ref().is_none_or(|(best_inertia, ..)| inertia < *best_inertia) {
                best = Some((inertia, candidate, reduced_distances));
            }
        }
        let Some((_, seed, reduced_distances)) = best else { break };
        seeds.extend(point(seed).iter().map(|v| kstore::Float::to_f64(*v)));
        squared_distances = reduced_distances;
    }
    seeds
}
