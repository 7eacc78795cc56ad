//! K-means of points that are linear in the features: Lloyd's iterations, one pass each.
//!
//! Minimises Σ_i w_i min_j ‖e_i − c_j‖² over k centroids c_j, where w_i is 1 or the weight of row
//! i. The point e_i is φ_i or Aᵀφ_i. In clustering on the sphere, the point is divided by its norm.
//! An iteration assigns every point to the nearest centroid and moves every centroid to the mean of
//! its points, so the sum never increases. The features are
//! [stored](crate::features::StoredFeatures) between iterations.
//!
//! The [initial centroids](super::starts) are computed on a sample of the rows. A centroid without
//! points moves to a point that is far from every centroid.
//!
//! *Passes*: one for the sample and one for each iteration. *Flops*: the flops of the map, and 2kq
//! per row for points with q coordinates, in the element type of the features. *Bytes*: kq numbers
//! in f64 for each state, and the sample.
//!
//! References: Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 28, 1982. On the
//! sphere: Dhillon, Modha, "Concept decompositions", Machine Learning 42, 2001.

use super::MAX_FARTHEST_POINTS;
use super::points::{Assignment, FeatureSample, PointSpace};
use super::starts::best_start;
use crate::Result;
use crate::features::{FitData, StoredFeatures};
use faer::Mat;
use kapprox::Real;
use kapprox::landmark::{ClusterSums, NearestCentroids};
use kstore::checkpoint::Steps;

/// Maximum number of iterations on all rows.
const MAX_PASSES: u64 = 100;
/// The iterations over all rows end if an iteration reduces the sum of squares by less than this
/// fraction.
const MIN_RELATIVE_DECREASE: f64 = 1e-6;

#[derive(Clone, Debug)]
pub(in crate::solver) struct Clusters {
    /// Centroids c_j as columns, q x k, the heaviest cluster first.
    pub(in crate::solver) centroids: Mat<f64>,
    /// Weight of the rows of each cluster; the number of rows if rows have no weights.
    pub(in crate::solver) cluster_weights: Vec<f64>,
    /// Sum of squared distances Σ w min ‖e − c‖².
    pub(in crate::solver) inertia: f64,
    pub(in crate::solver) passes: u64,
}

/// Clusters the rows.
///
/// # Errors
/// [`Error::TooFewPoints`] for fewer distinct points than clusters; errors of reading the rows.
pub(in crate::solver) fn cluster<T: Real>(
    data: &FitData<'_, T>,
    features: &StoredFeatures<'_, T>,
    space: PointSpace<'_>,
    (k, start_count): (usize, usize),
) -> Result<Clusters> {
    let (q, mut assignment) = (space.point_dimension(features.p), Assignment::new(space));
    let mut state = LloydState { centroids: vec![0.0; k * q], previous_inertia: f64::INFINITY };
    let mut steps = Steps::resume(data.resources.journal, "clusters", &mut state)?;
    if steps.completed_steps() == 0 {
        let sample = FeatureSample::draw(data, features, k)?;
        let points = sample.points(space, features.workers());
        let stage = data.resources.stage_observer.start_steps("starts", start_count as u64);
        let rounds = 1..=start_count as u64;
        state.centroids = best_start(&mut assignment, (&points, &sample.weights), (k, q), rounds, data, &*stage)?;
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
