//! Maximum variance unfolding: coordinates with the largest variance such that the distances
//! between neighbours do not grow.
//!
//! The nodes x_i are a sample of N rows, and the first m of them are the landmarks. Let M be the N
//! x N matrix (I − W)ᵀ(I − W) of [`lle`](super::lle), split into blocks for the landmarks (l) and
//! the other nodes (u). Then Q = [I; −M_uu⁻¹M_ul], N x m, expresses the nodes by the landmarks. The
//! matrix K (N x N) of the scalar products between the coordinates of the nodes is K = QLQᵀ. Here L
//! solves
//!
//! ```text
//! max tr(QLQᵀ)    over L ⪰ 0 (m x m),    Σ_ij K_ij = 0,
//!                 K_ii − 2K_ij + K_jj ≤ ‖x_i − x_j‖² for neighbours i, j
//! ```
//!
//! The original method has equalities instead of inequalities, but m landmarks cannot satisfy all
//! of them. The inequalities are from the landmark version (Weinberger, Packer, Saul).
//!
//! With `edges` equal, the objective is tr K + ν Σ (K_ii − 2K_ij + K_jj) over all pairs of
//! neighbours. This is an exact penalty: from some ν on, every pair has its distance if L can
//! satisfy all equalities, and then K is the solution of the original method. ν grows until the
//! distances are equal to within 10⁻⁴, or four times. If all nodes are landmarks, the matrix of the
//! rows satisfies the equalities, so a solution exists. The trace is at most the trace of the
//! solution with inequalities, which has fewer constraints.
//!
//! The constraint on the sum holds if Q is multiplied by a basis of the directions orthogonal to
//! Qᵀ1; this eliminates the constraint. The method starts with pairs of neighbours whose
//! constraints are enough to bound the solution. Each round adds the most violated constraints,
//! until all constraints are satisfied. The coordinates y_j of the nodes are the leading
//! eigenvectors of K, multiplied by the square roots of their eigenvalues. As in `lle`, a new row x
//! has the coordinates Σ_j w_j(x) y_j over its nearest nodes j.
//!
//! *Passes*: one that samples the nodes. *Flops*: 3N²d for the neighbours in d columns, (N − m)³/3
//! for Q, and E²m + E³/3 for each of about a hundred steps with E constraints (several per
//! landmark). *Bytes*: about 24N² + 32E².
//!
//! References: Weinberger, Saul, "Unsupervised learning of image manifolds by semidefinite
//! programming", IJCV 70, 2006; Weinberger, Packer, Saul, "Nonlinear dimensionality reduction by
//! semidefinite programming and kernel matrix factorization", AISTATS 2005.

mod semidefinite;
mod unfolding;

use super::embedding::{check_components, embedding_properties, landmark_set};
use super::neighbour_graph::{NeighbourGraph, NeighbourOptions};
use super::parameter::{EMBEDDING_COMPONENTS, NEIGHBOURS, NODES, Parameter, ParameterKind};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties, reject_if};
use crate::linalg::cholesky::{TriangularSystem, factor_sequential, solve_triangular};
use crate::linalg::eigen::sign_of_largest;
use crate::model::{Basis, BasisTransform};
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::{Error, Result, Task, features::FitData};
use faer::{Accum, Mat, linalg::matmul::matmul, prelude::Reborrow};
use kapprox::decompose::{product, symmetric_eigen};
use kapprox::{Real, map::par};
use kstore::{MemoryPlan, Workers};
use unfolding::{NeighbourPairs, UnfoldingProblem, UnfoldingSolution};

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "mvu",
    "maximum variance unfolding: coordinates as far apart as the distances between neighbours \
        allow",
    Task::Components,
    &[EMBEDDING_COMPONENTS, NEIGHBOURS, Parameter { default: Some("1000"), ..NODES }, EDGES],
    |settings| {
        let keeps_distances = settings.word(&EDGES) == Some("equal");
        Ok(Box::new(MaximumVariance { options: NeighbourOptions::new(settings), keeps_distances }))
    },
);

/// The constraints on the distances of neighbours.
const EDGES: Parameter = Parameter {
    name: "edges",
    kind: ParameterKind::Choice(&["bounded", "equal"]),
    default: None,
    help: "Distances between neighbours: bounded by their distances in the scaled features, or \
        equal to them, for which every node should be a landmark (rank and nodes up to 100) \
        [default: bounded]",
};

/// Maximum number of landmarks; a larger semidefinite programme takes minutes.
const MAX_LANDMARK_COUNT: usize = 100;

/// Default number of landmarks, chosen: half of the maximum.
const DEFAULT_LANDMARK_COUNT: usize = 50;

/// Maximum number of constraints per landmark, on which the memory plan relies.
const MAX_CONSTRAINTS_PER_LANDMARK: usize = 12;

/// Relative gap, or relative excess or shortening of a distance, that causes a warning.
const WARNING_GAP: f64 = 1e-4;

#[derive(Clone, Copy, Debug)]
struct MaximumVariance {
    options: NeighbourOptions,
    /// True if the distances between neighbours stay equal.
    keeps_distances: bool,
}

/// Computes Q, N x m, which expresses the nodes by the first m of them.
fn express_by_landmarks(alignment: &Mat<f64>, m: usize, workers: &Workers) -> Result<Mat<f64>> {
    let other_count = alignment.nrows() - m;
    let mut lower = alignment.submatrix(m, m, other_count, other_count).to_owned();
    let undetermined_error = || {
        let why = "the landmarks do not determine the other nodes; raise `neighbours` or `rank`";
        Error::option("rank", m, why)
    };
    factor_sequential(lower.as_mut()).ok_or_else(undetermined_error)?;
    let mut other_rows = alignment.submatrix(m, 0, other_count, m).to_owned();
    solve_triangular(lower.as_ref(), TriangularSystem::Factor, other_rows.as_mut(), workers);
    solve_triangular(lower.as_ref(), TriangularSystem::Transpose, other_rows.as_mut(), workers);
    Ok(Mat::from_fn(m + other_count, m, |i, l| match i.checked_sub(m) {
        None => f64::from(u8::from(i == l)),
        Some(i) => -other_rows[(i, l)],
    }))
}

/// Multiplies Q by an orthonormal basis of the m − 1 directions orthogonal to Qᵀ1, so that the
/// columns of the product sum to 0. The reflection that maps Qᵀ1 to an axis provides this basis.
fn centre_columns(q: &Mat<f64>) -> Mat<f64> {
    let m = q.ncols();
    let mut v: Vec<f64> = q.col_iter().map(|column| column.iter().sum()).collect();
    let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
    v[0] += if v[0] < 0.0 { -norm } else { norm };
    // Qᵀ1 has at least the length √(N²/m), because every row of Q sums to 1
    let squared_norm: f64 = v.iter().map(|v| v * v).sum();
    let projections: Vec<f64> = q.row_iter().map(|row| row.iter().zip(&v).map(|(q, v)| q * v).sum::<f64>()).collect();
    // columns 2 to m of Q (I − 2 v vᵀ/‖v‖²)
    let mut centred =
        Mat::from_fn(q.nrows(), m - 1, |i, l| q[(i, l + 1)] - 2.0 * projections[i] * v[l + 1] / squared_norm);
    for column in centred.col_iter_mut() {
        let mean = column.rb().iter().sum::<f64>() / q.nrows() as f64;
        column.iter_mut().for_each(|value| *value -= mean);
    }
    centred
}

impl<T: Real> Solver<T> for MaximumVariance {
    fn properties(&self) -> SolverProperties {
        SolverProperties {
            default_rank: Some(DEFAULT_LANDMARK_COUNT),
            dense_only: true,
            ..embedding_properties(FAMILY.name)
        }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        let why = format!(
            "its semidefinite programme takes minutes beyond {MAX_LANDMARK_COUNT} landmarks; lower it, or use lle or isomap"
        );
        reject_if(request.size.landmark_count > MAX_LANDMARK_COUNT, "rank", request.size.landmark_count, why)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (node_count, m) = (size.map.landmark_count.unwrap_or_default(), size.landmark_count);
        plan.term(
            "nodes and their neighbours",
            NeighbourGraph::bytes(node_count, size.d, self.options.neighbour_count),
            "lower `nodes`",
        )
        .term("weights and their factor", node_count.saturating_mul(node_count).saturating_mul(16), "lower `nodes`")
        .term(
            "pairs of neighbours",
            node_count
                .saturating_mul(NeighbourGraph::max_neighbours(node_count, self.options.neighbour_count))
                .saturating_mul(8 * (m + 8)),
            "lower `nodes`",
        )
        .term(
            "semidefinite programme",
            semidefinite::bytes(m, MAX_CONSTRAINTS_PER_LANDMARK * m),
            "lower `rank`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let (landmark_set, resources) = (landmark_set(data)?, data.resources);
        let m = data.options.landmark_count().min(landmark_set.len());
        check_components(self.options.component_count, m, "landmarks")?;
        let graph = NeighbourGraph::new(landmark_set, self.options.neighbour_count, resources)?;
        let (k, pairs) = (graph.k, NeighbourPairs::new(&graph));
        let q = {
            let _stage = resources.stage_observer.start_stage("weights of the neighbours", None);
            let alignment = graph.alignment();
            drop(graph);
            centre_columns(&express_by_landmarks(&alignment, m, resources.workers)?)
        };
        let observer = resources.stage_observer.start_stage("semidefinite programme", None);
        let unfolding = UnfoldingProblem { q, neighbour_pairs: pairs, workers: resources.workers };
        let UnfoldingSolution {
            node_factor,
            constraint_count,
            round_count,
            relative_gap: gap,
            max_excess,
            max_shortening,
        } = unfolding.solve(self.keeps_distances, &*observer)?;
        drop(observer);
        if self.keeps_distances && max_shortening > WARNING_GAP {
            resources.stage_observer.warn(format!(
                "{m} landmarks of {} nodes do not keep all distances between neighbours: a distance is too short by {max_shortening:.1e} of it; \
                 make every node a landmark (`rank` and `nodes` equal, up to {MAX_LANDMARK_COUNT}), or lower `neighbours`",
                landmark_set.len()
            ));
        }
        if gap > WARNING_GAP || max_excess > WARNING_GAP {
            resources.stage_observer.warn(format!(
                "the unfolding is not optimal: its variance is below the maximum by up to {gap:.1e} of it, and distances between neighbours are too \
                 large by up to {max_excess:.1e} of their bounds; lower `rank` or raise `neighbours`"
            ));
        }
        let (values, vectors) = symmetric_eigen(product(node_factor.transpose(), node_factor.as_ref()).as_ref())?;
        let eigenvalue_sum: f64 = values.iter().map(|value| value.max(0.0)).sum();
        let leading_indices: Vec<usize> = (0..values.len()).rev().take(self.options.component_count).collect();
        let mut weights = Mat::zeros(landmark_set.len(), leading_indices.len());
        let directions = Mat::from_fn(values.len(), leading_indices.len(), |i, j| vectors[(i, leading_indices[j])]);
        matmul(
            weights.as_mut(),
            Accum::Replace,
            node_factor.as_ref(),
            directions.as_ref(),
            1.0,
            par(resources.workers),
        );
        for j in 0..leading_indices.len() {
            let sign = sign_of_largest(weights.as_ref(), j);
            weights.col_mut(j).iter_mut().for_each(|v| *v *= sign);
        }
        let eigenvalues: Vec<f64> = leading_indices.iter().map(|j| values[*j].max(0.0)).collect();
        let mut figures = vec![
            NamedValues {
                name: "share of variance",
                values: eigenvalues.iter().map(|v| v / eigenvalue_sum.max(f64::MIN_POSITIVE)).collect(),
            },
            NamedValues { name: "eigenvalue", values: eigenvalues },
            NamedValues::single("sum of squares", eigenvalue_sum),
            NamedValues::single(NODES.name, landmark_set.len() as f64),
            NamedValues::single("landmarks", m as f64),
            NamedValues::single("constraints", constraint_count as f64),
            NamedValues::single("rounds", round_count as f64),
        ];
        let shortening = NamedValues::single("largest shortening of a distance", max_shortening);
        figures.extend(self.keeps_distances.then_some(shortening));
        Ok(Solution {
            basis: Some(Basis::Landmarks {
                points: landmark_set.points.clone(),
                row_numbers: landmark_set.row_numbers.clone(),
            }),
            basis_transform: BasisTransform::ReconstructionWeights { neighbours: k },
            intercept: vec![0.0; leading_indices.len()],
            weights,
            figures,
            ..Solution::default()
        })
    }
}
