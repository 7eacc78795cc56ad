//! Preconditioned conjugate gradient for several right sides at once.
//!
//! Solves A x_j = b_j for j = 1, …, t with a symmetric positive definite matrix A of order n, using
//! only products with A. Every column x_j runs its own recurrence (Hestenes, Stiefel 1952; Golub
//! and Van Loan, *Matrix Computations*, 4th ed., 11.5). All columns share the products with A,
//! which dominate the cost. A converged column leaves the iteration, so later products have fewer
//! columns.
//!
//! Because of rounding, the residual of the recurrence drifts away from the true residual b − Ax.
//! Every ten iterations, and before a column counts as converged, the true residual replaces the
//! residual of the recurrence. The true residual is computed in f64 even if A is applied in f32. If
//! the true residual is much larger than the residual of the recurrence, the search directions
//! restart. If a column does not converge, its result is the iterate with the smallest true
//! residual that was computed, possibly x = 0. So the reported residual belongs to the returned x
//! and is at most 1.
//!
//! *Cost per iteration*: one product, one application of the preconditioner, and 10·n·t flops.
//! *Bytes*: see [`bytes`].

mod state;
#[cfg(test)]
mod tests;

use crate::linalg::dot_products::dot;
use crate::{Error, Result, solver::check_stop};
use faer::{Mat, MatMut, MatRef};
use kapprox::map::column_slice;
use kstore::checkpoint::{Journal, Steps};
use kstore::pass::Observer;
pub(crate) use state::CgSolution;
use state::{CgState, RunningColumn};

/// Number of iterations between two computations of the true residual. Chosen: a longer interval
/// costs fewer products in f64, but lets the recurrence drift further.
const TRUE_RESIDUAL_INTERVAL: usize = 10;

/// Maximum number of iterations, except for n between 100 and 10,000. If the condition number is
/// 10⁴, each iteration multiplies the error by 0.98, so 1,000 iterations gain eight digits.
const MAX_ITERATIONS: usize = 1000;

/// Returns the maximum number of iterations for n unknowns. For n between 100 and 10,000 it exceeds
/// [`MAX_ITERATIONS`], for two reasons: iterations are then cheap, and an ill-conditioned system
/// takes several iterations per unknown until rounding prevents further progress.
fn max_iterations(n: usize) -> usize {
    MAX_ITERATIONS.max(10 * n.min(MAX_ITERATIONS).min(MAX_ITERATIONS * MAX_ITERATIONS / n.max(1)))
}

/// A column has progressed if its true residual is below this fraction of the smallest earlier one.
const PROGRESS_RATIO: f64 = 0.95;

/// Returns the number of iterations without progress after which a column stops, because rounding
/// prevents further progress. The residual of an ill-conditioned system oscillates for about as
/// many iterations as there are unknowns, so this number first grows with n. For large n it
/// decreases again, because iterations are expensive.
fn max_stalled_iterations(n: usize) -> usize {
    100.max(n.min(MAX_ITERATIONS * MAX_ITERATIONS / n.max(1)))
}

/// The search directions restart if rᵀM⁻¹r of the true residual r is more than this multiple of
/// rᵀM⁻¹r of the recurrence, where M is the preconditioner. 4 is a factor 2 in the norm.
const RESTART_RATIO: f64 = 4.0;

/// A symmetric positive definite matrix A, with a preconditioner M⁻¹ near A⁻¹. Vectors are the
/// columns of matrices with n rows.
pub(crate) trait PositiveDefinite {
    /// Computes `out` = A v.
    fn apply(&mut self, v: MatRef<'_, f64>, out: MatMut<'_, f64>) -> Result<()>;
    /// Computes `out` = A v with A evaluated in f64, for true residuals.
    fn apply_in_f64(&mut self, v: MatRef<'_, f64>, out: MatMut<'_, f64>) -> Result<()> {
        self.apply(v, out)
    }
    /// Computes `z` = M⁻¹ r.
    fn precondition(&mut self, r: MatRef<'_, f64>, z: MatMut<'_, f64>) -> Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norm {
    Euclidean,
    /// √(rᵀM⁻¹r), which is about the energy norm √(eᵀAe) of the error e if M is near A.
    Preconditioned,
}

/// Stopping rule of an iteration, with its observer and journal.
#[derive(Clone, Copy)]
pub(crate) struct StoppingRule<'a> {
    /// Residual at which a column has converged, relative to the norm of its right side.
    pub(crate) tolerance: f64,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) journal: Option<&'a Journal<'a>>,
}

/// Returns the bytes for n unknowns and t right sides, including the right sides and the solution.
pub(crate) fn bytes(n: usize, t: usize) -> usize {
    // b, x, the best x, r, z, p, Ap, and the running columns of two of them
    8 * 9 * n * t
}

/// Solves A x = b for every column of `b`, and measures residuals in `norm`. If there is a journal,
/// it stores the state after iterations; a resumed run continues after the last stored iteration,
/// and its result is bit-identical.
///
/// # Errors
/// Errors of the products; [`kstore::Error::Interrupted`]; [`Error::NotFinite`] if numbers
/// overflow.
pub(crate) fn solve(
    system: &mut dyn PositiveDefinite,
    b: MatRef<'_, f64>,
    norm: Norm,
    stopping_rule: StoppingRule<'_>,
) -> Result<CgSolution> {
    let StoppingRule { tolerance, observer, journal } = stopping_rule;
    let (mut steps, state) = Steps::begin(journal, "conjugate gradient", || CgState::new(b));
    if steps.is_complete() {
        return Ok(state.solution);
    }
    let z = Mat::zeros(b.nrows(), b.ncols());
    let mut conjugate_gradient = ConjugateGradient { system, b, norm, tolerance, z, state, between_iterations: true };
    if steps.completed_steps() == 0 {
        conjugate_gradient.initialise()?;
    }
    for iteration in steps.completed_steps() as usize + 1..=max_iterations(b.nrows()) {
        if conjugate_gradient.state.columns.is_empty() {
            break;
        }
        if let Err(error) = check_stop(observer).and_then(|()| conjugate_gradient.iterate(iteration)) {
            if conjugate_gradient.between_iterations {
                steps.save_before_stop(&conjugate_gradient.state);
            }
            return Err(error);
        }
        steps.record_step(&conjugate_gradient.state);
    }
    steps.complete(&conjugate_gradient.state);
    Ok(conjugate_gradient.state.solution)
}

/// Returns the norm of column j of r: √(rᵀM⁻¹r), from `rz` = rᵀM⁻¹r, or ‖r‖.
fn residual_norm(norm: Norm, rz: f64, r: MatRef<'_, f64>, j: usize) -> f64 {
    match norm {
        Norm::Preconditioned => rz.max(0.0).sqrt(),
        Norm::Euclidean => dot_of(r, j, r, j).sqrt(),
    }
}

fn dot_of(a: MatRef<'_, f64>, i: usize, b: MatRef<'_, f64>, j: usize) -> f64 {
    dot(column_slice(a.col(i)), column_slice(b.col(j)))
}

/// Adds factor · `source` column i to `out` column j.
fn add_scaled(out: &mut Mat<f64>, j: usize, factor: f64, source: &Mat<f64>, i: usize) {
    out.col_mut(j).iter_mut().zip(source.col(i).iter()).for_each(|(out, v)| *out += factor * v);
}

struct ConjugateGradient<'a> {
    system: &'a mut dyn PositiveDefinite,
    b: MatRef<'a, f64>,
    norm: Norm,
    tolerance: f64,
    /// M⁻¹r, n x t; column j belongs to right side j.
    z: Mat<f64>,
    state: CgState,
    /// True at the end of an iteration, when the state can be stored.
    between_iterations: bool,
}

impl ConjugateGradient<'_> {
    fn initialise(&mut self) -> Result<()> {
        self.precondition()?;
        let CgState { r, p, columns, .. } = &mut self.state;
        for column in columns.iter_mut() {
            column.rz = dot_of(r.as_ref(), column.j, self.z.as_ref(), column.j);
            column.right_side_norm = residual_norm(self.norm, column.rz, r.as_ref(), column.j);
        }
        // a right side of 0 has the solution 0
        columns.retain(|column| column.right_side_norm > 0.0);
        p.copy_from(&self.z);
        Ok(())
    }

    fn iterate(&mut self, iteration: usize) -> Result<()> {
        let ap = self.apply(&self.running_columns(&self.state.p))?;
        self.between_iterations = false;
        self.update_solution(&ap)?;
        let CgState { solution, columns, .. } = &mut self.state;
        for column in columns.iter_mut() {
            solution.iterations[column.j] = iteration;
            column.stalled_iterations += 1;
        }
        self.precondition()?;
        let is_last = iteration == max_iterations(self.b.nrows());
        if is_last || iteration.is_multiple_of(TRUE_RESIDUAL_INTERVAL) || self.seems_converged() {
            self.replace_residuals(is_last)?;
        }
        self.update_directions();
        self.between_iterations = true;
        Ok(())
    }

    /// Returns the columns of `matrix` whose right sides are still iterating.
    fn running_columns(&self, matrix: &Mat<f64>) -> Mat<f64> {
        let columns = &self.state.columns;
        Mat::from_fn(matrix.nrows(), columns.len(), |i, c| matrix[(i, columns[c].j)])
    }

    /// Computes z = M⁻¹r for the running columns.
    fn precondition(&mut self) -> Result<()> {
        let r = self.running_columns(&self.state.r);
        let mut z = Mat::zeros(r.nrows(), r.ncols());
        self.system.precondition(r.as_ref(), z.as_mut())?;
        for (c, column) in self.state.columns.iter().enumerate() {
            self.z.col_mut(column.j).copy_from(z.col(c));
        }
        Ok(())
    }

    fn apply(&mut self, v: &Mat<f64>) -> Result<Mat<f64>> {
        let mut out = Mat::zeros(v.nrows(), v.ncols());
        self.system.apply(v.as_ref(), out.as_mut())?;
        Ok(out)
    }

    /// Updates x += αp and r −= αAp, with α = rᵀz / pᵀAp, for the running columns.
    fn update_solution(&mut self, ap: &Mat<f64>) -> Result<()> {
        let CgState { solution, r, p, columns, .. } = &mut self.state;
        for (c, column) in columns.iter().enumerate() {
            let curvature = dot_of(p.as_ref(), column.j, ap.as_ref(), c);
            if !curvature.is_finite() {
                return Err(Error::NotFinite {
                    what: "conjugate gradient",
                    remedy: "raise `lambda` or scale the target",
                });
            }
            // if pᵀAp is not positive, the column makes no step; the next true residual decides
            // whether it stops
            let alpha = if curvature > 0.0 { column.rz / curvature } else { 0.0 };
            add_scaled(&mut solution.x, column.j, alpha, p, column.j);
            add_scaled(r, column.j, -alpha, ap, c);
        }
        Ok(())
    }

    /// Returns true if the recurrence indicates that some column has converged.
    fn seems_converged(&self) -> bool {
        let (r, z) = (self.state.r.as_ref(), self.z.as_ref());
        let is_small = |column: &RunningColumn| {
            let rz = dot_of(r, column.j, z, column.j);
            residual_norm(self.norm, rz, r, column.j) <= self.tolerance * column.right_side_norm
        };
        self.state.columns.iter().any(is_small)
    }

    /// Replaces the residuals by the true residuals, and removes the finished columns: those that
    /// have converged or stalled, or all columns if `is_last` is true.
    fn replace_residuals(&mut self, is_last: bool) -> Result<()> {
        let x = self.running_columns(&self.state.solution.x);
        let mut ax = Mat::zeros(x.nrows(), x.ncols());
        self.system.apply_in_f64(x.as_ref(), ax.as_mut())?;
        let CgState { r, columns, .. } = &mut self.state;
        for (c, column) in columns.iter_mut().enumerate() {
            column.recurrence_rz = dot_of(r.as_ref(), column.j, self.z.as_ref(), column.j);
            let values = r.col_mut(column.j).iter_mut().zip(self.b.col(column.j).iter());
            values.zip(ax.col(c).iter()).for_each(|((r, b), ax)| *r = b - ax);
        }
        self.precondition()?;
        let (z, norm, tolerance) = (self.z.as_ref(), self.norm, self.tolerance);
        let CgState { solution, best_x, r, columns, .. } = &mut self.state;
        columns.retain_mut(|column| {
            let (j, rz) = (column.j, dot_of(r.as_ref(), column.j, z, column.j));
            let residual = residual_norm(norm, rz, r.as_ref(), j) / column.right_side_norm;
            column.stalled_iterations =
                if residual > PROGRESS_RATIO * column.best_residual { column.stalled_iterations } else { 0 };
            if residual < column.best_residual {
                column.best_residual = residual;
                best_x.col_mut(j).copy_from(solution.x.col(j));
            }
            solution.residuals[j] = column.best_residual;
            if rz > RESTART_RATIO * column.recurrence_rz {
                column.rz = 0.0;
            }
            let is_stalled = column.stalled_iterations >= max_stalled_iterations(solution.x.nrows());
            let is_converged = residual <= tolerance;
            if !is_converged && (is_stalled || is_last) {
                solution.x.col_mut(j).copy_from(best_x.col(j));
            }
            solution.has_converged &= is_converged || !(is_stalled || is_last);
            !(is_converged || is_stalled || is_last)
        });
        Ok(())
    }

    /// Updates p = z + βp, with β = (new rᵀz) / (old rᵀz), or 0 to restart.
    fn update_directions(&mut self) {
        let CgState { r, p, columns, .. } = &mut self.state;
        for column in columns {
            let rz = dot_of(r.as_ref(), column.j, self.z.as_ref(), column.j);
            let beta = if column.rz > 0.0 { rz / column.rz } else { 0.0 };
            column.rz = rz;
            let z = self.z.col(column.j);
            p.col_mut(column.j).iter_mut().zip(z.iter()).for_each(|(p, z)| *p = z + beta * *p);
        }
    }
}
