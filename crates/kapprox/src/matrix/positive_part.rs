//! Coordinates from the eigenvectors of a symmetric matrix, which may be indefinite.

use crate::Result;
use crate::decompose::{sign_of_largest, symmetric_eigen};
use faer::{ColRef, Mat};

/// Eigenvalues up to this fraction of the largest eigenvalue, times the order of the matrix, count
/// as rounding errors.
const EIGENVALUE_TOLERANCE: f64 = 16.0 * f64::EPSILON;

/// Leading positive eigenvalues and eigenvectors of a symmetric matrix B (m x m), with a summary of
/// all eigenvalues.
///
/// Let B = VΛVᵀ. The coordinates √λ_j v_ij of row i, for the positive eigenvalues λ_j, have the
/// inner products B₊ = VΛ₊Vᵀ. This positive part is the positive semi-definite matrix that is
/// nearest to B in the Frobenius norm. If B = −½HDH for squared distances D and H = I − 11ᵀ/m, this
/// is classical scaling. The distances are Euclidean if and only if B has no negative eigenvalue.
/// Otherwise no points have these distances, and the positive part describes the points of
/// classical scaling.
///
/// *Cost*: 9m³ flops and about 40m² bytes, on the calling thread.
///
/// References: Torgerson, "Multidimensional scaling", Psychometrika 17, 1952; Gower, "Some distance
/// properties of latent root and vector methods", Biometrika 53, 1966; Higham, "Computing a nearest
/// symmetric positive semidefinite matrix", Linear Algebra and its Applications 103, 1988.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct PositivePart {
    /// λ_j^(−½) v_j for the leading eigenvalues λ_j and eigenvectors v_j, m x q.
    pub weights: Mat<f64>,
    /// λ_1, …, λ_q, descending.
    pub eigenvalues: Vec<f64>,
    /// Summary of all m eigenvalues.
    pub spectrum: SpectrumSummary,
}

/// The eigenvalues of a symmetric matrix by their signs.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectrumSummary {
    /// Number of eigenvalues that are positive beyond rounding.
    pub positive_count: usize,
    /// Number of eigenvalues that are negative beyond rounding.
    pub negative_count: usize,
    /// Sum of the positive eigenvalues.
    pub positive_sum: f64,
    /// Sum of the absolute values of the negative eigenvalues.
    pub negative_sum: f64,
    /// Largest eigenvalue.
    pub largest: f64,
    /// Smallest eigenvalue.
    pub smallest: f64,
}

impl SpectrumSummary {
    fn new(values: &[f64], min_magnitude: f64) -> Self {
        let sum = |sign: f64| values.iter().map(|value| (sign * value).max(0.0)).sum::<f64>();
        Self {
            positive_count: values.iter().filter(|value| **value > min_magnitude).count(),
            negative_count: values.iter().filter(|value| **value < -min_magnitude).count(),
            positive_sum: sum(1.0),
            negative_sum: sum(-1.0),
            largest: values.last().copied().unwrap_or(0.0),
            smallest: values.first().copied().unwrap_or(0.0),
        }
    }

    /// Returns the sum of the positive eigenvalues as a fraction of the sum of the absolute values
    /// of all eigenvalues; 1 if all eigenvalues are 0.
    pub fn positive_fraction(&self) -> f64 {
        let sum = self.positive_sum + self.negative_sum;
        if sum > 0.0 { self.positive_sum / sum } else { 1.0 }
    }
}

impl PositivePart {
    /// Returns the bytes that the decomposition needs, including the matrix.
    pub fn bytes(m: usize) -> usize {
        m.saturating_mul(m).saturating_mul(5 * 8)
    }

    /// Decomposes a symmetric matrix. Keeps at most `max_count` eigenvectors, and fewer if the
    /// remaining positive eigenvalues have a sum of at most `tolerance` times the sum of all
    /// positive eigenvalues.
    ///
    /// # Errors
    /// [`crate::Error::NotFinite`] for entries that are not finite.
    pub fn new(matrix: Mat<f64>, max_count: usize, tolerance: f64) -> Result<Self> {
        Self::decompose(matrix, max_count, tolerance, |_| 0.0)
    }

    /// Subtracts the means of the rows and columns of a symmetric matrix, and decomposes the result
    /// as [`PositivePart::new`] does. Each column of the weights sums to 0.
    ///
    /// # Errors
    /// The errors of [`PositivePart::new`].
    pub fn of_centred(mut matrix: Mat<f64>, max_count: usize, tolerance: f64) -> Result<Self> {
        let m = matrix.nrows();
        let column_means: Vec<f64> = matrix.col_iter().map(|column| column.iter().sum::<f64>() / m as f64).collect();
        let grand_mean = column_means.iter().sum::<f64>() / m as f64;
        for j in 0..m {
            (0..m).for_each(|i| matrix[(i, j)] += grand_mean - column_means[i] - column_means[j]);
        }
        // the eigenvectors are orthogonal to the vector of ones only up to rounding
        Self::decompose(matrix, max_count, tolerance, |vector| vector.iter().sum::<f64>() / m as f64)
    }

    /// `offset` returns the number that is subtracted from the entries of an eigenvector.
    fn decompose(
        matrix: Mat<f64>,
        max_count: usize,
        tolerance: f64,
        offset: impl Fn(ColRef<'_, f64>) -> f64,
    ) -> Result<Self> {
        let m = matrix.nrows();
        let (values, vectors) = symmetric_eigen(matrix.as_ref())?;
        drop(matrix);
        let min_eigenvalue = EIGENVALUE_TOLERANCE * m as f64 * values.last().copied().unwrap_or(0.0).max(0.0);
        let spectrum = SpectrumSummary::new(&values, min_eigenvalue);
        let is_positive = |j: &usize| values[*j] > min_eigenvalue && values[*j] >= f64::MIN_POSITIVE;
        let mut indices: Vec<usize> = (0..m).rev().take(max_count).take_while(is_positive).collect();
        let mut dropped_sum = spectrum.positive_sum - indices.iter().map(|j| values[*j]).sum::<f64>();
        while let Some(last) = indices.last()
            && dropped_sum + values[*last] <= tolerance * spectrum.positive_sum
        {
            dropped_sum += values[*last];
            indices.pop();
        }
        let scales: Vec<f64> =
            indices.iter().map(|j| sign_of_largest(vectors.as_ref(), *j) / values[*j].sqrt()).collect();
        let offsets: Vec<f64> = indices.iter().map(|j| offset(vectors.col(*j))).collect();
        let weights = Mat::from_fn(m, indices.len(), |i, q| scales[q] * (vectors[(i, indices[q])] - offsets[q]));
        Ok(Self { weights, eigenvalues: indices.iter().map(|j| values[*j]).collect(), spectrum })
    }

    /// Returns the sum of the positive eigenvalues without a coordinate, as a fraction of the sum
    /// of all positive eigenvalues.
    pub fn trace_error(&self) -> f64 {
        let kept_sum: f64 = self.eigenvalues.iter().sum();
        let positive_sum = self.spectrum.positive_sum;
        if positive_sum > 0.0 { ((positive_sum - kept_sum) / positive_sum).max(0.0) } else { 0.0 }
    }
}
