//! Elimination of the intercept of a ridge regression.
//!
//! Let f be the vector of the values f_i = wᵀφ_i of a function at n rows, y their targets and c the
//! intercept. The objective is (1/n) Σ_i (y_i − c − f_i)² + lambda‖w‖², plus lambda c² if the
//! intercept is penalised. For given w the best intercept is c = γ mean(y − f). γ is 1 for a free
//! intercept, n/(n + lambda n) for a penalised intercept, and 0 without an intercept. Inserting
//! this c leaves a problem without an intercept, in which H y and H f replace y and f. H is a
//! symmetric n x n matrix with H² = I − γ 11ᵀ/n:
//!
//! ```text
//! Σ_i (y_i − f_i − c)² (+ lambda n c²) = (y − f)ᵀ (I − γ 11ᵀ/n) (y − f) = ‖H(y − f)‖²
//! H = I − θ 11ᵀ/n,  (1 − θ)² = 1 − γ
//! ```
//!
//! The single number θ covers all three kinds of intercept: H subtracts θ times the mean from a
//! vector.

use crate::Intercept;
use faer::{MatMut, prelude::*};

/// The numbers γ and θ of the kind of intercept: free, penalised or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Centring {
    /// c = γ mean(y − f).
    pub(crate) gamma: f64,
    /// Fraction of the mean that H subtracts.
    pub(crate) theta: f64,
}

impl Centring {
    /// Computes the numbers for n rows and `mu` = lambda·n.
    pub(crate) fn new(intercept: Intercept, n: usize, mu: f64) -> Self {
        let gamma = match intercept {
            Intercept::Free => 1.0,
            Intercept::Penalised => n as f64 / (n as f64 + mu),
            Intercept::None => 0.0,
        };
        Self { gamma, theta: 1.0 - (1.0 - gamma).max(0.0).sqrt() }
    }

    /// Replaces every column v by H v.
    pub(crate) fn apply(self, mut v: MatMut<'_, f64>) {
        if self.theta == 0.0 {
            return;
        }
        let n = v.nrows() as f64;
        for column in v.rb_mut().col_iter_mut() {
            let shift = self.theta * column.rb().iter().sum::<f64>() / n;
            column.iter_mut().for_each(|v| *v -= shift);
        }
    }
}
