//! Predictive variances of ridge regression on features, from its Gaussian process.
//!
//! Ridge regression at μ = lambda·n is the posterior mean of a Gaussian process. The process has
//! the prior covariance s²k̂ with k̂(x, x') = φ(x)ᵀφ(x'), and its values are observed with noise of
//! variance σ² = μs². For a row x with features φ = φ(x), the predictive variance of the process is
//!
//! ```text
//! σ² (φ − μ_φ)ᵀ (A + μI)⁻¹ (φ − μ_φ) + σ²/n  +  σ²/(μ + τ) max(0, k(x, x) − φᵀφ − τ)
//! ```
//!
//! where μ_φ is the mean of the features, A the centred Gram matrix, and τ the mean of k(x, x) −
//! φᵀφ over the training rows. The first two terms are the subset-of-regressors approximation,
//! which is overconfident far from all landmarks. The third term is the correction of FITC, for the
//! part of the kernel outside the map. Only maps that project onto a subspace, such as Nyström,
//! have it. The residuals of the training rows already contain the mean τ of this part, and so does
//! σ². Therefore only the excess over τ is added, and s² is σ²/(μ + τ). (Measured on functions of
//! two columns with 1,000 rows and 10 to 100 landmarks, for a cross-validated lambda and for a
//! lambda that is too small: 93 to 99 % of new observations lie within 1.96 deviations. If τ is not
//! subtracted, 94 to 100 % lie within 1.96 deviations, but the deviations are up to three times the
//! error.)
//!
//! The mean μ_φ and the term σ²/n belong to a free intercept, which is a constant under a flat
//! prior. Without a free intercept, nothing is centred; a penalised intercept is the weight of a
//! constant feature 1. s² maximises the marginal likelihood under s²k̂ at this μ: s² = (Σ_i (y_i −
//! f(x_i))² + μ‖w‖²)/(μν), where ν is n − 1 with a free intercept and otherwise n. The likelihood
//! does not choose μ. Cross-validation may choose a larger or smaller μ than the likelihood would.
//!
//! The variance is one [quadratic](crate::quadratic) function of the features, in units of σ².
//!
//! References: Rasmussen, Williams, *Gaussian Processes for Machine Learning*, 2006, 2.2 and 8.3;
//! Quiñonero-Candela, Rasmussen, "A unifying view of sparse approximate Gaussian process
//! regression", JMLR 6, 2005; Snelson, Ghahramani, "Sparse Gaussian processes using pseudo-inputs",
//! NIPS 2005.

use crate::solver::normal_equations::{RidgeFit, system::RidgeSystem};
use crate::{Intercept, RidgeGrid, quadratic::Quadratic};
use kstore::Workers;

/// Returns the predictive variance of a fit, divided by the noise variance. `system` must contain
/// the factor of the fit. `mean_residual` is τ.
pub(crate) fn predictive_variance(
    system: &RidgeSystem,
    row_count: u64,
    mean_residual: f64,
    fit: &RidgeFit,
    lambda: f64,
    grid: &RidgeGrid,
    workers: &Workers,
) -> Quadratic {
    // n is the sum of the row weights
    let (r, n) = (fit.head.weights.nrows(), system.total_weight);
    let (whitener, shift) = system.whitener(r, workers);
    let has_free_intercept = grid.intercept == Intercept::Free;
    let degrees_of_freedom = if has_free_intercept { (n - 1.0).max(1.0) } else { n };
    let noise_variances = fit.train_mse.iter().enumerate().map(|(j, mse)| {
        let squared_intercept =
            if grid.intercept == Intercept::Penalised { fit.head.intercept[j].powi(2) } else { 0.0 };
        (mse + lambda * (fit.head.weights.col(j).squared_norm_l2() + squared_intercept)) * n / degrees_of_freedom
    });
    let output_scales = noise_variances.collect();
    Quadratic {
        factor: whitener,
        shift,
        constant: if has_free_intercept { 1.0 / n } else { 0.0 },
        residual_factor: 1.0 / (lambda * n + mean_residual),
        residual_allowance: mean_residual,
        output_scales,
        degrees_of_freedom: (n != row_count as f64).then_some(degrees_of_freedom),
        feature_coefficients: None,
    }
}
