//! Maximum mean discrepancy: the distance between the means of two samples in feature space.
//!
//! Let a run over the m rows of the first sample and b over the n rows of the second sample, and
//! let μ_a and μ_b be the means of their p features:
//!
//! ```text
//! biased    |μ_a − μ_b|²       = ΣΣ k(a, a')/m² + ΣΣ k(b, b')/n² − 2 ΣΣ k(a, b)/mn
//! unbiased  the same without the pairs a = a' and b = b': biased − tr C_a/(m − 1) − tr C_b/(n − 1)
//! ```
//!
//! Here C_a and C_b are the covariances of the samples (divided by m and by n). The second form of
//! the unbiased statistic subtracts small numbers instead of sums of kernel values, and so keeps
//! its accuracy in f32.
//!
//! Assume that both samples have the same distribution. Because μ_a and μ_b are means of
//! independent vectors, mn/(m + n) times the biased statistic then tends in distribution to Σ λ_l
//! z_l², where λ_l are the eigenvalues of the covariance of all rows and the z_l are independent
//! standard normal variables.
//!
//! *Passes*: one for the features and their second moments; one over the stored or recomputed
//! features, for the sums of all random choices of m rows. *Flops*, for N = m + n rows: the map,
//! Np² for the moments, 2Np for each permutation, 9p³ for the spectrum. *Bytes*: the features and
//! 13p² numbers; for each permutation 8p, and a column of a tile (a block of rows).
//!
//! References: Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test", JMLR 13,
//! 2012; Gretton, Fukumizu, Harchaoui, Sriperumbudur, "A fast, consistent kernel two-sample test",
//! NIPS 2009, for the spectrum and the gamma distribution.

use super::random_labels::{RandomSubsets, p_value};
use super::{
    MeasurePair, PValues, SampleKind, SplitPoint, StatisticFamily, TestStatistic, null_distribution::ChiSquaredSum,
    require_rows,
};
use crate::features::{FitData, GatherOptions, StoredFeatures, Tile};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, gram::covariance, linalg::strips::for_each_strip};
use kapprox::{Real, decompose::symmetric_eigenvalues};
use kstore::MemoryPlan;

pub(super) const FAMILY: StatisticFamily = StatisticFamily {
    name: "mmd",
    about: "maximum mean discrepancy: whether two samples have the same distribution",
    sample_kind: SampleKind::Samples,
    plan,
    stores_features: false,
    measure: MeasurePair(measure, measure),
};

/// Number of rows whose labels one thread draws at a time. Chosen: a tile then has enough strips
/// for all threads.
const LABEL_STRIP_ROWS: usize = 64;

fn plan(plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape, permutation_count: usize) -> MemoryPlan {
    let (p, element_bytes, label_count) = (size.map.p, size.element_bytes, permutation_count.saturating_add(1));
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    plan.term("covariance and its eigenvalues", 4 * 8 * p * p, "lower `rank`")
        .term(
            "sums of random labels",
            label_count.saturating_mul(8 * (p + 1) + element_bytes * p),
            "lower `permutations`",
        )
        .term(
            "random labels of a tile",
            label_count.saturating_mul(pass_shape.tile_rows * element_bytes + 16),
            "lower `permutations`",
        )
        .term("keys of the rows", RandomSubsets::scratch_bytes(n, size.threads), "set `permutations` 0")
}

fn measure<T: Real>(data: &FitData<'_, T>, split_point: SplitPoint, permutation_count: usize) -> Result<TestStatistic> {
    let total_rows = usize::try_from(data.n).unwrap_or(usize::MAX);
    let (m, n) = (split_point, total_rows - split_point);
    require_rows("mmd of a sample", 2, m.min(n) as u64)?;
    let (stored_features, gathered) =
        StoredFeatures::gather(data, GatherOptions { needs_moments: true, ..GatherOptions::default() })?;
    let subsets = RandomSubsets::new(data.options.seed, permutation_count, m, total_rows, stored_features.workers());
    let label_sums = compute_label_sums(data, &stored_features, m, &subsets)?;
    drop(stored_features);
    let (observed, unbiased) = label_sums.statistic(0, m, n);
    let permuted: Vec<f64> = (1..=permutation_count).map(|j| label_sums.statistic(j, m, n).0).collect();
    let moments = gathered.moments.as_ref().ok_or(Error::NoVariance)?;
    let moment_sums = &moments.folds()[0];
    let mean: Vec<f64> = moment_sums.s.iter().map(|s| s / total_rows as f64).collect();
    let covariance = covariance(moment_sums, &mean);
    // the trace of the covariance, divided by N − 1 instead of N, is the mean over all labellings
    // of mn/N times the statistic
    let scale = total_rows as f64 / (total_rows - 1) as f64;
    let null_mean = scale * (0..mean.len()).map(|j| covariance[(j, j)]).sum::<f64>();
    let squared_norm = scale * scale * covariance.squared_norm_l2();
    let eigenvalues = symmetric_eigenvalues(covariance.as_ref())?;
    let scaled_statistic = observed * (m as f64 * n as f64) / total_rows as f64;
    let p_values = PValues {
        permutation: p_value(observed, &permuted),
        spectrum: ChiSquaredSum::from_weights(eigenvalues.iter().map(|value| scale * value)).survival(scaled_statistic),
        gamma: ChiSquaredSum::gamma(null_mean, 2.0 * squared_norm).survival(scaled_statistic),
    };
    let certificate = gathered.certificate.map(|state| state.checked_certificate(mean.len())).transpose()?;
    Ok(TestStatistic { biased: observed, unbiased, alignment: None, p_values, permuted, certificate })
}

/// Sums of the features over the rows of the first sample, in c columns: the first column is for
/// the observed labels, the next columns are for the random labels, and the last column is the sum
/// over all rows.
struct LabelSums {
    /// Σ phi per label, p x c row-major.
    phi: Vec<f64>,
    /// Σ |phi|² per label, c numbers.
    squared_norm_sums: Vec<f64>,
}

impl LabelSums {
    /// Returns the biased and the unbiased statistic of the labels in a column, for samples of `m`
    /// and `n` rows.
    fn statistic(&self, column: usize, m: usize, n: usize) -> (f64, f64) {
        let (column_count, total_column) = (self.squared_norm_sums.len(), self.squared_norm_sums.len() - 1);
        let (m, n) = (m as f64, n as f64);
        let (mut squared_distance, mut first_norm, mut second_norm) = (0.0, 0.0, 0.0);
        for row in self.phi.chunks_exact(column_count) {
            let (a, b) = (row[column] / m, (row[total_column] - row[column]) / n);
            squared_distance += (a - b) * (a - b);
            first_norm += a * a;
            second_norm += b * b;
        }
        let (first_squares, second_squares) =
            (self.squared_norm_sums[column], self.squared_norm_sums[total_column] - self.squared_norm_sums[column]);
        // tr C_a/(m − 1) + tr C_b/(n − 1), where tr C_a = Σ|phi|²/m − |μ_a|²
        let bias = (first_squares / m - first_norm) / (m - 1.0) + (second_squares / n - second_norm) / (n - 1.0);
        (squared_distance, squared_distance - bias)
    }
}

/// Computes the sums for the observed and the random labels: one pass over the features.
fn compute_label_sums<T: Real>(
    data: &FitData<'_, T>,
    stored_features: &StoredFeatures<'_, T>,
    m: usize,
    subsets: &RandomSubsets,
) -> Result<LabelSums> {
    let c = subsets.len() + 2;
    let mut sums = LabelSums { phi: vec![0.0; stored_features.p * c], squared_norm_sums: vec![0.0; c] };
    let mut labels: Vec<T> = Vec::new();
    let observer = data.resources.stage_observer.start_stage("sums of random labels", Some(stored_features.n as u64));
    stored_features.visit(&*observer, |tile| {
        labels.resize(tile.row_count() * c, T::ZERO);
        for_each_strip(stored_features.workers(), &mut labels, LABEL_STRIP_ROWS * c, |strip, labels| {
            for (i, labels) in labels.chunks_exact_mut(c).enumerate() {
                let position = tile.first_row + strip * LABEL_STRIP_ROWS + i;
                let has_label = |j: usize| match j {
                    0 => position < m,
                    j if j + 1 == c => true,
                    j => subsets.contains(j - 1, position),
                };
                labels
                    .iter_mut()
                    .enumerate()
                    .for_each(|(j, label)| *label = if has_label(j) { T::ONE } else { T::ZERO });
            }
        });
        tile.add_transposed_product(&labels, &mut sums.phi, stored_features.workers());
        add_squares(tile, &labels, &mut sums.squared_norm_sums);
        Ok(())
    })?;
    Ok(sums)
}

/// For each label, adds to `squares` the sum of |phi_i|² over the rows i of a tile that have the
/// label.
fn add_squares<T: Real>(tile: &Tile<'_, T>, labels: &[T], squares: &mut [f64]) {
    for (i, labels) in labels.chunks_exact(squares.len()).enumerate() {
        let squared_norm: f64 = tile.row(i).iter().map(|v| v.to_f64() * v.to_f64()).sum();
        for (sum, label) in squares.iter_mut().zip(labels) {
            *sum += squared_norm * label.to_f64();
        }
    }
}
