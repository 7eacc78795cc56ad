//! Regression with the losses of support vector machines: the epsilon-insensitive loss of `svr`,
//! and the losses of quantiles, expectiles and robust means (`quantile`).
//!
//! Every target has one function for each level, all on the same features. A function has its own
//! problem, and the problems are solved in common passes. In cross-validation, the fits along the
//! regularisation parameters start from the solution at the parameter before. The parameter with
//! the smallest held-out loss wins: the squared error for `svr`, the own loss for `quantile`. Every
//! level has its own parameter, which is common to all targets.
//!
//! Functions of different levels may cross if rows are few. Predictions of a row are therefore
//! sorted (rearranged), which never increases the loss
//! ([`RegressionLoss::sort_outputs`]).
//!
//! The pinball loss of a target is multiplied by the standard deviation of the target. It then has
//! the unit of a squared error, like the other losses of `quantile` and of ridge regression, and
//! the same lambda suits targets in any unit.

use super::lagrangian::{ProblemOptions, RowFn};
use super::loss::{Loss, TargetAndCost};
use super::sample;
use super::target_scale::{mean_and_deviation, positive_or_one, robust_deviation};
use super::{SolveContext, Workspace, group_size, max_idle_steps, solution_of, solve, solve_path, stages};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::solver::cross_validation::{self, ErrorNames, HeldOutFits, HeldOutScores, LinearFunction};
use crate::solver::{Regularisation, Solution, Solver, SolverProperties, reject_if};
use crate::{Intercept, RegressionLoss, Result};
use kapprox::Real;
use kstore::MemoryPlan;

/// Held-out fits in f32 stop at this gap. Rounding may prevent a smaller gap, and the error of the
/// rows of a fold does not depend on it.
const HELD_OUT_GAP_F32: f64 = 1e-5;

/// delta of the Huber loss, divided by the standard deviation of normal errors, at which the
/// estimate of a mean has 95 % of the efficiency of the mean (Huber, "Robust statistics", 1981).
const HUBER_DELTA: f64 = 1.345;

#[derive(Clone, Debug)]
pub(super) struct Regression {
    pub(super) penalties: Vec<Regularisation>,
    pub(super) intercept: Intercept,
    pub(super) loss: LossOption,
    pub(super) gap_tolerance: f64,
    pub(super) max_steps: usize,
    /// True to store the functions of the folds, for prediction intervals.
    pub(super) stores_fold_functions: bool,
}

/// The loss of the fit, as requested.
#[derive(Clone, Debug)]
pub(super) enum LossOption {
    /// Half the width of the tube without loss, in the unit of the target.
    Insensitive { epsilon: f64 },
    /// Levels of the quantiles.
    Pinball(Vec<f64>),
    /// Levels of the expectiles.
    Expectile(Vec<f64>),
    /// The largest error with a quadratic loss, in the unit of the target; `None` for a multiple of
    /// the median absolute deviation of the target.
    Huber(Option<f64>),
}

/// A function that is learned: its target, its loss, and the factor of its cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionLoss {
    pub(super) target: usize,
    pub(super) loss: Loss,
    pub(super) cost_factor: f64,
}

/// The losses of a fit to given targets.
pub(super) struct FitLosses {
    /// The functions, target by target.
    pub(super) functions: Vec<FunctionLoss>,
    /// The loss that the model stores; `None` for the epsilon-insensitive loss.
    pub(super) model_loss: Option<RegressionLoss>,
}

impl FitLosses {
    pub(super) fn error_names(&self) -> ErrorNames {
        let (chosen, at_each) = match self.model_loss {
            None => ("cv mse", "held-out mse at each"),
            Some(RegressionLoss::Pinball(_)) => ("cv pinball loss", "held-out pinball loss at each"),
            Some(RegressionLoss::Expectile(_)) => ("cv expectile loss", "held-out expectile loss at each"),
            Some(RegressionLoss::Huber(_)) => ("cv huber loss", "held-out huber loss at each"),
            Some(RegressionLoss::Deviance(_)) => ("cv deviance", "held-out deviance at each"),
        };
        ErrorNames { chosen, at_each }
    }

    /// Returns the number of functions of each target.
    pub(super) fn level_count(&self) -> usize {
        self.model_loss.as_ref().map_or(1, RegressionLoss::outputs_per_target)
    }

    /// Returns the mean error, over the targets, of the scores of a row at a level: the squared
    /// error, or the loss of the model.
    pub(super) fn held_out_error(&self, level: usize, scores: impl Iterator<Item = f64>, y: &[f64]) -> f64 {
        let level_scores = scores.enumerate().skip(level).step_by(self.level_count()).zip(y);
        let error = |((k, score), y): ((usize, f64), &f64)| match &self.model_loss {
            None => (score - y) * (score - y),
            Some(loss) => loss.value(k, *y, score),
        };
        level_scores.map(error).sum::<f64>() / y.len() as f64
    }

    /// Adds the loss of the model to its solution.
    pub(super) fn add_to<T>(self, mut solution: Solution<T>) -> Solution<T> {
        if self.model_loss.is_some() {
            // almost every row has a multiplier other than 0
            solution.figures.retain(|figure| figure.name != "support vectors");
        }
        Solution { loss: self.model_loss, ..solution }
    }
}

impl Regression {
    pub(super) fn problem_options(&self, loss: Loss) -> ProblemOptions {
        ProblemOptions::new(loss, self.intercept, self.gap_tolerance)
    }

    fn functions_per_target(&self) -> usize {
        match &self.loss {
            LossOption::Pinball(levels) | LossOption::Expectile(levels) => levels.len(),
            LossOption::Insensitive { .. } | LossOption::Huber(_) => 1,
        }
    }

    /// Returns the losses for t targets; `target_values` returns the values of a target with their
    /// weights.
    pub(super) fn losses<I: Iterator<Item = (f64, f64)> + Clone>(
        &self,
        t: usize,
        target_values: impl Fn(usize) -> I,
    ) -> FitLosses {
        let functions_of = |losses: &dyn Fn(usize) -> (Vec<Loss>, f64)| {
            let of_target = |target: usize| {
                let (losses, cost_factor) = losses(target);
                losses.into_iter().map(move |loss| FunctionLoss { target, loss, cost_factor })
            };
            (0..t).flat_map(of_target).collect::<Vec<FunctionLoss>>()
        };
        match &self.loss {
            LossOption::Insensitive { epsilon } => FitLosses {
                functions: functions_of(&|_| (vec![Loss::Insensitive { epsilon: *epsilon }], 1.0)),
                model_loss: None,
            },
            LossOption::Pinball(levels) => {
                let losses = |target: usize| {
                    let deviation = mean_and_deviation(target_values(target)).1;
                    let losses = levels.iter().map(|tau| Loss::Pinball { tau: *tau }).collect();
                    (losses, positive_or_one(deviation))
                };
                FitLosses {
                    functions: functions_of(&losses),
                    model_loss: Some(RegressionLoss::Pinball(levels.clone())),
                }
            }
            LossOption::Expectile(levels) => {
                let losses = |_| (levels.iter().map(|tau| Loss::Expectile { tau: *tau }).collect(), 1.0);
                FitLosses {
                    functions: functions_of(&losses),
                    model_loss: Some(RegressionLoss::Expectile(levels.clone())),
                }
            }
            LossOption::Huber(delta) => {
                let deltas: Vec<f64> = (0..t)
                    .map(|target| delta.unwrap_or_else(|| HUBER_DELTA * robust_deviation(target_values(target))))
                    .collect();
                FitLosses {
                    functions: functions_of(&|target| (vec![Loss::Huber { delta: deltas[target] }], 1.0)),
                    model_loss: Some(RegressionLoss::Huber(deltas)),
                }
            }
        }
    }

    /// Returns the problems of some functions, on the rows outside a fold or on all rows. `costs`
    /// are the costs C of the functions, which are repeated. `moments` are the mean and the
    /// standard deviation of each target on these rows.
    fn problems<'k, T: Real>(
        &self,
        features: &'k StoredFeatures<'_, T>,
        functions: &[FunctionLoss],
        moments: &[(f64, f64)],
        held_out_fold: Option<u16>,
        costs: &[f64],
    ) -> Vec<(impl RowFn + use<'k, T>, ProblemOptions)> {
        let (t, y, weights, folds) = (moments.len(), &features.y[..], &features.weights, &features.row_folds[..]);
        let mean_weight = features.mean_weight(held_out_fold);
        let problem = |(function, cost): (&FunctionLoss, &f64)| {
            let (target, (_, deviation)) = (function.target, moments[function.target]);
            let (centre, c) = (self.target_centre(moments[target]), cost * function.cost_factor);
            // the target's standard deviation is the unit of the envelope
            let typical_cost = c * mean_weight / positive_or_one(deviation);
            let row_fn = move |i: usize| {
                let is_held_out = held_out_fold.is_some_and(|fold| folds[i] == fold);
                TargetAndCost { y: y[i * t + target] - centre, c: if is_held_out { 0.0 } else { c * weights.get(i) } }
            };
            (row_fn, ProblemOptions { typical_cost, ..self.problem_options(function.loss) })
        };
        functions.iter().zip(costs.iter().cycle()).map(problem).collect()
    }

    /// Returns the number that is subtracted from a target with this mean and deviation.
    pub(super) fn target_centre(&self, (mean, _): (f64, f64)) -> f64 {
        if self.intercept == Intercept::Free { mean } else { 0.0 }
    }

    /// For every fold and every regularisation parameter, learns from the rows outside the fold and
    /// scores the rows of the fold.
    fn held_out_scores<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        functions: &[FunctionLoss],
    ) -> Result<HeldOutScores<T>> {
        let function_count = functions.len();
        let mut scores = HeldOutScores::new(features.n, function_count, self.penalties.len())
            .storing_functions(self.stores_fold_functions);
        let (progress, mut workspace) =
            (HeldOutFits::start(data, &self.penalties, function_count), Workspace::new(features.p));
        let context = SolveContext { observer: &progress, journal: data.resources.journal };
        let functions_per_group = group_size(features.n, features.p, function_count);
        // one sample for all folds
        let mut sample = None;
        scores.passes += sample::passes(features.n, features.p);
        let solver = self.for_held_out_rows::<T>();
        for fold in 0..data.folds.count() as u16 {
            let (weight, moments) = (features.weight_outside(Some(fold)), target_moments(features, data, Some(fold)));
            let groups = (0..function_count).step_by(functions_per_group).zip(functions.chunks(functions_per_group));
            for (first_column, group) in groups {
                let problems_at = |penalty_index: usize| {
                    let costs = [self.penalties[penalty_index].c(weight)];
                    let mut problems = solver.problems(features, group, &moments, Some(fold), &costs);
                    problems.iter_mut().for_each(|(_, options)| options.max_idle_steps = max_idle_steps::<T>());
                    problems
                };
                let (path, passes) = solve_path(
                    features,
                    &mut sample,
                    data,
                    self.penalties.len(),
                    problems_at,
                    self.max_steps,
                    &mut workspace,
                    context,
                )?;
                scores.passes += passes;
                for (penalty_index, best_points) in path.iter().enumerate() {
                    let intercept = |(best_b, function): (f64, &FunctionLoss)| {
                        best_b + self.target_centre(moments[function.target])
                    };
                    let linear_functions: Vec<LinearFunction<'_>> = best_points
                        .iter()
                        .zip(group)
                        .map(|(best, function)| (&best.w[..], intercept((best.b, function))))
                        .collect();
                    scores.score_fold(features, penalty_index, first_column, &linear_functions, fold, &progress)?;
                }
            }
        }
        Ok(scores)
    }

    /// Returns the solver for rows in type `T` whose fits only score held-out rows.
    fn for_held_out_rows<T: Real>(&self) -> Self {
        let is_f32 = size_of::<T>() < size_of::<f64>();
        let gap_tolerance = if is_f32 { self.gap_tolerance.max(HELD_OUT_GAP_F32) } else { self.gap_tolerance };
        Self { gap_tolerance, ..self.clone() }
    }
}

impl<T: Real> Solver<T> for Regression {
    fn properties(&self) -> SolverProperties {
        SolverProperties {
            stores_features: true,
            uses_validation_rows: true,
            accepts_row_weights: true,
            supports_exact_kernel: true,
            scores_own_loss: !matches!(self.loss, LossOption::Insensitive { .. }),
            ..SolverProperties::default()
        }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        // every row is free under a smooth loss, and pairs of multipliers converge slowly
        let is_smooth = matches!(self.loss, LossOption::Expectile(_) | LossOption::Huber(_));
        let why = "with the exact kernel only `loss` pinball is supported; leave it out, and raise `rank` instead";
        reject_if(is_smooth && request.options.map.is_exact_kernel(), "map", &request.options.map, why)?;
        cross_validation::reject_exact_intervals(self.stores_fold_functions, request)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        let function_count = size.t * self.functions_per_target();
        let plan = super::plan(plan, size, pass_shape, 10 * size.t, function_count);
        let plan = cross_validation::plan(plan, size, function_count, self.penalties.len());
        match self.stores_fold_functions {
            true => cross_validation::plan_functions(plan, size, function_count, self.penalties.len()),
            false => plan,
        }
    }

    fn stages(&self, access: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let function_count = request.size.t * self.functions_per_target();
        Ok(stages::<T>(self, access, request, (function_count, 1, self.penalties.len())))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        if let Some(solution) = self.fit_exact_kernel(data)? {
            return Ok(solution);
        }
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let t = data.targets.count();
        let losses = self.losses(t, |target| target_values(&features, t, target, None));
        let error = |level: usize, i: usize, scores: &mut dyn Iterator<Item = f64>| {
            losses.held_out_error(level, scores, &features.y[i * t..][..t])
        };
        let selection = cross_validation::cross_validate(
            &self.penalties,
            data,
            &features.weights,
            (losses.level_count(), losses.error_names()),
            || self.held_out_scores(&features, data, &losses.functions),
            error,
        )?;
        let n = features.weight_outside(None);
        let costs: Vec<f64> = selection.penalties.iter().map(|penalty| penalty.c(n)).collect();
        let lambdas: Vec<f64> = selection.penalties.iter().map(|penalty| penalty.lambda(n)).collect();
        let moments = target_moments(&features, data, None);
        let problems = self.problems(&features, &losses.functions, &moments, None, &costs);
        let mut solved_problems = solve(&features, data, self.max_steps, problems)?;
        for (best, function) in solved_problems.best_points.iter_mut().zip(&losses.functions) {
            best.b += self.target_centre(moments[function.target]);
        }
        let mut solution = solution_of(solved_problems, &lambdas, gathered.certificate);
        solution.passes += selection.passes;
        solution.fold_functions = selection.fold_functions;
        solution.figures.extend(selection.figures);
        Ok(losses.add_to(solution))
    }
}

/// Returns the values of a target with their weights, on the rows outside a fold or on all rows.
fn target_values<'f, T: Real>(
    features: &'f StoredFeatures<'_, T>,
    t: usize,
    target: usize,
    held_out_fold: Option<u16>,
) -> impl Iterator<Item = (f64, f64)> + Clone + use<'f, T> {
    let is_training = move |i: &usize| held_out_fold.is_none_or(|fold| features.row_folds[*i] != fold);
    let training_rows = (0..features.n).filter(is_training);
    training_rows.map(move |i| (features.y[i * t + target], features.weights.get(i)))
}

/// Returns the mean and the standard deviation of each target, on the rows outside a fold or on all
/// rows.
fn target_moments<T: Real>(
    features: &StoredFeatures<'_, T>,
    data: &FitData<'_, T>,
    held_out_fold: Option<u16>,
) -> Vec<(f64, f64)> {
    let t = data.targets.count();
    (0..t).map(|target| mean_and_deviation(target_values(features, t, target, held_out_fold))).collect()
}
