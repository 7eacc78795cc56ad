//! Kernels for the later rows of a series: half of each has a metric, the other half has none.
//!
//! A metric A that was learned on some blocks of a series suits other blocks less: it shortens the
//! length scales along directions in which the learned function changed there, and lengthens all
//! others. Cross-validation does not show this, because the rows of all folds learned the metric.
//! So the metric is shrunk toward no metric. Each kernel g of the search becomes
//!
//! ```text
//! k(x, z) = ½ g(D(x − z)) + ½ g(x − z),    D² = diag(AᵀA).
//! ```
//!
//! The entries outside the diagonal of AᵀA are left out: most of the d(d + 1)/2 numbers of a full
//! metric are there. D becomes the length scales of the first half, one for each feature. If the
//! length scale of g was not set, it is the median distance of a sample of the rows, in the first
//! half of the rows D x. The page `docs/tuning.md` compares this kernel with its two halves on
//! later rows.

use super::KernelSearchResult;
use super::trial::Trials;
use crate::Result;
use crate::metric::apply_metric;
use crate::prepare::map_builder::resolve_length_scale;
use kapprox::kernel::Kernel;
use kapprox::{Real, metric::Metric};

/// The kernel has two lists of length scales in its expression, so there must not be more features.
const MAX_FEATURES: usize = 200;

/// Smallest factor of a feature in D, relative to the largest factor.
const MIN_FACTOR_RATIO: f64 = 1e-3;

/// Name of the metric of this kernel in reports.
pub(super) const FORM: &str = "half diagonal";

impl<T: Real> Trials<T> {
    /// Returns these kernels; none if the rows are not a series, or if the search learned no
    /// metric. Kernels without a length scale for each feature are left out. There are none for
    /// classes: every trial would learn a metric, and several solvers try several parameters.
    pub(super) fn series_kernels(
        &self,
        kernels: &[Kernel],
        search_result: &KernelSearchResult,
        seed: u64,
    ) -> Result<Vec<Kernel>> {
        let is_series = search_result.target_correlation.is_some() && search_result.classes == 0;
        let metric = search_result.metric.as_ref().filter(|_| is_series);
        let Some(metric) = metric.filter(|metric| metric.input_count() <= MAX_FEATURES) else { return Ok(Vec::new()) };
        let (factors, sample) = (diagonal_factors(metric), self.sample());
        let sample_after_metric = apply_metric(&sample, &Metric::diagonal(factors.clone())?);
        let mut series_kernels = Vec::new();
        for kernel in kernels {
            let with_metric = resolve_length_scale(kernel, &sample_after_metric, seed)?;
            let plain = resolve_length_scale(kernel, &sample, seed)?;
            series_kernels.extend(half_sum(&with_metric, &factors, &plain));
        }
        Ok(series_kernels)
    }
}

/// Returns the diagonal of D, scaled to ‖D‖² = d.
fn diagonal_factors(metric: &Metric) -> Vec<f64> {
    let importance = metric.importance();
    let largest = importance.iter().copied().fold(0.0, f64::max);
    let smallest = MIN_FACTOR_RATIO * MIN_FACTOR_RATIO * largest;
    importance.iter().map(|share| (share.max(smallest) * importance.len() as f64).sqrt()).collect()
}

/// Returns half of `kernel` on features times `factors`, plus half of `plain`.
fn half_sum(kernel: &Kernel, factors: &[f64], plain: &Kernel) -> Option<Kernel> {
    let column_lengths = kernel.column_lengths(factors.len())?;
    let length = |(j, length): (usize, f64)| kmodel::likelihood::round_to_four_digits(length / factors[j]);
    let lengths: Vec<f64> = column_lengths.into_iter().map(length).collect();
    Some(Kernel::weighted_sum([(0.5, kernel.with_column_lengths(&lengths)), (0.5, plain.clone())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_kernel_has_the_diagonal_of_the_metric_as_length_scales() {
        // A = [2 1; 0 2], so diag(AᵀA) = (4, 5), scaled to sum 2
        let metric = Metric::matrix(&[2.0, 1.0, 0.0, 2.0], 2).unwrap();
        let factors = diagonal_factors(&metric);
        let expected = [(8.0f64 / 9.0).sqrt(), (10.0f64 / 9.0).sqrt()];
        assert!(
            factors.iter().zip(expected).all(|(factor, expected)| (factor - expected).abs() < 1e-12),
            "{factors:?}"
        );
        let [gaussian, plain] = ["gaussian(sigma=2)", "laplacian(sigma=3)"].map(|text| Kernel::parse(text).unwrap());
        let sum = half_sum(&gaussian, &factors, &plain).unwrap();
        assert_eq!(sum.to_string(), "0.5*gaussian(sigma=[2.121, 1.897]) + 0.5*laplacian(sigma=3)");
        // no kernel with a length scale for each feature
        assert_eq!(half_sum(&Kernel::parse("linear()").unwrap(), &factors, &plain), None);
        // an input that the metric ignores keeps a finite length scale
        let ignored = diagonal_factors(&Metric::diagonal(vec![3.0, 0.0]).unwrap())[1];
        assert!((ignored - 1e-3 * 2f64.sqrt()).abs() < 1e-15, "{ignored}");
    }
}
