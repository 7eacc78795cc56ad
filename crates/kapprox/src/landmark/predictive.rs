//! Predictive low-rank decomposition: landmarks that explain the kernel matrix and the targets.
//!
//! Greedily decreases
//!
//! ```text
//! J(S) = (1 − μ) tr(K − F Fᵀ)/tr K + μ min_W ‖Y − F W‖²/‖Y‖²,   F = K_nS L⁻ᵀ
//! ```
//!
//! where Y is the centred targets, or ±1 codes of the classes. The gain of row i is ‖E e_i‖²/E_ii
//! for the trace and ‖Yᵀ q_i‖² for the targets; the new direction q_i is E e_i without its part in
//! span F, scaled to length 1. Both need the residual matrix E = K − F Fᵀ. It is replaced by κ
//! further columns of greedy Cholesky, the look-ahead: E ≈ A Aᵀ. Every gain is then a quadratic
//! form of κ numbers. A block of landmarks is chosen from one look-ahead.
//!
//! Reference: Bach, Jordan, "Predictive low-rank decomposition for kernel methods", ICML 2005. The
//! paper updates the look-ahead with each pivot; here it is recomputed for each block, which costs
//! as much and needs no downdating.

use super::held::{self, HeldColumns};
use super::{ChoiceSize, LandmarkSet, Landmarks, Scan, Scheme, growth::Growth};
use crate::map::factor::PIVOT_FLOOR;
use crate::map::par;
use crate::{Error, Real, Result, kernel::AnyKernel};
use faer::{Accum, Col, Mat, Par, linalg::matmul::matmul};
use kpass::Workers;
use std::sync::Arc;

/// Landmarks that take the targets into account.
///
/// One pass; 6nm² flops for the columns, their look-ahead and an orthonormal basis, and 2nmκ² for
/// the scores. Stores n(2m + 3κ + t) numbers in f64, so it suits candidates that fit in memory.
#[derive(Clone, Copy, Debug)]
pub struct Predictive {
    /// μ, between 0 (the trace alone) and 1 (the targets alone).
    pub weight: f64,
}

pub(super) const SCHEME: Scheme = Scheme {
    seeded: false,
    needs_targets: true,
    // columns and basis; the look-ahead, its deflated copy and its products; residuals, floors,
    // keys and orders of rows
    bytes: |ChoiceSize { n, d, m, .. }| held::bytes(n, d, 2 * m + 5 * LOOK_AHEAD + 8),
    ..Scheme::new("predictive", "rows that explain both the kernel matrix and the targets", &Predictive { weight: 0.5 })
};

/// κ: number of columns of the look-ahead; the paper uses 40 to 80.
const LOOK_AHEAD: usize = 64;

/// Number of landmarks chosen from one look-ahead, a quarter of κ. The first is chosen with the
/// full approximation of E, the last still with three quarters of it.
const BLOCK: usize = 16;

impl<T: Real> Landmarks<T> for Predictive {
    fn select(&self, data: &Scan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, _: u64) -> Result<LandmarkSet<T>> {
        let workers = data.pass.workers;
        let mut growth = Growth::new(kernel, data.source.shape().features, m + LOOK_AHEAD)?;
        let mut columns = HeldColumns::read(&mut growth, data, m + LOOK_AHEAD, true)?;
        let y = std::mem::replace(&mut columns.targets, Mat::new());
        if y.ncols() == 0 {
            return Err(Error::NoTargets { scheme: SCHEME.name });
        }
        let scale = Scale {
            trace: (1.0 - self.weight) / columns.grown.residual.iter().sum::<f64>().max(f64::MIN_POSITIVE),
            targets: self.weight / y.squared_norm_l2().max(f64::MIN_POSITIVE),
        };
        let floors: Vec<f64> = columns.grown.residual.iter().map(|residual| PIVOT_FLOOR * residual).collect();
        let mut span = Span { basis: Mat::zeros(columns.len(), m), found: 0, left: y };
        while growth.len() < m {
            let before = growth.len();
            let Some(ahead) = look_ahead(&mut growth, &mut columns, &span.left, workers) else { break };
            let open = (0..columns.len()).map(|i| columns.grown.residual[i] > floors[i]).collect();
            let picks = choose(&ahead, &span, scale, BLOCK.min(m - before), open, workers);
            if picks.is_empty() {
                break;
            }
            let mut pool = columns.pool(&mut growth, &picks);
            for (i, pick) in picks.iter().enumerate() {
                match pool.residual(i) {
                    Some(_) => growth.take(&mut pool, i),
                    // spanned by the landmarks up to rounding: exclude the row from now on
                    None => columns.grown.residual[*pick] = 0.0,
                }
            }
            if growth.len() == before {
                continue;
            }
            columns.extend(&mut growth, before, workers);
            span.extend(columns.factor(growth.len()), before, workers);
        }
        Ok(growth.chosen)
    }
}

/// Weights of the gains for the trace and for the targets.
#[derive(Clone, Copy)]
struct Scale {
    trace: f64,
    targets: f64,
}

/// Returns A: up to κ columns of greedy Cholesky beyond the landmarks, half of them at rows spread
/// over all remaining rows, half at rows whose targets are least explained. Returns `None` if no
/// row has a residual left.
fn look_ahead<T: Real>(
    growth: &mut Growth<'_, T>,
    columns: &mut HeldColumns,
    left: &Mat<f64>,
    workers: &Workers,
) -> Option<Mat<f64>> {
    let s = growth.len();
    let residual = columns.grown.residual.clone();
    for half in 0..2 {
        let weight = |i: usize| if half == 0 { 1.0 } else { left.row(i).squared_norm_l2() };
        let key: Vec<f64> = columns.grown.residual.iter().enumerate().map(|(i, r)| r.max(0.0) * weight(i)).collect();
        let mut order: Vec<usize> = (0..key.len()).filter(|i| key[*i] > 0.0).collect();
        order.sort_by(|a, b| key[*b].total_cmp(&key[*a]).then(a.cmp(b)));
        // the rows with the largest keys alone may lie close together
        order.truncate((order.len() / 2).max(2 * LOOK_AHEAD));
        let step = (order.len() / (2 * LOOK_AHEAD)).max(1);
        let spread: Vec<usize> = order.iter().copied().step_by(step).take(2 * LOOK_AHEAD).collect();
        let (mut pool, before) = (columns.pool(growth, &spread), growth.len());
        while growth.len() < s + (half + 1) * LOOK_AHEAD / 2
            && let Some((i, _)) = pool.largest()
        {
            growth.take(&mut pool, i);
        }
        if growth.len() > before {
            columns.extend(growth, before, workers);
        }
    }
    let ahead = columns.factor(growth.len()).subcols(s, growth.len() - s).to_owned();
    let any = growth.len() > s;
    growth.truncate(s);
    columns.grown.residual = residual;
    any.then_some(ahead)
}

/// The span of the columns so far and the residual of the targets.
struct Span {
    /// Q, n x m; the leading columns, as many as the rank of the span, are orthonormal.
    basis: Mat<f64>,
    found: usize,
    /// (I − QQᵀ)Y, the residual of the targets.
    left: Mat<f64>,
}

impl Span {
    /// Adds the columns beyond the first `before` to the span by Gram–Schmidt, applied twice, which
    /// is enough (Giraud, Langou, Rozložník, "The loss of orthogonality in the Gram–Schmidt
    /// orthogonalization process", 2005).
    fn extend(&mut self, factor: faer::MatRef<'_, f64>, before: usize, workers: &Workers) {
        for j in before..factor.ncols() {
            let mut q = factor.subcols(j, 1).to_owned();
            let length = q.norm_l2();
            for _ in 0..2 {
                let basis = self.basis.as_ref().subcols(0, self.found);
                let mut part = Mat::zeros(self.found, 1);
                workers.install(|| {
                    matmul(part.as_mut(), Accum::Replace, basis.transpose(), q.as_ref(), 1.0, Par::Seq);
                    matmul(q.as_mut(), Accum::Add, basis, part.as_ref(), -1.0, Par::Seq);
                });
            }
            let rest = q.norm_l2();
            // a column within rounding of the span adds no direction
            if rest > length * 1e-10 {
                q.col_mut(0).iter_mut().for_each(|value| *value /= rest);
                self.basis.col_mut(self.found).copy_from(q.col(0));
                self.found += 1;
                let mut part = Mat::zeros(1, self.left.ncols());
                matmul(part.as_mut(), Accum::Replace, q.transpose(), self.left.as_ref(), 1.0, Par::Seq);
                matmul(self.left.as_mut(), Accum::Add, q.as_ref(), part.as_ref(), -1.0, Par::Seq);
            }
        }
    }
}

/// Chooses the rows with the largest gains one after the other; the look-ahead A (n x κ)
/// approximates E.
fn choose(
    ahead: &Mat<f64>,
    span: &Span,
    scale: Scale,
    count: usize,
    mut open: Vec<bool>,
    workers: &Workers,
) -> Vec<usize> {
    let (n, width) = ahead.shape();
    let par = par(workers);
    let product = |a: faer::MatRef<'_, f64>, b: faer::MatRef<'_, f64>| {
        let mut out = Mat::zeros(a.nrows(), b.ncols());
        workers.install(|| matmul(out.as_mut(), Accum::Replace, a, b, 1.0, par));
        out
    };
    let inner = product(ahead.transpose(), ahead.as_ref());
    let inside = product(span.basis.as_ref().subcols(0, span.found).transpose(), ahead.as_ref());
    // AᵀA and AᵀY, each without its part in the span
    let mut outside = &inner - inside.transpose() * &inside;
    let mut aligned = product(ahead.transpose(), span.left.as_ref());
    let mut rows = ahead.clone(); // g_i, deflated by the chosen rows
    let mut picks = Vec::new();
    while picks.len() < count {
        let (of_trace, of_span) = (product(rows.as_ref(), inner.as_ref()), product(rows.as_ref(), outside.as_ref()));
        let of_targets = product(rows.as_ref(), aligned.as_ref());
        let gain = |i: usize| {
            let length: f64 = rows.row(i).squared_norm_l2();
            let new: f64 = (0..width).map(|c| of_span[(i, c)] * rows[(i, c)]).sum();
            let whole: f64 = (0..width).map(|c| of_trace[(i, c)] * rows[(i, c)]).sum();
            // a row outside the look-ahead, or whose direction is already in the span, gains
            // nothing
            let trace = if length > 0.0 { whole / length } else { 0.0 };
            let targets = if new > 1e-10 * whole { of_targets.row(i).squared_norm_l2() / new } else { 0.0 };
            scale.trace * trace + scale.targets * targets
        };
        let gains = (0..n).filter(|i| open[*i]).map(|i| (i, gain(i)));
        let best = gains.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((best, _)) = best.filter(|(_, gain)| *gain > 0.0) else { break };
        open[best] = false;
        picks.push(best);
        deflate(best, &mut rows, &mut outside, &mut aligned);
    }
    picks
}

/// Removes the direction of the chosen row `best` from the look-ahead and from the targets, and
/// adds it to the span.
fn deflate(best: usize, rows: &mut Mat<f64>, outside: &mut Mat<f64>, aligned: &mut Mat<f64>) {
    let g = rows.row(best).transpose().to_owned();
    let length = g.squared_norm_l2();
    let reach = &*outside * &g;
    let new = g.transpose() * &reach;
    if new > 0.0 {
        let gained = (g.transpose() * &*aligned).transpose().to_owned();
        subtract(aligned, &reach, &gained, new);
        subtract(outside, &reach, &reach, new);
    }
    if length > 0.0 {
        let along = &*rows * &g;
        subtract(rows, &along, &g, length);
    }
}

/// `matrix` −= u vᵀ / `by`.
fn subtract(matrix: &mut Mat<f64>, u: &Col<f64>, v: &Col<f64>, by: f64) {
    for (column, v) in matrix.col_iter_mut().zip(v.iter()) {
        column.iter_mut().zip(u.iter()).for_each(|(value, u)| *value -= u * v / by);
    }
}
