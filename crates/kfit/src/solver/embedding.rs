//! Steps shared by embeddings: solver properties, landmarks and classical scaling.

use super::parameter::COMPONENTS;
use super::{NamedValues, SolverProperties, reject_if};
use crate::features::{FitData, SectionPoints};
use crate::{Error, Result};
use faer::Mat;
use kapprox::{Real, landmark::LandmarkSet, matrix::PositivePart};

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
        PositivePart::bytes(m)
    }

    /// Centres the rows and columns of the symmetric matrix `products` and computes its `q` leading
    /// eigenvectors. If the matrix has fewer than `q` positive eigenvalues, returns fewer
    /// coordinates and warns.
    pub(super) fn new<T: Real>(products: Mat<f64>, q: usize, data: &FitData<'_, T>) -> Result<Self> {
        let PositivePart { weights, eigenvalues, spectrum } = PositivePart::of_centred(products, q, 0.0)?;
        if eigenvalues.is_empty() {
            return Err(Error::NoVariance);
        }
        data.warn_of_fewer_components(
            q,
            eigenvalues.len(),
            "the distances between the landmarks have no further dimensions",
        );
        let fractions = eigenvalues.iter().map(|value| value / spectrum.positive_sum).collect();
        Ok(Self { weights, eigenvalues, fractions })
    }

    pub(super) fn figures(&self) -> Vec<NamedValues> {
        vec![
            NamedValues { name: "eigenvalue", values: self.eigenvalues.clone() },
            NamedValues { name: "share of squared distances", values: self.fractions.clone() },
        ]
    }
}
