//! The spectrum of K on a sample of the rows, and the smallest error that a matrix of a given rank
//! can have.
//!
//! By the theorem of Eckart, Young and Mirsky, no matrix of rank k is nearer to K than the matrix
//! of the leading k eigenpairs of K, in the spectral, the Frobenius and the trace norm. The error
//! of the matrix of these eigenpairs is therefore a lower bound, called a floor, for the error of
//! every approximation of rank k.

use super::{Approximation, measure::quotient};
use crate::decompose::symmetric_eigenvalues;
use crate::map::{feature_gram::GramReduction, independent::to_f64_vec};
use crate::{Real, Result, kernel::AnyKernel, landmark::uniform_sample, landmark_set::TableScan};
use faer::{Mat, MatRef};
use kpass::key::Purpose;
use std::sync::Arc;

/// The eigenvalues of the kernel matrix of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleSpectrum {
    /// Eigenvalues, descending, not negative.
    pub eigenvalues: Vec<f64>,
    /// Number of rows of the table, n. The sample has one row per value. If the sample has fewer
    /// than n rows, the floors are estimates without an interval. Relative to the spectrum of all
    /// rows, the leading eigenvalues of a sample are too large, and the last eigenvalues are too
    /// small. The floors are therefore too low; if the rank is at least the size of the sample,
    /// they are 0.
    pub row_count: u64,
}

/// Computes the spectrum on `sample_size` rows drawn uniformly without replacement, or on all rows
/// if there are fewer.
///
/// For c = `sample_size` rows, it makes one pass, costs c² kernel evaluations and 4c³/3 flops, and
/// stores c² numbers. 2,000 rows take 32 MB and some seconds.
///
/// # Errors
/// The errors of the source; [`crate::Error::NotPositiveDefinite`], because floors are sums of
/// eigenvalues; [`crate::Error::NotFinite`] if a kernel value is not finite.
pub fn sample_spectrum<T: Real>(
    scan: &TableScan<'_, T>,
    kernel: &Arc<dyn AnyKernel>,
    sample_size: usize,
    seed: u64,
) -> Result<SampleSpectrum> {
    let kernel = kernel.typed::<f64>();
    crate::kernel::require_positive_definite(&*kernel, "the best rank-k error")?;
    let sample = uniform_sample(scan, sample_size, Purpose::Quality, seed)?;
    let (c, x) = (sample.len(), to_f64_vec(&sample.x));
    let (x, mut k) = (MatRef::from_row_major_slice(&x, c, sample.d), Mat::zeros(c, c));
    kernel.block(x, x, k.as_mut());
    let mut eigenvalues = symmetric_eigenvalues(k.as_ref())?;
    eigenvalues.reverse();
    eigenvalues.iter_mut().for_each(|value| *value = value.max(0.0));
    Ok(SampleSpectrum { eigenvalues, row_count: scan.row_count })
}

impl<T: Real> Approximation<'_, T> {
    /// Computes the largest eigenvalue of K̂, which is also the largest of ΦᵀΦ.
    ///
    /// Makes one pass of 2np² flops for n rows and p features, followed by 4p³/3 flops. Each lane
    /// stores p² numbers.
    ///
    /// # Errors
    /// The errors of the source and of the decomposition.
    pub fn largest_eigenvalue(&self) -> Result<f64> {
        let reduction = GramReduction { map: self.map, tile_rows: self.scan.pass.tile_rows };
        let gram = self.scan.pass.resume("inner products of features", self.scan.source, &reduction)?.0;
        Ok(symmetric_eigenvalues(gram.0.as_ref())?.last().map_or(0.0, |value| value.max(0.0)))
    }
}

impl SampleSpectrum {
    /// Returns true if the sample is the whole table.
    pub fn is_exact(&self) -> bool {
        self.eigenvalues.len() as u64 == self.row_count
    }

    /// Returns Σ_{j > k} λ_j / Σ λ_j: the least relative trace error at rank k.
    pub fn trace_floor(&self, rank: usize) -> f64 {
        quotient(self.trailing_eigenvalues(rank).iter().sum(), self.eigenvalues.iter().sum())
    }

    /// Returns √(Σ_{j > k} λ_j² / Σ λ_j²): the least relative Frobenius error at rank k.
    pub fn frobenius_floor(&self, rank: usize) -> f64 {
        let squared_sum = |values: &[f64]| values.iter().map(|value| value * value).sum();
        quotient(squared_sum(self.trailing_eigenvalues(rank)), squared_sum(&self.eigenvalues)).sqrt()
    }

    /// Returns λ_{k+1} / λ_1: the least relative spectral error at rank k.
    pub fn spectral_floor(&self, rank: usize) -> f64 {
        quotient(
            self.trailing_eigenvalues(rank).first().copied().unwrap_or(0.0),
            self.eigenvalues.first().copied().unwrap_or(0.0),
        )
    }

    fn trailing_eigenvalues(&self, rank: usize) -> &[f64] {
        self.eigenvalues.get(rank..).unwrap_or(&[])
    }
}
