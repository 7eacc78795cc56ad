//! Ridge regression with the linear kernel on sparse rows: one weight per column.
//!
//! The system is (H K H + μI) β = H y of [`super::iterative::dual_problem`], where K = X Xᵀ and X
//! (n x d) contains the rows. Products with X and Xᵀ replace products with K, so no kernel value is
//! computed. The weights are w = Xᵀ H β. *Cost per iteration*: four flops per nonzero entry of X.
//! *Bytes*: 12 per nonzero entry, and the vectors of conjugate gradient.

use super::iterative::cg::{self, Norm, PositiveDefinite, StoppingRule};
use super::iterative::dual_problem::{DualSolution, ExactProblem};
use crate::Result;
use crate::linalg::sparse_matrix::SparseMatrix;
use crate::linalg::strips::for_each_strip;
use faer::{ColRef, Mat, MatMut, MatRef};

/// Number of rows that a thread multiplies by the weights at a time.
const SPARSE_STRIP_ROWS: usize = 1024;

pub(super) struct LinearSystem<'a> {
    pub(super) matrix: &'a SparseMatrix,
    pub(super) problem: ExactProblem<'a>,
}

impl LinearSystem<'_> {
    /// Computes the weights Xᵀ a of the columns from the coefficients a of the rows.
    pub(super) fn weights(&self, a: ColRef<'_, f64>) -> Vec<f64> {
        let mut w = vec![0.0; self.matrix.column_count];
        a.iter().enumerate().for_each(|(i, a)| self.matrix.add_scaled_row(i, *a, &mut w));
        w
    }

    /// Computes `f` = X w.
    fn compute_values(&self, w: &[f64], f: &mut [f64]) {
        for_each_strip(self.problem.workers, f, SPARSE_STRIP_ROWS, |strip, f| {
            f.iter_mut().enumerate().for_each(|(i, f)| *f = self.matrix.dot(strip * SPARSE_STRIP_ROWS + i, w));
        });
    }

    pub(super) fn solve(&mut self, stopping_rule: StoppingRule<'_>) -> Result<DualSolution> {
        let (ExactProblem { y, centring, .. }, right) = (self.problem, self.problem.centred_targets());
        let mut cg_solution = cg::solve(self, right.as_ref(), Norm::Euclidean, stopping_rule)?;
        let mut coefficients = std::mem::replace(&mut cg_solution.x, Mat::new());
        centring.apply(coefficients.as_mut());
        let (mut residuals, mut intercept) = (y.to_owned(), Vec::new());
        let mut f = vec![0.0; y.nrows()];
        for (j, a) in coefficients.col_iter().enumerate() {
            self.compute_values(&self.weights(a), &mut f);
            let residual_sum = y.col(j).iter().zip(&f).map(|(y, f)| y - f).sum::<f64>();
            let c = centring.gamma * residual_sum / f.len() as f64;
            residuals.col_mut(j).iter_mut().zip(&f).for_each(|(error, f)| *error -= f + c);
            intercept.push(c);
        }
        Ok(DualSolution { coefficients, intercept, residuals, cg_solution: Some(cg_solution), loo_mse: None })
    }
}

impl PositiveDefinite for LinearSystem<'_> {
    fn apply(&mut self, v: MatRef<'_, f64>, out: MatMut<'_, f64>) -> Result<()> {
        let mut f = vec![0.0; v.nrows()];
        self.problem.apply(v, out, |u, out| {
            for (u, out) in u.col_iter().zip(out.col_iter_mut()) {
                self.compute_values(&self.weights(u), &mut f);
                out.iter_mut().zip(&f).for_each(|(out, f)| *out = *f);
            }
        });
        Ok(())
    }

    /// Divides by the diagonal of K + μI, ‖x_i‖² + μ.
    fn precondition(&mut self, r: MatRef<'_, f64>, z: MatMut<'_, f64>) -> Result<()> {
        for (z, r) in z.col_iter_mut().zip(r.col_iter()) {
            let values = z.iter_mut().zip(r.iter()).enumerate();
            values.for_each(|(i, (z, r))| *z = r / (self.matrix.squared_norm(i) + self.problem.mu));
        }
        Ok(())
    }
}
