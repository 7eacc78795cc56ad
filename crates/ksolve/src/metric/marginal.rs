//! The marginal likelihood of a Nyström Gaussian process with a factor per input, and its gradient.
//!
//! Let a hold one factor per input, let z = a ∘ x be the rows scaled by the factors, and let y be
//! one of T targets, each centred and with n numbers. All targets have the same amplitude s² and
//! the same noise τ². Write k_nn, k_nm and k_mm for the values of the kernel k between the n rows,
//! between the n rows and the m landmarks (the first m rows), and between the landmarks; K = s²k.
//! This module computes
//!
//! ```text
//! F = T (½ log|Q + τ²I| + (n/2) log 2π + tr(K_nn − Q) / 2τ²) + ½ Σ_y yᵀ(Q + τ²I)⁻¹y
//! ```
//!
//! with Q = K_nm K_mm⁻¹ K_mn, in nats. F is the negative of the variational bound of Titsias
//! (*Variational learning of inducing variables in sparse Gaussian processes*, 2009). If m = n, F
//! is the negative log marginal likelihood (Rasmussen, Williams, *Gaussian Processes for Machine
//! Learning*, 2006, chapter 5).
//!
//! Let k_mm = L Lᵀ, Φ = k_nm L⁻ᵀ (n x m), ρ = s²/τ², S = ΦᵀΦ and B = I + ρS = L_B L_Bᵀ. Then Q =
//! s²ΦΦᵀ, and only k_mm and B (m x m) need to be factorised. Let Y (n x T) hold the targets, and
//!
//! ```text
//! V = L_B⁻¹ρS,   R = L_B⁻ᵀV = I − B⁻¹   (both m x m)
//! E = √ρ B⁻¹ΦᵀY   (m x T),   α = (Q + τ²I)⁻¹Y = (Y − √ρ ΦE) / τ²   (n x T)
//! ```
//!
//! Then the derivatives of F with respect to kernel values are
//!
//! * for k_nm: −√ρ (T √ρ Φ (L⁻ᵀR)ᵀ + α (L⁻ᵀE)ᵀ);
//! * for k_mm: ½ L⁻ᵀ(T VᵀV + EEᵀ/τ²)L⁻¹;
//! * for each k(z_i, z_i) in tr K_nn, i ≤ n: Tρ/2.
//!
//! [`KernelFunction::gradient`] converts these derivatives to derivatives with respect to the rows
//! z. The module adds [`JITTER`] times the mean of the diagonal of k_mm to this diagonal.

use crate::linalg::cholesky::{TriangularSystem, factor_sequential, solve_triangular};
use crate::linalg::strips::{BufferPool, for_each_strip, row_strips};
use crate::{Error, Result, gram::add_gram};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par, prelude::ReborrowMut};
use kapprox::{kernel::KernelFunction, map::nystrom::STRIP_ROWS};
use kstore::Workers;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
pub(super) mod tests;

/// Number added to the diagonal of k_mm, as a fraction of the mean of the diagonal. It is 100 times
/// the rounding error of a Cholesky factor with 1,000 landmarks.
const JITTER: f64 = 1e-10;
/// Number of landmarks whose gradient one thread computes at a time.
const LANDMARK_STRIP_ROWS: usize = 32;
/// Number of rows for which one call differentiates k(x, x).
const DIAGONAL_STRIP_ROWS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    /// Rows, n x d.
    pub(super) x: MatRef<'a, f64>,
    /// Targets, n x T, columns centred.
    pub(super) y: MatRef<'a, f64>,
    /// Number of landmarks m ≤ n. The landmarks are the first m rows.
    pub(super) landmark_count: usize,
    pub(super) kernel: &'a dyn KernelFunction<f64>,
    pub(super) workers: &'a Workers,
}

impl Sample<'_> {
    /// Computes F and its gradient at `theta` = (log a_1, …, log a_d, log s², log τ²). If a
    /// factorisation fails or a number overflows, F is infinite.
    ///
    /// *Cost*: 4nm² + 10nmd + 5m³ flops, and nm + 2nd + 8m² numbers of memory. The result is
    /// bit-identical for any number of threads.
    pub(super) fn negative_log_likelihood_bound(&self, theta: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let (n, d) = (self.x.nrows(), self.x.ncols());
        gradient.fill(0.0);
        let factors: Vec<f64> = theta[..d].iter().map(|v| v.exp()).collect();
        let scaled_rows: Vec<f64> =
            (0..n).flat_map(|i| (0..d).map(move |k| (i, k))).map(|(i, k)| self.x[(i, k)] * factors[k]).collect();
        let z = MatRef::from_row_major_slice(&scaled_rows, n, d);
        let mut diag = vec![0.0; n];
        self.kernel.diag(z, &mut diag);
        let Some((mut phi, lower)) = self.landmark_features(z, &diag) else { return Ok(f64::INFINITY) };
        let scales = (theta[d].exp(), theta[d + 1].exp());
        let trace = diag.iter().sum::<f64>();
        let Some(posterior) = Posterior::new(phi.as_ref(), self.y, scales, self.workers) else {
            return Ok(f64::INFINITY);
        };
        let value = posterior.likelihood(trace);
        if !value.is_finite() {
            return Ok(f64::INFINITY);
        }
        (gradient[d], gradient[d + 1]) = posterior.scale_slopes(trace);
        let jitter_slope = posterior.replace_by_gradient(phi.as_mut(), lower.as_ref(), self.workers);
        self.add_factor_slopes(
            z,
            phi.as_ref(),
            jitter_slope,
            0.5 * posterior.target_count * posterior.signal_to_noise,
            &mut gradient[..d],
        )?;
        Ok(value)
    }

    /// Computes Φ (n x m) and L; `None` if k_mm has no Cholesky factor.
    fn landmark_features(&self, z: MatRef<'_, f64>, diag: &[f64]) -> Option<(Mat<f64>, Mat<f64>)> {
        let (n, m) = (z.nrows(), self.landmark_count);
        let landmarks = z.subrows(0, m);
        let mut phi = Mat::zeros(n, m);
        let mut lower = Mat::zeros(m, m);
        self.workers.for_each(row_strips(lower.as_mut(), STRIP_ROWS), |(first, strip)| {
            self.kernel.block(z.subrows(first, strip.nrows()), landmarks, strip);
        });
        let jitter = JITTER * diag[..m].iter().sum::<f64>() / m as f64;
        (0..m).for_each(|j| lower[(j, j)] += jitter);
        factor_sequential(lower.as_mut())?;
        self.workers.for_each(row_strips(phi.as_mut(), STRIP_ROWS), |(first, mut strip)| {
            self.kernel.block(z.subrows(first, strip.nrows()), landmarks, strip.rb_mut());
            solve_lower_triangular_in_place(lower.as_ref(), strip.transpose_mut(), Par::Seq);
        });
        Some((phi, lower))
    }

    /// Adds the derivative of F with respect to log a to `gradient`. The arguments are derivatives
    /// of F: `kernel_slopes` (n x m) with respect to k_nm, plus the derivative with respect to k_mm
    /// in its first m rows; `jitter_slope` with respect to the number added to the diagonal of
    /// k_mm; and `diagonal_slope` with respect to each k(z_i, z_i).
    ///
    /// Let G = `kernel_slopes`, let k(z_i, z_j) be the kernel between row i and landmark j, and let
    /// ∇_l k be its derivative with respect to component l of the first argument. Then the
    /// derivative of Σ_ij G_ij k(z_i, z_j) with respect to log a_l is Σ_i z_il Σ_j G_ij ∇_l k(z_i,
    /// z_j) + Σ_j z_jl Σ_i G_ij ∇_l k(z_j, z_i).
    fn add_factor_slopes(
        &self,
        z: MatRef<'_, f64>,
        kernel_slopes: MatRef<'_, f64>,
        jitter_slope: f64,
        diagonal_slope: f64,
        gradient: &mut [f64],
    ) -> Result<()> {
        let (n, d, m) = (z.nrows(), z.ncols(), self.landmark_count);
        let landmarks = z.subrows(0, m);
        let has_gradient = AtomicBool::new(true);
        let add_gradient = |x: MatRef<'_, f64>, z: MatRef<'_, f64>, weights: MatRef<'_, f64>, out: MatMut<'_, f64>| {
            if !self.kernel.gradient(x, z, weights, out) {
                has_gradient.store(false, Ordering::Relaxed);
            }
        };
        let (mut row_slopes, mut landmark_slopes) = (vec![0.0; n * d], vec![0.0; m * d]);
        for_each_strip(self.workers, &mut row_slopes, STRIP_ROWS * d, |strip, out| {
            let (first, height) = (strip * STRIP_ROWS, out.len() / d);
            let mut out = MatMut::from_row_major_slice_mut(out, height, d);
            let rows = z.subrows(first, height);
            add_gradient(rows, landmarks, kernel_slopes.subrows(first, height), out.rb_mut());
            for i in (0..height).step_by(DIAGONAL_STRIP_ROWS) {
                let group_rows = DIAGONAL_STRIP_ROWS.min(height - i);
                // the factor 2: k(x, x) changes through both arguments
                let weight =
                    |i: usize| 2.0 * (diagonal_slope + if i < m { JITTER * jitter_slope / m as f64 } else { 0.0 });
                let weights =
                    Mat::from_fn(group_rows, group_rows, |a, b| if a == b { weight(first + i + a) } else { 0.0 });
                add_gradient(
                    rows.subrows(i, group_rows),
                    rows.subrows(i, group_rows),
                    weights.as_ref(),
                    out.rb_mut().subrows_mut(i, group_rows),
                );
            }
        });
        for_each_strip(self.workers, &mut landmark_slopes, LANDMARK_STRIP_ROWS * d, |strip, out| {
            let (first, height) = (strip * LANDMARK_STRIP_ROWS, out.len() / d);
            let weights = kernel_slopes.subcols(first, height).transpose();
            add_gradient(
                landmarks.subrows(first, height),
                z,
                weights,
                MatMut::from_row_major_slice_mut(out, height, d),
            );
        });
        if !has_gradient.into_inner() {
            let why = "expected a kernel with a known gradient, such as gaussian, to learn a factor per feature";
            return Err(Error::option("kernel", self.kernel.spec(), why));
        }
        for (i, slopes) in row_slopes.chunks_exact(d).chain(landmark_slopes.chunks_exact(d)).enumerate() {
            let row = z.row(if i < n { i } else { i - n });
            gradient.iter_mut().zip(slopes).zip(row.iter()).for_each(|((g, slope), z)| *g += slope * z);
        }
        Ok(())
    }
}

/// The posterior for given Φ, s² and τ², in the notation of the module.
struct Posterior {
    row_count: f64,
    target_count: f64,
    noise: f64,
    /// ρ = s²/τ².
    signal_to_noise: f64,
    /// tr S.
    gram_trace: f64,
    /// log|B|.
    log_det: f64,
    /// V and R, m x m.
    v: Mat<f64>,
    r: Mat<f64>,
    /// E, m x T.
    e: Mat<f64>,
    /// α, n x T.
    alpha: Mat<f64>,
}

impl Posterior {
    /// Returns the posterior; `None` if B has no Cholesky factor.
    fn new(phi: MatRef<'_, f64>, y: MatRef<'_, f64>, scales: (f64, f64), workers: &Workers) -> Option<Self> {
        let (amplitude, noise) = scales;
        let (signal_to_noise, m) = (amplitude / noise, phi.ncols());
        let s = gram(phi, workers);
        let mut b = Mat::from_fn(m, m, |i, j| signal_to_noise * s[(i, j)] + if i == j { 1.0 } else { 0.0 });
        factor_sequential(b.as_mut())?;
        let mut v = Mat::from_fn(m, m, |i, j| signal_to_noise * s[(i, j)]);
        solve_triangular(b.as_ref(), TriangularSystem::Factor, v.as_mut(), workers);
        let mut r = v.clone();
        solve_triangular(b.as_ref(), TriangularSystem::Transpose, r.as_mut(), workers);
        let mut e = Mat::zeros(m, y.ncols());
        matmul(e.as_mut(), Accum::Replace, phi.transpose(), y, signal_to_noise.sqrt(), Par::Seq);
        solve_triangular(b.as_ref(), TriangularSystem::Factor, e.as_mut(), workers);
        solve_triangular(b.as_ref(), TriangularSystem::Transpose, e.as_mut(), workers);
        let mut alpha = Mat::from_fn(y.nrows(), y.ncols(), |i, t| y[(i, t)] / noise);
        matmul(alpha.as_mut(), Accum::Add, phi, e.as_ref(), -signal_to_noise.sqrt() / noise, Par::Seq);
        let (gram_trace, log_det) = ((0..m).map(|j| s[(j, j)]).sum(), (0..m).map(|j| 2.0 * b[(j, j)].ln()).sum());
        let (row_count, target_count) = (y.nrows() as f64, y.ncols() as f64);
        Some(Self { row_count, target_count, noise, signal_to_noise, gram_trace, log_det, v, r, e, alpha })
    }

    /// Computes F, where `trace` is tr k_nn. The quadratic term is computed as Σ_y yᵀ(Q + τ²I)⁻¹y =
    /// τ²‖α‖² + ‖E‖²/τ², which avoids cancellation.
    fn likelihood(&self, trace: f64) -> f64 {
        let log_volume = self.log_det + self.row_count * (std::f64::consts::TAU * self.noise).ln();
        let residual = self.signal_to_noise * (trace - self.gram_trace);
        let data_fit = self.noise * self.alpha.squared_norm_l2() + self.e.squared_norm_l2() / self.noise;
        0.5 * (self.target_count * (log_volume + residual) + data_fit)
    }

    /// Computes the derivatives of F with respect to log s² and log τ², where `trace` is tr k_nn.
    fn scale_slopes(&self, trace: f64) -> (f64, f64) {
        let residual_dof = self.row_count - (0..self.r.nrows()).map(|j| self.r[(j, j)]).sum::<f64>();
        let residual = self.signal_to_noise * (trace - self.gram_trace);
        let signal = self.target_count * (self.signal_to_noise * trace - self.v.squared_norm_l2());
        let amplitude = 0.5 * (signal - self.e.squared_norm_l2() / self.noise);
        let noise = 0.5 * (self.target_count * (residual_dof - residual) - self.noise * self.alpha.squared_norm_l2());
        (amplitude, noise)
    }

    /// Replaces Φ by the derivative of F with respect to k_nm, and adds the derivative with respect
    /// to k_mm to its first m rows. Returns the trace of the derivative with respect to k_mm.
    fn replace_by_gradient(&self, mut phi: MatMut<'_, f64>, lower: MatRef<'_, f64>, workers: &Workers) -> f64 {
        let (m, root) = (phi.ncols(), self.signal_to_noise.sqrt());
        let (mut h, mut e) = (self.r.clone(), self.e.clone());
        solve_triangular(lower, TriangularSystem::Transpose, h.as_mut(), workers);
        solve_triangular(lower, TriangularSystem::Transpose, e.as_mut(), workers);
        workers.for_each(row_strips(phi.rb_mut(), STRIP_ROWS), |(first, mut strip)| {
            let features = strip.to_owned();
            let factor = -self.target_count * self.signal_to_noise;
            matmul(strip.rb_mut(), Accum::Replace, features.as_ref(), h.transpose(), factor, Par::Seq);
            let alpha = self.alpha.subrows(first, strip.nrows());
            matmul(strip, Accum::Add, alpha, e.transpose(), -root, Par::Seq);
        });
        let mut landmark_gradient = gram(self.v.as_ref(), workers);
        landmark_gradient *= faer::Scale(0.5 * self.target_count);
        solve_triangular(lower, TriangularSystem::Transpose, landmark_gradient.as_mut(), workers);
        let mut landmark_gradient = landmark_gradient.transpose().to_owned();
        solve_triangular(lower, TriangularSystem::Transpose, landmark_gradient.as_mut(), workers);
        matmul(landmark_gradient.as_mut(), Accum::Add, e.as_ref(), e.transpose(), 0.5 / self.noise, Par::Seq);
        for j in 0..m {
            phi.rb_mut().col_mut(j).iter_mut().zip(landmark_gradient.col(j).iter()).for_each(|(to, from)| *to += from);
        }
        (0..m).map(|j| landmark_gradient[(j, j)]).sum()
    }
}

/// Computes AᵀA, both triangles.
fn gram(a: MatRef<'_, f64>, workers: &Workers) -> Mat<f64> {
    let m = a.ncols();
    let mut g = vec![0.0; m * m];
    add_gram(&mut g, a, &BufferPool::default(), workers);
    Mat::from_fn(m, m, |i, j| g[i.max(j) + i.min(j) * m])
}
