//! Predictive low-rank decomposition: landmarks that explain both the kernel matrix and the
//! targets.
//!
//! The landmarks S are chosen greedily to decrease
//!
//! ```text
//! J(S) = (1 − μ) tr(K − F Fᵀ)/tr K + μ min_W ‖Y − F W‖²/‖Y‖²,   F = K_nS L⁻ᵀ
//! ```
//!
//! K (n x n) is the kernel matrix of the rows, K_nS contains its columns at the m landmarks, K_SS
//! is the kernel matrix of the landmarks, and L Lᵀ = K_SS, so that F is n x m. Y (n x t) contains
//! the centred targets, or a column of ±1 codes for each class. μ weighs the two terms. Let E = K −
//! F Fᵀ be the residual matrix. If row i becomes a landmark, the trace decreases by ‖E e_i‖²/E_ii,
//! and the squared error of the targets by ‖Yᵀ q_i‖². The new direction q_i is the component of E
//! e_i orthogonal to the columns of F, scaled to length 1. Both gains need E, which is not
//! computed. It is replaced by E ≈ A Aᵀ, where A, the look-ahead, contains κ further columns of
//! greedy Cholesky. Then every gain is a quadratic form of κ numbers. A block of landmarks is
//! chosen from one look-ahead.
//!
//! Reference: Bach, Jordan, "Predictive low-rank decomposition for kernel methods", ICML 2005. The
//! paper updates the look-ahead after each pivot. Here it is recomputed for each block of
//! landmarks, which costs as much and needs no downdating.

use super::in_memory::{self, InMemoryColumns};
use super::{LandmarkRule, LandmarkSet, Scheme, SelectionSize, TableScan, growth::GrowingLandmarks};
use crate::map::factor::PIVOT_FLOOR;
use crate::map::par;
use crate::{Error, Real, Result, kernel::AnyKernel};
use faer::{Accum, Col, Mat, Par, linalg::matmul::matmul};
use kpass::Workers;
use std::sync::Arc;

/// Landmarks that take the targets into account.
///
/// Makes one pass. Costs 6nm² flops for F, the look-ahead and an orthonormal basis, and 2nmκ² flops
/// for the gains. Stores n(2m + 3κ + t) numbers in f64, so it suits candidate rows that fit in
/// memory.
#[derive(Clone, Copy, Debug)]
pub struct Predictive {
    /// μ, between 0 (the trace alone) and 1 (the targets alone).
    pub weight: f64,
}

pub(super) const SCHEME: Scheme = Scheme {
    seeded: false,
    needs_targets: true,
    // F and the basis; the look-ahead, its deflated copy and its products; the residuals, floors,
    // keys and orders of the rows
    bytes: |SelectionSize { n, d, m, .. }| in_memory::bytes(n, d, 2 * m + 5 * LOOK_AHEAD + 8),
    ..Scheme::new("predictive", "rows that explain both the kernel matrix and the targets", &Predictive { weight: 0.5 })
};

/// κ: number of columns of the look-ahead; the paper uses 40 to 80.
const LOOK_AHEAD: usize = 64;

/// Number of landmarks chosen from one look-ahead, a quarter of κ. The first landmark is chosen
/// with all κ directions of the look-ahead, the last with at least three quarters of them.
const BLOCK: usize = 16;

impl<T: Real> LandmarkRule<T> for Predictive {
    fn select(&self, data: &TableScan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, _: u64) -> Result<LandmarkSet<T>> {
        let workers = data.pass.workers;
        let mut growth = GrowingLandmarks::new(kernel, data.source.shape().inputs, m + LOOK_AHEAD)?;
        let mut columns = InMemoryColumns::read(&mut growth, data, m + LOOK_AHEAD, true)?;
        let y = std::mem::replace(&mut columns.targets, Mat::new());
        if y.ncols() == 0 {
            return Err(Error::NoTargets { scheme: SCHEME.name });
        }
        let gain_weights = GainWeights {
            trace: (1.0 - self.weight) / columns.growing_factor.residual.iter().sum::<f64>().max(f64::MIN_POSITIVE),
            targets: self.weight / y.squared_norm_l2().max(f64::MIN_POSITIVE),
        };
        let floors: Vec<f64> = columns.growing_factor.residual.iter().map(|residual| PIVOT_FLOOR * residual).collect();
        let mut span = Span { basis: Mat::zeros(columns.len(), m), rank: 0, residual_targets: y };
        while growth.len() < m {
            let before = growth.len();
            let Some(ahead) = look_ahead(&mut growth, &mut columns, &span.residual_targets, workers) else { break };
            let available = (0..columns.len()).map(|i| columns.growing_factor.residual[i] > floors[i]).collect();
            let picks = choose_block(&ahead, &span, gain_weights, BLOCK.min(m - before), available, workers);
            if picks.is_empty() {
                break;
            }
            let mut pool = columns.pool(&mut growth, &picks);
            for (i, pick) in picks.iter().enumerate() {
                match pool.residual(i) {
                    Some(_) => growth.accept(&mut pool, i),
                    // the landmarks span this row up to rounding: exclude it from now on
                    None => columns.growing_factor.residual[*pick] = 0.0,
                }
            }
            if growth.len() == before {
                continue;
            }
            columns.extend(&mut growth, before, workers);
            span.extend(columns.factor(growth.len()), before, workers);
        }
        Ok(growth.landmarks)
    }
}

/// Weights of the gains for the trace and for the targets.
#[derive(Clone, Copy)]
struct GainWeights {
    trace: f64,
    targets: f64,
}

/// Returns A, up to κ columns of greedy Cholesky beyond the columns of the landmarks. Half of their
/// pivots are spread over all remaining rows, and half are rows whose targets are explained worst.
/// Returns `None` if every residual is 0 or rounding error.
fn look_ahead<T: Real>(
    growth: &mut GrowingLandmarks<'_, T>,
    columns: &mut InMemoryColumns,
    residual_targets: &Mat<f64>,
    workers: &Workers,
) -> Option<Mat<f64>> {
    let s = growth.len();
    let residual = columns.growing_factor.residual.clone();
    for half in 0..2 {
        let weight = |i: usize| if half == 0 { 1.0 } else { residual_targets.row(i).squared_norm_l2() };
        let key: Vec<f64> =
            columns.growing_factor.residual.iter().enumerate().map(|(i, r)| r.max(0.0) * weight(i)).collect();
        let mut order: Vec<usize> = (0..key.len()).filter(|i| key[*i] > 0.0).collect();
        order.sort_by(|a, b| key[*b].total_cmp(&key[*a]).then(a.cmp(b)));
        // not only the rows with the largest keys, because these may lie close together
        order.truncate((order.len() / 2).max(2 * LOOK_AHEAD));
        let step = (order.len() / (2 * LOOK_AHEAD)).max(1);
        let candidates: Vec<usize> = order.iter().copied().step_by(step).take(2 * LOOK_AHEAD).collect();
        let (mut pool, before) = (columns.pool(growth, &candidates), growth.len());
        while growth.len() < s + (half + 1) * LOOK_AHEAD / 2
            && let Some((i, _)) = pool.largest()
        {
            growth.accept(&mut pool, i);
        }
        if growth.len() > before {
            columns.extend(growth, before, workers);
        }
    }
    let ahead = columns.factor(growth.len()).subcols(s, growth.len() - s).to_owned();
    let has_columns = growth.len() > s;
    growth.truncate(s);
    columns.growing_factor.residual = residual;
    has_columns.then_some(ahead)
}

/// The span of the columns of F so far, and the residual of the targets.
struct Span {
    /// Q, n x m. Its leading columns, as many as the rank of the span, are orthonormal and span it.
    basis: Mat<f64>,
    rank: usize,
    /// (I − QQᵀ)Y, the residual of the targets.
    residual_targets: Mat<f64>,
}

impl Span {
    /// Adds the columns of F beyond the first `before` to the span by Gram–Schmidt
    /// orthogonalisation. Applying it twice is enough (Giraud, Langou, Rozložník, "The loss of
    /// orthogonality in the Gram–Schmidt orthogonalization process", 2005).
    fn extend(&mut self, factor: faer::MatRef<'_, f64>, before: usize, workers: &Workers) {
        for j in before..factor.ncols() {
            let mut q = factor.subcols(j, 1).to_owned();
            let length = q.norm_l2();
            for _ in 0..2 {
                let basis = self.basis.as_ref().subcols(0, self.rank);
                let mut part = Mat::zeros(self.rank, 1);
                workers.install(|| {
                    matmul(part.as_mut(), Accum::Replace, basis.transpose(), q.as_ref(), 1.0, Par::Seq);
                    matmul(q.as_mut(), Accum::Add, basis, part.as_ref(), -1.0, Par::Seq);
                });
            }
            let remainder_norm = q.norm_l2();
            // a column that lies in the span up to rounding adds no direction
            if remainder_norm > length * 1e-10 {
                q.col_mut(0).iter_mut().for_each(|value| *value /= remainder_norm);
                self.basis.col_mut(self.rank).copy_from(q.col(0));
                self.rank += 1;
                let mut part = Mat::zeros(1, self.residual_targets.ncols());
                matmul(part.as_mut(), Accum::Replace, q.transpose(), self.residual_targets.as_ref(), 1.0, Par::Seq);
                matmul(self.residual_targets.as_mut(), Accum::Add, q.as_ref(), part.as_ref(), -1.0, Par::Seq);
            }
        }
    }
}

/// Chooses the rows with the largest gains one after the other; the look-ahead A (n x κ)
/// approximates E.
fn choose_block(
    ahead: &Mat<f64>,
    span: &Span,
    gain_weights: GainWeights,
    count: usize,
    mut available: Vec<bool>,
    workers: &Workers,
) -> Vec<usize> {
    let (n, width) = ahead.shape();
    let par = par(workers);
    let product = |a: faer::MatRef<'_, f64>, b: faer::MatRef<'_, f64>| {
        let mut out = Mat::zeros(a.nrows(), b.ncols());
        workers.install(|| matmul(out.as_mut(), Accum::Replace, a, b, 1.0, par));
        out
    };
    let ahead_gram = product(ahead.transpose(), ahead.as_ref());
    let basis_products = product(span.basis.as_ref().subcols(0, span.rank).transpose(), ahead.as_ref());
    // AᵀA and AᵀY, with A projected onto the orthogonal complement of the span
    let mut new_gram = &ahead_gram - basis_products.transpose() * &basis_products;
    let mut ahead_targets = product(ahead.transpose(), span.residual_targets.as_ref());
    let mut rows = ahead.clone(); // g_i, deflated by the chosen rows
    let mut picks = Vec::new();
    while picks.len() < count {
        let (trace_products, span_products) =
            (product(rows.as_ref(), ahead_gram.as_ref()), product(rows.as_ref(), new_gram.as_ref()));
        let target_products = product(rows.as_ref(), ahead_targets.as_ref());
        let gain = |i: usize| {
            let length: f64 = rows.row(i).squared_norm_l2();
            let new_square: f64 = (0..width).map(|c| span_products[(i, c)] * rows[(i, c)]).sum();
            let column_square: f64 = (0..width).map(|c| trace_products[(i, c)] * rows[(i, c)]).sum();
            // the gain is 0 if the look-ahead does not contain the row, or if the direction of the
            // row is already in the span
            let trace = if length > 0.0 { column_square / length } else { 0.0 };
            let targets = if new_square > 1e-10 * column_square {
                target_products.row(i).squared_norm_l2() / new_square
            } else {
                0.0
            };
            gain_weights.trace * trace + gain_weights.targets * targets
        };
        let gains = (0..n).filter(|i| available[*i]).map(|i| (i, gain(i)));
        let best = gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((best, _)) = best.filter(|(_, gain)| *gain > 0.0) else { break };
        available[best] = false;
        picks.push(best);
        deflate(best, &mut rows, &mut new_gram, &mut ahead_targets);
    }
    picks
}

/// Removes the direction of the chosen row `best` from the look-ahead and from the targets, and
/// adds it to the span.
fn deflate(best: usize, rows: &mut Mat<f64>, new_gram: &mut Mat<f64>, ahead_targets: &mut Mat<f64>) {
    let g = rows.row(best).transpose().to_owned();
    let length = g.squared_norm_l2();
    let image = &*new_gram * &g;
    let new_square = g.transpose() * &image;
    if new_square > 0.0 {
        let targets_along = (g.transpose() * &*ahead_targets).transpose().to_owned();
        subtract(ahead_targets, &image, &targets_along, new_square);
        subtract(new_gram, &image, &image, new_square);
    }
    if length > 0.0 {
        let projections = &*rows * &g;
        subtract(rows, &projections, &g, length);
    }
}

/// `matrix` −= u vᵀ / `by`.
fn subtract(matrix: &mut Mat<f64>, u: &Col<f64>, v: &Col<f64>, by: f64) {
    for (column, v) in matrix.col_iter_mut().zip(v.iter()) {
        column.iter_mut().zip(u.iter()).for_each(|(value, u)| *value -= u * v / by);
    }
}
