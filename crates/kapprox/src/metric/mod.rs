//! Metrics: linear maps of the scaled inputs, applied before the kernel.
//!
//! A kernel of distances, k(x, z) = g(‖x − z‖), treats all inputs alike. With a metric A (r x d) it
//! becomes g(‖A(x − z)‖), so A determines which inputs, and which combinations of inputs, matter.
//! [`MetricRows`] applies a metric to the rows of any source. Kernels, maps, landmark schemes and
//! solvers need not know about it.
//!
//! ```
//! use kapprox::metric::Metric;
//!
//! let metric = Metric::diagonal(vec![2.0, 0.0])?;
//! let mut out = [0.0; 4];
//! metric.apply(&[1.0, 5.0, 3.0, 7.0], &mut out);
//! assert_eq!(out, [2.0, 0.0, 6.0, 0.0]);
//! # Ok::<(), kapprox::Error>(())
//! ```

mod metric_rows;

pub use metric_rows::MetricRows;

use crate::{Error, Real, Result, vectorised};

/// Number of rows that are multiplied by the matrix at once. The matrix is read from memory once
/// for all of these rows.
const ROWS_AT_ONCE: usize = 8;

/// A linear map A of d inputs to r outputs: x ↦ A x.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Diagonal, d numbers, or Aᵀ, d x r row-major.
    entries: Vec<f64>,
    /// Number of outputs; `None` for a diagonal, which has as many outputs as inputs.
    output_count: Option<usize>,
}

impl Metric {
    /// Returns the metric that multiplies each input by its own factor.
    ///
    /// # Errors
    /// [`Error::InvalidMetric`] if `factors` is empty, if a factor is not finite, or if all are 0.
    pub fn diagonal(factors: Vec<f64>) -> Result<Self> {
        check_entries(&factors)?;
        Ok(Self { entries: factors, output_count: None })
    }

    /// Returns the metric with a matrix of `r` rows, row-major.
    ///
    /// # Errors
    /// [`Error::InvalidMetric`] if `matrix` does not have `r` rows of equal length, if a number is
    /// not finite, or if all are 0.
    pub fn matrix(matrix: &[f64], r: usize) -> Result<Self> {
        check_entries(matrix)?;
        if r == 0 || !matrix.len().is_multiple_of(r) {
            return Err(Error::InvalidMetric { why: format!("{} numbers do not form {r} rows", matrix.len()) });
        }
        let d = matrix.len() / r;
        let entries = (0..d).flat_map(|j| (0..r).map(move |k| matrix[k * d + j])).collect();
        Ok(Self { entries, output_count: Some(r) })
    }

    /// Returns the number of inputs, d.
    pub fn input_count(&self) -> usize {
        self.entries.len() / self.output_count.unwrap_or(1)
    }

    /// Returns the number of outputs, r.
    pub fn output_count(&self) -> usize {
        self.output_count.unwrap_or(self.entries.len())
    }

    /// Returns true if each input is multiplied by its own factor and no inputs are combined.
    pub fn is_diagonal(&self) -> bool {
        self.output_count.is_none()
    }

    /// Returns the diagonal, d numbers, or the matrix, r x d row-major.
    pub fn to_row_major(&self) -> Vec<f64> {
        match self.output_count {
            None => self.entries.clone(),
            Some(r) => (0..r).flat_map(|k| (0..self.input_count()).map(move |j| self.entries[j * r + k])).collect(),
        }
    }

    /// Converts a metric of the original inputs to the equivalent metric of inputs that are divided
    /// by `scale`: entry (k, j) is multiplied by `scale[j]`.
    #[must_use]
    pub fn rescaled(&self, scale: &[f64]) -> Self {
        let column_len = self.output_count.unwrap_or(1);
        let columns = self.entries.chunks_exact(column_len).zip(scale);
        let entries = columns.flat_map(|(column, scale)| column.iter().map(move |a| a * scale)).collect();
        Self { entries, output_count: self.output_count }
    }

    /// Returns, for each input, the sum of the squared entries of its column of A, divided by ‖A‖².
    /// The d numbers sum to 1.
    pub fn importance(&self) -> Vec<f64> {
        let squared_norms =
            self.entries.chunks_exact(self.output_count.unwrap_or(1)).map(|a| a.iter().map(|a| a * a).sum());
        let squared_norms: Vec<f64> = squared_norms.collect();
        let total: f64 = squared_norms.iter().sum();
        squared_norms.into_iter().map(|squared_norm| squared_norm / total).collect()
    }

    /// Computes `out` (n x r, row-major) = A x for each row of `x` (n x d, row-major).
    ///
    /// Sums in f64, in the order of the inputs, so that the result of a row does not depend on the
    /// other rows. *Cost*: 2·r·d flops per row; d for a diagonal.
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn apply<T: Real>(&self, x: &[T], out: &mut [T]) {
        let (d, r) = (self.input_count(), self.output_count());
        assert_eq!(x.len() * r, out.len() * d, "out must have a row of {r} for each row of {d}");
        if self.is_diagonal() {
            for (x, out) in x.chunks_exact(d).zip(out.chunks_exact_mut(d)) {
                for ((out, x), a) in out.iter_mut().zip(x).zip(&self.entries) {
                    *out = saturating_from_f64(a * x.to_f64());
                }
            }
            return;
        }
        let mut sums = vec![0.0; ROWS_AT_ONCE * r];
        for (x, out) in x.chunks(ROWS_AT_ONCE * d).zip(out.chunks_mut(ROWS_AT_ONCE * r)) {
            let sums = &mut sums[..out.len()];
            sums.fill(0.0);
            vectorised!(self.add_products(x, sums));
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = saturating_from_f64(*sum));
        }
    }

    #[inline(always)]
    fn add_products<T: Real>(&self, x: &[T], sums: &mut [f64]) {
        let (d, r) = (self.input_count(), self.output_count());
        for (j, column) in self.entries.chunks_exact(r).enumerate() {
            for (x, sums) in x.chunks_exact(d).zip(sums.chunks_exact_mut(r)) {
                let value = x[j].to_f64();
                sums.iter_mut().zip(column).for_each(|(sum, a)| *sum += a * value);
            }
        }
    }
}

fn saturating_from_f64<T: Real>(value: f64) -> T {
    let largest = T::LARGEST.to_f64();
    T::from_f64(value.clamp(-largest, largest))
}

fn check_entries(entries: &[f64]) -> Result<()> {
    match entries.iter().find(|number| !number.is_finite()) {
        Some(number) => {
            Err(Error::InvalidMetric { why: format!("it contains {number}, but every entry must be finite") })
        }
        None if entries.iter().all(|number| *number == 0.0) => {
            Err(Error::InvalidMetric { why: "all entries are 0".to_string() })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kpass::key::{Purpose, Stream};

    fn values(count: usize, seed: u64) -> Vec<f64> {
        let stream = Stream::new(seed, Purpose::Data, 0);
        (0..count as u64).map(|i| 2.0 * stream.uniform(i) - 1.0).collect()
    }

    #[test]
    fn a_matrix_is_applied_row_by_row() {
        let (n, d, r) = (21, 13, 5);
        let (a, x) = (values(r * d, 1), values(n * d, 2));
        let metric = Metric::matrix(&a, r).unwrap();
        assert_eq!((metric.input_count(), metric.output_count(), metric.to_row_major()), (d, r, a.clone()));
        let mut out = vec![0.0; n * r];
        metric.apply(&x, &mut out);
        for i in 0..n {
            for k in 0..r {
                let dot: f64 = (0..d).map(|j| a[k * d + j] * x[i * d + j]).sum();
                assert!((out[i * r + k] - dot).abs() < 1e-14);
            }
            let mut alone = vec![0.0; r];
            metric.apply(&x[i * d..(i + 1) * d], &mut alone);
            assert_eq!(alone, out[i * r..(i + 1) * r], "row {i}");
        }
    }

    #[test]
    fn importance_sums_to_one_and_scales_are_undone() {
        let metric = Metric::matrix(&[3.0, 0.0, 4.0, 0.0], 2).unwrap();
        assert_eq!(metric.importance(), [1.0, 0.0]);
        let metric = Metric::matrix(&values(12, 3), 3).unwrap();
        assert!((metric.importance().iter().sum::<f64>() - 1.0).abs() < 1e-14);
        let (x, scale) = (values(4, 4), [2.0, 0.5, 1.0, 3.0]);
        let divided: Vec<f64> = x.iter().zip(scale).map(|(x, s)| x / s).collect();
        let (mut before, mut after) = ([0.0; 3], [0.0; 3]);
        metric.apply(&x, &mut before);
        metric.rescaled(&scale).apply(&divided, &mut after);
        assert!(before.iter().zip(after).all(|(a, b)| (a - b).abs() < 1e-14));
    }

    #[test]
    fn invalid_metrics_are_rejected() {
        assert!(Metric::diagonal(vec![]).is_err());
        assert!(Metric::diagonal(vec![0.0, 0.0]).is_err());
        assert!(Metric::diagonal(vec![1.0, f64::NAN]).is_err());
        assert!(Metric::matrix(&[1.0, 2.0, 3.0], 2).is_err());
        assert!(Metric::matrix(&[1.0], 0).is_err());
    }
}
