//! Newton's method for the objective F: a smooth loss of the scores Wᵀφ + c, plus the penalty term
//! lambda ‖W‖². The inner iteration is the method of conjugate gradients with a preconditioner.
//!
//! A backtracking line search halves each step until F decreases enough (Armijo's condition), so
//! Newton's iteration converges from any start. It starts at a large lambda and divides lambda by
//! ten per step, until the requested lambda is reached. This keeps the iterates in the region where
//! full Newton steps succeed. With a start near the solution, such as the solution on a sample of
//! the rows, all steps have the requested lambda.
//!
//! Sampled blocks of the Hessian cost as much as several iterations. A step computes them if the
//! step before took many iterations. Near the solution they change little, so the steps share their
//! factors until a step needs many iterations again.

mod linear_equations;
mod state;

use super::{NamedValues, Solution};
use crate::{FoldGram, Intercept, Result, features::FitData, request::Resources};
use faer::Mat;
use kapprox::Real;
use kstore::Workers;
use kstore::checkpoint::{Journal, Steps};
use linear_equations::{conjugate_gradients, factor_blocks, update_factors};
use state::NewtonState;

/// Name of the iteration in a checkpoint.
pub(super) const JOURNAL_NAME: &str = "newton";

/// Factor by which lambda decreases per step, from a large value to the requested value.
const LAMBDA_DECREASE: f64 = 10.0;

/// Residual of the inner iteration, as a fraction of the gradient, far from the solution.
const MAX_FORCING: f64 = 0.1;

/// The accuracy of the last step, as a fraction of the accuracy that suffices to converge.
const FORCING_MARGIN: f64 = 0.2;

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
    /// Returns the cost of the diagonal blocks of the Hessian, in passes; `None` if the moments of
    /// all rows are always a better preconditioner.
    fn block_passes(&self) -> Option<usize> {
        None
    }
    /// Returns one diagonal block of the Hessian at this point for each of the k functions, and a
    /// common factor of all blocks; `None` if there are none.
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

/// When the iteration ends.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// The requested lambda.
    pub(super) lambda: f64,
    /// Maximum number of steps at this lambda.
    pub(super) max_steps: usize,
    /// Relative gradient norm at which the iteration has converged.
    pub(super) tolerance: f64,
}

impl Target {
    /// Returns the target of a fit in the type `T`.
    pub(super) fn new<T: Real>(lambda: f64, max_steps: usize) -> Self {
        Self { lambda, max_steps, tolerance: gradient_tolerance::<T>() }
    }
}

/// Where the iteration starts.
#[derive(Clone, Copy)]
pub(super) enum Start<'w> {
    Zero,
    /// At a solution of the same problem for a larger lambda.
    Path(&'w Optimum),
    /// At W and intercepts near the solution. If the objective is larger there than at 0, the
    /// iteration starts at 0.
    Near(&'w [f64]),
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
    moments: &FoldGram,
    target: Target,
    start: Start<'_>,
) -> Result<(Solution<T>, P, f64)> {
    let (optimum, lambda) = (minimise(&mut loss, moments, target, data.resources.journal, start)?, target.lambda);
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

/// Minimises F. The shared preconditioner comes from `moments`, the second moments of the features
/// of all rows or of a sample.
pub(super) fn minimise<T: Real>(
    loss: &mut impl Objective<T>,
    moments: &FoldGram,
    target: Target,
    journal: Option<&Journal<'_>>,
    start: Start<'_>,
) -> Result<Optimum> {
    let Dimensions { p, k, .. } = loss.dimensions();
    let initial_state = || {
        let (w, initial_gradient_norm) = match start {
            Start::Path(optimum) => (optimum.w.clone(), optimum.initial_gradient_norm),
            Start::Zero | Start::Near(_) => (vec![0.0; (p + 1) * k], 0.0),
        };
        NewtonState { w, initial_gradient_norm, current_lambda: target.lambda, ..NewtonState::default() }
    };
    let (mut steps, mut state) = Steps::begin(journal, JOURNAL_NAME, initial_state);
    restore_factors(loss, target.lambda, &mut state)?;
    *loss.passes_mut() = state.passes;
    let mut evaluation = loss.evaluate(&state.w)?;
    let evaluation_passes = *loss.passes_mut() - state.passes;
    if state.initial_gradient_norm == 0.0 {
        state.initial_gradient_norm = norm(&evaluation.gradient).max(f64::MIN_POSITIVE);
        if !move_near(loss, target.lambda, &mut state, &mut evaluation, start)? {
            let trace = (0..p).map(|j| moments.g[j * p + j]).sum::<f64>() / moments.row_count as f64;
            // the start is the largest lambda · 10^j below a tenth of the trace of γ ΦᵀΦ/n, where γ
            // is the mean curvature; the tenth is chosen
            while state.current_lambda * LAMBDA_DECREASE < 0.1 * evaluation.curvature() * trace {
                state.current_lambda *= LAMBDA_DECREASE;
            }
        }
    }
    loop {
        let (step_count, iteration_count) = (steps.completed_steps() as usize, state.iteration_count);
        match newton_step(loss, moments, target, &mut state, &mut evaluation, step_count) {
            Ok(Some(solution)) => {
                // a resumed run repeats this last step, which changes nothing
                state.undo_step(step_count, iteration_count);
                steps.complete(&state);
                return Ok(solution);
            }
            Ok(None) => {
                // a resumed run evaluates this point first
                state.passes = *loss.passes_mut() - evaluation_passes;
                steps.record_step(&state);
            }
            Err(error) => {
                state.undo_step(step_count, iteration_count);
                steps.save_before_stop(&state);
                return Err(error);
            }
        }
    }
}

/// Moves from 0 to the point of `start`. Returns false, and stays at 0, if `start` has no point or
/// if the objective is larger there.
fn move_near<T: Real>(
    loss: &mut impl Objective<T>,
    lambda: f64,
    state: &mut NewtonState,
    evaluation: &mut Evaluation,
    start: Start<'_>,
) -> Result<bool> {
    let Start::Near(w) = start else { return Ok(false) };
    let near = loss.evaluate(w)?;
    let is_better = near.loss + lambda * penalised_squared_norm(loss, w) < evaluation.loss;
    // the loss must have evaluated the point of the next step last
    match is_better {
        true => (state.w, *evaluation) = (w.to_vec(), near),
        false => *evaluation = loss.evaluate(&state.w)?,
    }
    Ok(is_better)
}

/// Computes the factors of a resumed run again, at the point where the stopped run computed them.
fn restore_factors<T: Real>(loss: &mut impl Objective<T>, lambda: f64, state: &mut NewtonState) -> Result<()> {
    if state.blocks_point.is_empty() {
        return Ok(());
    }
    let evaluation = loss.evaluate(&state.blocks_point)?;
    if let Some((blocks, scale)) = loss.hessian_blocks(&evaluation, state.blocks_step)? {
        state.factors = factor_blocks(loss, blocks, scale, lambda)?;
    }
    Ok(())
}

fn newton_step<T: Real>(
    loss: &mut impl Objective<T>,
    moments: &FoldGram,
    target: Target,
    state: &mut NewtonState,
    evaluation: &mut Evaluation,
    step_count: usize,
) -> Result<Option<Optimum>> {
    let Target { lambda, max_steps, tolerance } = target;
    let w = &state.w;
    // the schedule ends exactly at the requested lambda
    let step_lambda =
        if state.current_lambda <= lambda * LAMBDA_DECREASE.sqrt() { lambda } else { state.current_lambda };
    let gradient = objective_gradient(loss, evaluation, w, step_lambda);
    let relative_norm = norm(&gradient) / state.initial_gradient_norm;
    let has_converged = step_lambda == lambda && relative_norm <= tolerance;
    let squared_norm = penalised_squared_norm(loss, w);
    let initial_gradient_norm = state.initial_gradient_norm;
    let optimum_at = |w: &[f64], has_converged| {
        Ok(Some(Optimum { w: w.to_vec(), squared_norm, step_count, has_converged, initial_gradient_norm }))
    };
    if has_converged || (step_lambda == lambda && state.final_steps >= max_steps) {
        return optimum_at(w, has_converged);
    }
    update_factors(loss, moments, (step_lambda, step_lambda == lambda), state, evaluation, step_count)?;
    let forcing = match step_lambda == lambda {
        true => MAX_FORCING.min(relative_norm.sqrt()).max(FORCING_MARGIN * tolerance / relative_norm),
        false => MAX_FORCING,
    };
    let (direction, iteration_count) = conjugate_gradients(loss, &state.factors, &gradient, step_lambda, forcing)?;
    state.iteration_count = iteration_count;
    let w = &state.w;
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
    state.final_steps += usize::from(step_lambda == lambda);
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
