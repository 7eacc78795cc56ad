//! Kernel k-means: k clusters of rows around their means in feature space.
//!
//! Minimises Σ_i w_i min_j ‖φ_i − c_j‖² over centroids c_1, …, c_k, where w_i is 1 or the weight of
//! the row. With all rows as landmarks this is the objective of kernel k-means, with distances in
//! feature space. A row belongs to the centroid of the largest score
//!
//! ```text
//! score_j(x) = φ(x)ᵀc_j − ‖c_j‖²/2
//! ```
//!
//! so clusters are predicted like classes. [`lloyd`] describes the algorithm and its cost.
//!
//! References: Schölkopf, Smola, Müller, "Nonlinear component analysis as a kernel eigenvalue
//! problem", Neural Computation 10, 1998, section 5; Wang, Gittens, Mahoney, "Scalable kernel
//! k-means clustering with Nyström approximation", JMLR 20, 2019.

use super::lloyd::{self, ClusteringOptions, Space};
use super::parameter::{CLUSTERS, STARTS, TOLERANCE, WEIGHTS};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily};
use crate::features::{FitData, StoredFeatures, Wanted};
use crate::request::{PassShape, ProblemSize};
use crate::{Result, Task};
use kapprox::Real;
use kstore::Plan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "kmeans",
    "kernel k-means: clusters around means in feature space",
    Task::Clusters,
    &[CLUSTERS, STARTS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(KernelKMeans(ClusteringOptions::new(settings)?))),
);

#[derive(Clone, Copy, Debug)]
struct KernelKMeans(ClusteringOptions);

impl<T: Real> Solver<T> for KernelKMeans {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, weights: true, ..SolverFacts::default() }
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
        lloyd::plan(plan, shape, cut, shape.map.p, self.0.clusters)
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let space = Space { projection: None, sphere: false };
        let (kept, gathered) = StoredFeatures::gather(data, Wanted::default())?;
        let found = lloyd::cluster(data, &kept, space, self.0)?;
        let half = |j: usize| found.centroids.col(j).iter().map(|v| v * v).sum::<f64>() / 2.0;
        let figures = vec![
            Figure::of("mean squared distance", found.squares / kept.weight_outside(None)),
            Figure { name: "rows of each cluster", values: found.sizes },
        ];
        Ok(Found {
            intercept: (0..self.0.clusters).map(|j| -half(j)).collect(),
            weights: found.centroids,
            certificate: gathered.certificate,
            figures,
            passes: 1 + found.passes,
            ..Found::default()
        })
    }
}
