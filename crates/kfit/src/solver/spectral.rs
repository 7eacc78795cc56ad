//! Spectral clustering: clusters of rows that the kernel connects, of any shape.
//!
//! Let d_i = Σ_j k(x_i, x_j) be the degrees, and D their diagonal matrix. The k leading
//! eigenvectors of D^(-½)KD^(-½) give every row k coordinates. The method divides this vector by
//! its norm, and clusters the resulting directions. With K ≈ ΦΦᵀ the eigenvectors are the columns
//! of D^(-½)ΦU S^(-½), where
//!
//! ```text
//! Σ_i φ_iφ_iᵀ / d_i = U S Uᵀ  (p x p),     d_i = φ_iᵀ Σ_j φ_j
//! ```
//!
//! so the memory does not grow with n. The division by the norm cancels every positive factor of a
//! row, including its degree. So a new row x has the direction of (U S^(-½))ᵀφ(x), and belongs to
//! the cluster j whose centroid c_j, of norm 1, has the largest score c_jᵀ(U S^(-½))ᵀφ(x). This
//! score is linear in the features. (Ng, Jordan and Weiss cluster the directions by ordinary
//! k-means. Here centroids are directions too.)
//!
//! *Passes*: one that [stores](crate::features::StoredFeatures) the features, two over the stored
//! features, and the passes of [`clustering`] in k dimensions. *Flops*: the flops of the map, np²
//! for the moments, 9p³ for the eigenvectors. *Bytes*: about 6p² numbers in f64.
//!
//! References: Ng, Jordan, Weiss, "On spectral clustering: analysis and an algorithm", NIPS 2001;
//! Fowlkes, Belongie, Chung, Malik, "Spectral grouping using the Nyström method", IEEE
//! TPAMI 26, 2004.

use super::clustering::{self, ClusteringOptions, PointSpace};
use super::normalised_moments::{self, NormalisedMoments};
use super::parameter::{CLUSTERS, STARTS, TOLERANCE};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::{Result, Task};
use faer::{Accum, Mat, Par, linalg::matmul::matmul};
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "spectral",
    "spectral clustering: clusters of rows that the kernel connects",
    Task::Clusters,
    &[CLUSTERS, STARTS, TOLERANCE],
    |settings| Ok(Box::new(Spectral { options: ClusteringOptions::new(settings)? })),
);

#[derive(Clone, Debug)]
struct Spectral {
    options: ClusteringOptions,
}

impl<T: Real> Solver<T> for Spectral {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        let plan = normalised_moments::plan::<T>(plan, size, pass_shape);
        self.options.plan(plan, size, pass_shape, self.options.max_count())
    }

    fn stages(&self, _: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let add_solver = |plan, pass_shape| Solver::<T>::plan(self, plan, &request.size, pass_shape);
        Ok(clustering::stages(&self.options, request, &add_solver))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let moments = NormalisedMoments::compute(data, &features)?;
        let max_count = self.options.max_count();
        let (projection, mut eigenvalues) = {
            let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
            moments.embedding(max_count, max_count + 1, data.resources.workers)?
        };
        // k clusters use the k leading eigenvectors
        let leading = |k: usize| projection.as_ref().subcols(0, k.min(projection.ncols()));
        let space_of = |k: usize| PointSpace { projection: Some(leading(k)), is_spherical: true };
        let (k, cluster_counts) = clustering::choose_count(data, &features, &self.options, &space_of)?;
        eigenvalues.truncate(k + 1);
        let clusters = clustering::cluster(data, &features, space_of(k), (k, self.options.start_count))?;
        let mut weights = Mat::zeros(features.p, k);
        matmul(weights.as_mut(), Accum::Replace, leading(k), clusters.centroids.as_ref(), 1.0, Par::Seq);
        let figures = vec![
            NamedValues { name: "eigenvalue", values: eigenvalues },
            NamedValues::single("mean squared distance", clusters.inertia / features.weight_outside(None)),
            NamedValues { name: "rows of each cluster", values: clusters.cluster_weights },
        ];
        let intercept = vec![0.0; k];
        Ok(Solution {
            weights,
            intercept,
            certificate: gathered.certificate,
            figures,
            cluster_projection: Some(leading(k).to_owned()),
            passes: 3 + u64::from(cluster_counts.is_some()) + clusters.passes,
            cluster_counts,
            ..Solution::default()
        })
    }
}
