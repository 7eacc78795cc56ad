//! Ridge regression of the features of a set of columns on the features of other columns, and the
//! principal components of its residuals, from covariances alone.
//!
//! With C_χχ = V diag(s) Vᵀ and Z = Vᵀ C_χφ, the weights of the regression are V (diag(s) + λ)⁻¹ Z,
//! and the covariance of the residuals is C_φφ − Zᵀ diag((s + 2λ)/(s + λ)²) Z. So the generalised
//! cross-validation error of every λ costs r operations:
//!
//! ```text
//! GCV(λ) = rss(λ)/(1 − dof(λ)/n)²,   rss(λ) = tr C_φφ − Σ_j |Z_j|² (s_j + 2λ)/(s_j + λ)²,
//!                                    dof(λ) = 1 + Σ_j s_j/(s_j + λ)
//! ```
//!
//! The residuals are (I − S)ε if ε are the errors and S is the matrix of the regression. So they
//! are smaller than ε, and dependent. [`GivenSpectrum::variance_ratio`] corrects for this.
//!
//! Reference: Golub, Heath, Wahba, "Generalized cross-validation as a method for choosing a good
//! ridge parameter", Technometrics 21, 1979.

use super::conditional_hsic::Conditioning;
use crate::{Error, Result};
use faer::{Mat, MatRef};
use kapprox::decompose::{product, symmetric_eigen};

/// Values of λ in a decade of the grid.
const GRID_PER_DECADE: i32 = 4;

/// The penalty is the minimiser of generalised cross-validation times this factor, so that the bias
/// of the regression is small compared with its error.
const UNDERSMOOTHING: f64 = 0.1;

/// Maximum fraction of the rows that the degrees of freedom of a regression may have.
const MAX_FREEDOM_FRACTION: f64 = 0.5;

/// Residual variance, in multiples of the rounding error of the covariances, up to which features
/// count as constant or as functions of the columns C.
const ROUNDING_MULTIPLE: f64 = 30.0;

/// The spectrum of the covariance of the features of C.
#[derive(Debug)]
pub(super) struct GivenSpectrum {
    eigenvalues: Vec<f64>,
    eigenvectors: Mat<f64>,
    /// Relative rounding error of the covariances.
    epsilon: f64,
}

/// The regression of the features of a set of columns, and the principal components of its
/// residuals.
#[derive(Debug)]
pub(super) struct ResidualComponents {
    /// Weights of the features of the set, p x c with orthonormal columns.
    pub own_weights: Mat<f64>,
    /// Weights of the features of C, r x c, whose prediction is subtracted.
    pub given_weights: Mat<f64>,
    /// Variances of the c components, descending.
    pub variances: Vec<f64>,
    /// Fraction of the variance of the features that the regression explains.
    pub explained: f64,
    pub lambda: f64,
    pub degrees_of_freedom: f64,
}

impl ResidualComponents {
    /// Returns the number of components, c.
    pub(super) fn count(&self) -> usize {
        self.variances.len()
    }
}

impl GivenSpectrum {
    /// Decomposes the covariance of the features of C.
    ///
    /// # Errors
    /// [`Error::Option`] if the features are constant.
    pub(super) fn new(covariance: MatRef<'_, f64>, epsilon: f64) -> Result<Self> {
        let (eigenvalues, eigenvectors) = symmetric_eigen(covariance)?;
        let spectrum = Self { eigenvalues, eigenvectors, epsilon };
        match spectrum.largest() > ROUNDING_MULTIPLE * epsilon {
            true => Ok(spectrum),
            false => Err(constant_error("given")),
        }
    }

    fn largest(&self) -> f64 {
        self.eigenvalues.last().copied().unwrap_or(0.0).max(0.0)
    }

    /// Returns Σ s/(s + λ) + 1.
    fn degrees_of_freedom(&self, lambda: f64) -> f64 {
        1.0 + self.eigenvalues.iter().map(|s| s.max(0.0) / (s.max(0.0) + lambda)).sum::<f64>()
    }

    /// Returns the grid of λ, ascending: from the rounding error of the largest eigenvalue to the
    /// largest eigenvalue.
    fn grid(&self) -> impl Iterator<Item = f64> {
        let largest = self.largest();
        let decades = -self.epsilon.log10().floor() as i32;
        (0..=decades * GRID_PER_DECADE)
            .rev()
            .map(move |k| largest * 10f64.powf(-f64::from(k) / f64::from(GRID_PER_DECADE)))
    }

    /// Returns the λ of a regression: a tenth of the minimiser of generalised cross-validation, but
    /// at least the smallest λ of the grid whose degrees of freedom are few enough for n rows.
    fn cross_validated_lambda(&self, total_variance: f64, squares: &[f64], n: f64) -> f64 {
        let smallest = self
            .grid()
            .find(|lambda| self.degrees_of_freedom(*lambda) <= MAX_FREEDOM_FRACTION * n)
            .unwrap_or_else(|| self.largest());
        let error = |lambda: f64| {
            let residual = total_variance - self.explained_variance(squares, lambda);
            residual.max(self.epsilon * total_variance) / (1.0 - self.degrees_of_freedom(lambda) / n).powi(2)
        };
        let best = self
            .grid()
            .filter(|lambda| *lambda >= smallest)
            .map(|lambda| (error(lambda), lambda))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(smallest, |(_, lambda)| lambda);
        (UNDERSMOOTHING * best).max(smallest)
    }

    /// Returns the variance of a product of residuals that are treated as independent over the
    /// rows, divided by its variance if the errors ε_A and ε_B of the regressions are independent:
    ///
    /// tr (I − S_A)² tr (I − S_B)² / (n tr (I − S_A)² (I − S_B)²).
    ///
    /// The ratio is 1 − k/n for two projections of rank k, and tends to 1 with n.
    pub(super) fn variance_ratio(&self, n: f64, lambdas: [f64; 2]) -> f64 {
        let unaffected = n - 1.0 - self.eigenvalues.len() as f64;
        // eigenvalues of (I − S)²
        let squares = |lambda: f64| self.eigenvalues.iter().map(move |s| (lambda / (s.max(0.0) + lambda)).powi(2));
        let trace = |lambda: f64| (unaffected + squares(lambda).sum::<f64>()).max(0.0);
        let joint_trace = unaffected + squares(lambdas[0]).zip(squares(lambdas[1])).map(|(a, b)| a * b).sum::<f64>();
        if joint_trace > 0.0 { (trace(lambdas[0]) * trace(lambdas[1]) / (n * joint_trace)).min(1.0) } else { 1.0 }
    }

    /// Returns Σ_j |Z_j|² (s_j + 2λ)/(s_j + λ)², for the squared norms of the rows of Z.
    fn explained_variance(&self, squares: &[f64], lambda: f64) -> f64 {
        self.eigenvalues.iter().zip(squares).map(|(s, square)| square * shrinkage(s.max(0.0), lambda)).sum()
    }

    /// Regresses the features of a set of columns on the features of C, from the covariance of the
    /// set's features and its cross-covariance (r x p) with the features of C. `option` names the
    /// columns of the set in errors.
    ///
    /// # Errors
    /// [`Error::Option`] if the features are constant, or a function of the features of C.
    pub(super) fn residuals(
        &self,
        option: &'static str,
        own_covariance: MatRef<'_, f64>,
        cross_covariance: MatRef<'_, f64>,
        n: f64,
        conditioning: &Conditioning,
    ) -> Result<ResidualComponents> {
        let p = own_covariance.ncols();
        let total_variance: f64 = (0..p).map(|j| own_covariance[(j, j)]).sum();
        if total_variance <= ROUNDING_MULTIPLE * self.epsilon {
            return Err(constant_error(option));
        }
        let rotated = product(self.eigenvectors.transpose(), cross_covariance);
        let squares: Vec<f64> = rotated.row_iter().map(|row| row.squared_norm_l2()).collect();
        let lambda = conditioning.lambda.unwrap_or_else(|| self.cross_validated_lambda(total_variance, &squares, n));
        let scaled =
            Mat::from_fn(rotated.nrows(), p, |j, k| rotated[(j, k)] * shrinkage(self.eigenvalues[j].max(0.0), lambda));
        let residual_covariance = own_covariance - product(rotated.transpose(), scaled.as_ref());
        let residual_variance: f64 = (0..p).map(|j| residual_covariance[(j, j)]).sum();
        if residual_variance <= ROUNDING_MULTIPLE * self.epsilon * total_variance {
            let expected = "its columns are functions of the columns of `given`, so that nothing is left to test; \
                            leave such columns out";
            return Err(Error::option(option, "", expected));
        }
        let (eigenvalues, eigenvectors) = symmetric_eigen(residual_covariance.as_ref())?;
        let floor = ROUNDING_MULTIPLE * self.epsilon * total_variance / p as f64;
        let leading: Vec<usize> =
            (0..p).rev().take(conditioning.components).filter(|j| eigenvalues[*j] > floor).collect();
        let own_weights = Mat::from_fn(p, leading.len(), |i, j| eigenvectors[(i, leading[j])]);
        let mut given_components = product(rotated.as_ref(), own_weights.as_ref());
        for (j, s) in self.eigenvalues.iter().enumerate() {
            given_components.row_mut(j).iter_mut().for_each(|value| *value /= s.max(0.0) + lambda);
        }
        Ok(ResidualComponents {
            given_weights: product(self.eigenvectors.as_ref(), given_components.as_ref()),
            own_weights,
            variances: leading.iter().map(|j| eigenvalues[*j]).collect(),
            explained: (1.0 - residual_variance / total_variance).clamp(0.0, 1.0),
            lambda,
            degrees_of_freedom: self.degrees_of_freedom(lambda),
        })
    }
}

/// Returns (s + 2λ)/(s + λ)².
fn shrinkage(s: f64, lambda: f64) -> f64 {
    (s + 2.0 * lambda) / (s + lambda).powi(2)
}

fn constant_error(option: &'static str) -> Error {
    Error::option(option, "", "the columns are constant in feature space; leave them out, or choose another kernel")
}
