//! State of conjugate gradient between iterations, its storage in a journal, and the solution.

use crate::{Error, Result, solver::NamedValues};
use faer::{Mat, MatRef};
use kstore::checkpoint::{Arrays, Persist, StoredArrays};

/// Relative residual from which on the solution is rejected. At a residual of 0.1, the fitted
/// values may be wrong by a tenth of the norm of the targets.
const MAX_RESIDUAL: f64 = 0.1;

#[derive(Clone, Debug)]
pub(crate) struct CgSolution {
    /// The solution x, n x t.
    pub(crate) x: Mat<f64>,
    pub(crate) iterations: Vec<usize>,
    /// True residual of each column in the requested norm, relative to the norm of its right side.
    pub(crate) residuals: Vec<f64>,
    /// False if a column ended above the requested residual.
    pub(crate) has_converged: bool,
}

impl CgSolution {
    pub(crate) fn max_residual(&self) -> f64 {
        self.residuals.iter().copied().fold(0.0, f64::max)
    }

    /// Returns an error if the largest residual is at least [`MAX_RESIDUAL`]. `remedy` completes
    /// its message.
    pub(crate) fn check(&self, remedy: &'static str) -> Result<()> {
        let (residual, iterations) = (self.max_residual(), self.iterations.iter().copied().max().unwrap_or(0));
        if residual < MAX_RESIDUAL { Ok(()) } else { Err(Error::NotConverged { residual, iterations, remedy }) }
    }

    pub(crate) fn figures(&self) -> Vec<NamedValues> {
        vec![
            NamedValues { name: "iterations", values: self.iterations.iter().map(|i| *i as f64).collect() },
            NamedValues { name: "residual", values: self.residuals.clone() },
        ]
    }
}

/// State of right side j, which is still iterating.
pub(super) struct RunningColumn {
    pub(super) j: usize,
    pub(super) right_side_norm: f64,
    /// rᵀz, where z = M⁻¹r for the preconditioner M; 0 if the search direction restarts.
    pub(super) rz: f64,
    /// rᵀz of the recurrence, kept while r is replaced by the true residual.
    pub(super) recurrence_rz: f64,
    /// Relative true residual of the best x, the smallest so far. Initially 1, because x is 0.
    pub(super) best_residual: f64,
    /// Number of iterations since the true residual last improved.
    pub(super) stalled_iterations: usize,
}

pub(super) struct CgState {
    pub(super) solution: CgSolution,
    /// The x with the smallest true residual, n x t; column j belongs to right side j.
    pub(super) best_x: Mat<f64>,
    /// Residuals, n x t.
    pub(super) r: Mat<f64>,
    /// Search directions, n x t.
    pub(super) p: Mat<f64>,
    /// The right sides that are still iterating.
    pub(super) columns: Vec<RunningColumn>,
}

impl CgState {
    pub(super) fn new(b: MatRef<'_, f64>) -> Self {
        let (n, t) = b.shape();
        let column = |j| RunningColumn {
            j,
            right_side_norm: 0.0,
            rz: 0.0,
            recurrence_rz: 0.0,
            best_residual: 1.0,
            stalled_iterations: 0,
        };
        Self {
            solution: CgSolution {
                x: Mat::zeros(n, t),
                iterations: vec![0; t],
                residuals: vec![0.0; t],
                has_converged: true,
            },
            best_x: Mat::zeros(n, t),
            r: b.to_owned(),
            p: Mat::zeros(n, t),
            columns: (0..t).map(column).collect(),
        }
    }
}

impl Persist for CgState {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        for (name, matrix) in [("x", &self.solution.x), ("best", &self.best_x), ("r", &self.r), ("p", &self.p)] {
            (0..matrix.ncols()).for_each(|j| out.put(&format!("{name}{j}"), matrix.col_as_slice(j)));
        }
        out.put_owned("iterations", self.solution.iterations.iter().map(|i| *i as u64).collect());
        out.put("residuals", &self.solution.residuals);
        out.put_number("converged", u64::from(self.solution.has_converged));
        out.put_owned("columns", self.columns.iter().map(|c| c.j as u64).collect());
        out.put_owned("stalls", self.columns.iter().map(|c| c.stalled_iterations as u64).collect());
        out.put_owned(
            "scalars",
            self.columns.iter().flat_map(|c| [c.right_side_norm, c.rz, c.best_residual]).collect(),
        );
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        for (name, matrix) in
            [("x", &mut self.solution.x), ("best", &mut self.best_x), ("r", &mut self.r), ("p", &mut self.p)]
        {
            for j in 0..matrix.ncols() {
                from.fill(&format!("{name}{j}"), matrix.col_as_slice_mut(j))?;
            }
        }
        let mut iterations = vec![0u64; self.solution.iterations.len()];
        from.fill("iterations", &mut iterations)?;
        self.solution.iterations = iterations.iter().map(|i| *i as usize).collect();
        from.fill("residuals", &mut self.solution.residuals)?;
        self.solution.has_converged = from.read_number::<u64>("converged")? != 0;
        let (columns, stalls) = (from.read::<u64>("columns")?, from.read::<u64>("stalls")?);
        let scalars = from.read::<f64>("scalars")?;
        let stored_columns = columns.iter().zip(&stalls).zip(scalars.as_chunks::<3>().0);
        let column = |((j, stalls), &[right_side_norm, rz, best_residual]): ((&u64, &u64), &[f64; 3])| RunningColumn {
            j: *j as usize,
            right_side_norm,
            rz,
            recurrence_rz: 0.0,
            best_residual,
            stalled_iterations: *stalls as usize,
        };
        self.columns = stored_columns.map(column).collect();
        Ok(())
    }
}
