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
//! The witness function (μ_a − μ_b)ᵀφ(x) is large where the first sample is denser. It is learned
//! from a random half of the rows. The area under its ROC curve on other rows is an effect size:
//! the probability that a row of the first sample has a larger value than a row of the second.
//!
//! *Passes*: one for the features and their second moments; two over the stored or recomputed
//! features, for the sums of all random choices of m rows, and for the witness function. *Flops*,
//! for N = m + n rows: the map, Np² for the moments, 2Np for each permutation, 9p³ for the
//! spectrum. *Bytes*: the features and 13p² numbers; for each permutation 8p, and a column of a
//! tile (a block of rows).
//!
//! References: Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test", JMLR 13,
//! 2012; Gretton, Fukumizu, Harchaoui, Sriperumbudur, "A fast, consistent kernel two-sample test",
//! NIPS 2009, for the spectrum and the gamma distribution.

use super::random_labels::{RandomSubsets, p_value};
use super::{
    MeasurePair, PValues, SampleKind, SplitPoint, StatisticFamily, TestStatistic, null_distribution::ChiSquaredSum,
    require_rows,
};
use crate::features::{FitData, GatherOptions, GatheredSums, StoredFeatures, Tile};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, gram::covariance, linalg::strips::for_each_strip};
use kapprox::{Real, decompose::symmetric_eigenvalues};
use kstore::MemoryPlan;
use kstore::key::{Purpose, Stream};
use std::ops::Range;

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
    let (p, element_bytes, label_count) = (size.map.p, size.element_bytes, permutation_count.saturating_add(3));
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
        .term("values of the witness function", 2 * 16 * n.min(MEASURED_ROWS + MEASURED_ROWS / 4), "")
        .term("keys of the rows", RandomSubsets::scratch_bytes(n, size.threads), "set `permutations` 0")
}

fn measure<T: Real>(data: &FitData<'_, T>, split_point: SplitPoint, permutation_count: usize) -> Result<TestStatistic> {
    let sums = sample_sums(data, split_point, permutation_count, true)?;
    let SampleSums { gathered, auc, rows: [m, n], .. } = &sums;
    let total_rows = m + n;
    let (observed, unbiased) = sums.statistic(0);
    let permuted: Vec<f64> = (1..=permutation_count).map(|j| sums.statistic(j).0).collect();
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
    let scaled_statistic = observed * (*m as f64 * *n as f64) / total_rows as f64;
    let p_values = PValues {
        permutation: p_value(observed, &permuted),
        spectrum: ChiSquaredSum::from_weights(eigenvalues.iter().map(|value| scale * value)).survival(scaled_statistic),
        gamma: ChiSquaredSum::gamma(null_mean, 2.0 * squared_norm).survival(scaled_statistic),
    };
    let certificate = gathered.certificate.as_ref().map(|state| state.checked_certificate(mean.len())).transpose()?;
    Ok(TestStatistic {
        biased: observed,
        unbiased,
        auc: *auc,
        p_values,
        permuted,
        certificate,
        ..TestStatistic::default()
    })
}

/// The sums over the rows of two samples from which statistics are computed.
pub(super) struct SampleSums {
    label_sums: LabelSums,
    /// Area under the ROC curve of the witness function.
    pub(super) auc: Option<f64>,
    gathered: GatheredSums,
    /// Number of rows of each sample.
    rows: [usize; 2],
}

impl SampleSums {
    /// Returns the biased and the unbiased statistic of a labelling; 0 is the observed labelling.
    pub(super) fn statistic(&self, labelling: usize) -> (f64, f64) {
        let [m, n] = self.rows;
        self.label_sums.statistic(labelling, m, n)
    }

    /// Returns the squared distance of the means of some features, for a labelling.
    pub(super) fn squared_distance(&self, features: &Range<usize>, labelling: usize) -> f64 {
        let [m, n] = self.rows;
        self.label_sums.sample_means(features, labelling, m, n).map(|(a, b)| (a - b) * (a - b)).sum()
    }
}

/// Sums the features over the samples of all labellings, and measures the witness function.
pub(super) fn sample_sums<T: Real>(
    data: &FitData<'_, T>,
    m: usize,
    permutation_count: usize,
    needs_moments: bool,
) -> Result<SampleSums> {
    let total_rows = usize::try_from(data.n).unwrap_or(usize::MAX);
    let n = total_rows - m;
    require_rows("mmd of a sample", 2, m.min(n) as u64)?;
    let (stored_features, gathered) =
        StoredFeatures::gather(data, GatherOptions { needs_moments, ..GatherOptions::default() })?;
    let subsets = RandomSubsets::new(data.options.seed, permutation_count, m, total_rows, stored_features.workers());
    let halves = Halves::new(data.options.seed, total_rows);
    let (label_sums, half_means) = compute_label_sums(data, &stored_features, m, &subsets, &halves)?;
    let auc = held_out_auc(data, &stored_features, m, &halves, &half_means)?;
    Ok(SampleSums { label_sums, auc, gathered, rows: [m, n] })
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
    /// Returns the means of some features over both samples of the labels in a column, for samples
    /// of `m` and `n` rows.
    fn sample_means(
        &self,
        features: &Range<usize>,
        column: usize,
        m: usize,
        n: usize,
    ) -> impl Iterator<Item = (f64, f64)> {
        let column_count = self.squared_norm_sums.len();
        let rows = self.phi[features.start * column_count..features.end * column_count].chunks_exact(column_count);
        rows.map(move |row| (row[column] / m as f64, (row[column_count - 1] - row[column]) / n as f64))
    }

    /// Returns the biased and the unbiased statistic of the labels in a column, for samples of `m`
    /// and `n` rows.
    fn statistic(&self, column: usize, m: usize, n: usize) -> (f64, f64) {
        let total_column = self.squared_norm_sums.len() - 1;
        let (mut squared_distance, mut first_norm, mut second_norm) = (0.0, 0.0, 0.0);
        for (a, b) in self.sample_means(&(0..self.phi.len() / (total_column + 1)), column, m, n) {
            squared_distance += (a - b) * (a - b);
            first_norm += a * a;
            second_norm += b * b;
        }
        let (m, n) = (m as f64, n as f64);
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
    halves: &Halves,
) -> Result<(LabelSums, HalfMeans)> {
    let c = subsets.len() + 2;
    let mut sums = LabelSums { phi: vec![0.0; stored_features.p * c], squared_norm_sums: vec![0.0; c] };
    let (mut labels, mut half_labels): (Vec<T>, Vec<T>) = Default::default();
    let (mut half_sums, mut half_counts) = (vec![0.0; stored_features.p * 2], [0.0; 2]);
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
        half_labels.clear();
        for position in tile.first_row..tile.first_row + tile.row_count() {
            let is_learned = halves.is_learned(position);
            half_counts[usize::from(position >= m)] += f64::from(u8::from(is_learned));
            half_labels
                .extend([position < m, position >= m].map(|side| if side && is_learned { T::ONE } else { T::ZERO }));
        }
        tile.add_transposed_product(&half_labels, &mut half_sums, stored_features.workers());
        tile.add_transposed_product(&labels, &mut sums.phi, stored_features.workers());
        add_squares(tile, &labels, &mut sums.squared_norm_sums);
        Ok(())
    })?;
    let side_mean = |side: usize| half_sums.iter().skip(side).step_by(2).map(|sum| sum / half_counts[side]).collect();
    Ok((sums, HalfMeans { means: [side_mean(0), side_mean(1)], counts: half_counts }))
}

/// Means of the features of each sample over the rows from which the witness function is learned.
struct HalfMeans {
    means: [Vec<f64>; 2],
    /// Numbers of these rows.
    counts: [f64; 2],
}

/// The random half of the rows from which the witness function is learned, and the other rows on
/// which it is measured.
struct Halves {
    stream: Stream,
    /// Largest key of a measured row.
    largest_measured_key: u64,
}

/// Mean number of rows on which the witness function is measured, if there are enough: the standard
/// error of the area under the curve is then 0.002.
const MEASURED_ROWS: usize = 50_000;

impl Halves {
    fn new(seed: u64, row_count: usize) -> Self {
        let fraction = (MEASURED_ROWS as f64 / row_count.max(1) as f64).min(0.5);
        // the rounds of the permutations count from 0
        let stream = Stream::new(seed, Purpose::Permutations, u64::MAX);
        Self { stream, largest_measured_key: (fraction * u64::MAX as f64) as u64 }
    }

    fn is_learned(&self, position: usize) -> bool {
        self.stream.word(position as u64) > u64::MAX / 2
    }

    fn is_measured(&self, position: usize) -> bool {
        self.stream.word(position as u64) <= self.largest_measured_key.min(u64::MAX / 2)
    }
}

/// Returns the area under the ROC curve of the witness function (μ_a − μ_b)ᵀφ on the measured rows;
/// `None` if a sample has no rows in one of the halves.
fn held_out_auc<T: Real>(
    data: &FitData<'_, T>,
    stored_features: &StoredFeatures<'_, T>,
    m: usize,
    halves: &Halves,
    half_means: &HalfMeans,
) -> Result<Option<f64>> {
    if half_means.counts.contains(&0.0) {
        return Ok(None);
    }
    let [first, second] = &half_means.means;
    let witness: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let mut values: Vec<(f64, bool)> = Vec::new();
    let observer = data.resources.stage_observer.start_stage("witness function", Some(stored_features.n as u64));
    stored_features.visit(&*observer, |tile| {
        for i in (0..tile.row_count()).filter(|i| halves.is_measured(tile.first_row + i)) {
            let value = tile.row(i).iter().zip(&witness).map(|(v, w)| v.to_f64() * w).sum();
            values.push((value, tile.first_row + i < m));
        }
        Ok(())
    })?;
    Ok(auc(values))
}

/// Returns the probability that a value of the first sample exceeds a value of the second, where
/// equal values count one half; `None` if a sample has no values.
fn auc(mut values: Vec<(f64, bool)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut second_below, mut pairs) = (0.0, 0.0);
    for equal in values.chunk_by(|a, b| a.0 == b.0) {
        let first = equal.iter().filter(|(_, is_first)| *is_first).count() as f64;
        let second = equal.len() as f64 - first;
        pairs += first * (second_below + second / 2.0);
        second_below += second;
    }
    let first = values.len() as f64 - second_below;
    (first > 0.0 && second_below > 0.0).then(|| pairs / (first * second_below))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_auc_counts_pairs() {
        // sklearn.metrics.roc_auc_score([1, 0, 1, 1, 0, 0], [3, 1, 2, 2, 2, 0]) is 8/9
        let values = [(3.0, true), (1.0, false), (2.0, true), (2.0, true), (2.0, false), (0.0, false)];
        assert!((auc(values.to_vec()).unwrap() - 8.0 / 9.0).abs() < 1e-15);
        assert_eq!(auc(vec![(1.0, true)]), None);
    }
}
