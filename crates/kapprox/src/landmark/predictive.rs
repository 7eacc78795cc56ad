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

use super::candidate_rows::{self, CandidateRows};
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
/// for the gains. Stores about n(2m + 5κ + 2t) numbers in f64, so it suits candidate rows that fit
/// in memory.
#[derive(Clone, Copy, Debug)]
pub struct Predictive {
    /// μ, between 0 (the trace alone) and 1 (the targets alone).
    pub target_weight: f64,
}

pub(super) const SCHEME: Scheme = Scheme {
    depends_on_seed: false,
    needs_targets: true,
    // F and the basis; the look-ahead, its deflated copy and its products; the residuals, floors,
    // keys and orders of the rows
    extra_bytes: |SelectionSize { n, d, m, .. }| candidate_rows::bytes(n, d, 2 * m + 5 * LOOK_AHEAD_COLUMNS + 8),
    ..Scheme::new(
        "predictive",
        "rows that explain both the kernel matrix and the targets",
        &Predictive { target_weight: 0.5 },
    )
};

/// κ: number of columns of the look-ahead; the paper uses 40 to 80.
const LOOK_AHEAD_COLUMNS: usize = 64;

/// Number of landmarks chosen from one look-ahead, a quarter of κ. The first landmark is chosen
/// with all κ directions of the look-ahead, the last with at least three quarters of them.
const LANDMARKS_PER_BLOCK: usize = 16;

impl<T: Real> LandmarkRule<T> for Predictive {
    fn select(&self, scan: &TableScan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, _: u64) -> Result<LandmarkSet<T>> {
        let workers = scan.pass.workers;
        let mut growth = GrowingLandmarks::new(kernel, scan.source.shape().input_count, m + LOOK_AHEAD_COLUMNS)?;
        let mut candidates = CandidateRows::read(&mut growth, scan, m + LOOK_AHEAD_COLUMNS, true)?;
        let y = std::mem::replace(&mut candidates.targets, Mat::new());
        if y.ncols() == 0 {
            return Err(Error::NoTargets { scheme: SCHEME.name });
        }
        let gain_weights = GainWeights {
            trace: (1.0 - self.target_weight)
                / candidates.growing_factor.residuals.iter().sum::<f64>().max(f64::MIN_POSITIVE),
            targets: self.target_weight / y.squared_norm_l2().max(f64::MIN_POSITIVE),
        };
        let floors: Vec<f64> =
            candidates.growing_factor.residuals.iter().map(|residual| PIVOT_FLOOR * residual).collect();
        let mut span = Span { basis: Mat::zeros(candidates.len(), m), rank: 0, residual_targets: y };
        while growth.len() < m {
            let previous_count = growth.len();
            let Some(look_ahead) = compute_look_ahead(&mut growth, &mut candidates, &span.residual_targets, workers)
            else {
                break;
            };
            let is_available =
                (0..candidates.len()).map(|i| candidates.growing_factor.residuals[i] > floors[i]).collect();
            let block_rows = select_block(
                &look_ahead,
                &span,
                gain_weights,
                LANDMARKS_PER_BLOCK.min(m - previous_count),
                is_available,
                workers,
            );
            if block_rows.is_empty() {
                break;
            }
            let mut pool = candidates.build_pool(&mut growth, &block_rows);
            for (i, row) in block_rows.iter().enumerate() {
                match pool.residual(i) {
                    Some(_) => growth.accept(&mut pool, i),
                    // the landmarks span this row up to rounding: exclude it from now on
                    None => candidates.growing_factor.residuals[*row] = 0.0,
                }
            }
            if growth.len() == previous_count {
                continue;
            }
            candidates.add_columns(&mut growth, previous_count, workers);
            span.add_columns(candidates.factor_columns(growth.len()), previous_count, workers);
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
fn compute_look_ahead<T: Real>(
    growth: &mut GrowingLandmarks<'_, T>,
    candidates: &mut CandidateRows,
    residual_targets: &Mat<f64>,
    workers: &Workers,
) -> Option<Mat<f64>> {
    let s = growth.len();
    let saved_residuals = candidates.growing_factor.residuals.clone();
    for half in 0..2 {
        let weight = |i: usize| if half == 0 { 1.0 } else { residual_targets.row(i).squared_norm_l2() };
        let keys: Vec<f64> =
            candidates.growing_factor.residuals.iter().enumerate().map(|(i, r)| r.max(0.0) * weight(i)).collect();
        let mut ranked_rows: Vec<usize> = (0..keys.len()).filter(|i| keys[*i] > 0.0).collect();
        ranked_rows.sort_by(|a, b| keys[*b].total_cmp(&keys[*a]).then(a.cmp(b)));
        // not only the rows with the largest keys, because these may lie close together
        ranked_rows.truncate((ranked_rows.len() / 2).max(2 * LOOK_AHEAD_COLUMNS));
        let stride = (ranked_rows.len() / (2 * LOOK_AHEAD_COLUMNS)).max(1);
        let pool_rows: Vec<usize> = ranked_rows.iter().copied().step_by(stride).take(2 * LOOK_AHEAD_COLUMNS).collect();
        let (mut pool, previous_count) = (candidates.build_pool(growth, &pool_rows), growth.len());
        while growth.len() < s + (half + 1) * LOOK_AHEAD_COLUMNS / 2
            && let Some((i, _)) = pool.largest_residual()
        {
            growth.accept(&mut pool, i);
        }
        if growth.len() > previous_count {
            candidates.add_columns(growth, previous_count, workers);
        }
    }
    let look_ahead = candidates.factor_columns(growth.len()).subcols(s, growth.len() - s).to_owned();
    let has_columns = growth.len() > s;
    growth.truncate(s);
    candidates.growing_factor.residuals = saved_residuals;
    has_columns.then_some(look_ahead)
}

/// The span of the columns of F so far, and the residual of the targets.
struct Span {
    /// Q, n x m. The leading `rank` columns are an orthonormal basis of the span.
    basis: Mat<f64>,
    rank: usize,
    /// (I − QQᵀ)Y, the residual of the targets.
    residual_targets: Mat<f64>,
}

impl Span {
    /// Adds the columns of F beyond the first `previous_count` to the span by Gram–Schmidt
    /// orthogonalisation. Applying it twice is enough (Giraud, Langou, Rozložník, "The loss of
    /// orthogonality in the Gram–Schmidt orthogonalization process", 2005).
    fn add_columns(&mut self, factor: faer::MatRef<'_, f64>, previous_count: usize, workers: &Workers) {
        for j in previous_count..factor.ncols() {
            let mut q = factor.subcols(j, 1).to_owned();
            let norm = q.norm_l2();
            for _ in 0..2 {
                let basis = self.basis.as_ref().subcols(0, self.rank);
                let mut coefficients = Mat::zeros(self.rank, 1);
                workers.install(|| {
                    matmul(coefficients.as_mut(), Accum::Replace, basis.transpose(), q.as_ref(), 1.0, Par::Seq);
                    matmul(q.as_mut(), Accum::Add, basis, coefficients.as_ref(), -1.0, Par::Seq);
                });
            }
            let remainder_norm = q.norm_l2();
            // a column that lies in the span up to rounding adds no direction; 1e-10 is chosen
            if remainder_norm > norm * 1e-10 {
                q.col_mut(0).iter_mut().for_each(|value| *value /= remainder_norm);
                self.basis.col_mut(self.rank).copy_from(q.col(0));
                self.rank += 1;
                let mut target_coefficients = Mat::zeros(1, self.residual_targets.ncols());
                matmul(
                    target_coefficients.as_mut(),
                    Accum::Replace,
                    q.transpose(),
                    self.residual_targets.as_ref(),
                    1.0,
                    Par::Seq,
                );
                matmul(
                    self.residual_targets.as_mut(),
                    Accum::Add,
                    q.as_ref(),
                    target_coefficients.as_ref(),
                    -1.0,
                    Par::Seq,
                );
            }
        }
    }
}

/// Chooses `block_len` rows with the largest gains, one after the other, where the look-ahead A (n
/// x κ) approximates E ≈ A Aᵀ. Let g_i be row i of A, P = I − QQᵀ and R = PY. Then E e_i ≈ A g_i,
/// the gain for the trace is ‖A g_i‖² / ‖g_i‖², and the gain for the targets is ‖Rᵀ A g_i‖² / ‖P A
/// g_i‖².
fn select_block(
    look_ahead: &Mat<f64>,
    span: &Span,
    gain_weights: GainWeights,
    block_len: usize,
    mut is_available: Vec<bool>,
    workers: &Workers,
) -> Vec<usize> {
    let (n, column_count) = look_ahead.shape();
    let par = par(workers);
    let product = |a: faer::MatRef<'_, f64>, b: faer::MatRef<'_, f64>| {
        let mut out = Mat::zeros(a.nrows(), b.ncols());
        workers.install(|| matmul(out.as_mut(), Accum::Replace, a, b, 1.0, par));
        out
    };
    let look_ahead_gram = product(look_ahead.transpose(), look_ahead.as_ref());
    let basis_products = product(span.basis.as_ref().subcols(0, span.rank).transpose(), look_ahead.as_ref());
    // Aᵀ P A and Aᵀ R
    let mut projected_gram = &look_ahead_gram - basis_products.transpose() * &basis_products;
    let mut target_products = product(look_ahead.transpose(), span.residual_targets.as_ref());
    let mut deflated_rows = look_ahead.clone(); // g_i, deflated by the chosen rows
    let mut block_rows = Vec::new();
    while block_rows.len() < block_len {
        let (gram_products, projected_products) = (
            product(deflated_rows.as_ref(), look_ahead_gram.as_ref()),
            product(deflated_rows.as_ref(), projected_gram.as_ref()),
        );
        let row_target_products = product(deflated_rows.as_ref(), target_products.as_ref());
        let gain = |i: usize| {
            let squared_norm: f64 = deflated_rows.row(i).squared_norm_l2();
            let projected_squared_norm: f64 =
                (0..column_count).map(|c| projected_products[(i, c)] * deflated_rows[(i, c)]).sum();
            let column_squared_norm: f64 =
                (0..column_count).map(|c| gram_products[(i, c)] * deflated_rows[(i, c)]).sum();
            // the gain is 0 if the look-ahead does not contain the row, or if the direction of the
            // row is already in the span
            let trace_gain = if squared_norm > 0.0 { column_squared_norm / squared_norm } else { 0.0 };
            let target_gain = if projected_squared_norm > 1e-10 * column_squared_norm {
                row_target_products.row(i).squared_norm_l2() / projected_squared_norm
            } else {
                0.0
            };
            gain_weights.trace * trace_gain + gain_weights.targets * target_gain
        };
        let gains = (0..n).filter(|i| is_available[*i]).map(|i| (i, gain(i)));
        let best_gain = gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((best_row, _)) = best_gain.filter(|(_, gain)| *gain > 0.0) else { break };
        is_available[best_row] = false;
        block_rows.push(best_row);
        deflate(best_row, &mut deflated_rows, &mut projected_gram, &mut target_products);
    }
    block_rows
}

/// Removes the direction of the chosen `row` from the look-ahead and from the targets, and
/// adds it to the span.
fn deflate(row: usize, deflated_rows: &mut Mat<f64>, projected_gram: &mut Mat<f64>, target_products: &mut Mat<f64>) {
    let g = deflated_rows.row(row).transpose().to_owned();
    let squared_norm = g.squared_norm_l2();
    let image = &*projected_gram * &g;
    let projected_squared_norm = g.transpose() * &image;
    if projected_squared_norm > 0.0 {
        let target_components = (g.transpose() * &*target_products).transpose().to_owned();
        subtract_rank_one(target_products, &image, &target_components, projected_squared_norm);
        subtract_rank_one(projected_gram, &image, &image, projected_squared_norm);
    }
    if squared_norm > 0.0 {
        let projections = &*deflated_rows * &g;
        subtract_rank_one(deflated_rows, &projections, &g, squared_norm);
    }
}

/// `matrix` −= u vᵀ / `divisor`.
fn subtract_rank_one(matrix: &mut Mat<f64>, u: &Col<f64>, v: &Col<f64>, divisor: f64) {
    for (column, v) in matrix.col_iter_mut().zip(v.iter()) {
        column.iter_mut().zip(u.iter()).for_each(|(value, u)| *value -= u * v / divisor);
    }
}
