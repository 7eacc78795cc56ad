//! The points that are clustered, a sample of them, and their nearest centroids.

use crate::Result;
use crate::features::{FitData, StoredFeatures, Tile};
use crate::linalg::strips::{BufferPool, for_each_strip};
use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::Real;
use kapprox::landmark::{ClusterSums, NearestCentroids};
use kstore::Workers;
use kstore::key::{Purpose, Stream};
use std::borrow::Cow;

/// Number of sampled rows for each cluster, chosen.
const SAMPLE_ROWS_PER_CLUSTER: usize = 100;

/// Minimum number of sampled rows, chosen.
const MIN_CLUSTER_SAMPLE_ROWS: usize = 2000;
/// Number of points that one thread computes at once.
pub(super) const STRIP_POINTS: usize = 288;

/// Number of strips per thread whose points are assigned and then summed, so that they are still in
/// the cache when they are summed.
const GROUP_STRIPS: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(in crate::solver) struct PointSpace<'a> {
    /// A, p x q; `None` for the features.
    pub(in crate::solver) projection: Option<MatRef<'a, f64>>,
    /// True if points and centroids are normalised.
    pub(in crate::solver) is_spherical: bool,
}

impl PointSpace<'_> {
    pub(super) fn point_dimension(&self, p: usize) -> usize {
        self.projection.map_or(p, |a| a.ncols())
    }

    /// True if the point of a row is its features.
    pub(super) fn points_are_features(&self) -> bool {
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

/// Assigns points to their nearest centroids. The buffers serve all tiles of all iterations.
pub(super) struct Assignment<'a, T> {
    space: PointSpace<'a>,
    /// Points of a tile, row-major; empty if the points are the features.
    points: Vec<T>,
    /// Nearest centroid of each point of a group of strips.
    nearest: Vec<u32>,
    squared_distances: Vec<f64>,
}

impl<'a, T: Real> Assignment<'a, T> {
    pub(super) fn new(space: PointSpace<'a>) -> Self {
        Self { space, points: Vec::new(), nearest: Vec::new(), squared_distances: Vec::new() }
    }

    /// Adds the rows of a tile to the sums of their clusters.
    pub(super) fn add_tile(
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
    pub(super) fn add_points(
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

    pub(super) fn next_centroids(&self, centroids: &[f64], cluster_sums: &ClusterSums) -> Vec<f64> {
        cluster_sums.next_centroids(centroids, |sum, weight| self.space.centroid(sum, weight))
    }
}

/// The features of a sample of the rows, and the weights of these rows.
pub(super) struct FeatureSample<T> {
    /// Features, row-major.
    phi: Vec<T>,
    /// Number of features of a row.
    p: usize,
    pub(super) weights: Vec<f64>,
}

impl<T: Real> FeatureSample<T> {
    /// Draws a uniform sample of the rows for up to `k` clusters, in row order.
    ///
    /// The method is selection sampling: row i of n is selected with probability (number of rows
    /// still to draw)/(n − i). This makes all subsets of this size equally likely (Knuth, *The Art
    /// of Computer Programming* 2, 3.4.2, algorithm S).
    pub(super) fn draw(data: &FitData<'_, T>, features: &StoredFeatures<'_, T>, k: usize) -> Result<Self> {
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
        let weights = positions.into_iter().map(|i| features.weights.get(i)).collect();
        Ok(Self { phi, p: features.p, weights })
    }

    /// Returns the points of the sampled rows, row-major.
    pub(super) fn points(&self, space: PointSpace<'_>, workers: &Workers) -> Cow<'_, [T]> {
        if space.points_are_features() {
            return Cow::Borrowed(&self.phi);
        }
        let mut points = Vec::new();
        space.compute_points(&self.phi, self.p, &mut points, workers);
        Cow::Owned(points)
    }
}

/// Returns the number of sampled rows for up to `k` clusters.
pub(super) fn sample_row_count(k: usize) -> usize {
    SAMPLE_ROWS_PER_CLUSTER.saturating_mul(k).max(MIN_CLUSTER_SAMPLE_ROWS)
}
