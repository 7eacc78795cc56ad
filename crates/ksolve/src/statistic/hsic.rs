//! Hilbert–Schmidt independence criterion: do two sets of columns depend on each other?
//!
//! Let phi (p features) and psi (q features) be the features of the two sets of columns in a row,
//! Φ̃ (n x p) and Ψ̃ (n x q) the features of all n rows minus their means, and C = Φ̃ᵀΨ̃/n the
//! cross-covariance. K and L are the kernel matrices of the two sets, H = I − 11ᵀ/n, and C_x and
//! C_y are the covariances of phi and of psi.
//!
//! ```text
//! biased    ‖C‖²_F = tr(HKHL)/n²
//! unbiased  (n² ‖C‖² − d n/(n − 2) + ab/((n − 1)(n − 2))) / (n(n − 3)),
//!           a = Σ|phi|², b = Σ|psi|², d = Σ|phi|²|psi|² of the centred features
//! ```
//!
//! The unbiased estimator is the estimator of Song et al., which uses kernel matrices whose
//! diagonals are zero. The estimator does not change if the features are centred. The row sums of
//! the two matrices are then −|phi|² and −|psi|², which gives the formula above.
//!
//! If the two sets are independent, n ‖C‖² tends in distribution to Σ λ_i η_j z_ij², where λ_i and
//! η_j are the eigenvalues of C_x and C_y, and the z_ij are independent standard normal variables.
//! The gamma distribution has the moments of Gretton et al. Its mean is tr C_x tr C_y / n, where
//! C_x and C_y are divided by n − 1 instead of n. Its variance is 2(n−4)(n−5)/(n(n−1)(n−2)(n−3))
//! ‖C_x‖²‖C_y‖².
//!
//! `alignment` is ‖C‖²/(‖C_x‖‖C_y‖), the centred alignment of the two kernels.
//!
//! *Passes*: one over the rows, for the features and the second moments of both sets together; one
//! over the stored features, for a, b and d. A permutation pairs phi of one row with psi of any
//! other row, so permutations need the features in memory. *Flops*: the maps, n(p + q)² for the
//! moments, 2npq for each permutation. *Bytes*: the features, 13(p + q)² numbers; per thread pq
//! numbers and 4n.
//!
//! References: Gretton, Bousquet, Smola, Schölkopf, "Measuring statistical dependence with
//! Hilbert–Schmidt norms", ALT 2005; Gretton, Fukumizu, Teo, Song, Schölkopf, Smola, "A kernel
//! statistical test of independence", NIPS 2007, theorems 2 to 4; Song, Smola, Gretton, Bedo,
//! Borgwardt, "Feature selection via dependence maximization", JMLR 13, 2012; Zhang, Peters,
//! Janzing, Schölkopf, "Kernel-based conditional independence test", UAI 2011, theorem 4, for the
//! spectrum.

use super::null_distribution::ChiSquaredSum;
use super::random_labels::{p_value, random_permutation};
use super::{MeasurePair, PValues, SampleKind, SplitPoint, StatisticFamily, TestStatistic, require_rows};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::gram::covariance;
use crate::linalg::strips::{BufferPool, for_each_strip};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kapprox::Real;
use kapprox::decompose::symmetric_eigenvalues;
use kstore::MemoryPlan;

pub(super) const FAMILY: StatisticFamily = StatisticFamily {
    name: "hsic",
    about: "Hilbert-Schmidt independence criterion, tr(KHLH)/n^2: whether two sets of columns are \
        dependent",
    sample_kind: SampleKind::Columns,
    plan,
    stores_features: true,
    measure: MeasurePair(measure, measure),
};

/// Number of rows in a product of one thread. Chosen so that a strip is small: 1,024 x 500 features
/// in f32 take 2 MB.
const PERMUTATION_STRIP_ROWS: usize = 1024;

fn plan(plan: MemoryPlan, size: &ProblemSize, _: PassShape, permutation_count: usize) -> MemoryPlan {
    // assumes p = q, each half of the combined features
    let (p, element_bytes) = (size.map.p.div_ceil(2), size.element_bytes);
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let plan = plan.term("covariances and their eigenvalues", 4 * 8 * size.map.p * size.map.p, "lower `rank`");
    if permutation_count == 0 {
        return plan;
    }
    let thread_bytes = p * p * (8 + element_bytes) + 2 * PERMUTATION_STRIP_ROWS * p * element_bytes + 4 * n;
    plan.term("random orders and their products", size.threads.max(1) * thread_bytes, "lower `threads`").term(
        "permuted statistics",
        permutation_count.saturating_mul(8),
        "lower `permutations`",
    )
}

fn measure<T: Real>(data: &FitData<'_, T>, split_point: SplitPoint, permutation_count: usize) -> Result<TestStatistic> {
    require_rows("hsic", 4, data.n)?;
    let (stored_features, gathered) =
        StoredFeatures::gather(data, GatherOptions { needs_moments: true, ..GatherOptions::default() })?;
    let n = stored_features.n as f64;
    let moments = gathered.moments.as_ref().ok_or(Error::NoVariance)?;
    let moment_sums = &moments.folds()[0];
    let mean: Vec<f64> = moment_sums.s.iter().map(|s| s / n).collect();
    let joint_covariance = covariance(moment_sums, &mean);
    let (p, q) = (split_point, stored_features.p - split_point);
    let (phi_covariance, psi_covariance) =
        (joint_covariance.submatrix(0, 0, p, p), joint_covariance.submatrix(p, p, q, q));
    let biased = joint_covariance.submatrix(p, 0, q, p).squared_norm_l2();
    let norm_sums = squared_norm_sums(data, &stored_features, &mean, p)?;
    let unbiased = norm_sums.unbiased(biased, n);
    let permuted = permuted_statistics(data, &stored_features, &mean, p, permutation_count)?;
    drop(stored_features);
    let (phi_norm, psi_norm) = (phi_covariance.squared_norm_l2(), psi_covariance.squared_norm_l2());
    let alignment = (phi_norm > 0.0 && psi_norm > 0.0).then(|| (biased / (phi_norm * psi_norm).sqrt()).clamp(0.0, 1.0));
    let (phi_eigenvalues, psi_eigenvalues) =
        (symmetric_eigenvalues(phi_covariance)?, symmetric_eigenvalues(psi_covariance)?);
    // the weights are eigenvalues of covariances that are divided by n − 1 instead of n
    let scale = (n / (n - 1.0)).powi(2);
    let keep_positive = |values: &[f64]| -> Vec<f64> { values.iter().copied().filter(|value| *value > 0.0).collect() };
    let (phi_weights, psi_weights) = (keep_positive(&phi_eigenvalues), keep_positive(&psi_eigenvalues));
    let weight_products = phi_weights.iter().flat_map(|a| psi_weights.iter().map(move |b| scale * a * b));
    let null_mean = (norm_sums.phi / (n - 1.0)) * (norm_sums.psi / (n - 1.0)) / n;
    let null_variance = 2.0 * (n - 4.0) * (n - 5.0) / (n * (n - 1.0) * (n - 2.0) * (n - 3.0)) * phi_norm * psi_norm;
    let p_values = PValues {
        permutation: p_value(biased, &permuted),
        spectrum: ChiSquaredSum::from_weights(weight_products).survival(n * biased),
        gamma: ChiSquaredSum::gamma(null_mean, null_variance).survival(biased),
    };
    Ok(TestStatistic { biased, unbiased, alignment, p_values, permuted, ..TestStatistic::default() })
}

/// Sums of squared norms of the centred features: a, b and d in the formulas above.
#[derive(Default)]
struct SquaredNormSums {
    phi: f64,
    psi: f64,
    product: f64,
}

impl SquaredNormSums {
    fn unbiased(&self, biased: f64, n: f64) -> f64 {
        let norm_product = self.phi * self.psi / ((n - 1.0) * (n - 2.0));
        (n * n * biased - self.product * n / (n - 2.0) + norm_product) / (n * (n - 3.0))
    }
}

/// Computes a, b and d: one pass over the features.
fn squared_norm_sums<T: Real>(
    data: &FitData<'_, T>,
    stored_features: &StoredFeatures<'_, T>,
    mean: &[f64],
    p: usize,
) -> Result<SquaredNormSums> {
    let mut norm_sums = SquaredNormSums::default();
    let observer =
        data.resources.stage_observer.start_stage("squared norms of the features", Some(stored_features.n as u64));
    stored_features.visit(&*observer, |tile| {
        for i in 0..tile.row_count() {
            let (first, second) = tile.row(i).split_at(p);
            let square = |row: &[T], mean: &[f64]| -> f64 {
                row.iter().zip(mean).map(|(v, mean)| (v.to_f64() - mean).powi(2)).sum()
            };
            let (first, second) = (square(first, &mean[..p]), square(second, &mean[p..]));
            norm_sums.phi += first;
            norm_sums.psi += second;
            norm_sums.product += first * second;
        }
        Ok(())
    })?;
    Ok(norm_sums)
}

/// Buffers of a thread: rows of phi, permuted rows of psi, their product in one strip of rows, and
/// the sum of the products over all strips.
struct Buffers<T> {
    phi_rows: Vec<T>,
    psi_rows: Vec<T>,
    product: Vec<T>,
    sum: Mat<f64>,
}

/// Computes the biased statistic ‖(1/n) Σ_i phi_i psi_π(i)ᵀ − μ_phi μ_psiᵀ‖² for random orders π of
/// the rows of psi. One thread computes a permutation, strip by strip.
fn permuted_statistics<T: Real>(
    data: &FitData<'_, T>,
    stored_features: &StoredFeatures<'_, T>,
    mean: &[f64],
    p: usize,
    permutation_count: usize,
) -> Result<Vec<f64>> {
    let mut statistics = vec![0.0; permutation_count];
    // after the previous pass, either all rows are in memory or none
    if stored_features.row(0).is_none() {
        return Ok(Vec::new());
    }
    let (n, q) = (stored_features.n, stored_features.p - p);
    let observer = data.resources.stage_observer.start_stage("permutations", None);
    let pool: BufferPool<Buffers<T>> = BufferPool::default();
    let new_buffers =
        || Buffers { phi_rows: Vec::new(), psi_rows: Vec::new(), product: vec![T::ZERO; p * q], sum: Mat::zeros(p, q) };
    for_each_strip(stored_features.workers(), &mut statistics, 1, |j, statistic| {
        if observer.should_stop() {
            return;
        }
        pool.with_buffer(new_buffers, |buffers| {
            let permutation = random_permutation(data.options.seed, j, n);
            buffers.sum.fill(0.0);
            for first_row in (0..n).step_by(PERMUTATION_STRIP_ROWS) {
                let strip_rows = PERMUTATION_STRIP_ROWS.min(n - first_row);
                buffers.phi_rows.clear();
                buffers.psi_rows.clear();
                let features = |row: usize| stored_features.row(row).unwrap_or_default();
                (first_row..first_row + strip_rows)
                    .for_each(|row| buffers.phi_rows.extend_from_slice(&features(row)[..p]));
                permutation[first_row..first_row + strip_rows]
                    .iter()
                    .for_each(|row| buffers.psi_rows.extend_from_slice(&features(*row as usize)[p..]));
                let phi = MatRef::from_row_major_slice(&buffers.phi_rows, strip_rows, p);
                let psi = MatRef::from_row_major_slice(&buffers.psi_rows, strip_rows, q);
                let product = MatMut::from_column_major_slice_mut(&mut buffers.product, p, q);
                matmul(product, Accum::Replace, phi.transpose(), psi, T::ONE, Par::Seq);
                for (k, column) in buffers.product.chunks_exact(p).enumerate() {
                    buffers.sum.col_mut(k).iter_mut().zip(column).for_each(|(sum, v)| *sum += v.to_f64());
                }
            }
            let centred = |i: usize, k: usize| buffers.sum[(i, k)] / n as f64 - mean[i] * mean[p + k];
            statistic[0] = (0..q).map(|k| (0..p).map(|i| centred(i, k).powi(2)).sum::<f64>()).sum();
        });
    });
    if observer.should_stop() {
        return Err(kstore::Error::Interrupted.into());
    }
    Ok(statistics)
}
