//! Laplacian eigenmaps: coordinates in which rows with large kernel values are close together.
//!
//! Let Φ (n x p) be the features of the rows, d_i = Σ_j k(x_i, x_j) the degrees, and D their
//! diagonal matrix. The coordinates y_i, the rows of Y, minimise Σ_ij k(x_i, x_j)‖y_i − y_j‖² at
//! fixed YᵀDY. The columns of Y are D^(-½)v for the leading eigenvectors v of D^(-½)KD^(-½). The
//! first eigenvector is omitted, because its coordinates are constant. [`normalised_moments`]
//! computes the moments Σ_i φ_iφ_iᵀ/d_i = U S Uᵀ, with eigenvectors u_j and eigenvalues s_j. The
//! eigenvectors v are the columns of D^(-½)ΦU S^(-½), and the coordinates are
//!
//! ```text
//! ψ_j(x) = φ(x)ᵀu_j / (√s_j φ(x)ᵀΣ_iφ_i)
//! ```
//!
//! This function is defined for new rows too: it is linear in the features, divided by the degree
//! φ(x)ᵀΣ_iφ_i. Over the training rows Σ_i d_i ψ_j(x_i)² = 1.
//!
//! *Passes*: one that [stores](crate::features::StoredFeatures) the features, and two over the
//! stored features. *Flops*: the flops of the map, np² for the moments, 9p³ for the eigenvectors.
//! *Bytes*: about 6p² numbers in f64.
//!
//! References: Belkin, Niyogi, "Laplacian eigenmaps for dimensionality reduction and data
//! representation", Neural Computation 15, 2003; Bengio et al., "Out-of-sample extensions for LLE,
//! Isomap, MDS, eigenmaps, and spectral clustering", NIPS 2003.

use super::normalised_moments::{self, NormalisedMoments};
use super::parameter::{EMBEDDING_COMPONENTS, Settings, TOLERANCE};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::linalg::eigen::sign_of_largest;
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, Task, model::BasisTransform};
use faer::Mat;
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "laplacian",
    "Laplacian eigenmaps: coordinates in which rows that the kernel connects are close together",
    Task::Components,
    &[EMBEDDING_COMPONENTS, TOLERANCE],
    |settings| {
        Ok(Box::new(LaplacianEigenmaps { component_count: settings.required(&EMBEDDING_COMPONENTS, Settings::count) }))
    },
);

#[derive(Clone, Copy, Debug)]
struct LaplacianEigenmaps {
    /// Number of coordinates q, less than p.
    component_count: usize,
}

impl<T: Real> Solver<T> for LaplacianEigenmaps {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        normalised_moments::plan::<T>(plan, size, pass_shape)
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let moments = NormalisedMoments::compute(data, &features)?;
        let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
        let (projection, eigenvalues) =
            moments.embedding(self.component_count + 1, self.component_count + 1, data.resources.workers)?;
        let q = projection.ncols() - 1;
        if q == 0 {
            return Err(Error::NoVariance);
        }
        data.warn_of_fewer_components(self.component_count, q, "the kernel matrix has no higher rank; raise `rank`");
        let weights =
            Mat::from_fn(features.p, q, |i, j| sign_of_largest(projection.as_ref(), j + 1) * projection[(i, j + 1)]);
        let figures = vec![NamedValues { name: "eigenvalue", values: eigenvalues[..=q].to_vec() }];
        Ok(Solution {
            weights,
            basis_transform: BasisTransform::DivideByDegree {
                coefficients: moments.feature_sums,
                floor: moments.min_degree,
            },
            intercept: vec![0.0; q],
            certificate: gathered.certificate,
            figures,
            passes: 3,
            ..Solution::default()
        })
    }
}
