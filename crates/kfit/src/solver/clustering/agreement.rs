//! Measures of a clustering: silhouettes, and the agreement of two clusterings.
//!
//! Let a(i) be the mean distance of point i from the other points of its cluster, and b(i) the
//! smallest of its mean distances from the points of another cluster. The silhouette of the point
//! is
//!
//! ```text
//! s(i) = (b(i) − a(i)) / max(a(i), b(i)),   0 for the only point of a cluster
//! ```
//!
//! Let n_ij be the number of points in cluster i of the first clustering and in cluster j of the
//! second, with sums a_i and b_j over a row and a column. The adjusted Rand index is
//!
//! ```text
//! (Σ C(n_ij, 2) − E) / ((Σ C(a_i, 2) + Σ C(b_j, 2))/2 − E)
//! E = Σ C(a_i, 2) Σ C(b_j, 2) / C(n, 2)
//! ```
//!
//! It is 1 for equal clusterings, and its mean is 0 for random clusterings of the same sizes.
//!
//! References: Rousseeuw, "Silhouettes: a graphical aid to the interpretation and validation of
//! cluster analysis", J. Comput. Appl. Math. 20, 1987; Hubert, Arabie, "Comparing partitions",
//! J. Classification 2, 1985.

use crate::linalg::strips::{BufferPool, for_each_strip};
use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};
use kstore::Workers;

/// Number of points whose distances from all points one thread computes at once.
pub(super) const STRIP_ROWS: usize = 64;

/// A clustering of points.
pub(super) struct Labelling {
    /// Number of clusters.
    pub(super) k: usize,
    /// Cluster of each point.
    pub(super) labels: Vec<u32>,
}

impl Labelling {
    /// Returns the number of points of each cluster.
    fn sizes(&self) -> Vec<f64> {
        let mut sizes = vec![0.0; self.k];
        self.labels.iter().for_each(|label| sizes[*label as usize] += 1.0);
        sizes
    }
}

/// Returns the mean silhouette of all points for each labelling. The points are r x q row-major.
pub(super) fn mean_silhouettes(points: &[f64], q: usize, labellings: &[Labelling], workers: &Workers) -> Vec<f64> {
    let (r, count) = (points.len() / q.max(1), labellings.len());
    let points = MatRef::from_row_major_slice(points, r, q);
    let squared_norms: Vec<f64> = points.row_iter().map(|row| row.squared_norm_l2()).collect();
    let sizes: Vec<Vec<f64>> = labellings.iter().map(Labelling::sizes).collect();
    let (mut silhouettes, buffers) = (vec![0.0; r * count], BufferPool::<(Vec<f64>, Vec<f64>)>::default());
    for_each_strip(workers, &mut silhouettes, STRIP_ROWS * count, |strip, silhouettes| {
        let (first, b) = (strip * STRIP_ROWS, silhouettes.len() / count);
        buffers.with_buffer(Default::default, |(distances, sums)| {
            distances.resize(b * r, 0.0);
            let products = MatMut::from_row_major_slice_mut(distances, b, r);
            matmul(products, Accum::Replace, points.subrows(first, b), points.transpose(), 1.0, Par::Seq);
            for (i, (distances, silhouettes)) in
                distances.chunks_exact_mut(r).zip(silhouettes.chunks_exact_mut(count)).enumerate()
            {
                for (j, distance) in distances.iter_mut().enumerate() {
                    let square = squared_norms[first + i] + squared_norms[j] - 2.0 * *distance;
                    *distance = square.max(0.0).sqrt();
                }
                distances[first + i] = 0.0;
                for ((labelling, sizes), silhouette) in labellings.iter().zip(&sizes).zip(silhouettes) {
                    sums.clear();
                    sums.resize(labelling.k, 0.0);
                    let labelled = distances.iter().zip(&labelling.labels);
                    labelled.for_each(|(distance, label)| sums[*label as usize] += distance);
                    *silhouette = silhouette_of_sums(labelling.labels[first + i] as usize, sums, sizes);
                }
            }
        });
    });
    let mean = |l: usize| silhouettes.iter().skip(l).step_by(count).sum::<f64>() / r.max(1) as f64;
    (0..count).map(mean).collect()
}

/// Returns the silhouette of a point of cluster `own`, from the sums of its distances to the points
/// of each cluster.
fn silhouette_of_sums(own: usize, sums: &[f64], sizes: &[f64]) -> f64 {
    if sizes[own] <= 1.0 {
        return 0.0;
    }
    let within = sums[own] / (sizes[own] - 1.0);
    let others = (0..sums.len()).filter(|j| *j != own && sizes[*j] > 0.0);
    let Some(nearest) = others.map(|j| sums[j] / sizes[j]).reduce(f64::min) else { return 0.0 };
    let larger = within.max(nearest);
    if larger > 0.0 { (nearest - within) / larger } else { 0.0 }
}

/// Returns the adjusted Rand index of two clusterings of the same points.
pub(super) fn adjusted_rand_index(first: &Labelling, second: &Labelling) -> f64 {
    let mut table = vec![0.0; first.k * second.k];
    for (i, j) in first.labels.iter().zip(&second.labels) {
        table[*i as usize * second.k + *j as usize] += 1.0;
    }
    let pairs = |counts: &[f64]| counts.iter().map(|n| n * (n - 1.0) / 2.0).sum::<f64>();
    let (together, rows, columns) = (pairs(&table), pairs(&first.sizes()), pairs(&second.sizes()));
    let all = pairs(&[first.labels.len() as f64]);
    let expected = if all > 0.0 { rows * columns / all } else { 0.0 };
    let largest = (rows + columns) / 2.0;
    // both clusterings have one cluster, or only clusters of one point: they are equal
    if largest == expected { 1.0 } else { (together - expected) / (largest - expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points on three noisy clumps, and two labellings of them.
    fn table() -> (Vec<f64>, [Labelling; 2]) {
        let point = |i: usize| {
            let (group, t) = ((i % 3) as f64, (i * 7 % 12) as f64);
            [2.0 * group + 0.3 * (1.7 * t).sin(), group * group + 0.25 * (2.3 * t).cos(), 0.1 * t]
        };
        let points = (0..24).flat_map(point).collect();
        let labels = |k: usize, label: &dyn Fn(usize) -> u32| Labelling { k, labels: (0..24).map(label).collect() };
        (points, [labels(3, &|i| (i % 3) as u32), labels(4, &|i| if i == 5 { 3 } else { (i / 4 % 3) as u32 })])
    }

    #[test]
    fn silhouettes_and_rand_index_equal_those_of_scikit_learn() {
        // import numpy as np, sklearn.metrics as m; i = np.arange(24); t = i * 7 % 12; g = i % 3
        // x = np.c_[2 * g + .3 * np.sin(1.7 * t), g * g + .25 * np.cos(2.3 * t), .1 * t]
        // b = np.where(i == 5, 3, i // 4 % 3); c = np.where(i < 3, 1, g)
        // m.silhouette_score(x, g), m.silhouette_score(x, b)
        // m.adjusted_rand_score(g, b), m.adjusted_rand_score(g, c)
        let (points, labellings) = table();
        let golden = [0.8015458764137929, -0.317090405182962];
        for threads in [1, 2] {
            let found = mean_silhouettes(&points, 3, &labellings, &Workers::new(threads));
            let near = found.iter().zip(golden).all(|(found, golden)| (found - golden).abs() < 1e-12);
            assert!(near, "{found:?} against {golden:?}");
        }
        let [a, b] = labellings;
        let mostly_a = Labelling { k: 3, labels: (0..24).map(|i| if i < 3 { 1 } else { i % 3 }).collect() };
        assert!((adjusted_rand_index(&a, &b) - -0.007619047619047619).abs() < 1e-14);
        assert!((adjusted_rand_index(&a, &mostly_a) - 0.7373848987108655).abs() < 1e-14);
        assert_eq!(adjusted_rand_index(&a, &a), 1.0);
        let one = || Labelling { k: 1, labels: vec![0; 24] };
        assert_eq!(adjusted_rand_index(&one(), &one()), 1.0);
    }

    #[test]
    fn single_points_and_equal_points_have_silhouette_0() {
        let labelling = |labels: &[u32]| Labelling { k: 2, labels: labels.to_vec() };
        let points = [0.0, 0.0, 5.0];
        assert_eq!(mean_silhouettes(&points, 1, &[labelling(&[0, 1, 1])], &Workers::sequential())[0] * 3.0, -1.0);
        assert_eq!(mean_silhouettes(&[2.0; 4], 1, &[labelling(&[0, 0, 1, 1])], &Workers::sequential()), [0.0]);
        assert_eq!(mean_silhouettes(&points, 1, &[labelling(&[0, 0, 0])], &Workers::sequential()), [0.0]);
    }
}
