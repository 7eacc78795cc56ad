//! Newton's method for the objective F: a smooth loss of the scores Wᵀφ + c, plus the penalty term
//! lambda ‖W‖². The inner iteration is the method of conjugate gradients with a preconditioner.
//!
//! A backtracking line search halves each step until F decreases enough (Armijo's condition), so
//! Newton's iteration converges from any start. The iteration starts at a large lambda, and divides
//! lambda by ten per step until it reaches the requested lambda. This keeps the iterates in the
//! region where full Newton steps succeed.

use super::{NamedValues, Solution};
use crate::linalg::cholesky::{factor_unblocked, solve_cholesky};
use crate::linalg::strips::{for_each_strip, par};
use crate::{Error, FoldGram, Intercept, Result, features::FitData, request::Resources};
use faer::{Mat, MatMut};
use kapprox::Real;
use kstore::Workers;
use kstore::checkpoint::{Arrays, Journal, Persist, Steps, StoredArrays};

/// Factor by which lambda decreases per step, from a large value to the requested value.
const LAMBDA_DECREASE: f64 = 10.0;

/// Residual of the inner iteration, as a fraction of the gradient, far from the solution.
const MAX_FORCING: f64 = 0.1;

/// Maximum number of iterations of conjugate gradients in a Newton step.
const MAX_CG_ITERATIONS: usize = 200;

/// Fraction of the predicted decrease that a step must reach, the usual value for Armijo's
/// condition.
const ARMIJO_FRACTION: f64 = 1e-4;

/// Maximum number of halvings of a step in the line search.
const MAX_HALVINGS: usize = 30;

/// If a step changes the loss by no more than rounding, it must reduce the gradient norm to this
/// fraction.
const GRADIENT_PROGRESS: f64 = 0.5;

/// A mean loss over the rows, without the penalty term, computed in passes over the features. The
/// weights W and the intercepts c are one (p + 1) x k matrix, row-major, whose last row is the
/// intercepts.
pub(super) trait Objective<T: Real> {
    fn dimensions(&self) -> Dimensions<'_>;
    fn passes_mut(&mut self) -> &mut u64;
    fn evaluate(&mut self, w: &[f64]) -> Result<Evaluation>;
    /// Computes the product of `v` and the Hessian of the loss at the last evaluated point.
    fn hessian_product(&mut self, v: &[f64]) -> Result<Vec<f64>>;
    /// Returns one diagonal block of the Hessian at this point for each of the k functions, and a
    /// common factor of all blocks. Returns `None` if the moments of all rows are a better
    /// preconditioner.
    fn hessian_blocks(&mut self, _point: &Evaluation, _step: usize) -> Result<Option<(Vec<FoldGram>, f64)>> {
        Ok(None)
    }
}

/// Numbers of features p and of functions k, kind of intercept, and worker threads.
#[derive(Clone, Copy)]
pub(super) struct Dimensions<'w> {
    pub(super) p: usize,
    pub(super) k: usize,
    pub(super) intercept: Intercept,
    pub(super) workers: &'w Workers,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Evaluation {
    pub(super) loss: f64,
    /// Gradient of the loss, (p + 1) x k row-major, the intercepts last.
    pub(super) gradient: Vec<f64>,
    /// Mean over the rows of the second derivative with respect to the score, for every function.
    pub(super) curvatures: Vec<f64>,
}

impl Evaluation {
    pub(super) fn curvature(&self) -> f64 {
        self.curvatures.iter().sum::<f64>() / self.curvatures.len() as f64
    }
}

pub(super) struct Optimum {
    /// W and the intercepts, (p + 1) x k row-major.
    pub(super) w: Vec<f64>,
    squared_norm: f64,
    step_count: usize,
    has_converged: bool,
    initial_gradient_norm: f64,
}

impl Optimum {
    /// Computes the loss and ‖∇F‖/‖∇F(0)‖ at W from the features in f64: one pass.
    fn evaluate_in_f64(&self, loss: &mut impl Objective<f64>, lambda: f64) -> Result<(Evaluation, f64)> {
        let evaluation = loss.evaluate(&self.w)?;
        let gradient = objective_gradient(loss, &evaluation, &self.w, lambda);
        Ok((evaluation, norm(&gradient) / self.initial_gradient_norm))
    }
}

/// Returns the second derivative of the penalty term for coefficient `i`: 2 lambda if the
/// coefficient is penalised, else 0.
fn penalty_curvature<T: Real>(loss: &impl Objective<T>, i: usize, lambda: f64) -> f64 {
    let Dimensions { p, k, intercept, .. } = loss.dimensions();
    if i < p * k || intercept == Intercept::Penalised { 2.0 * lambda } else { 0.0 }
}

/// Computes ∇F at `w` from the loss at `evaluation`.
fn objective_gradient<T: Real>(loss: &impl Objective<T>, evaluation: &Evaluation, w: &[f64], lambda: f64) -> Vec<f64> {
    evaluation
        .gradient
        .iter()
        .zip(w)
        .enumerate()
        .map(|(i, (g, w))| g + penalty_curvature(loss, i, lambda) * w)
        .collect()
}

/// Returns the relative gradient norm ‖∇F‖/‖∇F(0)‖ at which the iteration ends: 1e-5 in f32 and
/// 1e-10 in f64. Both are well above the rounding error of the gradient.
///
/// The scores have rounding errors of ε‖W‖, and at a small lambda ‖W‖ is in the hundreds. Then the
/// iteration in f32 cannot reach 1e-6, and with 1e-6 as tolerance most of its steps were useless
/// (measured on `dsa`: 99 s instead of 34 s, depending on the seed).
pub(super) fn gradient_tolerance<T: Real>() -> f64 {
    (84.0 * T::EPSILON).max(1e-10)
}

/// Warns if the iteration ended above the required gradient norm.
fn warn_of_gradient<T: Real>(what: &str, optimum: &Optimum, relative_norm: f64, resources: &Resources<'_>) {
    let remedy = match (optimum.has_converged, size_of::<T>() < size_of::<f64>()) {
        _ if relative_norm <= gradient_tolerance::<T>() => return,
        (false, _) => "raise `steps`",
        (true, true) => "rounding in f32 prevents further progress: use `precision` f64, or raise `lambda`",
        (true, false) => "rounding prevents further progress: raise `lambda`",
    };
    resources.stage_observer.warn(format!(
        "{what} did not converge: after {} Newton steps the relative gradient norm is {:.2} times the tolerance of {:.0e}; {remedy}",
        optimum.step_count,
        relative_norm / gradient_tolerance::<T>(),
        gradient_tolerance::<T>()
    ));
}

/// Learns from all rows, and evaluates the result with the loss in f64 that `build_f64_loss`
/// returns. Returns the solution, this loss in f64 for further evaluations, and its value at the
/// solution, without the penalty term. The last argument holds the second moments of the features
/// (for the preconditioner), lambda, and the maximum number of steps.
pub(super) fn fit<T: Real, P: Objective<f64>>(
    solver_name: &str,
    data: &FitData<'_, T>,
    mut loss: impl Objective<T>,
    build_f64_loss: impl FnOnce() -> P,
    (moments, lambda, max_steps): (&FoldGram, f64, usize),
) -> Result<(Solution<T>, P, f64)> {
    let optimum = minimise(&mut loss, moments, lambda, max_steps, data.resources.journal, None)?;
    let (passes, Dimensions { p, k, .. }) = (2 + *loss.passes_mut(), loss.dimensions());
    drop(loss);
    // the reported numbers are computed in f64 from the returned coefficients
    let mut f64_loss = build_f64_loss();
    let (evaluation, relative_norm) = optimum.evaluate_in_f64(&mut f64_loss, lambda)?;
    warn_of_gradient::<T>(solver_name, &optimum, relative_norm, data.resources);
    let figures = vec![
        NamedValues::single("objective", evaluation.loss + lambda * optimum.squared_norm),
        NamedValues::single("relative gradient norm", relative_norm),
        NamedValues::single("newton steps", optimum.step_count as f64),
    ];
    let weights = Mat::from_fn(p, k, |i, j| optimum.w[i * k + j]);
    let intercept = optimum.w[p * k..].to_vec();
    let solution = Solution { weights, intercept, lambda: Some(lambda), figures, passes, ..Solution::default() };
    Ok((solution, f64_loss, evaluation.loss))
}

/// Minimises F with at most `max_steps` steps at the last value of lambda. The preconditioner comes
/// from `moments`, the second moments of the features. If `warm_start` is the solution for a larger
/// lambda, the iteration starts from it.
pub(super) fn minimise<T: Real>(
    loss: &mut impl Objective<T>,
    moments: &FoldGram,
    lambda: f64,
    max_steps: usize,
    journal: Option<&Journal<'_>>,
    warm_start: Option<&Optimum>,
) -> Result<Optimum> {
    let Dimensions { p, k, .. } = loss.dimensions();
    let (w, initial_gradient_norm) =
        warm_start.map_or((vec![0.0; (p + 1) * k], 0.0), |optimum| (optimum.w.clone(), optimum.initial_gradient_norm));
    let initial_state = || NewtonState {
        w: w.clone(),
        initial_gradient_norm,
        current_lambda: lambda,
        final_step_count: 0,
        passes: 0,
        factor_buffer: Mat::new(),
    };
    let (mut steps, mut state) = Steps::begin(journal, "newton", initial_state);
    *loss.passes_mut() = state.passes;
    let mut evaluation = loss.evaluate(&state.w)?;
    let evaluation_passes = *loss.passes_mut() - state.passes;
    if steps.completed_steps() == 0 && warm_start.is_none() {
        state.initial_gradient_norm = norm(&evaluation.gradient).max(f64::MIN_POSITIVE);
        let trace = (0..p).map(|j| moments.g[j * p + j]).sum::<f64>() / moments.row_count as f64;
        // the start is the largest lambda · 10^j below a tenth of the trace of γ ΦᵀΦ/n, where γ is
        // the mean curvature; the tenth is chosen
        while state.current_lambda * LAMBDA_DECREASE < 0.1 * evaluation.curvature() * trace {
            state.current_lambda *= LAMBDA_DECREASE;
        }
    }
    loop {
        match newton_step(
            loss,
            moments,
            lambda,
            max_steps,
            &mut state,
            &mut evaluation,
            steps.completed_steps() as usize,
        ) {
            Ok(Some(solution)) => {
                // a resumed run repeats this last step, which changes nothing
                steps.complete(&state);
                return Ok(solution);
            }
            Ok(None) => {
                // a resumed run evaluates this point first
                state.passes = *loss.passes_mut() - evaluation_passes;
                steps.record_step(&state);
            }
            Err(error) => {
                steps.save_before_stop(&state);
                return Err(error);
            }
        }
    }
}

struct NewtonState {
    w: Vec<f64>,
    initial_gradient_norm: f64,
    current_lambda: f64,
    /// Number of steps at the requested lambda.
    final_step_count: usize,
    passes: u64,
    /// Memory of a factor of the last step, for reuse; not saved.
    factor_buffer: Mat<f64>,
}

impl Persist for NewtonState {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put("w", &self.w);
        out.put_owned("scalars", vec![self.initial_gradient_norm, self.current_lambda]);
        out.put_owned("counts", vec![self.final_step_count as u64, self.passes]);
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        from.fill("w", &mut self.w)?;
        let (mut scalars, mut counts) = ([0.0; 2], [0u64; 2]);
        from.fill("scalars", &mut scalars)?;
        from.fill("counts", &mut counts)?;
        [self.initial_gradient_norm, self.current_lambda] = scalars;
        (self.final_step_count, self.passes) = (counts[0] as usize, counts[1]);
        Ok(())
    }
}

fn newton_step<T: Real>(
    loss: &mut impl Objective<T>,
    moments: &FoldGram,
    lambda: f64,
    max_steps: usize,
    state: &mut NewtonState,
    evaluation: &mut Evaluation,
    step_count: usize,
) -> Result<Option<Optimum>> {
    let w = &state.w;
    // the schedule ends exactly at the requested lambda
    let step_lambda =
        if state.current_lambda <= lambda * LAMBDA_DECREASE.sqrt() { lambda } else { state.current_lambda };
    let gradient = objective_gradient(loss, evaluation, w, step_lambda);
    let relative_norm = norm(&gradient) / state.initial_gradient_norm;
    let has_converged = step_lambda == lambda && relative_norm <= gradient_tolerance::<T>();
    let squared_norm = penalised_squared_norm(loss, w);
    let initial_gradient_norm = state.initial_gradient_norm;
    let optimum_at = |w: &[f64], has_converged| {
        Ok(Some(Optimum { w: w.to_vec(), squared_norm, step_count, has_converged, initial_gradient_norm }))
    };
    if has_converged || (step_lambda == lambda && state.final_step_count >= max_steps) {
        return optimum_at(w, has_converged);
    }
    let blocks = if step_lambda == lambda { loss.hessian_blocks(evaluation, step_count)? } else { None };
    let Dimensions { intercept, workers, .. } = loss.dimensions();
    let mut factor_buffer = std::mem::replace(&mut state.factor_buffer, Mat::new());
    let mut factor = |moments: &FoldGram, scale: f64| {
        factor_preconditioner(
            moments,
            scale,
            step_lambda,
            intercept,
            workers,
            std::mem::replace(&mut factor_buffer, Mat::new()),
        )
    };
    let mut factors = match blocks {
        // each block is freed after its factorisation
        Some((blocks, scale)) => blocks.into_iter().map(|block| factor(&block, scale)).collect::<Result<Vec<_>>>()?,
        None => vec![factor(moments, evaluation.curvature().max(f64::MIN_POSITIVE) / moments.row_count as f64)?],
    };
    let forcing = if step_lambda == lambda { MAX_FORCING.min(relative_norm.sqrt()) } else { MAX_FORCING };
    let direction = conjugate_gradients(loss, &factors, &gradient, step_lambda, forcing)?;
    state.factor_buffer = factors.swap_remove(0);
    drop(factors);
    let directional_derivative = dot(&gradient, &direction);
    let old_objective = evaluation.loss + step_lambda * penalised_squared_norm(loss, w);
    // if the predicted decrease is below the rounding error of the loss, only the gradients can
    // compare the points, because the gradient is far more accurate than the loss
    let rounding = 4.0 * T::EPSILON * old_objective.abs();
    let is_flat = step_lambda == lambda && -directional_derivative <= rounding;
    let (mut step_length, mut halving_count) = (1.0, 0);
    loop {
        let trial_w: Vec<f64> = state.w.iter().zip(&direction).map(|(w, d)| w + step_length * d).collect();
        let trial_evaluation = loss.evaluate(&trial_w)?;
        let new_objective = trial_evaluation.loss + step_lambda * penalised_squared_norm(loss, &trial_w);
        let has_decreased =
            new_objective <= old_objective + ARMIJO_FRACTION * step_length * directional_derivative + rounding;
        if has_decreased || is_flat || halving_count == MAX_HALVINGS {
            let has_smaller_gradient = |fraction: f64| {
                norm(&self::objective_gradient(loss, &trial_evaluation, &trial_w, step_lambda))
                    < fraction * norm(&gradient)
            };
            let is_better = if is_flat {
                has_smaller_gradient(GRADIENT_PROGRESS)
            } else {
                has_decreased && (new_objective < old_objective || has_smaller_gradient(1.0))
            };
            if step_lambda == lambda && !is_better {
                // neither the loss nor its gradient improves
                return optimum_at(&state.w, true);
            }
            (state.w, *evaluation) = (trial_w, trial_evaluation);
            break;
        }
        step_length *= 0.5;
        halving_count += 1;
    }
    state.final_step_count += usize::from(step_lambda == lambda);
    state.current_lambda = (state.current_lambda / LAMBDA_DECREASE).max(lambda);
    Ok(None)
}

fn penalised_squared_norm<T: Real>(loss: &impl Objective<T>, w: &[f64]) -> f64 {
    w.iter().enumerate().map(|(i, w)| 0.5 * penalty_curvature(loss, i, 1.0) * w * w).sum()
}

fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves H d = −`gradient` approximately by preconditioned conjugate gradients, until the norm of
/// the residual is at most `forcing` times the norm of the gradient. Each iteration takes one pass.
///
/// Every iterate is a descent direction, so the iteration may stop at any time.
fn conjugate_gradients<T: Real>(
    loss: &mut impl Objective<T>,
    factors: &[Mat<f64>],
    gradient: &[f64],
    lambda: f64,
    forcing: f64,
) -> Result<Vec<f64>> {
    let k = loss.dimensions().k;
    let mut direction = vec![0.0; gradient.len()];
    let mut residual: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut z = precondition(factors, &residual, k, loss.dimensions().workers);
    let (mut search_direction, mut rz) = (z.clone(), dot(&residual, &z));
    for _ in 0..MAX_CG_ITERATIONS {
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
    Ok(direction)
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

/// Factors γ [ΦᵀΦ s; sᵀ n]/n + 2 lambda I, where s is the sum of the features over the n rows, and
/// `scale` is γ/n. Reuses the memory of `factor` if it has the order of this matrix.
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
