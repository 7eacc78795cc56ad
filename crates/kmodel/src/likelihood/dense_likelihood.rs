//! The marginal likelihood of a Gaussian process whose kernel is a sum, and its gradient.
//!
//! Part p of the kernel K = Σ_p w_p K_p + τ²D has a weight w_p and one length scale per column that
//! it uses; τ² is the noise variance, and D is diagonal with one over the weight of each row (1
//! without weights). Let Y (n x T) hold T targets, each centred. All targets have the same kernel.
//! This module computes the negative log marginal likelihood, in nats,
//!
//! ```text
//! F = T (½ log|K| + (n/2) log 2π) + ½ tr(YᵀK⁻¹Y).
//! ```
//!
//! With A = K⁻¹Y and G = ½ (T K⁻¹ − AAᵀ), the derivative of F with respect to a parameter θ is Σ_ij
//! G_ij ∂K_ij/∂θ (Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, equation
//! 5.9):
//!
//! * for log w_p: w_p Σ_ij G_ij (K_p)_ij;
//! * for log τ²: τ² Σ_i G_ii D_ii;
//! * by the logarithm of the length scale of column k in part p: −2 w_p Σ_i x_ik Σ_j G_ij ∇_k
//!   K_p(x_i, x_j), where ∇_k is the derivative by column k of the first argument. The kernel of a
//!   part depends on the quotients x_k / length, and G is symmetric.

use crate::linalg::cholesky::factor_sequential;
use crate::linalg::strips::{for_each_strip, row_strips};
use crate::{Error, Result};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::prelude::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kapprox::Kernel;
use kapprox::kernel::KernelFunction;
use kstore::Workers;
use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Number of rows that a thread handles at a time.
const STRIP_ROWS: usize = 96;

/// A part of the sum.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The kernel of the inputs `inputs`; its length scales are the start of the search.
    pub(super) kernel: Kernel,
    /// Columns of [`Sample::x`] that are the inputs of the kernel. Parts with different scalings
    /// have different inputs.
    pub(super) inputs: Range<usize>,
    /// Each input with its length scale; empty if only the weight is learned.
    pub(super) length_scales: Vec<(usize, f64)>,
}

impl Part {
    /// Returns the kernel with these length scales.
    pub(super) fn with_length_scales(&self, lengths: &[f64]) -> Kernel {
        if lengths.is_empty() { self.kernel.clone() } else { self.kernel.with_column_lengths(lengths) }
    }
}

/// The rows of a likelihood.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    /// Inputs of all parts, n x d, row-major.
    pub(super) x: MatRef<'a, f64>,
    /// Targets, n x T, columns centred.
    pub(super) y: MatRef<'a, f64>,
    /// The weight of each row; empty if all are 1.
    pub(super) weights: &'a [f64],
    pub(super) parts: &'a [Part],
    pub(super) workers: &'a Workers,
}

/// Returns the number of bytes that an evaluation allocates, with d inputs and T targets.
pub(super) fn bytes(n: usize, d: usize, t: usize, threads: usize) -> usize {
    8 * (2 * n * n + n * (d + 3 * t) + threads * STRIP_ROWS * (2 * n + d))
}

impl Sample<'_> {
    /// Computes F and its gradient at `theta`: the logarithms of the length scales of each part,
    /// then of the weights of all parts, then of the noise variance. If the matrix has no Cholesky
    /// factor or a number overflows, F is infinite.
    ///
    /// *Cost*: (5/3)n³ flops, and 7n²d flops and 2n² kernel values for each part. The result is
    /// bit-identical for any number of threads.
    pub(super) fn likelihood(&self, theta: &[f64], gradient: &mut [f64]) -> Result<f64> {
        gradient.fill(0.0);
        if !theta.iter().all(|v| v.exp().is_finite() && v.exp() > 0.0) {
            return Ok(f64::INFINITY);
        }
        let (n, t, first_weight) = (self.x.nrows(), self.y.ncols() as f64, theta.len() - 1 - self.parts.len());
        let (weights, noise) = (&theta[first_weight..theta.len() - 1], theta[theta.len() - 1].exp());
        let weights: Vec<f64> = weights.iter().map(|v| v.exp()).collect();
        let kernels = self.kernels(theta)?;
        let mut matrix = self.kernel_matrix(&kernels, &weights, noise);
        let Some(log_det) = factor(matrix.as_mut()) else { return Ok(f64::INFINITY) };
        let inverse_factor = self.inverse_factor(matrix.as_ref());
        // L⁻¹Y, then A = L⁻ᵀL⁻¹Y
        let mut whitened_targets = Mat::zeros(n, self.y.ncols());
        matmul(whitened_targets.as_mut(), Accum::Replace, inverse_factor.as_ref(), self.y, 1.0, Par::Seq);
        let mut alpha = Mat::zeros(n, self.y.ncols());
        matmul(alpha.as_mut(), Accum::Replace, inverse_factor.transpose(), whitened_targets.as_ref(), 1.0, Par::Seq);
        let data_fit = whitened_targets.squared_norm_l2();
        let value = 0.5 * (t * (log_det + n as f64 * std::f64::consts::TAU.ln()) + data_fit);
        if !value.is_finite() {
            return Ok(f64::INFINITY);
        }
        self.write_matrix_gradient(inverse_factor.as_ref(), alpha.as_ref(), matrix.as_mut());
        let slopes = self.part_slopes(&kernels, matrix.as_ref())?;
        let (length_slopes, scale_slopes) = gradient.split_at_mut(first_weight);
        let mut by_lengths = length_slopes.iter_mut();
        for (p, part) in self.parts.iter().enumerate() {
            let slopes = &slopes[p * (self.x.ncols() + 1)..];
            scale_slopes[p] = weights[p] * slopes[0];
            let columns = part.length_scales.iter().map(|(column, _)| slopes[1 + column]);
            by_lengths.by_ref().zip(columns).for_each(|(g, slope)| *g = -2.0 * weights[p] * slope);
        }
        scale_slopes[self.parts.len()] = noise * (0..n).map(|i| matrix[(i, i)] / self.weight(i)).sum::<f64>();
        Ok(value)
    }

    fn inputs_of(&self, part: &Part) -> MatRef<'_, f64> {
        self.x.subcols(part.inputs.start, part.inputs.len())
    }

    fn weight(&self, i: usize) -> f64 {
        self.weights.get(i).copied().unwrap_or(1.0)
    }

    fn kernels(&self, theta: &[f64]) -> Result<Vec<Arc<dyn KernelFunction<f64>>>> {
        let mut remaining_theta = theta.iter();
        let build = |part: &Part| {
            let lengths: Vec<f64> = remaining_theta.by_ref().take(part.length_scales.len()).map(|v| v.exp()).collect();
            Ok(part.with_length_scales(&lengths).build()?.typed())
        };
        self.parts.iter().map(build).collect()
    }

    /// Returns K in the lower triangle; the upper triangle is not defined.
    fn kernel_matrix(&self, kernels: &[Arc<dyn KernelFunction<f64>>], weights: &[f64], noise: f64) -> Mat<f64> {
        let n = self.x.nrows();
        let mut matrix = Mat::zeros(n, n);
        self.workers.for_each(row_strips(matrix.as_mut(), STRIP_ROWS), |(first, strip)| {
            let (height, width) = (strip.nrows(), first + strip.nrows());
            let (mut strip, mut values) = (strip.subcols_mut(0, width), Mat::zeros(height, width));
            for ((kernel, part), weight) in kernels.iter().zip(self.parts).zip(weights) {
                let x = self.inputs_of(part);
                kernel.block(x.subrows(first, height), x.subrows(0, width), values.as_mut());
                strip += faer::Scale(*weight) * &values;
            }
            (0..height).for_each(|i| strip[(i, first + i)] += noise / self.weight(first + i));
        });
        matrix
    }

    /// Returns L⁻¹, with zeros in the upper triangle.
    fn inverse_factor(&self, lower: MatRef<'_, f64>) -> Mat<f64> {
        let n = lower.nrows();
        let mut inverse = Mat::zeros(n, n);
        // strips of columns: a strip that begins with column `first` is 0 above row `first`
        self.workers.for_each(row_strips(inverse.as_mut().transpose_mut(), STRIP_ROWS), |(first, strip)| {
            let mut columns = strip.transpose_mut().subrows_mut(first, n - first);
            (0..columns.ncols()).for_each(|j| columns[(j, j)] = 1.0);
            solve_lower_triangular_in_place(lower.submatrix(first, first, n - first, n - first), columns, Par::Seq);
        });
        inverse
    }

    /// Writes both triangles of G = ½ (T L⁻ᵀL⁻¹ − AAᵀ) to `g`.
    fn write_matrix_gradient(&self, inverse_factor: MatRef<'_, f64>, alpha: MatRef<'_, f64>, mut g: MatMut<'_, f64>) {
        let (n, t) = (g.nrows(), self.y.ncols() as f64);
        self.workers.for_each(row_strips(g.rb_mut().transpose_mut(), STRIP_ROWS), |(first, strip)| {
            let mut columns = strip.transpose_mut().subrows_mut(first, n - first);
            let below = inverse_factor.subrows(first, n - first);
            let (left, right) = (below.subcols(first, n - first), below.subcols(first, columns.ncols()));
            matmul(columns.rb_mut(), Accum::Replace, left.transpose(), right, 0.5 * t, Par::Seq);
            let (left, right) = (alpha.subrows(first, n - first), alpha.subrows(first, columns.ncols()));
            matmul(columns, Accum::Add, left, right.transpose(), -0.5, Par::Seq);
        });
        for j in 1..n {
            for i in 0..j {
                g[(i, j)] = g[(j, i)];
            }
        }
    }

    /// Returns 1 + d numbers for each part p: Σ_ij G_ij (K_p)_ij, and, for each input k of the
    /// part, Σ_i x_ik Σ_j G_ij ∇_k K_p(x_i, x_j). The numbers of the inputs are 0 for a part
    /// without length scales.
    fn part_slopes(&self, kernels: &[Arc<dyn KernelFunction<f64>>], g: MatRef<'_, f64>) -> Result<Vec<f64>> {
        let (n, d) = (self.x.nrows(), self.x.ncols());
        let slope_count = self.parts.len() * (d + 1);
        let mut strip_sums = vec![0.0; n.div_ceil(STRIP_ROWS) * slope_count];
        for_each_strip(self.workers, &mut strip_sums, slope_count, |strip, sums| {
            let first = strip * STRIP_ROWS;
            let height = STRIP_ROWS.min(n - first);
            let (weights, mut values) = (g.subrows(first, height), Mat::zeros(height, first + height));
            for ((kernel, part), sums) in kernels.iter().zip(self.parts).zip(sums.chunks_exact_mut(d + 1)) {
                let (x, d) = (self.inputs_of(part), part.inputs.len());
                let rows = x.subrows(first, height);
                kernel.block(rows, x.subrows(0, first + height), values.as_mut());
                for j in 0..first + height {
                    // by symmetry, each column before the strip also stands for its mirror image,
                    // and counts twice
                    let multiplicity = if j < first { 2.0 } else { 1.0 };
                    let pairs = values.col(j).iter().zip(weights.col(j).iter());
                    sums[0] += multiplicity * pairs.map(|(k, g)| k * g).sum::<f64>();
                }
                if part.length_scales.is_empty() {
                    continue;
                }
                let mut slopes = vec![0.0; height * d];
                kernel.gradient(rows, x, weights, MatMut::from_row_major_slice_mut(&mut slopes, height, d));
                for (i, slopes) in slopes.chunks_exact(d).enumerate() {
                    let terms = slopes.iter().zip(rows.row(i).iter());
                    sums[1..].iter_mut().zip(terms).for_each(|(sum, (slope, x))| *sum += slope * x);
                }
            }
        });
        let mut total = vec![0.0; slope_count];
        strip_sums
            .chunks_exact(slope_count)
            .for_each(|strip| total.iter_mut().zip(strip).for_each(|(sum, more)| *sum += more));
        Ok(total)
    }
}

/// Replaces the lower triangle by its Cholesky factor, and returns the logarithm of the
/// determinant; `None` without a factor.
fn factor(mut matrix: MatMut<'_, f64>) -> Option<f64> {
    factor_sequential(matrix.rb_mut())?;
    Some((0..matrix.nrows()).map(|i| 2.0 * matrix[(i, i)].ln()).sum())
}

/// Rejects a part whose length scales cannot be learned, because its kernel has no gradient.
pub(super) fn check_gradients(parts: &[Part]) -> Result<()> {
    for part in parts.iter().filter(|part| !part.length_scales.is_empty()) {
        if !part.kernel.build()?.typed::<f64>().is_differentiable() {
            let expected =
                "expected a kernel with a known gradient, such as gaussian, to learn a length scale per feature";
            return Err(Error::option("kernel", &part.kernel, expected));
        }
    }
    Ok(())
}
