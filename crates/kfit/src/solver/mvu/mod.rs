//! Maximum variance unfolding: coordinates with the largest variance such that the distances
//! between neighbours do not grow.
//!
//! The nodes are a sample of N rows, the first m of them landmarks. With M the matrix of
//! [`lle`](super::lle) and its blocks of landmarks l and others u, Q = [I; −M_uu⁻¹M_ul] expresses
//! the nodes by the landmarks. The scalar products of the nodes' coordinates are K = QLQᵀ, with
//!
//! ```text
//! max tr(QLQᵀ)    over L ⪰ 0 (m x m),    Σ_ij K_ij = 0,
//!                 K_ii − 2K_ij + K_jj ≤ ‖x_i − x_j‖² for neighbours i, j
//! ```
//!
//! The inequalities are from the landmark version (Weinberger, Packer, Saul): m landmarks cannot
//! satisfy the equalities of the original method.
//!
//! A basis of the directions orthogonal to Qᵀ1 eliminates the constraint on the sum. The method
//! starts with constraints for pairs of neighbours that bound the solution, and each round adds the
//! most violated constraints, until all are satisfied. The coordinates of the nodes are the leading
//! eigenvectors of K times the square roots of their eigenvalues; a new row has the coordinates Σ_j
//! w_j(x) y_j over its nearest nodes, as in `lle`.
//!
//! *Passes*: one that samples the nodes. *Flops*: 3N²d, (N − m)³/3, and E²m + E³/3 for each of
//! about a hundred steps with E constraints, several per landmark. *Bytes*: about 24N², 32E².
//!
//! References: Weinberger, Saul, "Unsupervised learning of image manifolds by semidefinite
//! programming", IJCV 70, 2006; Weinberger, Packer, Saul, "Nonlinear dimensionality reduction by
//! semidefinite programming and kernel matrix factorization", AISTATS 2005.

mod semidefinite;

use super::embedding::{check_components, facts, landmarks};
use super::neighbour_graph::{NeighbourGraph, NeighbourOptions};
use super::parameter::{EMBEDDED, NEIGHBOURS, NODES, Parameter};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily, refuse};
use crate::linalg::cholesky::{Side, factor, solve};
use crate::linalg::eigen::sign;
use crate::model::{Basis, Form};
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::{Error, Result, Task, features::FitData};
use faer::{Accum, Mat, MatRef, linalg::matmul::matmul, prelude::Reborrow};
use kapprox::decompose::{product, symmetric_eigen};
use kapprox::{Real, map::par};
use kstore::{Plan, Workers, pass::Observer};
use semidefinite::maximise;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "mvu",
    "maximum variance unfolding: coordinates as far apart as the distances between neighbours \
        allow",
    Task::Components,
    &[EMBEDDED, NEIGHBOURS, Parameter { default: Some("1000"), ..NODES }],
    |settings| Ok(Box::new(MaximumVariance(NeighbourOptions::new(settings)))),
);

/// Maximum number of landmarks; a larger semidefinite programme takes minutes.
const MOST: usize = 100;

const USUAL: usize = 50;

/// Relative excess of a squared distance above which a constraint is added.
const VIOLATED: f64 = 1e-8;

/// Number of constraints added per round and landmark.
const ADDED: usize = 1;

/// Maximum number of constraints per landmark, on which the memory plan relies.
const HELD: usize = 12;

/// Relative gap, or relative excess of a distance, that causes a warning.
const WIDE: f64 = 1e-4;

/// Fraction of the largest length below which a direction is rounding.
const ROUNDING: f64 = 1e-10;

#[derive(Clone, Copy, Debug)]
struct MaximumVariance(NeighbourOptions);

/// Computes Q, N x m, which expresses the nodes by the first m of them.
fn made_of_landmarks(aligned: &Mat<f64>, m: usize, workers: &Workers) -> Result<Mat<f64>> {
    let rest = aligned.nrows() - m;
    let mut lower = aligned.submatrix(m, m, rest, rest).to_owned();
    let lost = || {
        let why = "the landmarks do not determine the other nodes; raise `neighbours` or `rank`";
        Error::option("rank", m, why)
    };
    factor(lower.as_mut()).ok_or_else(lost)?;
    let mut others = aligned.submatrix(m, 0, rest, m).to_owned();
    solve(lower.as_ref(), Side::Factor, others.as_mut(), workers);
    solve(lower.as_ref(), Side::Transpose, others.as_mut(), workers);
    Ok(Mat::from_fn(m + rest, m, |i, l| match i.checked_sub(m) {
        None => f64::from(u8::from(i == l)),
        Some(i) => -others[(i, l)],
    }))
}

/// Multiplies Q by an orthonormal basis of the m − 1 directions orthogonal to Qᵀ1, so that its
/// columns sum to 0. The basis comes from the reflection that maps Qᵀ1 to an axis.
fn centred(q: &Mat<f64>) -> Mat<f64> {
    let m = q.ncols();
    let mut v: Vec<f64> = q.col_iter().map(|column| column.iter().sum()).collect();
    let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
    v[0] += if v[0] < 0.0 { -length } else { length };
    // Qᵀ1 has at least the length √(N²/m), because every row of Q sums to 1
    let square: f64 = v.iter().map(|v| v * v).sum();
    let along: Vec<f64> = q.row_iter().map(|row| row.iter().zip(&v).map(|(q, v)| q * v).sum::<f64>()).collect();
    let mut reflected = Mat::from_fn(q.nrows(), m - 1, |i, l| q[(i, l + 1)] - 2.0 * along[i] * v[l + 1] / square);
    for column in reflected.col_iter_mut() {
        let mean = column.rb().iter().sum::<f64>() / q.nrows() as f64;
        column.iter_mut().for_each(|value| *value -= mean);
    }
    reflected
}

/// Pairs of neighbours without duplicates, with their squared distances.
struct Pairs(Vec<(usize, usize, f64)>);

impl Pairs {
    fn new(graph: &NeighbourGraph) -> Self {
        let (lists, k) = (graph.lists.iter().enumerate(), graph.k);
        let mut pairs: Vec<(usize, usize, f64)> =
            lists.map(|(place, (square, to))| ((place / k).min(*to), (place / k).max(*to), *square)).collect();
        pairs.sort_by_key(|(i, j, _)| (*i, *j));
        pairs.dedup_by_key(|(i, j, _)| (*i, *j));
        Self(pairs)
    }

    /// Computes a_e = r_i − r_j for the rows r of a matrix, one column for each of these pairs.
    fn directions(&self, rows: MatRef<'_, f64>, of: &[usize]) -> Mat<f64> {
        Mat::from_fn(rows.ncols(), of.len(), |c, e| {
            let (i, j, _) = self.0[of[e]];
            rows[(i, c)] - rows[(j, c)]
        })
    }

    /// Returns pairs whose directions span the directions of all pairs, by Gram-Schmidt with the
    /// longest remainder first.
    fn spanning(&self, rows: MatRef<'_, f64>) -> Vec<usize> {
        let all: Vec<usize> = (0..self.0.len()).collect();
        let mut rest = self.directions(rows, &all);
        let (mut chosen, mut first) = (Vec::new(), 0.0f64);
        for _ in 0..rows.ncols() {
            let lengths = rest.col_iter().map(|column| column.squared_norm_l2());
            let longest = lengths.enumerate().fold((0, 0.0f64), |best, of| if of.1 > best.1 { of } else { best });
            first = first.max(longest.1);
            if longest.1 <= ROUNDING * ROUNDING * first {
                break;
            }
            chosen.push(longest.0);
            let unit: Vec<f64> = rest.col(longest.0).iter().map(|v| v / longest.1.sqrt()).collect();
            for column in rest.col_iter_mut() {
                let along: f64 = column.rb().iter().zip(&unit).map(|(a, b)| a * b).sum();
                column.iter_mut().zip(&unit).for_each(|(v, unit)| *v -= along * unit);
            }
        }
        chosen
    }
}

struct Unfolded {
    /// R with K = RRᵀ, N x (m − 1).
    rows: Mat<f64>,
    constraints: usize,
    rounds: usize,
    gap: f64,
    /// Largest relative excess of the distance between two neighbours.
    beyond: f64,
}

struct Unfolding<'a> {
    /// Q in centred directions, N x (m − 1).
    made: Mat<f64>,
    pairs: Pairs,
    workers: &'a Workers,
}

impl Unfolding<'_> {
    /// Solves and adds violated constraints until none is violated or the maximum is reached.
    fn solve(&self, observer: &dyn Observer) -> Result<Unfolded> {
        let (made, m) = (self.made.as_ref(), self.made.ncols());
        let pairs = &self.pairs.0;
        let unit = pairs.iter().map(|(.., square)| square).sum::<f64>() / pairs.len().max(1) as f64;
        if unit <= 0.0 || !unit.is_finite() {
            return Err(Error::NoVariance);
        }
        let mut taken = self.pairs.spanning(made);
        let why = "the distances between neighbours do not bound the coordinates of the landmarks; lower it, or raise `neighbours`";
        refuse(taken.len() < m, "rank", m + 1, why)?;
        let mut objective = product(made.transpose(), made);
        let trace: f64 = (0..m).map(|i| objective[(i, i)]).sum();
        objective *= faer::Scale(1.0 / trace);
        for round in 1.. {
            let a = self.pairs.directions(made, &taken);
            // identical rows stay identical up to rounding
            let bounds: Vec<f64> = taken.iter().map(|e| (pairs[*e].2 / unit).max(VIOLATED)).collect();
            let (x, gap) = maximise(objective.as_ref(), a.as_ref(), &bounds, self.workers, observer)?;
            let (values, vectors) = symmetric_eigen(x.as_ref())?;
            let roots = Mat::from_fn(m, m, |i, j| vectors[(i, j)] * (values[j].max(0.0) * unit).sqrt());
            let mut rows = Mat::zeros(made.nrows(), m);
            matmul(rows.as_mut(), Accum::Replace, made, roots.as_ref(), 1.0, par(self.workers));
            let more = self.violated(rows.as_ref(), &taken, unit);
            if more.is_empty() || taken.len() + more.len() > HELD * (m + 1) {
                let beyond = more.first().map_or(0.0, |(over, _)| over.sqrt() - 1.0);
                return Ok(Unfolded { rows, constraints: taken.len(), rounds: round, gap, beyond });
            }
            taken.extend(more.into_iter().map(|(_, e)| e));
        }
        Err(Error::NoVariance)
    }

    /// Returns the most violated unused constraints, each with the ratio of its squared distance to
    /// the allowed one.
    fn violated(&self, rows: MatRef<'_, f64>, taken: &[usize], unit: f64) -> Vec<(f64, usize)> {
        let mut over: Vec<(f64, usize)> = Vec::new();
        let mut free = vec![true; self.pairs.0.len()];
        taken.iter().for_each(|e| free[*e] = false);
        for (e, (i, j, square)) in self.pairs.0.iter().enumerate().filter(|(e, _)| free[*e]) {
            let apart: f64 = (0..rows.ncols()).map(|c| (rows[(*i, c)] - rows[(*j, c)]).powi(2)).sum();
            let allowed = square.max(VIOLATED * unit);
            if apart > allowed * (1.0 + VIOLATED) {
                over.push((apart / allowed, e));
            }
        }
        over.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        over.truncate((ADDED * (self.made.ncols() + 1)).max(16));
        over
    }
}

impl<T: Real> Solver<T> for MaximumVariance {
    fn facts(&self) -> SolverFacts {
        SolverFacts { usual_rank: Some(USUAL), dense: true, ..facts(FAMILY.name) }
    }

    fn check(&self, work: &FitRequest<'_>) -> Result<()> {
        let why =
            format!("its semidefinite programme takes minutes beyond {MOST} landmarks; lower it, or use lle or isomap");
        refuse(work.shape.landmarks > MOST, "rank", work.shape.landmarks, why)
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let (nodes, m) = (shape.map.landmarks.unwrap_or_default(), shape.landmarks);
        plan.term(
            "nodes and their neighbours",
            NeighbourGraph::bytes(nodes, shape.d, self.0.neighbours),
            "lower `nodes`",
        )
        .term("weights and their factor", nodes.saturating_mul(nodes).saturating_mul(16), "lower `nodes`")
        .term(
            "pairs of neighbours",
            nodes.saturating_mul(NeighbourGraph::most(nodes, self.0.neighbours)).saturating_mul(8 * (m + 8)),
            "lower `nodes`",
        )
        .term("semidefinite programme", semidefinite::bytes(m, HELD * m), "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let (set, resources) = (landmarks(data)?, data.resources);
        let m = data.options.landmark_count().min(set.len());
        check_components(self.0.components, m, "landmarks")?;
        let graph = NeighbourGraph::new(set, self.0.neighbours, resources)?;
        let (k, pairs) = (graph.k, Pairs::new(&graph));
        let made = {
            let _stage = resources.stages.stage("weights of the neighbours", None);
            let aligned = graph.alignment();
            drop(graph);
            centred(&made_of_landmarks(&aligned, m, resources.workers)?)
        };
        let observer = resources.stages.stage("semidefinite programme", None);
        let unfolding = Unfolding { made, pairs, workers: resources.workers };
        let Unfolded { rows, constraints, rounds, gap, beyond } = unfolding.solve(&*observer)?;
        drop(observer);
        if gap > WIDE || beyond > WIDE {
            resources.stages.warn(format!(
                "the unfolding is not optimal: its variance is below the maximum by up to {gap:.1e} of it, and distances between neighbours are too \
                 large by up to {beyond:.1e} of their bounds; lower `rank` or raise `neighbours`"
            ));
        }
        let (values, vectors) = symmetric_eigen(product(rows.transpose(), rows.as_ref()).as_ref())?;
        let total: f64 = values.iter().map(|value| value.max(0.0)).sum();
        let leading: Vec<usize> = (0..values.len()).rev().take(self.0.components).collect();
        let mut weights = Mat::zeros(set.len(), leading.len());
        let directions = Mat::from_fn(values.len(), leading.len(), |i, j| vectors[(i, leading[j])]);
        matmul(weights.as_mut(), Accum::Replace, rows.as_ref(), directions.as_ref(), 1.0, par(resources.workers));
        for j in 0..leading.len() {
            let sign = sign(weights.as_ref(), j);
            weights.col_mut(j).iter_mut().for_each(|v| *v *= sign);
        }
        let eigenvalues: Vec<f64> = leading.iter().map(|j| values[*j].max(0.0)).collect();
        let figures = vec![
            Figure {
                name: "share of variance",
                values: eigenvalues.iter().map(|v| v / total.max(f64::MIN_POSITIVE)).collect(),
            },
            Figure { name: "eigenvalue", values: eigenvalues },
            Figure::of("sum of squares", total),
            Figure::of(NODES.name, set.len() as f64),
            Figure::of("landmarks", m as f64),
            Figure::of("constraints", constraints as f64),
            Figure::of("rounds", rounds as f64),
        ];
        Ok(Found {
            basis: Some(Basis::Landmarks { points: set.points.clone(), rows: set.rows.clone() }),
            form: Form::Weights { neighbours: k },
            intercept: vec![0.0; leading.len()],
            weights,
            figures,
            ..Found::default()
        })
    }
}
