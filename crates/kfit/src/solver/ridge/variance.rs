//! Predictive variances of ridge regression on features, as a Gaussian process has them.
//!
//! Ridge regression at μ = lambda·n is the posterior mean of a Gaussian process with the prior covariance s²k̂, k̂(x, x') = φ(x)ᵀφ(x'),
//! observed with noise of variance σ² = μs². Its variance at x is
//!
//! ```text
//! σ² (φ − μ_φ)ᵀ (A + μI)⁻¹ (φ − μ_φ) + σ²/n  +  σ²/(μ + τ) max(0, k(x, x) − φᵀφ − τ)
//! ```
//!
//! with A the centred Gram matrix. The first two terms are the subset of regressors, which is sure of itself wherever no landmark
//! is near; the third, for projections alone, is what the map leaves out of the kernel, the correction of FITC. What it leaves out of the rows of the fit, τ in the mean, is in their
//! residuals, and so in σ², already: what is more than τ counts, and s² is σ²/(μ + τ), so that σ² + s²τ is not counted for σ². (Measured on functions of two columns, 1,000
//! rows, 10 to 100 landmarks, λ by cross-validation and too small: 93 to 99 % of new observations lie within 1.96 deviations; with all that is left out 94 to 100 %, and
//! deviations up to three times the error.) μ_φ and 1/n
//! are those of a free intercept, a constant under a flat prior; without one nothing is centred, and a penalised one
//! is a feature 1. s² is what the marginal likelihood of k̂ at this μ is largest for:
//! s² = (Σ (y − f)² + μ‖w‖²)/(μν), ν = n, and n − 1 with a free intercept. It says nothing about μ, which cross-validation
//! may have chosen larger or smaller than likelihood would.
//!
//! All of it is one [quadratic](crate::quadratic) function of the features, in units of σ².
//!
//! References: Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, 2.2 and 8.3; Quiñonero-Candela,
//! Rasmussen, "A unifying view of sparse approximate Gaussian process regression", JMLR 6, 2005; Snelson, Ghahramani, "Sparse
//! Gaussian processes using pseudo-inputs", NIPS 2005.

use crate::solver::normal_equations::{RidgeFit, system::System};
use crate::{Intercept, RidgeOptions, quadratic::Quadratic};
use kstore::Workers;

/// The predictive variance of a fit, divided by that of the noise; the factor is that of the last solution of `system`.
pub(crate) fn of_fit(
    (system, rows): (&System, u64),
    typical: f64,
    fit: &RidgeFit,
    lambda: f64,
    options: &RidgeOptions,
    workers: &Workers,
) -> Quadratic {
    // the sum of the weights
    let (r, n) = (fit.head.weights.nrows(), system.rows);
    let (factor, shift) = system.whitener(r, workers);
    let free = options.intercept == Intercept::Free;
    let freedom = if free { (n - 1.0).max(1.0) } else { n };
    let noise = fit.train_mse.iter().enumerate().map(|(j, mse)| {
        let constant = if options.intercept == Intercept::Penalised { fit.head.intercept[j].powi(2) } else { 0.0 };
        (mse + lambda * (fit.head.weights.col(j).squared_norm_l2() + constant)) * n / freedom
    });
    let units = noise.collect();
    Quadratic {
        factor,
        shift,
        constant: if free { 1.0 / n } else { 0.0 },
        residual: 1.0 / (lambda * n + typical),
        typical,
        units,
        freedom: (n != rows as f64).then_some(freedom),
        features: None,
    }
}
