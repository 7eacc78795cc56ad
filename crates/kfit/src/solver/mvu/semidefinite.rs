//! The semidefinite programme of maximum variance unfolding, solved by a primal-dual interior-point
//! method. C is m x m; each of the E constraints e has a vector a_e (m numbers) and a bound b_e. A
//! is the m x E matrix with the columns a_e.
//!
//! ```text
//! primal   max ⟨C, X⟩      over X ⪰ 0 and s ≥ 0 with aᵀ_e X a_e + s_e = b_e for every constraint e
//! dual     min bᵀy         over y ≥ 0 with Z = Σ_e y_e a_e a_eᵀ − C ⪰ 0
//! ```
//!
//! Every step aims at XZ = μI and s_e y_e = μ, and μ decreases from step to step (direction of
//! Helmberg, Kojima and Monteiro). A step aims to multiply μ by σ. Because the constraint matrices
//! have rank one, the step for y solves an E x E system, in which ∘ is the product by entries:
//!
//! ```text
//! ((AᵀXA)∘(AᵀZ⁻¹A) + diag(s/y)) Δy = r,     r_e = σμ(aᵀ_e Z⁻¹ a_e + 1/y_e) − b_e
//! ```
//!
//! X is the sum of its steps. Computing X as μZ⁻¹ would fail near the solution, where the smallest
//! eigenvalues of Z are rounding errors. *Flops*: 2E²m + E³/3 for each of about fifty steps.
//!
//! References: Helmberg, Rendl, Vanderbei, Wolkowicz, "An interior-point method for semidefinite
//! programming", SIAM J. Optimization 6, 1996; Benson, Ye, Zhang, "Solving large-scale sparse
//! semidefinite programs for combinatorial optimization", SIAM J. Optimization 10, 2000.

use crate::linalg::cholesky::{TriangularSystem, factor_sequential, solve_triangular};
use crate::{Error, Result, solver::check_stop};
use faer::{Accum, Mat, MatRef, linalg::matmul::matmul};
use kapprox::map::par;
use kstore::{Workers, pass::Observer};

/// Relative duality gap, and relative infeasibility of a constraint, at which the method stops.
const GAP_TOLERANCE: f64 = 1e-9;

/// Maximum number of steps; three hundred constraints need about sixty.
const MAX_STEPS: usize = 300;

/// Values of σ, the factor by which a step aims to reduce μ, after a shortened step and after a
/// long step; chosen.
const REDUCTION_AFTER_SHORT: f64 = 0.3;
const REDUCTION_AFTER_LONG: f64 = 0.1;

/// Step length above which a step counts as long.
const LONG_STEP: f64 = 0.7;

/// Factor of the backtracking line search. A shortened step also takes only this fraction of the
/// feasible length.
const STEP_SHRINK: f64 = 0.9;
/// Smallest step length.
const MIN_STEP: f64 = 1e-8;

pub(super) fn bytes(m: usize, constraint_count: usize) -> usize {
    8 * (10 * m * m + 4 * m * constraint_count + 4 * constraint_count * constraint_count)
}

/// Maximises ⟨C, X⟩ over X (m x m) with aᵀ_e X a_e ≤ b_e, where C (m x m) is positive
/// semi-definite. Returns X, and an upper bound on the relative distance of ⟨C, X⟩ from its
/// maximum. The columns a_e of `a` (m x E) must span all directions, and the numbers in `b` must be
/// positive.
///
/// # Errors
/// [`Error::NotFinite`] without a feasible start; [`kstore::Error::Interrupted`].
pub(super) fn maximise(
    c: MatRef<'_, f64>,
    a: MatRef<'_, f64>,
    b: &[f64],
    workers: &Workers,
    observer: &dyn Observer,
) -> Result<(Mat<f64>, f64)> {
    let programme = Programme { c, a, b, workers };
    let mut point = programme.feasible_start()?;
    let mut sigma = REDUCTION_AFTER_SHORT;
    for _ in 0..MAX_STEPS {
        check_stop(observer)?;
        let (gap, infeasibility) = programme.gap(&point);
        if gap <= GAP_TOLERANCE && infeasibility <= GAP_TOLERANCE {
            break;
        }
        // `None` if rounding makes a system indefinite: the method stops
        let Some(step) = programme.step(&point, sigma) else { break };
        let (primal_length, dual_length) = programme.step_lengths(&point, &step);
        if primal_length.max(dual_length) < MIN_STEP {
            break;
        }
        sigma = if primal_length.min(dual_length) > LONG_STEP { REDUCTION_AFTER_LONG } else { REDUCTION_AFTER_SHORT };
        point = point.after_step(&step, primal_length, dual_length);
    }
    let (gap, _) = programme.gap(&point);
    Ok((point.x, gap))
}

fn unsolvable_error() -> Error {
    Error::NotFinite {
        what: "a step of the semidefinite programme",
        remedy: "lower `rank`, raise `neighbours`, or scale the features",
    }
}

/// Values of the variables X, s and y, or a step of them.
struct Point {
    x: Mat<f64>,
    s: Vec<f64>,
    y: Vec<f64>,
}

impl Point {
    fn after_step(&self, step: &Self, primal_length: f64, dual_length: f64) -> Self {
        let sum = |values: &[f64], step: &[f64], step_length: f64| {
            values.iter().zip(step).map(|(v, d)| v + step_length * d).collect()
        };
        Self {
            x: Mat::from_fn(self.x.nrows(), self.x.ncols(), |i, j| self.x[(i, j)] + primal_length * step.x[(i, j)]),
            s: sum(&self.s, &step.s, primal_length),
            y: sum(&self.y, &step.y, dual_length),
        }
    }
}

struct Programme<'a> {
    c: MatRef<'a, f64>,
    a: MatRef<'a, f64>,
    b: &'a [f64],
    workers: &'a Workers,
}

impl Programme<'_> {
    fn product(&self, left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
        let mut out = Mat::zeros(left.nrows(), right.ncols());
        matmul(out.as_mut(), Accum::Replace, left, right, 1.0, par(self.workers));
        out
    }

    /// Computes Σ_e y_e a_e a_eᵀ.
    fn weighted_sum(&self, y: &[f64]) -> Mat<f64> {
        let scaled_a = Mat::from_fn(self.a.nrows(), self.a.ncols(), |i, e| self.a[(i, e)] * y[e]);
        self.product(scaled_a.as_ref(), self.a.transpose())
    }

    /// Computes Z = Σ_e y_e a_e a_eᵀ − C.
    fn dual_slack(&self, y: &[f64]) -> Mat<f64> {
        let mut z = self.weighted_sum(y);
        z -= self.c;
        z
    }

    /// Computes aᵀ_e X a_e for every constraint.
    fn constraint_values(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        let xa = self.product(x, self.a);
        let columns = self.a.col_iter().zip(xa.col_iter());
        columns.map(|(a, xa)| a.iter().zip(xa.iter()).map(|(a, xa)| a * xa).sum()).collect()
    }

    /// Returns the start: X is a multiple of the identity that satisfies every constraint, and all
    /// y_e are equal and so large that Z is positive definite.
    fn feasible_start(&self) -> Result<Point> {
        let (m, constraint_count) = self.a.shape();
        let max_squared_ratio = self.a.col_iter().zip(self.b).map(|(a, b)| a.squared_norm_l2() / b).fold(0.0, f64::max);
        let mut lower = self.weighted_sum(&vec![1.0; constraint_count]);
        factor_sequential(lower.as_mut()).filter(|()| max_squared_ratio > 0.0).ok_or_else(unsolvable_error)?;
        // the trace of (AAᵀ)⁻¹C is at least the largest eigenvalue of C relative to AAᵀ
        let mut relative_c = self.c.to_owned();
        solve_triangular(lower.as_ref(), TriangularSystem::Factor, relative_c.as_mut(), self.workers);
        solve_triangular(lower.as_ref(), TriangularSystem::Transpose, relative_c.as_mut(), self.workers);
        let trace: f64 = (0..m).map(|i| relative_c[(i, i)]).sum();
        let mut y = vec![2.0 * trace.max(f64::MIN_POSITIVE); constraint_count];
        while factor_sequential(self.dual_slack(&y).as_mut()).is_none() {
            y.iter_mut().for_each(|y| *y *= 2.0);
            if !y[0].is_finite() {
                return Err(unsolvable_error());
            }
        }
        let x = Mat::from_fn(m, m, |i, j| if i == j { 0.5 / max_squared_ratio } else { 0.0 });
        let s = self.constraint_values(x.as_ref()).iter().zip(self.b).map(|(value, b)| b - value).collect();
        Ok(Point { x, s, y })
    }

    /// Computes ⟨X, Z⟩ + sᵀy.
    fn complementarity(&self, point: &Point) -> f64 {
        let z = self.dual_slack(&point.y);
        let inner: f64 = z.col_iter().zip(point.x.col_iter()).map(|(z, x)| z.transpose() * x).sum();
        inner + point.s.iter().zip(&point.y).map(|(s, y)| s * y).sum::<f64>()
    }

    /// Computes the relative duality gap (⟨X, Z⟩ + sᵀy) / bᵀy, and the largest relative
    /// infeasibility |aᵀ_e X a_e + s_e − b_e| / b_e of a constraint.
    fn gap(&self, point: &Point) -> (f64, f64) {
        let dual_objective: f64 = self.b.iter().zip(&point.y).map(|(b, y)| b * y).sum();
        let values = self.constraint_values(point.x.as_ref());
        let infeasibility = values.iter().zip(&point.s).zip(self.b).map(|((value, s), b)| (value + s - b).abs() / b);
        (
            self.complementarity(point).max(0.0) / dual_objective.max(f64::MIN_POSITIVE),
            infeasibility.fold(0.0, f64::max),
        )
    }

    /// Computes the step towards σμ, where σ is `sigma` and μ = (⟨X, Z⟩ + sᵀy) / (m + E). With Δy
    /// from the system of the module header and D = X (Σ_e Δy_e a_e a_eᵀ) Z⁻¹, it is ΔX = σμZ⁻¹ − X
    /// − (D + Dᵀ)/2 and Δs_e = σμ/y_e − s_e − s_e Δy_e/y_e. Returns `None` if rounding makes a
    /// system indefinite.
    fn step(&self, point: &Point, sigma: f64) -> Option<Point> {
        let (m, constraint_count) = self.a.shape();
        let target_mu = sigma * self.complementarity(point) / (m + constraint_count) as f64;
        let mut lower = self.dual_slack(&point.y);
        factor_sequential(lower.as_mut())?;
        let mut inverse = Mat::<f64>::identity(m, m);
        solve_triangular(lower.as_ref(), TriangularSystem::Factor, inverse.as_mut(), self.workers);
        let inverse = self.product(inverse.transpose(), inverse.as_ref());
        let dual_products = self.product(self.a.transpose(), self.product(inverse.as_ref(), self.a).as_ref());
        let primal_products = self.product(self.a.transpose(), self.product(point.x.as_ref(), self.a).as_ref());
        let mut system = Mat::from_fn(constraint_count, constraint_count, |e, f| {
            dual_products[(e, f)] * primal_products[(e, f)] + if e == f { point.s[e] / point.y[e] } else { 0.0 }
        });
        let mut right_side = Mat::from_fn(constraint_count, 1, |e, _| {
            target_mu * (dual_products[(e, e)] + 1.0 / point.y[e]) - self.b[e]
        });
        factor_sequential(system.as_mut())?;
        solve_triangular(system.as_ref(), TriangularSystem::Factor, right_side.as_mut(), self.workers);
        solve_triangular(system.as_ref(), TriangularSystem::Transpose, right_side.as_mut(), self.workers);
        let y = right_side.col_as_slice(0).to_vec();
        let change =
            self.product(self.product(point.x.as_ref(), self.weighted_sum(&y).as_ref()).as_ref(), inverse.as_ref());
        let x = Mat::from_fn(m, m, |i, j| {
            target_mu * inverse[(i, j)] - point.x[(i, j)] - 0.5 * (change[(i, j)] + change[(j, i)])
        });
        let s = (0..constraint_count)
            .map(|e| target_mu / point.y[e] - point.s[e] - point.s[e] / point.y[e] * y[e])
            .collect();
        Some(Point { x, s, y })
    }

    /// Returns the step lengths that keep X and s, and y and Z, positive.
    fn step_lengths(&self, point: &Point, step: &Point) -> (f64, f64) {
        let feasible_length = |is_feasible: &dyn Fn(&Point) -> bool, point_at: &dyn Fn(f64) -> Point| {
            let mut length = 1.0;
            while length >= MIN_STEP && !is_feasible(&point_at(length)) {
                length *= STEP_SHRINK;
            }
            if length < 1.0 { length * STEP_SHRINK } else { length }
        };
        let is_positive = |values: &[f64]| values.iter().all(|v| *v > 0.0);
        let is_primal_feasible = |p: &Point| is_positive(&p.s) && factor_sequential(p.x.clone().as_mut()).is_some();
        let is_dual_feasible =
            |p: &Point| is_positive(&p.y) && factor_sequential(self.dual_slack(&p.y).as_mut()).is_some();
        (
            feasible_length(&is_primal_feasible, &|length| point.after_step(step, length, 0.0)),
            feasible_length(&is_dual_feasible, &|length| point.after_step(step, 0.0, length)),
        )
    }
}
