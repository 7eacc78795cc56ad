//! The choice of the number of clusters, on a sample of the rows.
//!
//! Every number of clusters is tried on the same sample of the features: starts of k-means++ with
//! Lloyd's iterations, then the mean [silhouette](super::agreement) of up to 2,000 of these rows,
//! in the space in which the rows are clustered. The number with the largest mean silhouette is
//! kept. Two further figures describe every number and do not affect the choice. The first is the
//! mean squared distance from the centroids. The second is the stability: the sample is split at
//! random into halves, each half is clustered, the centroids of either half assign all rows of the
//! sample, and the adjusted Rand index compares the two assignments; the stability is the mean over
//! [`SPLITS`] splits.
//!
//! The silhouettes are exact for the rows on which they are computed: they use the distances of all
//! pairs and not only the distances from the centroids.
//!
//! *Passes*: one for the sample. *Flops* for r rows of q coordinates: 2r²q for the distances, which
//! all numbers share if the points do not depend on the number. *Bytes*: 8rq, and the sample.
//!
//! References: Rousseeuw, "Silhouettes", J. Comput. Appl. Math. 20, 1987; Kaufman, Rousseeuw,
//! "Finding groups in data", 1990, for the choice by silhouettes; Ben-Hur, Elisseeff, Guyon, "A
//! stability based method for discovering structure in clustered data", Pacific Symposium on
//! Biocomputing 2002; von Luxburg, "Clustering stability: an overview", Foundations and Trends in
//! Machine Learning 2, 2010, for halves whose centroids assign all rows.

use super::ClusteringOptions;
use super::agreement::{self, Labelling, STRIP_ROWS, adjusted_rand_index};
use super::points::{Assignment, FeatureSample, PointSpace};
use super::starts::best_start;
use crate::features::{FitData, StoredFeatures};
use crate::solver::check_stop;
use crate::solver::solution::ClusterCounts;
use crate::{Error, Result};
use kapprox::Real;
use kapprox::landmark::NearestCentroids;
use kstore::Workers;
use kstore::key::{Purpose, Stream};
use kstore::pass::{NoObserver, Observer};

/// Maximum number of rows for silhouettes: the standard error of the mean of silhouettes with a
/// standard deviation of 0.3 is then 0.007.
const SILHOUETTE_ROWS: usize = 2000;
/// Number of random splits into halves.
const SPLITS: u64 = 5;
/// Maximum number of starts for a half.
const HALF_STARTS: u64 = 3;
/// First random round of the splits; the rounds before it belong to the starts on the whole sample.
const FIRST_SPLIT_ROUND: u64 = 1 << 20;
/// Mean adjusted Rand index below which the clusters are reported as unstable. Chosen.
const MIN_STABILITY: f64 = 0.6;

/// Returns the bytes in addition to the sample: the points for silhouettes in f64, their distances,
/// a half of the sample, and labels.
pub(super) fn bytes(sample_rows: usize, q: usize, compared: usize, element_bytes: usize, threads: usize) -> usize {
    let rows = sample_rows.min(SILHOUETTE_ROWS);
    let half_bytes = sample_rows.div_ceil(2) * (q * element_bytes + 16);
    8 * rows * (q + compared) + threads * STRIP_ROWS * 8 * rows + half_bytes + 4 * sample_rows * (compared + 4)
}

/// Returns the number of clusters: the requested one, or the best of several on a sample of the
/// rows, with the figures of all of them. `space_of(k)` is the space in which k clusters are found.
///
/// # Errors
/// [`Error::TooFewPoints`] for fewer distinct points than clusters; errors of reading the rows.
pub(in crate::solver) fn choose_count<'a, T: Real>(
    data: &FitData<'_, T>,
    features: &StoredFeatures<'_, T>,
    options: &ClusteringOptions,
    space_of: &dyn Fn(usize) -> PointSpace<'a>,
) -> Result<(usize, Option<ClusterCounts>)> {
    if options.counts.len() < 2 {
        return Ok((options.max_count(), None));
    }
    let (sample, workers) = (FeatureSample::draw(data, features, options.max_count())?, features.workers());
    let stage = data.resources.stage_observer.start_steps("numbers of clusters", options.counts.len() as u64);
    let row_count = sample.weights.len();
    let silhouette_rows = row_count.min(SILHOUETTE_ROWS);
    // evenly spaced rows of the sample
    let positions: Vec<usize> = (0..silhouette_rows).map(|i| i * row_count / silhouette_rows).collect();
    let mut result = ClusterCounts { sampled_rows: row_count, silhouette_rows, ..ClusterCounts::default() };
    let mut labellings = Vec::new();
    for k in &options.counts {
        check_stop(&*stage)?;
        let space = space_of(*k);
        let (points, q) = (sample.points(space, workers), space.point_dimension(features.p));
        let mut search = SampleSearch { data, assignment: Assignment::new(space), q, k: *k };
        let (labelling, inertia) = search.cluster(&points, &sample.weights, options.start_count as u64)?;
        result.clusters.push(*k);
        result.mean_squared_distance.push(inertia / sample.weights.iter().sum::<f64>());
        result.stability.push(search.stability(&points, &sample.weights, options.start_count, &*stage)?);
        labellings.push(Labelling { k: *k, labels: positions.iter().map(|i| labelling.labels[*i]).collect() });
        // points that depend on the number of clusters have their own distances
        if !space.points_are_features() || *k == options.max_count() {
            let points = select_points(&points, q, &positions);
            result.silhouette.extend(agreement::mean_silhouettes(&points, q, &labellings, workers));
            labellings.clear();
        }
        stage.advance(1);
    }
    drop(stage);
    let best = (0..result.silhouette.len())
        .reduce(|best, i| if result.silhouette[i] > result.silhouette[best] { i } else { best })
        .unwrap_or(0);
    result.chosen = result.clusters[best];
    if let Some(stability) = result.stability[best].filter(|stability| *stability < MIN_STABILITY) {
        data.resources.stage_observer.warn(format!(
            "{} clusters are unstable: the clusterings of two halves of the sample have an adjusted Rand index of {stability:.2}; \
             other rows may give other clusters",
            result.chosen
        ));
    }
    Ok((result.chosen, Some(result)))
}

/// Returns the points at these positions, in f64.
fn select_points<T: Real>(points: &[T], q: usize, positions: &[usize]) -> Vec<f64> {
    positions.iter().flat_map(|i| points[i * q..][..q].iter().map(|v| v.to_f64())).collect()
}

/// Clusterings of sampled points into k clusters.
struct SampleSearch<'a, 'b, 'd, T: Real> {
    data: &'a FitData<'d, T>,
    assignment: Assignment<'b, T>,
    q: usize,
    k: usize,
}

impl<T: Real> SampleSearch<'_, '_, '_, T> {
    /// Returns the labels of the points, and the weighted sum of their squared distances from the
    /// centroids.
    fn cluster(&mut self, points: &[T], weights: &[f64], starts: u64) -> Result<(Labelling, f64)> {
        let dimensions = (self.k, self.q);
        let centroids =
            best_start(&mut self.assignment, (points, weights), dimensions, 1..=starts, self.data, &NoObserver)?;
        let (labels, squared_distances) = nearest(&centroids, points, self.q, self.data.resources.workers);
        let inertia = squared_distances.iter().zip(weights).map(|(square, weight)| square * weight).sum();
        Ok((Labelling { k: self.k, labels }, inertia))
    }

    /// Returns the mean agreement of the clusterings of random halves; `None` if a half has fewer
    /// distinct points than clusters.
    fn stability(
        &mut self,
        points: &[T],
        weights: &[f64],
        starts: usize,
        observer: &dyn Observer,
    ) -> Result<Option<f64>> {
        let (n, starts, mut sum) = (weights.len(), (starts as u64).min(HALF_STARTS), 0.0);
        for split in 0..SPLITS {
            check_stop(observer)?;
            let stream = Stream::new(self.data.options.seed, Purpose::Clusters, FIRST_SPLIT_ROUND + split);
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by_key(|i| stream.word(*i as u64));
            let mut labellings = Vec::new();
            for (half, positions) in [&order[..n / 2], &order[n / 2..]].into_iter().enumerate() {
                let half_points: Vec<T> =
                    positions.iter().flat_map(|i| &points[i * self.q..][..self.q]).copied().collect();
                let half_weights: Vec<f64> = positions.iter().map(|i| weights[*i]).collect();
                let first_round = FIRST_SPLIT_ROUND + SPLITS + (2 * split + half as u64) * HALF_STARTS;
                let (data, rounds) = (self.data, first_round..=first_round + starts - 1);
                let sample = (&half_points[..], &half_weights[..]);
                let centroids =
                    match best_start(&mut self.assignment, sample, (self.k, self.q), rounds, data, &NoObserver) {
                        Err(Error::TooFewPoints { .. }) => return Ok(None),
                        centroids => centroids?,
                    };
                let (labels, _) = nearest(&centroids, points, self.q, data.resources.workers);
                labellings.push(Labelling { k: self.k, labels });
            }
            sum += adjusted_rand_index(&labellings[0], &labellings[1]);
        }
        Ok(Some(sum / SPLITS as f64))
    }
}

/// Returns the nearest centroid of each point, and its squared distance.
fn nearest<T: Real>(centroids: &[f64], points: &[T], q: usize, workers: &Workers) -> (Vec<u32>, Vec<f64>) {
    let n = points.len() / q.max(1);
    let (mut labels, mut squared_distances) = (vec![0; n], vec![0.0; n]);
    NearestCentroids::new(centroids, q).find(points, &mut labels, &mut squared_distances, workers);
    (labels, squared_distances)
}
