//! The inverse of F Fᵀ + μI for a tall matrix F (n x k): the preconditioner of exact kernel ridge
//! regression.
//!
//! The inverse follows from the QR factorisation of F stacked on √μ I_k:
//!
//! ```text
//! [   F    ]   [ Q ]
//! [ √μ I_k ] = [ * ] R,        (F Fᵀ + μI)⁻¹ = (I − Q Qᵀ) / μ,        Q = F R⁻¹
//! ```
//!
//! (Foster et al., "Stable and efficient Gaussian process calculations", JMLR 10, 2009). The
//! textbook form of the Woodbury identity takes R from a single Cholesky factorisation of FᵀF + μI.
//! The rounding errors of this factorisation, amplified by (‖F‖²/μ)², spoil the most important
//! directions. A second Cholesky factorisation, applied to the nearly orthogonal result of the
//! first, removes these errors if the condition number √(‖F‖²/μ + 1) is below 1e8 (CholeskyQR2:
//! Yamamoto, Nakatsukasa, Yanagisawa, Fukaya, ETNA 44, 2015). This method consists of dense
//! products. It stores only F, in the element type `T`, and two triangular factors.
//!
//! *Flops*: 4nk² + k³ to build the inverse, and 4nk + 4k² per vector to apply it. *Bytes*: see
//! [`LowRankInverse::bytes`].

use super::centring::Centring;
use crate::linalg::packed::{PackedLower, add_transposed_product, product};
use crate::{Error, Result, linalg::dot_products::to_f64_matrix};
use faer::{Mat, MatMut, MatRef, prelude::*};
use kapprox::Real;
use kstore::Workers;

/// Number of rows of F that are converted to f64 at a time.
const FACTOR_STRIP_ROWS: usize = 1024;

/// The matrix (F Fᵀ + μI)⁻¹ with F = H Φ, where Φ (n x k) contains features and H eliminates the
/// intercept ([`super::centring`]).
#[derive(Debug)]
pub(crate) struct LowRankInverse<T: Real> {
    f: Mat<T>,
    mu: f64,
    /// Rᵀ = `first_factor`·`second_factor`.
    first_factor: PackedLower,
    second_factor: PackedLower,
}

impl<T: Real> LowRankInverse<T> {
    pub(crate) fn bytes(n: usize, k: usize) -> usize {
        n * k * size_of::<T>() + 2 * PackedLower::bytes(k)
    }

    /// Returns the additional bytes while the matrix is built on this many threads.
    pub(crate) fn build_bytes(k: usize, threads: usize) -> usize {
        8 * FACTOR_STRIP_ROWS * k + PackedLower::scratch_bytes(threads)
    }

    /// Builds the matrix from the features Φ (n x k), where ΦΦᵀ is near the kernel matrix.
    pub(crate) fn new(phi: Mat<T>, mu: f64, centring: Centring, workers: &Workers) -> Result<Self> {
        let (n, k) = phi.shape();
        let mut f = phi;
        subtract_means(&mut f, centring.theta);
        let strips = || {
            (0..n)
                .step_by(FACTOR_STRIP_ROWS)
                .map(|first_row| f.as_ref().subrows(first_row, FACTOR_STRIP_ROWS.min(n - first_row)))
        };
        let indefinite_error = |_| Error::Indefinite { rank: k, lambda: mu / n as f64, precision: T::NAME };
        let mut first_factor = PackedLower::zeros(k);
        for strip in strips() {
            first_factor.add_gram(to_f64_matrix(strip).as_ref(), 1.0, workers);
        }
        first_factor.add_diagonal(mu);
        first_factor.factor(workers).map_err(indefinite_error)?;
        let mut second_factor = PackedLower::zeros(k);
        let mut add_orthogonal_rows = |mut strip: Mat<f64>| {
            first_factor.solve_rows(strip.as_mut(), workers);
            second_factor.add_gram(strip.as_ref(), 1.0, workers);
        };
        strips().for_each(|strip| add_orthogonal_rows(to_f64_matrix(strip)));
        for first_row in (0..k).step_by(FACTOR_STRIP_ROWS) {
            let strip_rows = FACTOR_STRIP_ROWS.min(k - first_row);
            add_orthogonal_rows(Mat::from_fn(strip_rows, k, |i, j| if first_row + i == j { mu.sqrt() } else { 0.0 }));
        }
        second_factor.factor(workers).map_err(indefinite_error)?;
        Ok(Self { f, mu, first_factor, second_factor })
    }

    /// Computes `z` = (F Fᵀ + μI)⁻¹ r.
    pub(crate) fn apply(&self, r: MatRef<'_, f64>, mut z: MatMut<'_, f64>, workers: &Workers) {
        let mut w = Mat::zeros(self.f.ncols(), r.ncols());
        add_transposed_product(self.f.as_ref(), r, w.as_mut(), workers);
        self.first_factor.solve_lower(w.as_mut(), workers);
        self.second_factor.solve_lower(w.as_mut(), workers);
        self.second_factor.solve_transposed(w.as_mut(), workers);
        self.first_factor.solve_transposed(w.as_mut(), workers);
        product(self.f.as_ref(), w.as_ref(), z.rb_mut(), workers);
        for (z, r) in z.col_iter_mut().zip(r.col_iter()) {
            z.iter_mut().zip(r.iter()).for_each(|(z, r)| *z = (r - *z) / self.mu);
        }
    }
}

/// Replaces F by H F: subtracts `theta` times its mean from every column.
fn subtract_means<T: Real>(f: &mut Mat<T>, theta: f64) {
    if theta == 0.0 {
        return;
    }
    let n = f.nrows() as f64;
    for column in f.col_iter_mut() {
        let mean = column.rb().iter().map(|v| kstore::Float::to_f64(*v)).sum::<f64>() / n;
        let shift = theta * mean;
        column.iter_mut().for_each(|v| *v = T::from_f64(kstore::Float::to_f64(*v) - shift));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Intercept;

    #[test]
    fn the_inverse_holds_where_the_textbook_form_of_woodbury_does_not() {
        let (n, k, workers) = (1500, 300, Workers::new(2));
        // columns of size 1 down to 1e-5, and mu so small that (|F|² / mu)² exceeds 1/ε of f64
        let phi = Mat::<f64>::from_fn(n, k, |i, j| ((i * (j + 1)) as f64 * 0.618).sin() * 0.5f64.powi(j as i32 / 20));
        for mu in [1e-2, 1e-7] {
            // ε times the condition number; the error of the textbook form grows with its square
            let max_error = f64::EPSILON * (phi.squared_norm_l2() + mu) / mu;
            let inverse =
                LowRankInverse::new(phi.clone(), mu, Centring::new(Intercept::None, n, mu), &workers).unwrap();
            let x = Mat::<f64>::from_fn(n, 2, |i, j| ((i * 7 + j) as f64).cos());
            let b = &phi * (phi.transpose() * &x) + &x * faer::Scale(mu);
            let mut solution = Mat::zeros(n, 2);
            inverse.apply(b.as_ref(), solution.as_mut(), &workers);
            let error = (&solution - &x).norm_max();
            assert!(error < max_error, "{mu}: {error}");
        }
    }

    #[test]
    fn features_are_centred_as_the_intercept_wants() {
        let (n, mu, workers) = (90, 0.3, Workers::new(2));
        let phi = Mat::<f64>::from_fn(n, 4, |i, j| ((i * (j + 2)) as f64).sin() + 1.0);
        let centring = Centring::new(Intercept::Free, n, mu);
        let inverse = LowRankInverse::new(phi.clone(), mu, centring, &workers).unwrap();
        let mut centred = phi;
        centring.apply(centred.as_mut());
        let x = Mat::<f64>::from_fn(n, 1, |i, _| (i as f64).cos());
        let b = &centred * (centred.transpose() * &x) + &x * faer::Scale(mu);
        let mut solution = Mat::zeros(n, 1);
        inverse.apply(b.as_ref(), solution.as_mut(), &workers);
        assert!((&solution - &x).norm_max() < 1e-12);
    }
}
