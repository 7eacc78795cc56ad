//! The linear equations of a Newton step: conjugate gradients, and their preconditioner.

use super::{Dimensions, Evaluation, NewtonState, Objective, dot, norm, penalty_curvature};
use crate::linalg::cholesky::{factor_unblocked, solve_cholesky};
use crate::linalg::strips::{for_each_strip, par};
use crate::{Error, FoldGram, Intercept, Result};
use faer::{Mat, MatMut};
use kapprox::Real;
use kstore::Workers;

const MAX_CG_ITERATIONS: usize = 200;

/// Number of iterations of a step above which the next step computes new blocks of the Hessian. If
/// blocks cost more than four times as many passes, a quarter of their cost replaces this number.
const MAX_ITERATIONS_WITH_BLOCKS: usize = 8;

/// Number of passes that blocks save in any problem. If a step took many iterations, blocks are
/// expected to save twice as many passes, because they serve at least two steps.
const MIN_SAVED_PASSES: usize = 16;

/// Computes the factors of the preconditioner at this point, if the factors of an earlier step are
/// not good enough.
pub(super) fn update_factors<T: Real>(
    loss: &mut impl Objective<T>,
    moments: &FoldGram,
    (lambda, is_final): (f64, bool),
    state: &mut NewtonState,
    evaluation: &Evaluation,
    step_count: usize,
) -> Result<()> {
    if is_final {
        let cost = loss.block_passes().unwrap_or(usize::MAX);
        let needs_blocks = match state.blocks_point.is_empty() {
            true => cost <= MIN_SAVED_PASSES.max(2 * state.iteration_count),
            false if state.iteration_count <= MAX_ITERATIONS_WITH_BLOCKS.max(cost / 4) => return Ok(()),
            false => true,
        };
        // the old factors and the new blocks are never in memory together
        state.factors.truncate(1);
        if needs_blocks && let Some((blocks, scale)) = loss.hessian_blocks(evaluation, step_count)? {
            state.factors = factor_blocks(loss, blocks, scale, lambda)?;
            (state.blocks_point, state.blocks_step) = (state.w.clone(), step_count);
            return Ok(());
        }
    }
    state.blocks_point.clear();
    let Dimensions { intercept, workers, .. } = loss.dimensions();
    let scale = evaluation.curvature().max(f64::MIN_POSITIVE) / moments.row_count as f64;
    let buffer = state.factors.pop().unwrap_or_else(Mat::new);
    state.factors = vec![factor_preconditioner(moments, scale, lambda, intercept, workers, buffer)?];
    Ok(())
}

pub(super) fn factor_blocks<T: Real>(
    loss: &impl Objective<T>,
    blocks: Vec<FoldGram>,
    scale: f64,
    lambda: f64,
) -> Result<Vec<Mat<f64>>> {
    let Dimensions { intercept, workers, .. } = loss.dimensions();
    // each block is freed after its factorisation
    let factor = |block: FoldGram| factor_preconditioner(&block, scale, lambda, intercept, workers, Mat::new());
    blocks.into_iter().map(factor).collect()
}

/// Solves H d = −`gradient` approximately by preconditioned conjugate gradients, until the norm of
/// the residual is at most `forcing` times the norm of the gradient. Each iteration takes one pass.
/// Returns d and the number of iterations.
///
/// Every iterate is a descent direction, so the iteration may stop at any time.
pub(super) fn conjugate_gradients<T: Real>(
    loss: &mut impl Objective<T>,
    factors: &[Mat<f64>],
    gradient: &[f64],
    lambda: f64,
    forcing: f64,
) -> Result<(Vec<f64>, usize)> {
    let k = loss.dimensions().k;
    let mut direction = vec![0.0; gradient.len()];
    let mut residual: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut z = precondition(factors, &residual, k, loss.dimensions().workers);
    let (mut search_direction, mut rz) = (z.clone(), dot(&residual, &z));
    let mut iteration_count = 0;
    while iteration_count < MAX_CG_ITERATIONS {
        let mut product = loss.hessian_product(&search_direction)?;
        product
            .iter_mut()
            .zip(&search_direction)
            .enumerate()
            .for_each(|(i, (h, v))| *h += penalty_curvature(loss, i, lambda) * v);
        let curvature = dot(&search_direction, &product);
        if !(curvature > 0.0 && rz > 0.0) {
            break;
        }
        iteration_count += 1;
        let step_length = rz / curvature;
        direction.iter_mut().zip(&search_direction).for_each(|(d, s)| *d += step_length * s);
        residual.iter_mut().zip(&product).for_each(|(r, h)| *r -= step_length * h);
        if norm(&residual) <= forcing * norm(gradient) {
            break;
        }
        z = precondition(factors, &residual, k, loss.dimensions().workers);
        let next_rz = dot(&residual, &z);
        let ratio = next_rz / rz;
        rz = next_rz;
        search_direction.iter_mut().zip(&z).for_each(|(s, z)| *s = z + ratio * *s);
    }
    Ok((direction, iteration_count))
}

/// Solves for `right` ((p + 1) x k, row-major) with one factor per column, or with one factor for
/// all columns. If the factors have a smaller order than p + 1, the remaining entries of the
/// solution are 0.
///
/// If there are several columns, subtracts from each row of the solution its mean over the columns.
/// The softmax does not depend on this mean, so gradients and minima have the mean 0. Blocks per
/// class would introduce another mean. The loss has almost no curvature in this direction, and most
/// of the iterations would be spent on it.
fn precondition(factors: &[Mat<f64>], right: &[f64], k: usize, workers: &Workers) -> Vec<f64> {
    let order = factors[0].nrows();
    let mut columns: Vec<f64> = (0..k).flat_map(|j| (0..order).map(move |i| right[i * k + j])).collect();
    // one column per thread: faer splits the sum of a single right side by the number of threads
    for_each_strip(workers, &mut columns, order, |j, column| {
        let factor = &factors[j.min(factors.len() - 1)];
        solve_cholesky(factor.as_ref(), MatMut::from_column_major_slice_mut(column, order, 1));
    });
    let mut solution = vec![0.0; right.len()];
    for (j, column) in columns.chunks(order).enumerate() {
        column.iter().enumerate().for_each(|(i, value)| solution[i * k + j] = *value);
    }
    if k > 1 {
        for row in solution.chunks_exact_mut(k) {
            let mean = row.iter().sum::<f64>() / k as f64;
            row.iter_mut().for_each(|value| *value -= mean);
        }
    }
    solution
}

/// Factors γ [ΦᵀΦ s; sᵀ n]/n + 2 lambda I, with γ/n the `scale`, in the memory of `factor` if it
/// has this order.
fn factor_preconditioner(
    moments: &FoldGram,
    scale: f64,
    lambda: f64,
    intercept: Intercept,
    workers: &Workers,
    mut factor: Mat<f64>,
) -> Result<Mat<f64>> {
    let p = moments.s.len();
    let order = if intercept == Intercept::None { p } else { p + 1 };
    let trace = (0..p).map(|j| moments.g[j * p + j]).sum::<f64>();
    let intercept_shift = if intercept == Intercept::Penalised { 2.0 * lambda } else { 0.0 };
    // the rounding errors of the Gram matrix may exceed lambda; a preconditioner tolerates a larger
    // shift
    let mut shift = 2.0 * lambda;
    loop {
        factor.resize_with(order, order, |_, _| 0.0);
        for j in 0..order {
            for i in j..order {
                factor[(i, j)] = match (i, j) {
                    (i, j) if i < p => scale * moments.g[j * p + i] + if i == j { shift } else { 0.0 },
                    (_, j) if j < p => scale * moments.s[j],
                    // the margin for rounding keeps the matrix from being singular
                    _ => scale * moments.weight_sum * (1.0 + 1e-9) + 1e-9 * shift + intercept_shift,
                };
            }
        }
        if workers.install(|| factor_unblocked(factor.as_mut(), par(workers)).is_ok()) {
            return Ok(factor);
        }
        if !shift.is_finite() || shift > scale * trace {
            return Err(Error::NotFinite { what: "the Gram matrix", remedy: "use `precision` f64" });
        }
        shift = (10.0 * shift).max(f64::EPSILON * scale * trace);
    }
}
