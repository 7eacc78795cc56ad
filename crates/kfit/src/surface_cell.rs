//! A cell of the surface of cross-validated errors.

/// Cross-validated errors at one rank and lambda.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SurfaceCell {
    /// The rank: number of leading features used.
    pub rank: usize,
    /// The regularisation parameter.
    pub lambda: f64,
    /// Squared error, averaged over all held-out rows and over the targets. `None` if there are no
    /// folds, or if a fold could not be solved in this precision.
    pub cv_mse: Option<f64>,
    /// Generalised cross-validation on all rows; it does not use the folds. `None` if the system
    /// could not be solved in this precision.
    pub gcv: Option<f64>,
    /// Error rate on held-out rows; `None` unless a pass has measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cv_error: Option<f64>,
    /// For each fold, the mean squared error on its rows of the fit to the other folds; `None` for
    /// a fold without rows or without a solution. `cv_mse` is the weighted mean of these errors.
    /// Empty without folds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fold_mse: Vec<Option<f64>>,
    /// For each fold, the error rate on its rows; `None` for a fold without scored rows. Empty
    /// unless a pass has measured the error rates.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fold_error: Vec<Option<f64>>,
}

impl SurfaceCell {
    /// Returns the standard error of `cv_mse` over folds: the standard deviation of the errors of
    /// the folds, divided by the root of their number. `None` for fewer than two folds.
    #[doc(hidden)]
    pub fn fold_standard_error(&self) -> Option<f64> {
        standard_error_over_folds(&self.fold_mse)
    }
}

/// Returns the standard error of the mean of the errors of folds: their standard deviation, divided
/// by the root of their number. `None` for fewer than two folds.
#[doc(hidden)]
pub fn standard_error_over_folds(fold_errors: &[Option<f64>]) -> Option<f64> {
    let errors: Vec<f64> = fold_errors.iter().flatten().copied().filter(|error| error.is_finite()).collect();
    let k = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / k;
    let scatter: f64 = errors.iter().map(|error| (error - mean).powi(2)).sum();
    (errors.len() > 1).then(|| (scatter / (k - 1.0) / k).sqrt()).filter(|error| error.is_finite())
}
