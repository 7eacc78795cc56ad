//! The sums of one iteration of Lloyd's algorithm, for points of any kind.

use crate::{Real, vectorised};
use kpass::checkpoint::{Arrays, Persist, StoredArrays};
use kpass::{Merge, Workers};

/// Number of coordinates whose sums one thread adds. They stay in the L2 cache for several hundred
/// clusters.
const PANEL_COORDINATES: usize = 256;

/// Weighted sums over the points of each cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSums {
    /// Sums of the points of each cluster, k x q, row-major.
    point_sums: Vec<f64>,
    /// Total weight of the points of each cluster; their number if every weight is 1.
    pub weights: Vec<f64>,
    /// Weighted sum over all points of the squared distance from the centroid of their cluster.
    pub inertia: f64,
    /// The points farthest from their centroids, with their squared distances, in descending order
    /// of distance. If distances are equal, the earlier row comes first.
    farthest: Vec<FarPoint>,
    farthest_capacity: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct FarPoint {
    squared_distance: f64,
    coordinates: Vec<f64>,
}

impl ClusterSums {
    /// Returns empty sums of k clusters of points with q coordinates. The last argument is the
    /// number of farthest points to keep; empty clusters restart at them.
    pub fn new(k: usize, q: usize, farthest_capacity: usize) -> Self {
        Self {
            point_sums: vec![0.0; k * q],
            weights: vec![0.0; k],
            inertia: 0.0,
            farthest: Vec::new(),
            farthest_capacity,
        }
    }

    /// Adds points (b x q row-major, in row order) to their clusters: point i has the weight
    /// `weight(i)`, and the squared distance `squared_distances[i]` from the centroid of cluster
    /// `nearest[i]`. Points of weight 0 have no effect. Each thread adds other coordinates, so the
    /// sums do not depend on the number of threads.
    pub fn add_points<T: Real>(
        &mut self,
        points: &[T],
        nearest: &[u32],
        squared_distances: &[f64],
        weight: impl Fn(usize) -> f64 + Sync,
        workers: &Workers,
    ) {
        let q = (self.point_sums.len() / self.weights.len().max(1)).max(1);
        for (i, (j, squared_distance)) in nearest.iter().zip(squared_distances).enumerate() {
            let weight = weight(i);
            if weight > 0.0 {
                self.inertia += weight * squared_distance;
                self.weights[*j as usize] += weight;
                let coordinates = || points[i * q..][..q].iter().map(|value| value.to_f64()).collect();
                self.insert_farthest(*squared_distance, coordinates);
            }
        }
        let mut panels: Vec<Vec<&mut [f64]>> = (0..q.div_ceil(PANEL_COORDINATES)).map(|_| Vec::new()).collect();
        for sums in self.point_sums.chunks_exact_mut(q) {
            sums.chunks_mut(PANEL_COORDINATES).zip(&mut panels).for_each(|(sums, panel)| panel.push(sums));
        }
        workers.for_each(panels.into_iter().enumerate().collect(), |(panel, mut sums): (usize, Vec<&mut [f64]>)| {
            vectorised!({
                for (i, (point, j)) in points.chunks_exact(q).zip(nearest).enumerate() {
                    let (weight, sums) = (weight(i), &mut *sums[*j as usize]);
                    if weight > 0.0 {
                        for (sum, value) in sums.iter_mut().zip(&point[panel * PANEL_COORDINATES..]) {
                            *sum += weight * value.to_f64();
                        }
                    }
                }
            });
        });
    }

    /// Inserts a point into the farthest points if it belongs to them. Only then calls
    /// `coordinates` for its coordinates.
    fn insert_farthest(&mut self, squared_distance: f64, coordinates: impl FnOnce() -> Vec<f64>) {
        let is_full = self.farthest.len() == self.farthest_capacity;
        if squared_distance <= 0.0
            || is_full && self.farthest.last().is_none_or(|last| squared_distance <= last.squared_distance)
        {
            return;
        }
        let position = self.farthest.partition_point(|point| point.squared_distance >= squared_distance);
        self.farthest.insert(position, FarPoint { squared_distance, coordinates: coordinates() });
        self.farthest.truncate(self.farthest_capacity);
    }

    /// Returns the next centroids, k x q; `compute_centroid` computes a centroid from the weighted
    /// sum and the weight of its points. An empty cluster moves to the farthest point that no other
    /// empty cluster uses.
    pub fn next_centroids(&self, centroids: &[f64], compute_centroid: impl Fn(&[f64], f64) -> Vec<f64>) -> Vec<f64> {
        let q = (self.point_sums.len() / self.weights.len().max(1)).max(1);
        let mut restart_points = self.farthest.iter().map(|point| point.coordinates.clone());
        let next_centroid = |((sum, old_centroid), weight): ((&[f64], &[f64]), &f64)| match *weight > 0.0 {
            true => compute_centroid(sum, *weight),
            false => restart_points.next().unwrap_or_else(|| old_centroid.to_vec()),
        };
        self.point_sums
            .chunks_exact(q)
            .zip(centroids.chunks_exact(q))
            .zip(&self.weights)
            .flat_map(next_centroid)
            .collect()
    }

    /// Returns the clusters by descending weight; in a tie the earlier cluster comes first.
    pub fn clusters_by_weight(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.weights.len()).collect();
        order.sort_by(|a, b| self.weights[*b].total_cmp(&self.weights[*a]));
        order
    }
}

impl Merge for ClusterSums {
    fn merge(&mut self, later: &Self) {
        self.point_sums.iter_mut().zip(&later.point_sums).for_each(|(sum, later_sum)| *sum += later_sum);
        self.weights.iter_mut().zip(&later.weights).for_each(|(weight, later_weight)| *weight += later_weight);
        self.inertia += later.inertia;
        later
            .farthest
            .iter()
            .for_each(|point| self.insert_farthest(point.squared_distance, || point.coordinates.clone()));
    }
}

impl Persist for ClusterSums {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put("sums", &self.point_sums);
        out.put("sizes", &self.weights);
        out.put_number("squares", self.inertia);
        out.put_owned("far", self.farthest.iter().map(|point| point.squared_distance).collect());
        out.put_owned("points", self.farthest.iter().flat_map(|point| &point.coordinates).copied().collect());
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kpass::Result<()> {
        from.fill("sums", &mut self.point_sums)?;
        from.fill("sizes", &mut self.weights)?;
        self.inertia = from.read_number("squares")?;
        let (squared_distances, points): (Vec<f64>, Vec<f64>) = (from.read("far")?, from.read("points")?);
        let q = self.point_sums.len() / self.weights.len().max(1);
        self.farthest = squared_distances
            .into_iter()
            .zip(points.chunks(q.max(1)))
            .map(|(squared_distance, point)| FarPoint { squared_distance, coordinates: point.to_vec() })
            .collect();
        Ok(())
    }
}
