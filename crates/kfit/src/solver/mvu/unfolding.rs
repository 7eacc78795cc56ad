//! The rounds of the semidefinite programme: violated constraints are added until none is left.

use super::semidefinite::maximise;
use super::{MAX_CONSTRAINTS_PER_LANDMARK, NeighbourGraph, WARNING_GAP};
use crate::solver::reject_if;
use crate::{Error, Result};
use faer::{Accum, Mat, MatRef, linalg::matmul::matmul, prelude::Reborrow};
use kapprox::decompose::{product, symmetric_eigen};
use kapprox::map::par;
use kstore::{Workers, pass::Observer};

/// Relative excess of a squared distance above which a constraint is added.
const VIOLATION_TOLERANCE: f64 = 1e-8;

/// Number of constraints added per round and landmark.
const ADDED_CONSTRAINTS_PER_LANDMARK: usize = 1;

/// Fraction of the largest norm of a direction below which a direction counts as a rounding error.
const DIRECTION_TOLERANCE: f64 = 1e-10;

/// First factor ν of the exact penalty, as a multiple of the mean dual variable of the bounded
/// programme, and the factor by which it grows; chosen.
const PENALTY_GROWTH: f64 = 10.0;

/// Maximum number of penalties.
const MAX_PENALTIES: usize = 4;

/// Pairs of neighbours without duplicates, with their squared distances.
pub(super) struct NeighbourPairs {
    pairs: Vec<NeighbourPair>,
}

/// Nodes i < j, where one node is a neighbour of the other.
struct NeighbourPair {
    i: usize,
    j: usize,
    squared_distance: f64,
}

impl NeighbourPairs {
    pub(super) fn new(graph: &NeighbourGraph) -> Self {
        let (neighbours, k) = (graph.neighbours.iter().enumerate(), graph.k);
        let mut pairs: Vec<NeighbourPair> = neighbours
            .map(|(index, neighbour)| NeighbourPair {
                i: (index / k).min(neighbour.node),
                j: (index / k).max(neighbour.node),
                squared_distance: neighbour.squared_distance,
            })
            .collect();
        pairs.sort_by_key(|pair| (pair.i, pair.j));
        pairs.dedup_by_key(|pair| (pair.i, pair.j));
        Self { pairs }
    }

    /// Computes a_e = r_i − r_j for the rows r of a matrix, one column for each of these pairs.
    fn directions(&self, rows: MatRef<'_, f64>, pair_indices: &[usize]) -> Mat<f64> {
        Mat::from_fn(rows.ncols(), pair_indices.len(), |c, e| {
            let NeighbourPair { i, j, .. } = self.pairs[pair_indices[e]];
            rows[(i, c)] - rows[(j, c)]
        })
    }

    /// Returns pairs whose directions a_e span the directions of all pairs. Gram-Schmidt chooses
    /// the pairs: the next pair is the pair whose direction has the longest remainder.
    fn spanning_pairs(&self, rows: MatRef<'_, f64>) -> Vec<usize> {
        let all_pairs: Vec<usize> = (0..self.pairs.len()).collect();
        let mut remainders = self.directions(rows, &all_pairs);
        let (mut selected_pairs, mut max_squared_length) = (Vec::new(), 0.0f64);
        for _ in 0..rows.ncols() {
            let squared_lengths = remainders.col_iter().map(|column| column.squared_norm_l2());
            let (longest_index, squared_length) = squared_lengths
                .enumerate()
                .fold((0, 0.0f64), |best, candidate| if candidate.1 > best.1 { candidate } else { best });
            max_squared_length = max_squared_length.max(squared_length);
            if squared_length <= DIRECTION_TOLERANCE * DIRECTION_TOLERANCE * max_squared_length {
                break;
            }
            selected_pairs.push(longest_index);
            let unit_vector: Vec<f64> =
                remainders.col(longest_index).iter().map(|v| v / squared_length.sqrt()).collect();
            for column in remainders.col_iter_mut() {
                let projection: f64 = column.rb().iter().zip(&unit_vector).map(|(a, b)| a * b).sum();
                column.iter_mut().zip(&unit_vector).for_each(|(v, unit)| *v -= projection * unit);
            }
        }
        selected_pairs
    }
}

/// The matrix K of the unfolding, and how far it is from the constraints and the maximum.
pub(super) struct UnfoldingSolution {
    /// R with K = RRᵀ, N x (m − 1).
    pub(super) node_factor: Mat<f64>,
    pub(super) constraint_count: usize,
    pub(super) round_count: usize,
    pub(super) relative_gap: f64,
    /// Largest relative excess of the distance between two neighbours.
    pub(super) max_excess: f64,
    /// Largest relative shortening of the distance between two neighbours.
    pub(super) max_shortening: f64,
}

/// The programme in centred directions.
pub(super) struct UnfoldingProblem<'a> {
    /// Q in centred directions, N x (m − 1).
    pub(super) q: Mat<f64>,
    pub(super) neighbour_pairs: NeighbourPairs,
    pub(super) workers: &'a Workers,
}

impl UnfoldingProblem<'_> {
    /// Solves the programme with bounded distances. If `keeps_distances`, then solves it with
    /// growing penalties for shortened distances, until they are equal or the penalties are used
    /// up.
    pub(super) fn solve(&self, keeps_distances: bool, observer: &dyn Observer) -> Result<UnfoldingSolution> {
        let (q, m) = (self.q.as_ref(), self.q.ncols());
        let pairs = &self.neighbour_pairs.pairs;
        let mean_squared_distance =
            pairs.iter().map(|pair| pair.squared_distance).sum::<f64>() / pairs.len().max(1) as f64;
        if mean_squared_distance <= 0.0 || !mean_squared_distance.is_finite() {
            return Err(Error::NoVariance);
        }
        let mut active_pairs = self.neighbour_pairs.spanning_pairs(q);
        let why = "the distances between neighbours do not bound the coordinates of the landmarks; lower it, or raise `neighbours`";
        reject_if(active_pairs.len() < m, "rank", m + 1, why)?;
        let mut variance = product(q.transpose(), q);
        let trace: f64 = (0..m).map(|i| variance[(i, i)]).sum();
        variance *= faer::Scale(1.0 / trace);
        let mut solution = self.solve_rounds(variance.as_ref(), &mut active_pairs, mean_squared_distance, observer)?;
        if !keeps_distances {
            return Ok(solution);
        }
        let directions = self.neighbour_pairs.directions(q, &Vec::from_iter(0..pairs.len()));
        let squared_distances = product(directions.as_ref(), directions.transpose());
        // the dual variables of the bounded programme have this mean, because bᵀy = ⟨C, X⟩
        let mean_dual =
            solution.node_factor.squared_norm_l2() / (trace * mean_squared_distance * pairs.len().max(1) as f64);
        let mut penalty = PENALTY_GROWTH * mean_dual;
        for _ in 0..MAX_PENALTIES {
            if solution.max_shortening <= WARNING_GAP {
                break;
            }
            let mut objective = squared_distances.clone();
            objective *= faer::Scale(penalty);
            objective += &variance;
            let rounds = solution.round_count;
            solution = self.solve_rounds(objective.as_ref(), &mut active_pairs, mean_squared_distance, observer)?;
            solution.round_count += rounds;
            penalty *= PENALTY_GROWTH;
        }
        Ok(solution)
    }

    /// Maximises ⟨`objective`, X⟩ and adds violated constraints, in rounds, until no constraint is
    /// violated or the maximum number of constraints is reached.
    fn solve_rounds(
        &self,
        objective: MatRef<'_, f64>,
        active_pairs: &mut Vec<usize>,
        mean_squared_distance: f64,
        observer: &dyn Observer,
    ) -> Result<UnfoldingSolution> {
        let (q, m) = (self.q.as_ref(), self.q.ncols());
        let pairs = &self.neighbour_pairs.pairs;
        for round in 1.. {
            let a = self.neighbour_pairs.directions(q, active_pairs);
            // identical rows stay identical up to rounding
            let bounds: Vec<f64> = active_pairs
                .iter()
                .map(|e| (pairs[*e].squared_distance / mean_squared_distance).max(VIOLATION_TOLERANCE))
                .collect();
            let (x, gap) = maximise(objective, a.as_ref(), &bounds, self.workers, observer)?;
            let (values, vectors) = symmetric_eigen(x.as_ref())?;
            let roots =
                Mat::from_fn(m, m, |i, j| vectors[(i, j)] * (values[j].max(0.0) * mean_squared_distance).sqrt());
            let mut node_factor = Mat::zeros(q.nrows(), m);
            matmul(node_factor.as_mut(), Accum::Replace, q, roots.as_ref(), 1.0, par(self.workers));
            let violations = self.most_violated(node_factor.as_ref(), active_pairs, mean_squared_distance);
            if violations.is_empty() || active_pairs.len() + violations.len() > MAX_CONSTRAINTS_PER_LANDMARK * (m + 1) {
                let max_excess = violations.first().map_or(0.0, |(squared_ratio, _)| squared_ratio.sqrt() - 1.0);
                return Ok(UnfoldingSolution {
                    max_shortening: self.max_shortening(node_factor.as_ref(), mean_squared_distance),
                    node_factor,
                    constraint_count: active_pairs.len(),
                    round_count: round,
                    relative_gap: gap,
                    max_excess,
                });
            }
            active_pairs.extend(violations.into_iter().map(|(_, e)| e));
        }
        Err(Error::NoVariance)
    }

    /// Returns the largest relative shortening of the distance between two neighbours. Identical
    /// rows do not count.
    fn max_shortening(&self, rows: MatRef<'_, f64>, mean_squared_distance: f64) -> f64 {
        let is_distinct = |pair: &&NeighbourPair| pair.squared_distance > VIOLATION_TOLERANCE * mean_squared_distance;
        let shortenings = self.neighbour_pairs.pairs.iter().filter(is_distinct).map(|pair| {
            let squared: f64 = (0..rows.ncols()).map(|c| (rows[(pair.i, c)] - rows[(pair.j, c)]).powi(2)).sum();
            1.0 - (squared / pair.squared_distance).sqrt()
        });
        shortenings.fold(0.0, f64::max)
    }

    /// Returns the most violated constraints that are not yet in use, each with the ratio of its
    /// squared distance to the allowed squared distance.
    fn most_violated(
        &self,
        rows: MatRef<'_, f64>,
        active_pairs: &[usize],
        mean_squared_distance: f64,
    ) -> Vec<(f64, usize)> {
        let mut excesses: Vec<(f64, usize)> = Vec::new();
        let mut is_inactive = vec![true; self.neighbour_pairs.pairs.len()];
        active_pairs.iter().for_each(|e| is_inactive[*e] = false);
        for (e, pair) in self.neighbour_pairs.pairs.iter().enumerate().filter(|(e, _)| is_inactive[*e]) {
            let NeighbourPair { i, j, .. } = *pair;
            let squared_distance: f64 = (0..rows.ncols()).map(|c| (rows[(i, c)] - rows[(j, c)]).powi(2)).sum();
            let squared_bound = pair.squared_distance.max(VIOLATION_TOLERANCE * mean_squared_distance);
            if squared_distance > squared_bound * (1.0 + VIOLATION_TOLERANCE) {
                excesses.push((squared_distance / squared_bound, e));
            }
        }
        excesses.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        excesses.truncate((ADDED_CONSTRAINTS_PER_LANDMARK * (self.q.ncols() + 1)).max(16));
        excesses
    }
}
