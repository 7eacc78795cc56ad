//! A weighted sample of rows that estimates the ridge leverage score of every row.
//!
//! The score of row i at the ridge μ is l_i(μ) = [K (K + μI)⁻¹]_ii, which is between 0 and 1. The
//! sum of the scores is the effective dimension. A dictionary is a set S of rows, its members, with
//! weights w: member j represents w_j² rows. It estimates the score of a row x by
//!
//! ```text
//! l̃(x) = (k(x,x) − k_S(x)ᵀ (K_SS + μ diag(w)⁻²)⁻¹ k_S(x)) / μ
//! ```
//!
//! Here K_SS is the kernel matrix of the members, and k_S(x) their kernel values with x. Except for
//! the factor 1/μ, l̃(x) is a residual as [`super::residual_pass`] computes it, if L is the
//! Cholesky factor of the regularised matrix K_SS + μ diag(w)⁻² instead of K_SS.

use super::residual_pass::{ResidualPass, Residuals, RowRule};
use super::{LandmarkSet, TableScan};
use crate::map::factor::factor;
use crate::map::independent::kernel_matrix;
use crate::map::nystrom::NystromMap;
use crate::{Real, Result, decompose::symmetric_eigenvalues, kernel::AnyKernel};
use faer::Mat;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Dictionary<T> {
    /// Rows, in the order they were drawn.
    pub(super) members: LandmarkSet<T>,
    /// w_j², the number of rows that member j represents.
    pub(super) multiplicities: Vec<f64>,
}

impl<T: Real> Dictionary<T> {
    /// Returns the eigenvalues, descending, of the weighted kernel matrix W K_SS W with W =
    /// diag(w). They estimate the eigenvalues of K.
    pub(super) fn spectrum(&self, kernel: &Arc<dyn AnyKernel>) -> Result<Vec<f64>> {
        let k = kernel_matrix(kernel, &self.members)?;
        let multiplicities = &self.multiplicities;
        let weighted_kernel = Mat::from_fn(multiplicities.len(), multiplicities.len(), |i, j| {
            k[(i, j)] * (multiplicities[i] * multiplicities[j]).sqrt()
        });
        let mut eigenvalues = symmetric_eigenvalues(weighted_kernel.as_ref())?;
        eigenvalues.reverse();
        Ok(eigenvalues)
    }

    /// Runs one round over the rows, whose residuals are μ l̃(x), and keeps the `capacity` rows
    /// with the largest keys of `rule`.
    pub(super) fn run_round(
        &self,
        mu: f64,
        kernel: &Arc<dyn AnyKernel>,
        rule: &RowRule<impl Fn(u64, f64) -> Option<f64> + Sync>,
        capacity: usize,
        scan: &TableScan<'_, T>,
    ) -> Result<Residuals<T>> {
        let mut regularised_kernel = kernel_matrix(kernel, &self.members)?;
        for (j, multiplicity) in self.multiplicities.iter().enumerate() {
            regularised_kernel[(j, j)] += mu / multiplicity;
        }
        let workers = scan.pass.workers;
        // μ > 0 makes the matrix positive definite, so the factor keeps every row
        let cholesky = factor(regularised_kernel, 0.0, workers)?;
        let map = NystromMap::from_factor(kernel, self.members.subset(&cholesky.kept_rows), cholesky.lower, workers)?;
        ResidualPass::run(kernel, Some(map), rule, capacity, "leverage scores", scan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::defined_gaussian;
    use faer::prelude::*;
    use kpass::{MemoryRows, Pass, Workers};

    /// Returns l̃ of every row, their sum and the spectrum for a dictionary of `members` of a table
    /// with two columns.
    fn scores(x: &[f64], members: &[usize], multiplicity: f64, mu: f64) -> (Vec<f64>, f64, Vec<f64>) {
        let n = x.len() / 2;
        let kernel = defined_gaussian(1.0);
        let points = members.iter().flat_map(|i| x[2 * i..2 * i + 2].to_vec()).collect();
        let rows = members.iter().map(|i| *i as u64).collect();
        let members = LandmarkSet { points, row_numbers: rows, d: 2, passes: 0, evaluations: 0 };
        let dictionary = Dictionary { multiplicities: vec![multiplicity; members.len()], members };
        let workers = Workers::sequential();
        let source = MemoryRows::new(x.to_vec(), 2).unwrap();
        let data = TableScan { source: &source, pass: Pass::new(16, 32, &workers), row_count: n as u64 };
        let mut residuals =
            dictionary.run_round(mu, &kernel, &RowRule::new(|row, _| Some(-(row as f64))), n, &data).unwrap();
        let scores = residuals.best_rows.sorted_entries().iter().map(|entry| entry.weight / mu).collect();
        (scores, residuals.residual_sum / mu, dictionary.spectrum(&kernel).unwrap())
    }

    /// Computes [K (K + μI)⁻¹]_ii with dense matrices.
    fn exact_scores(x: &[f64], mu: f64) -> Vec<f64> {
        let n = x.len() / 2;
        let square = |i: usize, j: usize| (x[2 * i] - x[2 * j]).powi(2) + (x[2 * i + 1] - x[2 * j + 1]).powi(2);
        let k = Mat::from_fn(n, n, |i, j| (-square(i, j) / 2.0).exp());
        let ridged = Mat::from_fn(n, n, |i, j| k[(i, j)] + if i == j { mu } else { 0.0 });
        let solved = ridged.partial_piv_lu().solve(&k);
        (0..n).map(|i| solved[(i, i)]).collect()
    }

    fn assert_exact_scores(x: &[f64], members: &[usize], multiplicity: f64) {
        let mu = 0.3;
        let (estimated, sum, spectrum) = scores(x, members, multiplicity, mu);
        let exact = exact_scores(x, mu);
        for (i, (estimated, exact)) in estimated.iter().zip(&exact).enumerate() {
            assert!((estimated - exact).abs() < 1e-10, "row {i}: {estimated} {exact}");
        }
        let dimension: f64 = spectrum.iter().map(|value| value / (value + mu)).sum();
        assert!((sum - exact.iter().sum::<f64>()).abs() < 1e-9 && (sum - dimension).abs() < 1e-9);
    }

    #[test]
    fn the_dictionary_of_all_rows_gives_exact_scores() {
        let x: Vec<f64> = (0..120).map(|i| ((i * i) as f64 * 0.37).sin() * 3.0).collect();
        assert_exact_scores(&x, &(0..60).collect::<Vec<_>>(), 1.0);
    }

    /// If every row occurs three times, a dictionary with one copy of multiplicity 3 gives the
    /// exact scores.
    #[test]
    fn a_member_represents_as_many_rows_as_its_multiplicity() {
        let once: Vec<f64> = (0..50).map(|i| ((i * i) as f64 * 0.37).sin() * 3.0).collect();
        let x: Vec<f64> = once.chunks(2).flat_map(|row| [row, row, row].concat()).collect();
        assert_exact_scores(&x, &(0..25).map(|i| 3 * i + 1).collect::<Vec<_>>(), 3.0);
    }
}
