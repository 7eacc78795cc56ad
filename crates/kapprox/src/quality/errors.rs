//! Trace and Frobenius errors of K̂ = ΦΦᵀ, and lower bounds of its spectral-norm error. A first
//! pass samples rows; a second pass computes the columns of E = K − K̂ at these rows. r_i = E_ii
//! are the residuals, and E e_j is column j of E.

use super::columns::{ColumnReduction, ColumnSums};
use super::{Approximation, CONFIDENCE, Evidence, Measure, measure::quotient};
use crate::{Real, Result};

/// The same norm of E and of K.
#[derive(Clone, Copy, Debug)]
pub struct NormPair {
    /// ‖E‖.
    pub error: Measure,
    /// ‖K‖.
    pub kernel: Measure,
}

impl NormPair {
    /// Returns ‖E‖ / ‖K‖.
    pub fn relative(&self) -> Measure {
        self.error.relative_to(self.kernel)
    }
}

/// Errors of an approximation at one rank.
#[derive(Clone, Debug)]
pub struct ApproximationErrors {
    /// Number of leading features used, r.
    pub rank: usize,
    /// Number of rows, n.
    pub row_count: u64,
    /// Number of measured columns, c; n if all pairs were measured.
    pub column_count: usize,
    /// tr K.
    pub kernel_trace: f64,
    /// Σ max(r_i, 0) / tr K, the relative trace error of a projection; `None` for other maps, for
    /// which the trace error has no meaning.
    pub trace_error: Option<f64>,
    /// Bound on the rounding error of `trace_error`: ε √(rank + 1), from the features, plus Σ
    /// max(−r_i, 0) / tr K, because exact residuals are never negative. ε is the machine epsilon of
    /// `T`.
    pub rounding_floor: f64,
    /// max_i |r_i|, a lower bound of ‖E‖₂.
    pub largest_residual: f64,
    /// max_j ‖E e_j‖ over the measured columns, a lower bound of ‖E‖₂.
    pub largest_column_norm: f64,
    /// ‖E‖_F / ‖K‖_F.
    pub relative_frobenius_error: Measure,
    /// The norms ‖E‖_F and ‖K‖_F.
    pub frobenius_norm: NormPair,
}

/// Two-sided quantile of the normal law at [`CONFIDENCE`].
const NORMAL_QUANTILE: f64 = 1.959_963_984_540_054;

impl<T: Real> Approximation<'_, T> {
    /// Computes the errors at some ranks, in ascending order. At rank r they are the errors of
    /// the leading r features. If r is less than the number of features p, the map must be nested:
    /// its leading r features must be a map by themselves.
    ///
    /// Draws c = `column_count` rows uniformly, or all rows if there are fewer, and computes the
    /// columns of E at these rows. If all rows are drawn, all errors are exact. Makes two passes.
    /// Each row costs c kernel evaluations and 2cp flops. The sample stores c(d + p) numbers (c(d +
    /// 2p) while it is drawn), each state c(number of ranks + 1) numbers, and each lane 2p numbers
    /// for each row of a tile.
    ///
    /// From c sampled columns of n, (n/c) Σ_j ‖E e_j‖² is an unbiased estimate of ‖E‖²_F. ‖E‖²_F /
    /// ‖K‖²_F is estimated by the ratio of the two sums. The intervals assume a normal distribution
    /// of the estimates, with the standard error of a sample without replacement; for the ratio,
    /// the error follows from the delta method. The intervals hold with probability [`CONFIDENCE`],
    /// unless a few columns make up most of the sum (Cochran, *Sampling Techniques*, 3rd edition,
    /// 1977, sections 2.6 and 6.3).
    ///
    /// # Errors
    /// The errors of the source, and [`crate::Error::NotFinite`] if the kernel overflows.
    ///
    /// # Panics
    /// If the ranks do not ascend within 1 to p.
    pub fn errors(&self, ranks: &[usize], column_count: usize, seed: u64) -> Result<Vec<ApproximationErrors>> {
        let reduction = self.column_reduction(ranks, column_count, seed)?;
        let sums = self.scan.pass.resume("errors on sampled columns", self.scan.source, &reduction)?.0;
        Ok(reduction.errors(&sums))
    }

    /// Returns the reduction behind [`Approximation::errors`], so that a caller can run it in a
    /// pass that also uses the features for something else. Makes one pass, to sample the rows at
    /// which columns of E are measured.
    ///
    /// # Errors
    /// The errors of the source.
    ///
    /// # Panics
    /// If the ranks do not ascend within 1 to p.
    #[doc(hidden)]
    pub fn column_reduction<'r>(
        &'r self,
        ranks: &'r [usize],
        requested_columns: usize,
        seed: u64,
    ) -> Result<ColumnReduction<'r, T>> {
        let p = self.map.dims().1;
        let is_ascending = ranks.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(
            is_ascending && ranks.first() != Some(&0) && ranks.last().is_none_or(|last| *last <= p),
            "ranks {ranks:?} of {p}"
        );
        let measured_rows = self.draw_measured_rows(requested_columns.max(1), seed)?;
        let kernel_f64 = self.kernel.typed::<f64>();
        let (tile_rows, is_projection) = (self.scan.pass.tile_rows, self.is_projection());
        Ok(ColumnReduction { kernel_f64, map: self.map, ranks, measured_rows, tile_rows, is_projection })
    }
}

impl<T: Real> ColumnReduction<'_, T> {
    /// Returns the errors at every rank, after all rows were added.
    pub fn errors(&self, sums: &ColumnSums) -> Vec<ApproximationErrors> {
        self.ranks.iter().enumerate().map(|(rank_index, rank)| self.errors_at_rank(sums, rank_index, *rank)).collect()
    }

    fn errors_at_rank(&self, sums: &ColumnSums, rank_index: usize, rank: usize) -> ApproximationErrors {
        let (n, trace, [positive_residual_sum, negative_residual_sum, squared_residual_sum, largest_residual]) =
            (sums.row_count as f64, sums.trace, sums.residual_sums.as_chunks().0[rank_index]);
        let squared_norms = |rank_slot: usize| {
            sums.squared_column_norms.iter().skip(rank_slot).step_by(self.ranks.len() + 1).copied().collect()
        };
        let (squared_kernel_norms, squared_error_norms): (Vec<f64>, Vec<f64>) =
            (squared_norms(0), squared_norms(rank_index + 1));
        let rounding_floor = T::EPSILON * (rank as f64 + 1.0).sqrt() + quotient(negative_residual_sum, trace);
        let upper_bound =
            if self.is_projection { positive_residual_sum + rounding_floor * trace } else { f64::INFINITY };
        ApproximationErrors {
            rank,
            row_count: sums.row_count,
            column_count: squared_kernel_norms.len(),
            kernel_trace: trace,
            trace_error: self.is_projection.then(|| quotient(positive_residual_sum, trace)),
            rounding_floor,
            largest_residual,
            largest_column_norm: squared_error_norms.iter().copied().fold(0.0, f64::max).max(0.0).sqrt(),
            relative_frobenius_error: estimate_ratio(&squared_error_norms, &squared_kernel_norms, n),
            frobenius_norm: NormPair {
                error: estimate_norm(&squared_error_norms, n)
                    .clip_interval(squared_residual_sum.max(0.0).sqrt(), upper_bound),
                kernel: estimate_norm(&squared_kernel_norms, n).clip_interval(0.0, trace),
            },
        }
    }
}

/// Estimates the square root of the sum of the squared norms of all n columns, from the squared
/// norms of c columns.
fn estimate_norm(squared_norms: &[f64], n: f64) -> Measure {
    let c = squared_norms.len() as f64;
    let sum: f64 = squared_norms.iter().sum();
    if c >= n || c == 0.0 {
        return Measure::exact(sum.max(0.0).sqrt());
    }
    let mean = sum / c;
    sqrt_estimate(n * mean, n * standard_error(squared_norms.iter().map(|square| square - mean), n))
}

/// Estimates √(Σ `squared_error_norms` / Σ `squared_kernel_norms`), where the sums run over all n
/// columns, from the values of c columns. By the delta method, the standard error of the ratio ρ of
/// the means is the standard error of the mean of (error norm² − ρ kernel norm²), divided by the
/// mean of the kernel norms².
fn estimate_ratio(squared_error_norms: &[f64], squared_kernel_norms: &[f64], n: f64) -> Measure {
    let c = squared_error_norms.len() as f64;
    let (numerator, denominator): (f64, f64) = (squared_error_norms.iter().sum(), squared_kernel_norms.iter().sum());
    let ratio = quotient(numerator, denominator);
    if c >= n || denominator <= 0.0 {
        return Measure::exact(ratio.max(0.0).sqrt());
    }
    let deviations = squared_error_norms
        .iter()
        .zip(squared_kernel_norms)
        .map(|(error, squared_kernel_norm)| error - ratio * squared_kernel_norm);
    sqrt_estimate(ratio, standard_error(deviations, n) * c / denominator)
}

/// Returns the standard error of the mean of c values drawn from n without replacement, from their
/// deviations from the mean.
fn standard_error(deviations: impl ExactSizeIterator<Item = f64>, n: f64) -> f64 {
    let c = deviations.len() as f64;
    if c < 2.0 {
        return f64::INFINITY;
    }
    let variance = deviations.map(|deviation| deviation * deviation).sum::<f64>() / (c - 1.0);
    ((1.0 - c / n).max(0.0) * variance / c).sqrt()
}

/// Returns the square root of an estimate with a normal error.
fn sqrt_estimate(squared_estimate: f64, std_error: f64) -> Measure {
    let interval_end = |sign: f64| (squared_estimate + sign * NORMAL_QUANTILE * std_error).max(0.0).sqrt();
    let evidence = Evidence::Confidence(CONFIDENCE);
    Measure { value: squared_estimate.max(0.0).sqrt(), low: interval_end(-1.0), high: interval_end(1.0), evidence }
}
