//! Landmark Isomap: coordinates whose distances are geodesic distances along the manifold of the
//! rows.
//!
//! N sampled rows are the nodes x_i of a graph, and each node is connected to its k nearest nodes.
//! The first m nodes are the landmarks. The geodesic distance g_li is the length of the shortest
//! path from landmark l to node i. As in [`mds`](super::mds), classical scaling of the matrix Δ
//! with Δ_ll' = g_ll'² gives eigenvalues λ_j and eigenvectors v_j; δ̄ is the mean of the columns of
//! Δ. The coordinates of a row x are
//!
//! ```text
//! z_j(x) = −½ λ_j^(−½) v_jᵀ(δ(x) − δ̄)
//! δ_l(x) = min over the k nearest nodes i of (‖x − x_i‖ + g_li)²
//! ```
//!
//! The coordinates are linear in δ(x). The model stores the nodes and g
//! ([`crate::model::BasisTransform::ShortestPaths`]). ‖x − x_i‖ is the Euclidean distance of the
//! scaled columns.
//!
//! *Passes*: one that draws the nodes. *Time*: 3N²d flops for the neighbours in d columns, m
//! searches of N(k + log N) steps for the paths, 9m³ flops for the eigenvectors. *Bytes*: 8Nm for
//! g, 72Nk for the graph, and about 40m².
//!
//! References: Tenenbaum, de Silva, Langford, "A global geometric framework for nonlinear
//! dimensionality reduction", Science 290, 2000; de Silva, Tenenbaum, "Global versus local methods
//! in nonlinear dimensionality reduction", NIPS 2002.

use super::embedding::{ClassicalScaling, check_components, embedding_properties, landmark_set};
use super::neighbour_graph::{NeighbourGraph, NeighbourOptions};
use super::parameter::{EMBEDDING_COMPONENTS, NEIGHBOURS, NODES, Parameter};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::model::{Basis, BasisTransform};
use crate::neighbours::Graph;
use crate::request::{PassShape, ProblemSize, Resources};
use crate::{Result, Task, features::FitData};
use faer::Mat;
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "isomap",
    "landmark Isomap: coordinates whose distances are the geodesic distances on the manifold of \
        the rows",
    Task::Components,
    &[EMBEDDING_COMPONENTS, NEIGHBOURS, Parameter { default: Some("5000"), ..NODES }],
    |settings| Ok(Box::new(LandmarkIsomap { options: NeighbourOptions::new(settings) })),
);

#[derive(Clone, Copy, Debug)]
struct LandmarkIsomap {
    options: NeighbourOptions,
}

/// Computes the lengths of the shortest paths from each of the first m nodes to all nodes, m x N.
fn shortest_paths(graph: &Graph, m: usize, node_count: usize, resources: &Resources<'_>) -> Mat<f64> {
    let _stage = resources.stage_observer.start_stage("shortest paths", None);
    let mut row_major = vec![0.0; m * node_count];
    crate::linalg::strips::for_each_strip(resources.workers, &mut row_major, node_count, |landmark, path_lengths| {
        graph.shortest_paths(landmark, path_lengths);
    });
    Mat::from_fn(m, node_count, |l, j| row_major[l * node_count + j])
}

impl<T: Real> Solver<T> for LandmarkIsomap {
    fn properties(&self) -> SolverProperties {
        SolverProperties { dense_only: true, ..embedding_properties(FAMILY.name) }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (node_count, m) = (size.map.landmark_count.unwrap_or_default(), size.landmark_count);
        plan.term(
            "nodes and their neighbours",
            NeighbourGraph::bytes(node_count, size.d, self.options.neighbour_count),
            "lower `nodes`",
        )
        .term("shortest paths", node_count.saturating_mul(16 * m + 24 * size.threads), "lower `nodes` or `rank`")
        .term("distances and their eigenvectors", ClassicalScaling::bytes(m), "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let landmark_set = landmark_set(data)?;
        let m = data.options.landmark_count().min(landmark_set.len());
        check_components(self.options.component_count, m, "landmarks")?;
        let graph = NeighbourGraph::new(landmark_set, self.options.neighbour_count, data.resources)?;
        let (neighbours, path_lengths) = (graph.k, shortest_paths(&graph.graph, m, landmark_set.len(), data.resources));
        drop(graph);
        let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
        let negated_half_squares =
            Mat::from_fn(m, m, |i, l| -0.5 * path_lengths[(i, l)].min(path_lengths[(l, i)]).powi(2));
        // −½ δ̄
        let column_means: Vec<f64> =
            negated_half_squares.col_iter().map(|column| column.iter().sum::<f64>() / m as f64).collect();
        let scaling = ClassicalScaling::new(negated_half_squares, self.options.component_count, data)?;
        let weights = &scaling.weights;
        let [nodes, landmarks] =
            [NamedValues::single("nodes", landmark_set.len() as f64), NamedValues::single("landmarks", m as f64)];
        let intercept =
            |j: usize| -column_means.iter().enumerate().map(|(l, mean)| mean * weights[(l, j)]).sum::<f64>();
        Ok(Solution {
            basis: Some(Basis::Landmarks {
                points: landmark_set.points.clone(),
                row_numbers: landmark_set.row_numbers.clone(),
            }),
            basis_transform: BasisTransform::ShortestPaths { neighbours, path_lengths },
            intercept: (0..weights.ncols()).map(intercept).collect(),
            weights: Mat::from_fn(m, weights.ncols(), |l, j| -0.5 * weights[(l, j)]),
            figures: [vec![nodes, landmarks], scaling.figures()].concat(),
            ..Solution::default()
        })
    }
}
