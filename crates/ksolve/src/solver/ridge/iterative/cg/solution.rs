//! The solution of an iteration, and how it went.

use crate::{Error, Result, solver::Figure};
use faer::Mat;

/// A relative residual from which on the solution is of no use: its fitted values may be off by as much as a tenth of the target.
const USELESS: f64 = 0.1;

#[derive(Clone, Debug)]
pub(crate) struct CgSolution {
    /// The solution x, n x t.
    pub(crate) x: Mat<f64>,
    pub(crate) iterations: Vec<usize>,
    /// True residual of each column in the norm asked for, as a share of the norm of its right side.
    pub(crate) residuals: Vec<f64>,
    /// False where a column ended above the residual that was asked for.
    pub(crate) converged: bool,
}

impl CgSolution {
    pub(crate) fn residual(&self) -> f64 {
        self.residuals.iter().copied().fold(0.0, f64::max)
    }

    /// Refuses a solution that is too far off to be of use; `remedy` says what to do.
    pub(crate) fn check(&self, remedy: &'static str) -> Result<()> {
        let (residual, iterations) = (self.residual(), self.iterations.iter().copied().max().unwrap_or(0));
        if residual < USELESS { Ok(()) } else { Err(Error::NoSolution { residual, iterations, remedy }) }
    }

    pub(crate) fn figures(&self) -> Vec<Figure> {
        vec![
            Figure { name: "iterations", values: self.iterations.iter().map(|i| *i as f64).collect() },
            Figure { name: "residual", values: self.residuals.clone() },
        ]
    }
}
