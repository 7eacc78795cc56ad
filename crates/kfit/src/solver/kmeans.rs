//! Kernel k-means: k clusters of rows around their means in feature space.
//!
//! Minimises Σ_i w_i min_j ‖φ_i − c_j‖² over centroids c_1, …, c_k in feature space, where w_i is 1
//! or the weight of row i. If all rows are landmarks, this is the objective of kernel k-means. A
//! row x belongs to the cluster j with the largest score
//!
//! ```text
//! score_j(x) = φ(x)ᵀc_j − ‖c_j‖²/2
//! ```
//!
//! This is the cluster with the nearest centroid. So clusters are predicted like classes. The
//! module [`clustering`] describes the algorithm and the cost.
//!
//! References: Schölkopf, Smola, Müller, "Nonlinear component analysis as a kernel eigenvalue
//! problem", Neural Computation 10, 1998, section 5; Wang, Gittens, Mahoney, "Scalable kernel
//! k-means clustering with Nyström approximation", JMLR 20, 2019.

use super::clustering::{self, ClusteringOptions, PointSpace};
use super::parameter::{CLUSTERS, STARTS, TOLERANCE, WEIGHTS};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::{Result, Task};
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "kmeans",
    "kernel k-means: clusters around means in feature space",
    Task::Clusters,
    &[CLUSTERS, STARTS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(KernelKMeans { options: ClusteringOptions::new(settings)? })),
);

#[derive(Clone, Debug)]
struct KernelKMeans {
    options: ClusteringOptions,
}

impl<T: Real> Solver<T> for KernelKMeans {
    fn properties(&self) -> SolverProperties {
        SolverProperties { stores_features: true, accepts_row_weights: true, ..SolverProperties::default() }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        self.options.plan(plan, size, pass_shape, size.map.p)
    }

    fn stages(&self, _: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let add_solver = |plan, pass_shape| Solver::<T>::plan(self, plan, &request.size, pass_shape);
        Ok(clustering::stages(&self.options, request, &add_solver))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let space = PointSpace { projection: None, is_spherical: false };
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let (k, cluster_counts) = clustering::choose_count(data, &features, &self.options, &|_| space)?;
        let clusters = clustering::cluster(data, &features, space, (k, self.options.start_count))?;
        let half_squared_norm = |j: usize| clusters.centroids.col(j).iter().map(|v| v * v).sum::<f64>() / 2.0;
        let figures = vec![
            NamedValues::single("mean squared distance", clusters.inertia / features.weight_outside(None)),
            NamedValues { name: "rows of each cluster", values: clusters.cluster_weights },
        ];
        Ok(Solution {
            intercept: (0..k).map(|j| -half_squared_norm(j)).collect(),
            weights: clusters.centroids,
            certificate: gathered.certificate,
            figures,
            passes: 1 + u64::from(cluster_counts.is_some()) + clusters.passes,
            cluster_counts,
            ..Solution::default()
        })
    }
}
