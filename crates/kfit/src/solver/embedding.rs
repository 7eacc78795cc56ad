//! Steps shared by embeddings: solver properties, landmarks and classical scaling.

use super::parameter::COMPONENTS;
use super::{NamedValues, SolverProperties, reject_if};
use crate::features::{FitData, SectionPoints};
use crate::linalg::eigen::sign_of_largest;
use crate::{Error, Result};
use faer::Mat;
use kapprox::{Real, decompose::symmetric_eigen, landmark::LandmarkSet};

/// Eigenvalues below this fraction of the largest eigenvalue, times the number of landmarks, count
/// as rounding errors.
const EIGENVALUE_TOLERANCE: f64 = 16.0 * f64::EPSILON;

/// Returns the properties of an embedding solver.
///
/// By default its landmarks are a uniform sample of the rows. Other landmark schemes need landmarks
/// with linearly independent kernel sections, and a kernel of low rank has only a few of these.
pub(super) fn embedding_properties(solver: &'static str) -> SolverProperties {
    SolverProperties {
        distance_solver_name: Some(solver),
        default_landmarks: Some("uniform"),
        ..SolverProperties::default()
    }
}

pub(super) fn landmark_set<'a, T: Real>(data: &FitData<'a, T>) -> Result<&'a LandmarkSet<T>> {
    match data.points {
        SectionPoints::Landmarks(landmarks, _) => Ok(landmarks),
        _ => Err(Error::option("map", &data.options.map, "the solver uses landmarks and no feature map; omit `map`")),
    }
}

/// Rejects a number of coordinates that is not less than the number of points.
pub(super) fn check_components(component_count: usize, point_count: usize, what: &str) -> Result<()> {
    let why =
        format!("{point_count} {what} have at most {} coordinates; lower `components`", point_count.saturating_sub(1));
    reject_if(component_count >= point_count, COMPONENTS.name, component_count, why)
}

/// Classical scaling: coordinates from a centred matrix of scalar products.
pub(super) struct ClassicalScaling {
    /// λ_j^(−½) v_j for eigenvalues λ_j and eigenvectors v_j, m x q. Each column sums to 0.
    pub(super) weights: Mat<f64>,
    /// λ_1, …, λ_q.
    pub(super) eigenvalues: Vec<f64>,
    /// Each eigenvalue as a fraction of the sum of all positive eigenvalues.
    pub(super) fractions: Vec<f64>,
}

impl ClassicalScaling {
    pub(super) fn bytes(m: usize) -> usize {
        m.saturating_mul(m).saturating_mul(5 * 8)
    }

    /// Centres the rows and columns of the symmetric matrix `products` and computes its `q` leading
    /// eigenvectors. If the matrix has fewer than `q` positive eigenvalues, returns fewer
    /// coordinates and warns.
    pub(super) fn new<T: Real>(mut products: Mat<f64>, q: usize, data: &FitData<'_, T>) -> Result<Self> {
        let m = products.nrows();
        let column_means: Vec<f64> = products.col_iter().map(|column| column.iter().sum::<f64>() / m as f64).collect();
        let grand_mean = column_means.iter().sum::<f64>() / m as f64;
        for j in 0..m {
            (0..m).for_each(|i| products[(i, j)] += grand_mean - column_means[i] - column_means[j]);
        }
        let (values, vectors) = symmetric_eigen(products.as_ref())?;
        let min_eigenvalue = EIGENVALUE_TOLERANCE * m as f64 * values[m - 1].max(0.0);
        let leading_indices: Vec<usize> = (0..m)
            .rev()
            .take(q)
            .take_while(|j| values[*j] > min_eigenvalue && values[*j] >= f64::MIN_POSITIVE)
            .collect();
        if leading_indices.is_empty() {
            return Err(Error::NoVariance);
        }
        data.warn_of_fewer_components(
            q,
            leading_indices.len(),
            "the distances between the landmarks have no further dimensions",
        );
        let scales: Vec<f64> =
            leading_indices.iter().map(|j| sign_of_largest(vectors.as_ref(), *j) / values[*j].sqrt()).collect();
        let vector_means: Vec<f64> =
            leading_indices.iter().map(|j| vectors.col(*j).iter().sum::<f64>() / m as f64).collect();
        let weights = Mat::from_fn(m, leading_indices.len(), |i, q| {
            scales[q] * (vectors[(i, leading_indices[q])] - vector_means[q])
        });
        let positive_sum: f64 = values.iter().filter(|value| **value > 0.0).sum();
        let eigenvalues: Vec<f64> = leading_indices.iter().map(|j| values[*j]).collect();
        let fractions = eigenvalues.iter().map(|value| value / positive_sum).collect();
        Ok(Self { weights, eigenvalues, fractions })
    }

    pub(super) fn figures(&self) -> Vec<NamedValues> {
        vec![
            NamedValues { name: "eigenvalue", values: self.eigenvalues.clone() },
            NamedValues { name: "share of squared distances", values: self.fractions.clone() },
        ]
    }
}
