//! Exact kernel ridge regression, solved for its n dual coefficients.
//!
//! Minimises (1/n) Σ_i (y_i − c − f(x_i))² + lambda‖f‖² over the whole reproducing kernel Hilbert
//! space. Let K be the n x n kernel matrix of the rows, and μ = lambda·n. The number γ and the n x
//! n matrix H eliminate the intercept c ([`super::centring`]: with a free intercept, γ = 1 and H
//! subtracts the mean). The solution is f(x) = Σ_i a_i k(x_i, x), where
//!
//! ```text
//! (H K H + μI) β = H y,     a = H β,     c = γ mean(y − K a),
//! so that y_i − c − f(x_i) = μ a_i for every kind of intercept
//! ```
//!
//! * **Cholesky** factorisation in f64: 4n² bytes, n³/3 flops. The kernel is evaluated in f64 too.
//! * **Conjugate gradient** with the preconditioner (F Fᵀ + μI)⁻¹, where F (n x k) contains the
//!   features of a Nyström map of k landmarks, by default from randomly pivoted Cholesky. The
//!   condition number of the preconditioned system is at most 1 + ‖K − F Fᵀ‖/μ, and these landmarks
//!   make the trace of K − F Fᵀ nearly as small as k landmarks can. The method stores the rows and
//!   the preconditioner, n(d + k) numbers for d columns, and as many blocks of K as fit
//!   ([`crate::linalg::kernel_tiles`]). It computes n²/2 kernel values: once if all blocks fit,
//!   otherwise some of them in each iteration.
//!
//! A residual r of the system changes f at the rows by K(K + μI)⁻¹r, at most by ‖r‖. So the
//! reported relative residual bounds the error of the fitted values relative to the (centred)
//! targets. The reported residual is computed with kernel values in f64. The f32 values of the
//! iteration have rounding errors of 6e-8, which coefficients of size 1/μ amplify. If the f64
//! residual is noticeably different from the residual of the recurrence, it replaces the residual
//! of the recurrence, and the iteration continues (iterative refinement).
//!
//! Reference: Díaz, Epperly, Frangella, Tropp, Webber, "Robust, randomized preconditioning for
//! kernel ridge regression", arXiv 2304.12465, 2023 (RPCholesky preconditioning, section 2).

use super::cg::{self, CgSolution, Norm, PositiveDefinite, StoppingRule};
use super::{centring::Centring, low_rank::LowRankInverse};
use crate::linalg::kernel_tiles::KernelTiles;
use crate::linalg::packed::{INVERSE_COLUMNS, PackedLower};
use crate::{Error, Result};
use faer::{ColRef, Mat, MatMut, MatRef, prelude::*};
use kapprox::{KernelFunction, Real};
use kstore::Workers;

/// The solution of exact kernel ridge regression, with a coefficient for every row.
#[derive(Debug)]
pub(crate) struct DualSolution {
    /// Dual coefficients a, n x t.
    pub(crate) coefficients: Mat<f64>,
    pub(crate) intercept: Vec<f64>,
    /// The residuals y − c − f at the rows, n x t.
    pub(crate) residuals: Mat<f64>,
    pub(crate) cg_solution: Option<CgSolution>,
    /// Mean squared leave-one-out error, averaged over targets; `None` if not requested.
    pub(crate) loo_mse: Option<f64>,
}

/// The problem: targets (n x t), μ, and the treatment of the intercept.
#[derive(Clone, Copy)]
pub(crate) struct ExactProblem<'p> {
    pub(crate) y: MatRef<'p, f64>,
    pub(crate) mu: f64,
    pub(crate) centring: Centring,
    pub(crate) workers: &'p Workers,
}

impl ExactProblem<'_> {
    /// Computes H y.
    pub(crate) fn centred_targets(&self) -> Mat<f64> {
        let mut right_sides = self.y.to_owned();
        self.centring.apply(right_sides.as_mut());
        right_sides
    }

    /// Computes `out` = (H K H + μI) v. `apply_kernel(u, out)` must set `out` to K u.
    pub(crate) fn apply(
        &self,
        v: MatRef<'_, f64>,
        mut out: MatMut<'_, f64>,
        apply_kernel: impl FnOnce(MatRef<'_, f64>, MatMut<'_, f64>),
    ) {
        let mut centred_v = v.to_owned();
        self.centring.apply(centred_v.as_mut());
        apply_kernel(centred_v.as_ref(), out.rb_mut());
        self.centring.apply(out.rb_mut());
        for (out, v) in out.col_iter_mut().zip(v.col_iter()) {
            out.iter_mut().zip(v.iter()).for_each(|(out, v)| *out += self.mu * v);
        }
    }

    /// Returns the dual solution that belongs to β. Its residuals are computed with K in f64.
    fn dual_solution(&self, mut beta: Mat<f64>, tiles: &KernelTiles<'_, f64>) -> DualSolution {
        self.centring.apply(beta.as_mut());
        let mut residuals = self.y - tiles.product(beta.as_ref());
        let n = self.y.nrows() as f64;
        let mean = |e: ColRef<'_, f64>| self.centring.gamma * e.iter().sum::<f64>() / n;
        let intercept: Vec<f64> = residuals.col_iter().map(mean).collect();
        for (column, c) in residuals.col_iter_mut().zip(&intercept) {
            column.iter_mut().for_each(|e| *e -= c);
        }
        DualSolution { coefficients: beta, intercept, residuals, cg_solution: None, loo_mse: None }
    }

    /// Solves by a Cholesky factor in f64. `x` is n x d row-major.
    ///
    /// If `leave_one_out` is true, also computes the mean squared error of each row under the fit
    /// to all other rows at the same μ, for n³/3 more flops. With R = H (H K H + μI)⁻¹ H, the error
    /// of row i is a_i / R_ii. The reason: a = R y and y − c − K a = μ R y, so the weight of a
    /// row's own target in its fitted value is 1 − μ R_ii.
    pub(crate) fn solve_direct(
        &self,
        kernel: &dyn KernelFunction<f64>,
        x: MatRef<'_, f64>,
        leave_one_out: bool,
    ) -> Result<DualSolution> {
        let Self { y, mu, centring, workers } = *self;
        let n = x.nrows();
        let tiles = KernelTiles::new(kernel, x, workers);
        // H K H = K − θ(1 k̄ᵀ + k̄ 1ᵀ) + θ² k̿ 11ᵀ, where k̄ is the vector of the column means and
        // k̿ the mean of its entries
        let means = tiles.product(Mat::from_fn(n, 1, |_, _| 1.0 / n as f64).as_ref());
        let means = means.col_as_slice(0);
        let (theta, mean) = (centring.theta, means.iter().sum::<f64>() / n as f64);
        let mut matrix = PackedLower::zeros(n);
        matrix.fill(workers, |row, column, mut out| {
            kernel.block(x.subrows(row, out.nrows()), x.subrows(column, out.ncols()), out.rb_mut());
            if theta != 0.0 {
                for (j, values) in out.rb_mut().col_iter_mut().enumerate() {
                    let shift = theta * (means[column + j] - theta * mean);
                    values.iter_mut().zip(&means[row..]).for_each(|(k, mean)| *k -= shift + theta * mean);
                }
            }
        });
        matrix.add_diagonal(mu);
        let indefinite_error = |_| Error::Indefinite { rank: n, lambda: mu / n as f64, precision: "f64" };
        matrix.factor(workers).map_err(indefinite_error)?;
        let mut beta = self.centred_targets();
        matrix.solve_lower(beta.as_mut(), workers);
        matrix.solve_transposed(beta.as_mut(), workers);
        let diagonal = leave_one_out.then(|| inverse_diagonal(&matrix, theta, workers));
        let dual = self.dual_solution(beta, &tiles);
        let loo_mse = diagonal.map(|inverse_diagonal| {
            let squared_errors =
                |a: ColRef<'_, f64>| a.iter().zip(&inverse_diagonal).map(|(a, r)| (a / r).powi(2)).sum::<f64>();
            dual.coefficients.col_iter().map(squared_errors).sum::<f64>() / (n * y.ncols().max(1)) as f64
        });
        Ok(DualSolution { loo_mse, ..dual })
    }

    /// Solves by preconditioned conjugate gradient until ‖r‖ ≤ tolerance·‖H y‖ for the residual r
    /// of every target. Stores at most `kernel_bytes` bytes of kernel values. `x` is n x d
    /// row-major; `kernel` and `f64_kernel` are the same kernel in two precisions.
    pub(crate) fn solve_iterative<T: Real>(
        &self,
        kernel: &dyn KernelFunction<T>,
        f64_kernel: &dyn KernelFunction<f64>,
        x: MatRef<'_, T>,
        preconditioner: &LowRankInverse<T>,
        kernel_bytes: usize,
        stopping_rule: StoppingRule<'_>,
    ) -> Result<DualSolution> {
        let x_f64: Vec<f64> = x.row_iter().flat_map(|row| row.iter().map(|v| v.to_f64())).collect();
        let f64_tiles =
            KernelTiles::new(f64_kernel, MatRef::from_row_major_slice(&x_f64, x.nrows(), x.ncols()), self.workers);
        let tiles = KernelTiles::new(kernel, x, self.workers).with_cache(kernel_bytes);
        let mut system = ExactSystem { problem: *self, tiles, f64_tiles, preconditioner };
        let mut cg_solution = cg::solve(&mut system, self.centred_targets().as_ref(), Norm::Euclidean, stopping_rule)?;
        let beta = std::mem::replace(&mut cg_solution.x, Mat::new());
        Ok(DualSolution { cg_solution: Some(cg_solution), ..self.dual_solution(beta, &system.f64_tiles) })
    }
}

/// Computes the diagonal of H (L Lᵀ)⁻¹ H for a Cholesky factor L. With u = L⁻¹1 and the unit
/// vectors e_i, entry i is ‖L⁻¹H e_i‖² = ‖L⁻¹e_i‖² − (2θ/n) (L⁻ᵀu)_i + (θ/n)² ‖u‖².
fn inverse_diagonal(factor: &PackedLower, theta: f64, workers: &Workers) -> Vec<f64> {
    let mut diagonal = factor.inverse_diagonal(workers);
    let n = diagonal.len();
    let mut u = Mat::from_fn(n, 1, |_, _| 1.0);
    factor.solve_lower(u.as_mut(), workers);
    let (scale, squared_norm) = (theta / n as f64, u.squared_norm_l2());
    factor.solve_transposed(u.as_mut(), workers);
    for (d, u) in diagonal.iter_mut().zip(u.col_as_slice(0)) {
        *d += scale * (scale * squared_norm - 2.0 * u);
    }
    diagonal
}

/// Returns the bytes of [`ExactProblem::solve_direct`] for n rows of d features and t targets.
pub(crate) fn direct_bytes(n: usize, d: usize, t: usize, threads: usize) -> usize {
    // columns of the inverse, for leave-one-out
    let inverse_bytes = threads.max(1) * 8 * n * INVERSE_COLUMNS;
    let vector_bytes = 8 * n * (d + 4 * t + 2);
    PackedLower::bytes(n)
        + PackedLower::scratch_bytes(threads)
        + inverse_bytes
        + vector_bytes
        + KernelTiles::<f64>::buffer_bytes(threads, t)
}

/// The system of the iteration: the matrix H K H + μI and its preconditioner.
struct ExactSystem<'a, T: Real> {
    tiles: KernelTiles<'a, T>,
    /// The tiles of K in f64, for true residuals.
    f64_tiles: KernelTiles<'a, f64>,
    preconditioner: &'a LowRankInverse<T>,
    problem: ExactProblem<'a>,
}

impl<T: Real> PositiveDefinite for ExactSystem<'_, T> {
    fn apply(&mut self, v: MatRef<'_, f64>, out: MatMut<'_, f64>) -> Result<()> {
        self.problem.apply(v, out, |u, out| self.tiles.apply(u, out));
        Ok(())
    }

    fn apply_in_f64(&mut self, v: MatRef<'_, f64>, out: MatMut<'_, f64>) -> Result<()> {
        self.problem.apply(v, out, |u, out| self.f64_tiles.apply(u, out));
        Ok(())
    }

    fn precondition(&mut self, r: MatRef<'_, f64>, z: MatMut<'_, f64>) -> Result<()> {
        self.preconditioner.apply(r, z, self.problem.workers);
        Ok(())
    }
}

/// Returns the bytes of [`ExactProblem::solve_iterative`], without the bytes of its arguments (the
/// rows, the targets and the preconditioner).
pub(crate) fn iterative_bytes(n: usize, d: usize, t: usize, threads: usize) -> usize {
    // the true residuals need a copy of the rows, and tiles, in f64
    cg::bytes(n, t) + 8 * 3 * n * t + 8 * n * d + KernelTiles::<f64>::buffer_bytes(threads, t)
}
