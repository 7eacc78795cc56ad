//! The penalty of a solver, in either of its two conventions.

/// How strongly coefficients are held down: one number in either of two conventions.
///
/// Where folds compare penalties, the rows of a convention are those that were learned from: lambda stays the penalty of a row, C the cost of one.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Penalty {
    /// The factor lambda of (1/n) Σ loss + lambda ‖w‖².
    Lambda(f64),
    /// The factor C of ½‖w‖² + C Σ loss.
    C(f64),
}

impl Penalty {
    /// The penalty as lambda, for n rows: lambda = 1/(2nC).
    pub fn lambda(self, rows: u64) -> f64 {
        match self {
            Self::Lambda(lambda) => lambda,
            Self::C(c) => 0.5 / (c * rows as f64),
        }
    }

    /// The penalty as C, for n rows: C = 1/(2n lambda).
    pub fn c(self, rows: u64) -> f64 {
        match self {
            Self::Lambda(lambda) => 0.5 / (lambda * rows as f64),
            Self::C(c) => c,
        }
    }
}
