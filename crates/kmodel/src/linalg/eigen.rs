//! Signs of eigenvectors.

use faer::MatRef;

/// Returns the sign, +1 or −1, that makes the largest entry of a column positive.
pub fn sign_of_largest(vectors: MatRef<'_, f64>, column: usize) -> f64 {
    let largest = vectors.col(column).iter().fold(0.0f64, |best, v| if v.abs() > best.abs() { *v } else { best });
    if largest < 0.0 { -1.0 } else { 1.0 }
}
