//! The effective dimension of ridge regression, from the spectrum of the features.

use super::measure::share;
use super::{Approximation, Errors, Measure};
use crate::decompose::symmetric_eigenvalues;
use crate::map::inner::InnerFold;
use crate::{Real, Result};

/// The eigenvalues of ΦᵀΦ, which are those of K̂ that are not zero.
#[derive(Clone, Debug, PartialEq)]
pub struct GramSpectrum {
    /// The eigenvalues, descending, none below zero.
    pub values: Vec<f64>,
    /// Rows, n.
    pub rows: u64,
}

impl<T: Real> Approximation<'_, T> {
    /// The spectrum of the leading `rank` features. One pass of 2np² flops, then 4p³/3; p² numbers for each lane.
    ///
    /// # Errors
    /// The errors of the source and of the decomposition.
    ///
    /// # Panics
    /// If there are fewer features.
    pub fn gram_spectrum(&self, rank: usize) -> Result<GramSpectrum> {
        let fold = InnerFold { map: self.map, tile: self.data.pass.tile };
        let (inner, report) = self.data.pass.resume("inner products of features", self.data.source, &fold)?;
        let mut values = symmetric_eigenvalues(inner.0.submatrix(0, 0, rank, rank))?;
        values.reverse();
        // rounding may leave less than nothing
        values.iter_mut().for_each(|value| *value = value.max(0.0));
        Ok(GramSpectrum { values, rows: report.rows })
    }
}

impl GramSpectrum {
    /// d(λ) = tr K(K + nλI)⁻¹, the degrees of freedom of ridge regression with (1/n)Σ loss + λ‖w‖².
    ///
    /// With d̂ the same of K̂: for projections d̂ ≤ d(λ) ≤ d̂ + tr E/(nλ + tr E/n), because K̂ ≼ K makes d grow, and
    /// tr f(A + B) ≤ tr f(A) + tr f(B) for concave f with f(0) = 0 (Rotfel'd, "The singular numbers of the sum of
    /// completely continuous operators", 1969), where tr f(E) is largest if all its eigenvalues are equal. The value is d̂
    /// and the interval certain. For other maps d̂ is an estimate without bounds but 0 and n.
    pub fn effective_dimension(&self, lambda: f64, errors: &Errors) -> Measure {
        let n = self.rows as f64;
        let below = dimension(&self.values, n * lambda);
        match errors.trace_bound() {
            Some(left) => Measure::bounds(below, (below + share(left, n * lambda + share(left, n))).min(n)),
            None => Measure { value: below, ..Measure::bounds(0.0, n) },
        }
    }
}

/// Σ μ/(μ + c), with μ the `values` and c the `ridge`.
pub(super) fn dimension(values: &[f64], ridge: f64) -> f64 {
    values.iter().map(|value| share(*value, value + ridge)).sum()
}
