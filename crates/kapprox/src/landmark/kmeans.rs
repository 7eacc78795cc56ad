//! Landmarks by k-means. The landmarks are centroids z_j of clusters of the rows x_i, and not rows
//! of the table.
//!
//! The centroids z_j minimise Σ_i min_j ‖x_i − z_j‖². If the kernel is Lipschitz in the distance,
//! this sum times a constant bounds the trace error. The centroids are seeded by k-means++ on a
//! sample, and then moved by Lloyd's iterations, one pass each. If a cluster loses all its rows,
//! its centroid restarts at a row that is far from every centroid. The centroids are ordered by
//! cluster size, largest first.
//!
//! References: Zhang, Kwok, "Clustered Nyström method", IEEE TNN 21, 2010; Arthur, Vassilvitskii,
//! "k-means++", SODA 2007; Lloyd, "Least squares quantization in PCM", 1982.

use super::nearest_centroid::{NearestCentroids, squared_distance};
use super::{
    LandmarkRule, LandmarkSet, NO_ROW, Scheme, SelectionCost, SelectionSize, TableScan, clusters::ClusterSums,
    uniform_sample,
};
use crate::map::independent::to_f64_vec;
use crate::{Error, Real, Result, kernel::AnyKernel, vectorised};
use kpass::key::{Purpose, Stream};
use kpass::{Reduction, RowBlock, Workers};
use std::sync::Arc;

/// K-means landmarks.
///
/// Makes one pass for the sample, and one pass of 2nmd flops for each of at most 10 iterations.
#[derive(Clone, Copy, Debug, Default)]
pub struct KMeans;

/// Maximum number of Lloyd's iterations. From the fifth iteration on, the trace error changes only
/// in its third digit; Zhang and Kwok stop after five iterations.
const MAX_ITERATIONS: usize = 10;

/// Relative decrease of the inertia (the sum of squared distances from the nearest centroid) below
/// which the iteration stops; chosen.
const MIN_DECREASE: f64 = 1e-3;

/// Number of sampled rows per centroid, chosen.
const ROWS_PER_CENTROID: usize = 10;

pub(super) const SCHEME: Scheme = Scheme {
    extra_bytes: |SelectionSize { element_bytes, n, d, m }| {
        let sample_rows = usize::try_from(n).unwrap_or(usize::MAX).min(ROWS_PER_CENTROID * m);
        // the sample while it is drawn, with 40 bytes per row for its key, weight, slot and row
        // numbers; the sums, the centroids and the centred centroids
        3 * sample_rows * (d * element_bytes + 40) + m * d * (2 * size_of::<f64>() + 4 * element_bytes)
    },
    cost: SelectionCost::Distances,
    ..Scheme::new("kmeans", "centroids of k-means++ and Lloyd's iterations", &KMeans)
};

impl<T: Real> LandmarkRule<T> for KMeans {
    fn select(&self, scan: &TableScan<'_, T>, _: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>> {
        let d = scan.source.shape().input_count;
        let sample = uniform_sample(scan, ROWS_PER_CENTROID.saturating_mul(m), Purpose::Landmarks, seed)?;
        let mut centroids = kmeans_plus_plus(&sample.x, d, m, &Stream::new(seed, Purpose::Proposals, 0));
        let mut passes = 1;
        let (mut order, mut previous_inertia) = (Vec::new(), f64::INFINITY);
        for _ in 0..MAX_ITERATIONS {
            let nearest_centroids = NearestCentroids::new(&to_f64_vec(&centroids), d);
            let reduction = AssignmentReduction { nearest_centroids, m: centroids.len() / d, d };
            let sums = scan.pass.resume("nearest centroids", scan.source, &reduction)?.0;
            passes += 1;
            let centroids_f64 =
                sums.next_centroids(&to_f64_vec(&centroids), |sum, weight| sum.iter().map(|v| v / weight).collect());
            centroids = centroids_f64.into_iter().map(T::from_f64).collect();
            order = sums.clusters_by_weight();
            if sums.inertia >= previous_inertia * (1.0 - MIN_DECREASE) {
                break;
            }
            previous_inertia = sums.inertia;
        }
        let points = order.iter().flat_map(|j| &centroids[j * d..(j + 1) * d]).copied().collect();
        Ok(LandmarkSet { points, row_numbers: vec![NO_ROW; order.len()], d, passes, evaluations: 0 })
    }
}

/// Seeds by k-means++: draws each seed from the sample with probability proportional to its squared
/// distance from the nearest earlier seed. Returns fewer than `m` seeds if the sample has fewer
/// distinct rows. Costs 3 |sample| m d flops.
fn kmeans_plus_plus<T: Real>(x: &[T], d: usize, m: usize, stream: &Stream) -> Vec<T> {
    let d = d.max(1);
    let rows: Vec<&[T]> = x.chunks_exact(d).collect();
    let mut squared_distances = vec![f64::INFINITY; rows.len()];
    let mut seeds: Vec<T> = Vec::with_capacity(m.min(rows.len()) * d);
    for draw in 0..m.min(rows.len()) {
        let seed_row = if draw == 0 {
            // the sample is in random order
            0
        } else {
            let total: f64 = squared_distances.iter().sum();
            let mut remaining_weight = stream.uniform(draw as u64) * total;
            let drawn_row = squared_distances.iter().position(|distance| {
                remaining_weight -= distance;
                remaining_weight < 0.0
            });
            // if rounding leaves a remainder, no row was drawn: take the last row with a positive
            // distance
            match drawn_row.or_else(|| squared_distances.iter().rposition(|distance| *distance > 0.0)) {
                Some(row) if squared_distances[row] > 0.0 => row,
                _ => break,
            }
        };
        let seed = rows[seed_row];
        seeds.extend_from_slice(seed);
        update_distances(&mut squared_distances, x, d, seed);
    }
    seeds
}

/// Updates, after a new seed, the squared distance of every row from its nearest seed.
///
/// One call handles all rows, because each call switches between SSE code and the AVX code of this
/// function. After a matrix product, the upper halves of the vector registers are in use, and each
/// such switch costs a hundred cycles. One call per row took 17 times as long (9 inputs, Sapphire
/// Rapids).
fn update_distances<T: Real>(squared_distances: &mut [f64], x: &[T], d: usize, seed: &[T]) {
    vectorised!({
        for (distance, row) in squared_distances.iter_mut().zip(x.chunks_exact(d)) {
            *distance = distance.min(squared_distance(row, seed));
        }
    });
}

/// One iteration, which assigns each row to the nearest centroid.
struct AssignmentReduction<T> {
    nearest_centroids: NearestCentroids<T>,
    m: usize,
    d: usize,
}

impl<T: Real> Reduction<T> for AssignmentReduction<T> {
    type State = ClusterSums;
    /// Nearest centroids of the rows of a block, and their squared distances.
    type Scratch = (Vec<u32>, Vec<f64>);
    type Error = Error;

    fn init(&self) -> Self::State {
        // at most 64 empty clusters restart per iteration; if there are more, which is rare, the
        // others wait for the next iteration
        ClusterSums::new(self.m, self.d, self.m.min(64))
    }

    fn scratch(&self) -> Self::Scratch {
        Default::default()
    }

    fn step(
        &self,
        state: &mut Self::State,
        (nearest, squared_distances): &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        nearest.resize(block.len(), 0);
        squared_distances.resize(block.len(), 0.0);
        self.nearest_centroids.find(block.x, nearest, squared_distances, workers);
        state.add_points(block.x, nearest, squared_distances, |_| 1.0, workers);
        Ok(())
    }
}
