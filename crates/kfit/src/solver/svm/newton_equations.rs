//! Newton's equations of a support vector problem. If there are fewer free rows (rows whose
//! multiplier is strictly between its bounds) than features, the unknowns are the r free rows,
//! otherwise the p features.
//!
//! Let u be the square roots of the slopes −dβ⁺/df of the free rows (r numbers), and B (r x p) the
//! features of these rows, each multiplied by its entry of u. With the negative gradient g for w
//! and the gradient e for the intercept, the direction d of w and the direction δ of the intercept
//! solve
//!
//! ```text
//! (I + BᵀB) d + Bᵀu δ = g,     uᵀB d + (uᵀu + κ) δ = −e
//! ```
//!
//! κ is 1 for a penalised intercept and 0 for a free intercept; without an intercept δ = 0. The
//! equations have two forms. The first eliminates δ; the second eliminates d, with q = B d + u δ:
//!
//! ```text
//! over features    (I + BᵀB − Bᵀu uᵀB/(uᵀu + κ)) d = g + Bᵀu e/(uᵀu + κ)        rp² + p³/3 flops
//! over rows        (I + BBᵀ) q = B g + u δ,   d = g − Bᵀq,   uᵀq + κδ = −e       r²p + r³/3 flops
//! ```
//!
//! Near the solution few rows are free, and steps over rows are very cheap. If there are far more
//! free rows than features far from the solution, the equations contain a sample of them
//! (`SAMPLED_ROWS_PER_FEATURE`).

use crate::linalg::cholesky::{self, factor_unblocked};
use crate::linalg::strips::{BufferPool, par};
use crate::{Intercept, gram, linalg::dot_products::dot};
use faer::{MatMut, MatRef};
use kapprox::{Real, gram::GramBuffers};
use kstore::Workers;

/// Fraction of the term Bᵀu uᵀB/(uᵀu) that is subtracted for a free intercept. If the whole term
/// were subtracted, the data part of the equations would be singular along a constant feature.
const ELIMINATED_FRACTION: f64 = 1.0 - 1e-6;

/// Number of free rows per feature above which the equations contain a random sample of this size.
/// A row with slope s is drawn with a probability π proportional to s, and has the slope s/π in the
/// equations, so the Hessian is unbiased. The direction is a descent direction for any sample. With
/// 8 rows per feature, the preconditioned Hessian has a condition number of about 4.
///
/// Reference: Roosta-Khorasani, Mahoney, "Sub-sampled Newton methods", Mathematical Programming
/// 174, 2019.
pub(super) const SAMPLED_ROWS_PER_FEATURE: f64 = 8.0;

/// Returns the maximum number of free rows that are stored as rows. If there are more, the unknowns
/// are the features.
fn max_free_rows(p: usize) -> usize {
    (p / 2).max(512)
}

pub(super) fn bytes(p: usize) -> usize {
    8 * p * p + 8 * p + max_free_rows(p) * (8 * p + 8)
}

/// The free rows of a problem, stored as rows or as their Gram matrix.
#[derive(Debug)]
pub(super) struct NewtonEquations<T> {
    p: usize,
    /// BᵀB of the free rows that are no longer in `free_rows`; p x p column-major, lower triangle.
    gram: Vec<f64>,
    /// Features of the stored rows, row-major, each row multiplied by the square root of its slope.
    free_rows: Vec<T>,
    /// Square roots of the slopes of the stored rows.
    sqrt_slopes: Vec<f64>,
    /// Bᵀu and uᵀu of all rows in the equations.
    slope_sums: Vec<f64>,
    total_slope: f64,
    /// True if `gram` contains some rows.
    has_gram: bool,
}

impl<T: Real> NewtonEquations<T> {
    pub(super) fn new(p: usize) -> Self {
        let free_rows = Vec::with_capacity(max_free_rows(p) * p);
        Self {
            p,
            gram: vec![0.0; p * p],
            free_rows,
            sqrt_slopes: Vec::with_capacity(max_free_rows(p)),
            slope_sums: vec![0.0; p],
            total_slope: 0.0,
            has_gram: false,
        }
    }

    pub(super) fn clear(&mut self) {
        self.free_rows.clear();
        self.sqrt_slopes.clear();
        self.slope_sums.fill(0.0);
        self.total_slope = 0.0;
        self.has_gram = false;
    }

    pub(super) fn push(&mut self, phi: &[T], slope: f64, panels: &BufferPool<GramBuffers<T>>, workers: &Workers) {
        if self.sqrt_slopes.len() == max_free_rows(self.p) {
            self.flush(panels, workers);
        }
        let sqrt_slope = slope.sqrt();
        let row_factor = T::from_f64(sqrt_slope);
        self.free_rows.extend(phi.iter().map(|value| *value * row_factor));
        self.sqrt_slopes.push(sqrt_slope);
        self.slope_sums.iter_mut().zip(phi).for_each(|(sum, value)| *sum += slope * value.to_f64());
        self.total_slope += slope;
    }

    fn flush(&mut self, panels: &BufferPool<GramBuffers<T>>, workers: &Workers) {
        if !self.has_gram {
            self.gram.fill(0.0);
            self.has_gram = true;
        }
        if !self.sqrt_slopes.is_empty() {
            let phi = MatRef::from_row_major_slice(&self.free_rows, self.sqrt_slopes.len(), self.p);
            gram::add_gram(&mut self.gram, phi, panels, workers);
            self.free_rows.clear();
            self.sqrt_slopes.clear();
        }
    }

    /// Returns d and δ for the right side `g` and the gradient `e` of the intercept, which is 0
    /// unless the intercept is penalised. `s` = Bᵀu and `weight` = uᵀu are sums over all free rows.
    /// The factor overwrites the Gram matrix, so this function can be called only once.
    pub(super) fn solve(
        &mut self,
        g: Vec<f64>,
        intercept: Intercept,
        e: f64,
        panels: &BufferPool<GramBuffers<T>>,
        workers: &Workers,
    ) -> (Vec<f64>, f64) {
        if !self.has_gram && self.sqrt_slopes.len() < self.p {
            return self.solve_over_rows(g, intercept, e, panels, workers);
        }
        self.flush(panels, workers);
        self.solve_over_features(g, intercept, e, workers)
    }

    fn solve_over_features(
        &mut self,
        mut g: Vec<f64>,
        intercept: Intercept,
        e: f64,
        workers: &Workers,
    ) -> (Vec<f64>, f64) {
        let (p, matrix, s) = (self.p, &mut self.gram[..], &self.slope_sums[..]);
        let (eliminated_fraction, kappa) = match intercept {
            Intercept::None => (0.0, 0.0),
            Intercept::Free => (ELIMINATED_FRACTION, 0.0),
            Intercept::Penalised => (1.0, 1.0),
        };
        let weight = self.total_slope + kappa;
        let fraction = if weight > 0.0 { eliminated_fraction / weight } else { 0.0 };
        let diagonal: Vec<f64> = (0..p).map(|j| matrix[j * p + j]).collect();
        let trace: f64 = diagonal.iter().sum();
        // the factor replaces the lower triangle; the upper triangle keeps the Gram matrix for
        // another attempt
        copy_lower_to_upper(matrix, p);
        let mut shift = 1.0;
        loop {
            for (j, column) in matrix.chunks_exact_mut(p).enumerate() {
                let sj = fraction * s[j];
                column[j..].iter_mut().zip(&s[j..]).for_each(|(entry, s)| *entry -= s * sj);
                column[j] += shift;
            }
            if factor_in_place(matrix, p, workers) || shift > trace.max(1.0) {
                break;
            }
            shift = next_shift(shift, trace);
            for j in 0..p {
                matrix[j * p + j] = diagonal[j];
                (j + 1..p).for_each(|i| matrix[j * p + i] = matrix[i * p + j]);
            }
        }
        g.iter_mut().zip(s).for_each(|(g, s)| *g += fraction * s * e);
        solve_with_factor(matrix, p, &mut g);
        let s_dot_g = dot(s, &g);
        let delta = if weight > 0.0 && eliminated_fraction > 0.0 { -(e + s_dot_g) / weight } else { 0.0 };
        (g, delta)
    }

    fn solve_over_rows(
        &mut self,
        mut g: Vec<f64>,
        intercept: Intercept,
        e: f64,
        panels: &BufferPool<GramBuffers<T>>,
        workers: &Workers,
    ) -> (Vec<f64>, f64) {
        let (p, r) = (self.p, self.sqrt_slopes.len());
        if r == 0 {
            return (g, 0.0 - e);
        }
        // `gram` is unused here, so its memory can store BBᵀ
        let row_gram = &mut self.gram[..r * r];
        // rows of B are columns of Bᵀ
        let transposed = MatRef::from_column_major_slice(&self.free_rows, p, r);
        let mut shift = 1.0;
        loop {
            row_gram.fill(0.0);
            gram::add_gram(row_gram, transposed, panels, workers);
            let trace: f64 = (0..r).map(|i| row_gram[i * r + i]).sum();
            (0..r).for_each(|i| row_gram[i * r + i] += shift);
            if factor_in_place(row_gram, r, workers) || shift > trace.max(1.0) {
                break;
            }
            shift = next_shift(shift, trace);
        }
        let rows = &self.free_rows;
        let row = |i: usize| &rows[i * p..(i + 1) * p];
        let mut q: Vec<f64> = (0..r).map(|i| dot(row(i), &g)).collect();
        solve_with_factor(row_gram, r, &mut q);
        let mut delta = 0.0;
        if intercept != Intercept::None {
            let mut solved_u = self.sqrt_slopes.clone();
            solve_with_factor(row_gram, r, &mut solved_u);
            let kappa = f64::from(u8::from(intercept == Intercept::Penalised));
            let curvature = dot(&self.sqrt_slopes, &solved_u) + kappa;
            delta = if curvature > 0.0 { -(e + dot(&self.sqrt_slopes, &q)) / curvature } else { 0.0 };
            q.iter_mut().zip(&solved_u).for_each(|(q, solved)| *q += delta * solved);
        }
        for (i, q) in q.iter().enumerate() {
            g.iter_mut().zip(row(i)).for_each(|(g, value)| *g -= q * value.to_f64());
        }
        (g, delta)
    }
}

/// Copies the lower triangle of a matrix (order x order, column-major) to the upper triangle, in
/// blocks that stay in the cache.
fn copy_lower_to_upper(matrix: &mut [f64], order: usize) {
    const BLOCK: usize = 32;
    for first in (0..order).step_by(BLOCK) {
        for below in (first..order).step_by(BLOCK) {
            for j in first..order.min(first + BLOCK) {
                for i in below.max(j + 1)..order.min(below + BLOCK) {
                    matrix[i * order + j] = matrix[j * order + i];
                }
            }
        }
    }
}

/// Returns the next larger shift of the diagonal, for a matrix with this trace that rounding made
/// indefinite. The shift shortens the step, but the result is still a descent direction.
fn next_shift(shift: f64, trace: f64) -> f64 {
    (10.0 * shift).max(f64::EPSILON * trace)
}

/// Replaces the lower triangle of `matrix` (order x order, column-major) by its Cholesky factor.
/// Returns false if the matrix is not positive definite.
fn factor_in_place(matrix: &mut [f64], order: usize, workers: &Workers) -> bool {
    let matrix = MatMut::from_column_major_slice_mut(matrix, order, order);
    workers.install(|| factor_unblocked(matrix, par(workers)).is_ok())
}

/// Replaces `right` by the solution of LLᵀx = right.
fn solve_with_factor(factor: &[f64], order: usize, right: &mut [f64]) {
    let factor = MatRef::from_column_major_slice(factor, order, order);
    cholesky::solve_cholesky(factor, MatMut::from_column_major_slice_mut(right, order, 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rows, slopes and a right side of these sizes.
    fn equations(r: usize, p: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let number = |i: usize| (0.7 + i as f64 * 1.37).sin();
        let slopes = (0..r).map(|i| 0.5 + number(3 * i).abs()).collect();
        ((0..r * p).map(number).collect(), slopes, (0..p).map(|i| number(5 * i + 1)).collect())
    }

    fn direction(r: usize, p: usize, constant: (Intercept, f64), over_features: bool) -> (Vec<f64>, f64) {
        let (phi, slopes, g) = equations(r, p);
        let (panels, workers) = (BufferPool::default(), Workers::sequential());
        let mut newton = NewtonEquations::<f64>::new(p);
        newton.clear();
        phi.chunks(p).zip(&slopes).for_each(|(phi, slope)| newton.push(phi, *slope, &panels, &workers));
        if over_features {
            newton.flush(&panels, &workers);
        }
        newton.solve(g, constant.0, constant.1, &panels, &workers)
    }

    #[test]
    fn both_forms_have_the_same_solution() {
        let p = 23;
        for r in [1, 2, 22, 23, 40, 700] {
            for constant in [(Intercept::None, 0.0), (Intercept::Free, 0.0), (Intercept::Penalised, 0.3)] {
                let (phi, slopes, g) = equations(r, p);
                let (d, delta) = direction(r, p, constant, false);
                let (expected, expected_delta) = direction(r, p, constant, true);
                // the equations over features eliminate a free intercept up to a millionth only
                let tolerance = if constant.0 == Intercept::Free { 1e-3 } else { 1e-9 };
                let close = |a: f64, b: f64| (a - b).abs() <= tolerance * (1.0 + b.abs());
                assert!(d.iter().zip(&expected).all(|(a, b)| close(*a, *b)), "{r} {constant:?}");
                assert!(close(delta, expected_delta), "{r} {constant:?}: {delta} {expected_delta}");
                if r >= p {
                    continue;
                }
                let values: Vec<f64> = phi.chunks(p).map(|phi| dot(phi, &d) + delta).collect();
                for j in 0..p {
                    let rows: f64 = (0..r).map(|i| slopes[i] * values[i] * phi[i * p + j]).sum();
                    assert!((d[j] + rows - g[j]).abs() < 1e-10, "{r} {constant:?}");
                }
                let sum = dot(&slopes, &values);
                match constant {
                    (Intercept::None, _) => assert_eq!(delta, 0.0),
                    (Intercept::Free, _) => assert!(sum.abs() < 1e-10, "{sum}"),
                    (Intercept::Penalised, e) => assert!((sum + delta + e).abs() < 1e-10, "{sum}"),
                }
            }
        }
    }

    #[test]
    fn without_free_rows_the_direction_is_the_right_side() {
        assert_eq!(direction(0, 3, (Intercept::Free, 0.0), false), (equations(0, 3).2, 0.0));
        assert_eq!(direction(0, 3, (Intercept::Penalised, 2.0), false), (equations(0, 3).2, -2.0));
    }
}
