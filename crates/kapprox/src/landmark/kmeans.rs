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

use super::{
    LandmarkRule, LandmarkSet, NO_ROW, Scheme, SelectionCost, SelectionSize, TableScan, clusters::ClusterSums,
    uniform_sample,
};
use crate::map::column_slice;
use crate::map::independent::to_f64_vec;
use crate::map::nystrom::{STRIP_ROWS, strips};
use crate::{Error, Real, Result, kernel::AnyKernel, vectorised};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
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
            let reduction = AssignmentReduction::new(&centroids, d, scan.pass.tile_rows);
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

/// ‖x − z‖², summed in f64.
#[inline(always)]
fn squared_distance<T: Real>(x: &[T], z: &[T]) -> f64 {
    x.iter().zip(z).fold(0.0, |sum, (x, z)| {
        let difference = x.to_f64() - z.to_f64();
        sum + difference * difference
    })
}

/// One iteration, which assigns each row to the nearest centroid.
struct AssignmentReduction<'a, T> {
    /// Centroids z_j, m x d.
    centroids: MatRef<'a, T>,
    /// z_j − c, where c is the mean of the centroids. The centroid nearest to x has the largest
    /// x·(z_j − c) − offset_j. Subtracting c reduces cancellation.
    centred_centroids: Vec<T>,
    /// Offsets c·(z_j − c) + ‖z_j − c‖²/2.
    offsets: Vec<T>,
    tile_rows: usize,
}

impl<'a, T: Real> AssignmentReduction<'a, T> {
    fn new(centroids: &'a [T], d: usize, tile_rows: usize) -> Self {
        let m = centroids.len() / d;
        let coordinate = |j: usize, axis: usize| centroids[j * d + axis].to_f64();
        let centroid_mean: Vec<f64> =
            (0..d).map(|axis| (0..m).map(|j| coordinate(j, axis)).sum::<f64>() / m as f64).collect();
        let (mut centred_centroids, mut offsets) = (Vec::with_capacity(m * d), Vec::with_capacity(m));
        for j in 0..m {
            let deviation = |axis: usize| coordinate(j, axis) - centroid_mean[axis];
            centred_centroids.extend((0..d).map(|axis| T::from_f64(deviation(axis))));
            let offset: f64 = (0..d).map(|axis| deviation(axis) * (centroid_mean[axis] + deviation(axis) / 2.0)).sum();
            offsets.push(T::from_f64(offset));
        }
        Self { centroids: MatRef::from_row_major_slice(centroids, m, d), centred_centroids, offsets, tile_rows }
    }
}

impl<T: Real> Reduction<T> for AssignmentReduction<'_, T> {
    type State = ClusterSums;
    type Scratch = (Mat<T>, Vec<u32>);
    type Error = Error;

    fn init(&self) -> Self::State {
        let (m, d) = self.centroids.shape();
        // at most 64 empty clusters restart per iteration; if there are more, which is rare, the
        // others wait for the next iteration
        ClusterSums::new(m, d, m.min(64))
    }

    fn scratch(&self) -> Self::Scratch {
        (Mat::zeros(self.tile_rows, self.centroids.nrows()), Vec::new())
    }

    fn step(
        &self,
        state: &mut Self::State,
        (products, nearest): &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let (b, d) = (block.len(), block.d);
        nearest.resize(b, 0);
        let x = MatRef::from_row_major_slice(block.x, b, d);
        let strip_tasks =
            strips(x, products.as_mut().subrows_mut(0, b)).into_iter().zip(nearest.chunks_mut(STRIP_ROWS));
        workers.for_each(strip_tasks.collect(), |((x, mut products), nearest)| {
            let z = MatRef::from_row_major_slice(&self.centred_centroids, self.offsets.len(), d);
            matmul(products.as_mut(), Accum::Replace, x, z.transpose(), T::ONE, Par::Seq);
            find_nearest(products.as_ref(), &self.offsets, nearest);
        });
        for (x, j) in block.x.chunks_exact(d).zip(&*nearest) {
            let j = *j as usize;
            let z = self.centroids.row(j).try_as_row_major().map(|z| z.as_slice());
            let z = z.expect("centroids are row-major");
            state.add(j, 1.0, vectorised!(squared_distance(x, z)), x);
        }
        Ok(())
    }
}

/// Finds the nearest centroid of each row i, argmax_j (products_ij − offset_j). If several are
/// equally near, the first is chosen.
fn find_nearest<T: Real>(products: MatRef<'_, T>, offsets: &[T], nearest: &mut [u32]) {
    let mut best_scores = vec![T::ZERO - T::LARGEST; nearest.len()];
    for (j, offset) in offsets.iter().enumerate() {
        let column = column_slice(products.col(j));
        vectorised!({
            for ((best_score, nearest), product) in best_scores.iter_mut().zip(nearest.iter_mut()).zip(column) {
                let score = *product - *offset;
                let is_better = score > *best_score;
                *best_score = if is_better { score } else { *best_score };
                *nearest = if is_better { j as u32 } else { *nearest };
            }
        });
    }
}
