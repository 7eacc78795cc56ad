//! Nyström ridge regression on kernel sections at landmarks, without forming their Gram matrix.
//!
//! Minimises (1/n) Σ_i (y_i − c − f(x_i))² + lambda‖f‖² over the functions f = Σ_j a_j k(z_j, ·) of
//! the kernel sections at m landmarks z_j. K_nm (n x m) contains the kernel values between rows and
//! landmarks, K_mm (m x m) the kernel values between landmarks. With μ = lambda·n and the matrix H
//! of [`super::centring`], the coefficients solve
//!
//! ```text
//! A a = (H K_nm)ᵀ H y,     A = (H K_nm)ᵀ(H K_nm) + μ K_mm
//! ```
//!
//! The method is conjugate gradient with the preconditioner of [`super::sketch`]. A contains
//! K_nmᵀK_nm, whose condition number is the square of the condition number of K_nm; this costs
//! digits. But products with A are summed in f64 (rounding unit ε), and the preconditioner
//! compensates for the condition number. What remains is a rounding error of ε‖A‖, compared with
//! μ·λ_min(K_mm). It changes predictions by little more than the square root of this ratio. K_mm is
//! evaluated in f64, because in f32 it could be indefinite.
//!
//! In f32 the kernel values are K_nm + E with |E_ij| ≤ 6e-8 k_ij, and no residual reveals E. If A
//! is nearly singular, EᵀE, of size n·(6e-8)², is larger than A in many directions. Then refinement
//! by true residuals does not converge. The error E changes the fitted values by E a. If ‖E a‖ is
//! noticeable compared with the error of the fit, the blocks must be in f64 ([`super::f64_rows`]).
//!
//! A block of K_nm belongs to one tile of rows. As many blocks as fit are stored
//! ([`super::blocks`]).
//!
//! *Cost per iteration*: 4nm flops per target with one read of the stored blocks
//! ([`crate::linalg::kernel_rows`]), m²/2 kernel values in f64, and, for the rows whose blocks are
//! not stored, one pass and m kernel values per row. The stopping rule uses √(rᵀM⁻¹r) with the
//! residual r and the preconditioner M. If M is near A, this is about the energy norm of the error,
//! which bounds the error of the fitted values.

use super::{blocks::KernelBlocks, centring::Centring, cg::PositiveDefinite};
use crate::linalg::kernel_tiles::KernelTiles;
use crate::linalg::packed::PackedLower;
use crate::{Result, solver::mse_and_r2};
use faer::{Mat, MatMut, MatRef, prelude::*};
use kapprox::{KernelFunction, Real};
use kstore::pass::Observer;

/// Sums over the n rows of the kernel values, of the targets y (n x t), and of their products.
#[derive(Clone, Debug)]
pub(crate) struct FirstMoments {
    pub(crate) row_count: usize,
    /// Means of the columns of K_nm, m.
    pub(crate) column_means: Vec<f64>,
    /// K_nmᵀ y, m x t.
    pub(crate) target_products: Mat<f64>,
    pub(crate) mean_y: Vec<f64>,
    /// Σ y², t.
    pub(crate) squared_target_sums: Vec<f64>,
}

impl FirstMoments {
    /// Computes the moments in one visit of the blocks.
    pub(crate) fn compute<T: Real>(blocks: &mut KernelBlocks<'_, T>, observer: &dyn Observer) -> Result<Self> {
        let (m, t, workers) = (blocks.landmark_count(), blocks.targets.count(), blocks.pass.workers);
        let (mut row_count, mut sums, mut squared_target_sums) = (0, Mat::<f64>::zeros(m, t + 1), vec![0.0; t]);
        let mut target_sums = vec![0.0; t];
        blocks.visit(observer, &mut |k, y| {
            let mut targets_and_ones: Vec<f64> = Vec::with_capacity(y.nrows() * (t + 1));
            y.row_iter().for_each(|y| targets_and_ones.extend(y.iter().chain(&[1.0])));
            k.add_transposed_product(None, &mut targets_and_ones, sums.as_mut(), workers);
            row_count += y.nrows();
            for j in 0..t {
                target_sums[j] += y.col(j).iter().sum::<f64>();
                squared_target_sums[j] += y.col(j).iter().map(|y| y * y).sum::<f64>();
            }
        })?;
        let n = (row_count as f64).max(1.0);
        Ok(Self {
            row_count,
            column_means: sums.col(t).iter().map(|s| s / n).collect(),
            target_products: sums.subcols(0, t).to_owned(),
            mean_y: target_sums.iter().map(|s| s / n).collect(),
            squared_target_sums,
        })
    }

    /// Updates the moments for targets to which the constants `target_shift` are added.
    pub(crate) fn shift_targets(&mut self, target_shift: &[f64]) {
        let n = self.row_count as f64;
        for (j, c) in target_shift.iter().enumerate() {
            self.target_products.col_mut(j).iter_mut().zip(&self.column_means).for_each(|(p, mean)| *p += c * n * mean);
            self.squared_target_sums[j] += c * n * (2.0 * self.mean_y[j] + c);
            self.mean_y[j] += c;
        }
    }

    /// Returns the mean squared error, averaged over targets, and the fraction of the targets'
    /// variance that the fit explains. `squared_error_sums` contains Σ (y − f)² of every target,
    /// where f is the fitted value.
    pub(crate) fn train_score(&self, squared_error_sums: &[f64]) -> (f64, Option<f64>) {
        let n = self.row_count as f64;
        let variance =
            self.squared_target_sums.iter().zip(&self.mean_y).map(|(square, mean)| (square / n - mean * mean).max(0.0));
        mse_and_r2(squared_error_sums.iter().sum::<f64>() / n, variance.sum(), squared_error_sums.len())
    }
}

/// The problem: the kernel in f64, landmarks, moments, μ and the kind of intercept.
#[derive(Clone, Copy)]
pub(crate) struct NystromProblem<'p> {
    pub(crate) kernel: &'p dyn KernelFunction<f64>,
    /// Landmarks, m x d.
    pub(crate) z: MatRef<'p, f64>,
    pub(crate) moments: &'p FirstMoments,
    pub(crate) mu: f64,
    pub(crate) centring: Centring,
}

impl NystromProblem<'_> {
    /// Computes the right side of the system, (H K_nm)ᵀ H y, m x t.
    pub(crate) fn right_sides(&self) -> Mat<f64> {
        let FirstMoments { row_count, column_means, target_products, mean_y, .. } = self.moments;
        let shift = |i: usize, j: usize| self.centring.gamma * *row_count as f64 * mean_y[j] * column_means[i];
        Mat::from_fn(target_products.nrows(), target_products.ncols(), |i, j| target_products[(i, j)] - shift(i, j))
    }

    /// Computes the intercepts of the t functions with the coefficients `a` (m x t).
    pub(crate) fn intercepts(&self, a: MatRef<'_, f64>) -> Vec<f64> {
        let FirstMoments { column_means, mean_y, .. } = self.moments;
        let mean = |j: usize| mean_y[j] - a.col(j).iter().zip(column_means).map(|(a, mean)| a * mean).sum::<f64>();
        (0..a.ncols()).map(|j| self.centring.gamma * mean(j)).collect()
    }
}

/// The matrix A of the normal equations, with its preconditioner.
pub(crate) struct NormalMatrix<'n, 'a, T: Real> {
    pub(crate) problem: NystromProblem<'n>,
    pub(crate) blocks: &'n mut KernelBlocks<'a, T>,
    pub(crate) k_mm: KernelTiles<'n, f64>,
    pub(crate) preconditioner: &'n PackedLower,
    pub(crate) observer: &'n dyn Observer,
    pub(crate) passes: u64,
}

impl<T: Real> PositiveDefinite for NormalMatrix<'_, '_, T> {
    fn apply(&mut self, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>) -> Result<()> {
        let (workers, NystromProblem { moments: FirstMoments { column_means, .. }, mu, centring, .. }) =
            (self.blocks.pass.workers, self.problem);
        self.k_mm.apply(v, out.rb_mut());
        out.rb_mut().col_iter_mut().for_each(|column| column.iter_mut().for_each(|v| *v *= mu));
        let theta = centring.theta;
        let mean_products: Vec<f64> =
            v.col_iter().map(|v| theta * v.iter().zip(column_means).map(|(v, mean)| v * mean).sum::<f64>()).collect();
        let (mut residual_sums, mut s) = (vec![0.0; v.ncols()], Vec::new());
        self.passes += self.blocks.visit(self.observer, &mut |k, _| {
            s.resize(k.row_count() * residual_sums.len(), 0.0);
            k.add_transposed_product(Some((v, &mean_products)), &mut s, out.rb_mut(), workers);
            s.chunks_exact(residual_sums.len())
                .for_each(|s| residual_sums.iter_mut().zip(s).for_each(|(total, s)| *total += s));
        })?;
        for (j, column) in out.col_iter_mut().enumerate() {
            column.iter_mut().zip(column_means).for_each(|(out, mean)| *out -= theta * mean * residual_sums[j]);
        }
        Ok(())
    }

    fn precondition(&mut self, r: MatRef<'_, f64>, mut z: MatMut<'_, f64>) -> Result<()> {
        let workers = self.blocks.pass.workers;
        z.copy_from(r);
        self.preconditioner.solve_lower(z.rb_mut(), workers);
        self.preconditioner.solve_transposed(z, workers);
        Ok(())
    }
}

/// Returns Σ (y + `target_shift` − c − K_nm a)² over the rows, for every target, where c is
/// `intercept`. Also returns the number of passes, 0 or 1.
pub(crate) fn squared_errors<T: Real>(
    blocks: &mut KernelBlocks<'_, T>,
    a: MatRef<'_, f64>,
    intercept: &[f64],
    target_shift: &[f64],
    observer: &dyn Observer,
) -> Result<(Vec<f64>, u64)> {
    let workers = blocks.pass.workers;
    let (t, mut sums, mut f) = (a.ncols(), vec![0.0; a.ncols()], Vec::new());
    let passes = blocks.visit(observer, &mut |k, y| {
        f.resize(k.row_count() * t, 0.0);
        k.multiply(a, &mut f, workers);
        for (f, y) in f.chunks_exact(t).zip(y.row_iter()) {
            let errors = f.iter().zip(y.iter()).enumerate().map(|(j, (f, y))| y + target_shift[j] - intercept[j] - f);
            sums.iter_mut().zip(errors).for_each(|(sum, e)| *sum += e * e);
        }
    })?;
    Ok((sums, passes))
}
