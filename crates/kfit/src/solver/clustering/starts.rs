//! The initial centroids of a clustering, from a sample of the points.
//!
//! Several starts of k-means++ are iterated on the sample until nothing changes, and the best of
//! them is kept.
//!
//! Reference: Arthur, Vassilvitskii, "k-means++", SODA 2007.

use super::MAX_FARTHEST_POINTS;
use super::points::{Assignment, STRIP_POINTS};
use crate::features::FitData;
use crate::linalg::strips::for_each_strip;
use crate::{Error, Result};
use kapprox::landmark::{ClusterSums, NearestCentroids, squared_distance};
use kapprox::{Real, vectorised};
use kstore::Workers;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use std::ops::RangeInclusive;

/// Maximum number of iterations on the sample.
const MAX_SAMPLE_ITERATIONS: usize = 300;

/// Returns the best centroids, k x q row-major, of starts with these random rounds: each start is
/// iterated on the points until the sum of squares no longer decreases.
pub(super) fn best_start<T: Real>(
    assignment: &mut Assignment<'_, T>,
    (points, weights): (&[T], &[f64]),
    (k, q): (usize, usize),
    rounds: RangeInclusive<u64>,
    data: &FitData<'_, T>,
    observer: &dyn Observer,
) -> Result<Vec<f64>> {
    let (workers, weight) = (data.resources.workers, |i: usize| weights[i]);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for round in rounds {
        let stream = Stream::new(data.options.seed, Purpose::Clusters, round);
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
        observer.advance(1);
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
