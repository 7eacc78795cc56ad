//! Locally linear embedding: coordinates that preserve the weights by which each row is a
//! combination of its neighbours.
//!
//! A sample of N rows are the nodes. The weights w_j with Σ_j w_j = 1 reconstruct a node from its k
//! nearest nodes, and row i of the matrix W (N x N) contains the weights of node i. The coordinates
//! y_i of the nodes, the rows of Y, minimise Σ_i ‖y_i − Σ_j W_ij y_j‖² at YᵀY = I. The columns of Y
//! are the eigenvectors 2, …, q + 1 of M = (I − W)ᵀ(I − W), in ascending order of the eigenvalues.
//! The first eigenvector has eigenvalue 0 and is constant. A new row x has the weights w(x),
//! computed in the same way, and the coordinates
//!
//! ```text
//! y(x) = Σ_j w_j(x) y_j    over the k nearest nodes j
//! ```
//!
//! The coordinates are linear in the weights of the row. The model stores the nodes
//! ([`crate::model::BasisTransform::ReconstructionWeights`]). The linear system for the weights has
//! the k x k Gram matrix of the differences between row and neighbours. To regularise it, 1e-3
//! times the trace is added to the diagonal. A row that is a node is its own nearest node and gets
//! the coordinates of this node.
//!
//! *Passes*: one that draws the nodes. *Flops*: 3N²d for the neighbours in d columns, 9N³ for the
//! eigenvectors. *Bytes*: about 40N².
//!
//! Reference: Roweis, Saul, "Nonlinear dimensionality reduction by locally linear embedding",
//! Science 290, 2000.

use super::embedding::{check_components, embedding_properties, landmark_set};
use super::neighbour_graph::{NeighbourGraph, NeighbourOptions};
use super::parameter::{EMBEDDING_COMPONENTS, NEIGHBOURS, NODES};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::linalg::eigen::sign_of_largest;
use crate::model::{Basis, BasisTransform};
use crate::request::{PassShape, ProblemSize};
use crate::{Result, Task, features::FitData};
use faer::Mat;
use kapprox::{Real, decompose::symmetric_eigen};
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "lle",
    "locally linear embedding: coordinates that preserve the weights of each row as a mixture of \
        its neighbours",
    Task::Components,
    &[EMBEDDING_COMPONENTS, NEIGHBOURS, NODES],
    |settings| Ok(Box::new(LocallyLinear { options: NeighbourOptions::new(settings) })),
);

#[derive(Clone, Copy, Debug)]
struct LocallyLinear {
    options: NeighbourOptions,
}

impl<T: Real> Solver<T> for LocallyLinear {
    fn properties(&self) -> SolverProperties {
        SolverProperties { dense_only: true, ..embedding_properties(FAMILY.name) }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let node_count = size.map.landmark_count.unwrap_or_default();
        plan.term(
            "nodes and their neighbours",
            NeighbourGraph::bytes(node_count, size.d, self.options.neighbour_count),
            "lower `nodes`",
        )
        .term(
            "weights and their eigenvectors",
            node_count.saturating_mul(node_count).saturating_mul(5 * 8),
            "lower `nodes`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let landmark_set = landmark_set(data)?;
        let q = self.options.component_count;
        check_components(q, landmark_set.len(), "nodes")?;
        let graph = NeighbourGraph::new(landmark_set, self.options.neighbour_count, data.resources)?;
        let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
        let (neighbours, alignment) = (graph.k, graph.alignment());
        drop(graph);
        let (values, vectors) = symmetric_eigen(alignment.as_ref())?;
        let signs: Vec<f64> = (1..=q).map(|j| sign_of_largest(vectors.as_ref(), j)).collect();
        Ok(Solution {
            basis: Some(Basis::Landmarks {
                points: landmark_set.points.clone(),
                row_numbers: landmark_set.row_numbers.clone(),
            }),
            basis_transform: BasisTransform::ReconstructionWeights { neighbours },
            weights: Mat::from_fn(landmark_set.len(), q, |i, j| signs[j] * vectors[(i, j + 1)]),
            intercept: vec![0.0; q],
            figures: vec![
                NamedValues::single("nodes", landmark_set.len() as f64),
                NamedValues { name: "eigenvalue", values: values[1..=q].to_vec() },
            ],
            ..Solution::default()
        })
    }
}
