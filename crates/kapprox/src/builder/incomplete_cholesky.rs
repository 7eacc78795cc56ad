//! Incomplete Cholesky factors of matrices.

use crate::Result;
use crate::matrix::{self, FnEntries, PartialCholesky, PsdMatrix};
use kpass::Workers;

/// Incomplete Cholesky factorisation of a positive semi-definite matrix K (n x n): K ≈ F Fᵀ, where
/// F (n x r) is computed from r = `rank` columns of K.
///
/// The pivots are drawn with probabilities proportional to the diagonal of the residual K − F Fᵀ
/// (randomly pivoted Cholesky). With [`IncompleteCholesky::greedy`], each pivot is the row with the
/// largest entry of this diagonal. [`PartialCholesky::trace_error`] is the exact relative trace
/// error. *Cost*: n (r + 9) entries of K (r columns, the diagonal, and 8 columns to check the
/// result), n r² flops, 8 n r bytes.
///
/// ```
/// use kapprox::IncompleteCholesky;
/// // the covariance of Brownian motion at the times 1, 2, …, 500
/// let factor =
///     IncompleteCholesky::new(200).tolerance(1e-2).run(500, |i, j| (i.min(j) + 1) as f64)?;
/// assert!(factor.trace_error <= 1e-2 && factor.pivots.len() < 200);
/// # Ok::<(), kapprox::Error>(())
/// ```
///
/// References: Fine, Scheinberg, JMLR 2, 2001; Chen, Epperly, Tropp, Webber, "Randomly pivoted
/// Cholesky", arXiv 2207.06503.
#[derive(Clone, Copy, Debug)]
pub struct IncompleteCholesky {
    rank: usize,
    tolerance: f64,
    greedy: bool,
    seed: u64,
}

impl IncompleteCholesky {
    /// Returns a factorisation with at most `rank` pivots.
    pub fn new(rank: usize) -> Self {
        Self { rank, tolerance: 0.0, greedy: false, seed: 0 }
    }

    /// Sets the relative trace error at which the factorisation stops; 0 by default.
    #[must_use]
    pub fn tolerance(self, tolerance: f64) -> Self {
        Self { tolerance, ..self }
    }

    /// Sets whether each pivot is the largest entry of the residual's diagonal; off by default.
    #[must_use]
    pub fn greedy(self, greedy: bool) -> Self {
        Self { greedy, ..self }
    }

    /// Sets the seed of random pivots; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Factors the n x n matrix with the entries `entry(i, j)`.
    ///
    /// # Errors
    /// [`Error::Indefinite`](crate::Error::Indefinite) if a column reveals a negative eigenvalue of
    /// the matrix; [`Error::NotFinite`](crate::Error::NotFinite) if an entry is not finite.
    pub fn run(&self, n: usize, entry: impl Fn(usize, usize) -> f64 + Sync) -> Result<PartialCholesky> {
        // indices below n fit in the caller's usize
        self.run_on(&FnEntries { n: n as u64, entry: |i: u64, j: u64| entry(i as usize, j as usize) })
    }

    /// Factors a matrix, such as a faer matrix in memory or mapped from a file.
    ///
    /// # Errors
    /// The errors of [`IncompleteCholesky::run`] and of reading the entries.
    pub fn run_on(&self, matrix: &dyn PsdMatrix) -> Result<PartialCholesky> {
        let workers = Workers::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        match self.greedy {
            true => matrix::greedy(matrix, self.rank, self.tolerance, &workers),
            false => matrix::rpcholesky(matrix, self.rank, self.tolerance, self.seed, &workers),
        }
    }
}
