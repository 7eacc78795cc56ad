//! Helpers of eigenvector methods: the covariance of features, and the sign of an eigenvector.

use crate::FoldGram;
use faer::{Mat, MatRef};

/// Returns C = G/n − μμᵀ, full; only the lower triangle of the moments is read.
pub fn covariance(moments: &FoldGram, mean: &[f64]) -> Mat<f64> {
    let (p, n) = (mean.len(), moments.weight.max(f64::MIN_POSITIVE));
    let g = MatRef::from_column_major_slice(&moments.g, p, p);
    Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))] / n - mean[i] * mean[j])
}

/// Returns the sign, +1 or −1, that makes the largest entry of a column positive.
pub fn sign_of_largest(vectors: MatRef<'_, f64>, column: usize) -> f64 {
    let largest = vectors.col(column).iter().fold(0.0f64, |best, v| if v.abs() > best.abs() { *v } else { best });
    if largest < 0.0 { -1.0 } else { 1.0 }
}
