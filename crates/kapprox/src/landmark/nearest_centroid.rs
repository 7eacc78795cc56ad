//! The nearest of k centroids for many points.

use crate::map::column_slice;
use crate::map::nystrom::STRIP_ROWS;
use crate::{Real, thin, vectorised};
use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use kpass::{BufferPool, Workers};

/// Maximum number of centroids whose products with the points are computed by [`thin`]. More
/// centroids have columns of products, among which the largest are found with vectors of points.
const MAX_THIN_CENTROIDS: usize = 48;

/// Number of partial sums of a squared distance: an AVX-512 register of f64.
const PARTIAL_SUMS: usize = 8;

/// Centroids c_1, …, c_k of points with q coordinates.
///
/// With c, the mean of the centroids, the centroid nearest to a point e has the largest
/// e·(c_j − c) − offset_j, where offset_j = c·(c_j − c) + ‖c_j − c‖²/2. Subtracting c reduces
/// cancellation, because the products are computed in `T`.
#[derive(Clone, Debug)]
pub struct NearestCentroids<T> {
    /// Centroids c_j, k x q row-major.
    centroids: Vec<T>,
    /// c_j − c: q x k for [`thin`], otherwise k x q, row-major.
    centred_centroids: Vec<T>,
    offsets: Vec<T>,
    q: usize,
}

impl<T: Real> NearestCentroids<T> {
    /// Prepares `centroids`, k x q row-major.
    pub fn new(centroids: &[f64], q: usize) -> Self {
        let k = centroids.len() / q.max(1);
        let mut centroid_mean = vec![0.0; q];
        for centroid in centroids.chunks_exact(q) {
            centroid_mean.iter_mut().zip(centroid).for_each(|(mean, v)| *mean += v);
        }
        centroid_mean.iter_mut().for_each(|mean| *mean /= k as f64);
        let (is_thin, mut centred_centroids) = (k <= MAX_THIN_CENTROIDS, vec![T::ZERO; k * q]);
        let mut offsets = Vec::with_capacity(k);
        for (j, centroid) in centroids.chunks_exact(q).enumerate() {
            let mut offset = 0.0;
            for (axis, (v, mean)) in centroid.iter().zip(&centroid_mean).enumerate() {
                let deviation = v - mean;
                offset += deviation * (mean + deviation / 2.0);
                centred_centroids[if is_thin { axis * k + j } else { j * q + axis }] = T::from_f64(deviation);
            }
            offsets.push(T::from_f64(offset));
        }
        Self { centroids: centroids.iter().map(|v| T::from_f64(*v)).collect(), centred_centroids, offsets, q }
    }

    /// Sets `nearest[i]` to the nearest centroid of point i of `points` (b x q row-major), and
    /// `squared_distances[i]` to its squared distance. Of equally near centroids, the first is
    /// chosen. Costs 2bkq flops.
    pub fn find(&self, points: &[T], nearest: &mut [u32], squared_distances: &mut [f64], workers: &Workers) {
        let (products, q) = (BufferPool::<Vec<T>>::default(), self.q);
        let strips = points.chunks(STRIP_ROWS * q).zip(nearest.chunks_mut(STRIP_ROWS));
        let strips: Vec<_> = strips.zip(squared_distances.chunks_mut(STRIP_ROWS)).collect();
        workers.for_each(strips, |((points, nearest), squared_distances)| {
            products.with_buffer(Vec::new, |products| self.find_in_strip(points, nearest, products));
            vectorised!({
                for ((point, j), distance) in points.chunks_exact(q).zip(&*nearest).zip(squared_distances) {
                    *distance = squared_distance(point, &self.centroids[*j as usize * q..][..q]);
                }
            });
        });
    }

    fn find_in_strip(&self, points: &[T], nearest: &mut [u32], products: &mut Vec<T>) {
        let (b, k) = (nearest.len(), self.offsets.len());
        products.resize(b * k, T::ZERO);
        if k <= MAX_THIN_CENTROIDS {
            thin::multiply(points, &self.centred_centroids, self.q, products);
            vectorised!(find_largest_in_rows(products, &self.offsets, nearest));
        } else {
            let mut products = MatMut::from_column_major_slice_mut(products, b, k);
            let (e, c) = (
                MatRef::from_row_major_slice(points, b, self.q),
                MatRef::from_row_major_slice(&self.centred_centroids, k, self.q),
            );
            matmul(products.as_mut(), Accum::Replace, e, c.transpose(), T::ONE, Par::Seq);
            find_largest_in_columns(products.as_ref(), &self.offsets, nearest);
        }
    }
}

/// Sets `nearest[i]` to argmax_j (products_ij − offset_j), for products b x k row-major.
#[inline(always)]
fn find_largest_in_rows<T: Real>(products: &[T], offsets: &[T], nearest: &mut [u32]) {
    for (products, nearest) in products.chunks_exact(offsets.len()).zip(nearest) {
        let (mut best_score, mut best) = (T::ZERO - T::LARGEST, 0);
        for (j, (product, offset)) in products.iter().zip(offsets).enumerate() {
            let score = *product - *offset;
            if score > best_score {
                (best_score, best) = (score, j as u32);
            }
        }
        *nearest = best;
    }
}

/// Sets `nearest[i]` to argmax_j (products_ij − offset_j), for products b x k column-major.
fn find_largest_in_columns<T: Real>(products: MatRef<'_, T>, offsets: &[T], nearest: &mut [u32]) {
    let mut best_scores = vec![T::ZERO - T::LARGEST; nearest.len()];
    for (j, offset) in offsets.iter().enumerate() {
        let column = column_slice(products.col(j));
        vectorised!({
            for ((best_score, nearest), product) in best_scores.iter_mut().zip(nearest.iter_mut()).zip(column) {
                let score = *product - *offset;
                // the first centroid replaces whatever the buffer contained
                let is_better = score > *best_score || j == 0;
                *best_score = if is_better { score } else { *best_score };
                *nearest = if is_better { j as u32 } else { *nearest };
            }
        });
    }
}

/// Returns ‖x − z‖²: differences in `T`, squares and their sum in f64. For several points, call it
/// inside one [`vectorised!`](macro@crate::vectorised) block: each such block switches between SSE
/// code and AVX code, and after a matrix product each switch costs a hundred cycles.
#[inline(always)]
pub fn squared_distance<T: Real>(x: &[T], z: &[T]) -> f64 {
    let ((x_chunks, x_rest), (z_chunks, z_rest)) = (x.as_chunks::<PARTIAL_SUMS>(), z.as_chunks::<PARTIAL_SUMS>());
    let mut sums = [0.0; PARTIAL_SUMS];
    for (x, z) in x_chunks.iter().zip(z_chunks) {
        for i in 0..PARTIAL_SUMS {
            let difference = (x[i] - z[i]).to_f64();
            sums[i] = difference.mul_add(difference, sums[i]);
        }
    }
    let rest = x_rest.iter().zip(z_rest).map(|(x, z)| (*x - *z).to_f64());
    sums.iter().sum::<f64>() + rest.map(|difference| difference * difference).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(i: usize, j: usize) -> f64 {
        100.0 + ((i * 37 + j * 101) as f64 * 0.618).sin()
    }

    #[test]
    fn the_nearest_centroid_equals_the_search_in_f64_for_few_and_many_centroids() {
        for (b, k, q) in [(1, 1, 1), (3, 2, 5), (700, 10, 33), (600, 48, 7), (600, 49, 7), (300, 130, 3)] {
            let points: Vec<f32> = (0..b * q).map(|i| number(i / q, i % q) as f32).collect();
            let centroids: Vec<f64> = (0..k * q).map(|i| number(i / q + 5, i % q + 1)).collect();
            let searcher = NearestCentroids::<f32>::new(&centroids, q);
            let run = |workers: &Workers| {
                // the buffers of an earlier call may contain anything
                let (mut nearest, mut distances) = (vec![77; b], vec![f64::NAN; b]);
                searcher.find(&points, &mut nearest, &mut distances, workers);
                (nearest, distances)
            };
            let (nearest, distances) = run(&Workers::sequential());
            for i in 0..b {
                let distance = |j: usize| -> f64 {
                    (0..q).map(|axis| (f64::from(points[i * q + axis]) - centroids[j * q + axis]).powi(2)).sum()
                };
                let least = (0..k).map(distance).fold(f64::INFINITY, f64::min);
                // products in f32 of points of size 100 leave an error of about 1e-4
                assert!(distance(nearest[i] as usize) <= least + 1e-3, "{b} {k} {q}: row {i}");
                assert!((distances[i] - distance(nearest[i] as usize)).abs() < 1e-4, "{b} {k} {q}: row {i}");
            }
            assert_eq!((nearest, distances), run(&Workers::new(3)));
        }
    }
}
