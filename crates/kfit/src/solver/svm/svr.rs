//! Support vector regression with the epsilon-insensitive loss.

use super::lagrangian::ProblemOptions;
use super::loss::{Loss, TargetAndCost};
use super::{SolvedProblems, solution_of, solve, stages};
use crate::features::{FitData, GatherOptions, StoredFeatures};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::solver::cross_validation::{self, HeldOutScores, LinearFunction};
use crate::solver::parameter::{
    C_GRID, FOLDS, GAP, INTERCEPT, Interval, LAMBDA_GRID, Parameter, ParameterKind, STEPS, TOLERANCE, WEIGHTS,
};
use crate::solver::{Regularisation, Settings, Solution, Solver, SolverFamily, SolverProperties};
use crate::{Intercept, Result, Task};
use kapprox::Real;
use kstore::MemoryPlan;

pub(in crate::solver) const SVR: SolverFamily = SolverFamily::new(
    "svr",
    "support vector regression: errors below epsilon cost nothing",
    Task::Regression,
    &[LAMBDA_GRID, C_GRID, FOLDS, INTERCEPT, EPSILON, GAP, STEPS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(Svr::new(settings)?)),
);

const EPSILON: Parameter = Parameter {
    name: "epsilon",
    kind: ParameterKind::Number(Interval::NonNegative),
    default: Some("0.1"),
    help: "Half-width of the insensitive tube: smaller errors cost nothing, in the unit of the \
        target",
};

pub(super) const HELD_OUT_MSE: &str = "held-out mse at each";

#[derive(Clone, Debug)]
pub(super) struct Svr {
    pub(super) penalties: Vec<Regularisation>,
    pub(super) intercept: Intercept,
    /// Half the width of the insensitive tube, in the unit of the target.
    pub(super) epsilon: f64,
    pub(super) gap_tolerance: f64,
    pub(super) max_steps: usize,
}

impl Svr {
    fn new(settings: &Settings) -> Result<Self> {
        Ok(Self {
            penalties: settings.regularisation_grid()?,
            intercept: settings.intercept(),
            epsilon: settings.required(&EPSILON, Settings::number),
            gap_tolerance: settings.required(&GAP, Settings::number),
            max_steps: settings.required(&STEPS, Settings::count),
        })
    }

    pub(super) fn problem_options(&self) -> ProblemOptions {
        ProblemOptions::new(Loss::Insensitive { epsilon: self.epsilon }, self.intercept, self.gap_tolerance)
    }

    /// Learns the function of target `j` with the parameter C = `cost`, from the rows outside a
    /// fold (`held_out_fold` contains the fold of each row, and the fold) or from all rows.
    fn solve_target<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        j: usize,
        held_out_fold: Option<(&[u16], u16)>,
        cost: f64,
    ) -> Result<SolvedProblems> {
        let t = data.targets.count();
        let is_training = |i: &usize| held_out_fold.is_none_or(|(folds, fold)| folds[*i] != fold);
        // the target's standard deviation is the unit of the values f
        let training_rows = (0..features.n).filter(is_training);
        let (mean, deviation) =
            mean_and_deviation(training_rows.map(|i| (features.y[i * t + j], features.weights.get(i))));
        let target_centre = if self.intercept == Intercept::Free { mean } else { 0.0 };
        let unit = if deviation > 0.0 { deviation } else { 1.0 };
        let typical_cost = cost * features.mean_weight(held_out_fold.map(|(_, fold)| fold)) / unit;
        let problem_options = ProblemOptions { typical_cost, ..self.problem_options() };
        let (y, weights) = (&features.y[..], &features.weights);
        let row_fn = move |i: usize| {
            let is_held_out = held_out_fold.is_some_and(|(folds, fold)| folds[i] == fold);
            TargetAndCost { y: y[i * t + j] - target_centre, c: if is_held_out { 0.0 } else { cost * weights.get(i) } }
        };
        let mut solved_problems = solve(features, data, problem_options, self.max_steps, vec![row_fn])?;
        solved_problems.best_points.iter_mut().for_each(|best| best.b += target_centre);
        Ok(solved_problems)
    }

    /// For every fold and every regularisation parameter, learns from the rows outside the fold and
    /// scores the rows of the fold.
    fn held_out_scores<T: Real>(
        &self,
        features: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
    ) -> Result<HeldOutScores<T>> {
        let t = data.targets.count();
        let mut scores = HeldOutScores::new(features.n, t, self.penalties.len());
        for fold in 0..data.folds.count() as u16 {
            let training_weight = features.weight_outside(Some(fold));
            for (penalty_index, penalty) in self.penalties.iter().enumerate() {
                for j in 0..t {
                    let solved_problems = self.solve_target(
                        features,
                        data,
                        j,
                        Some((&features.row_folds, fold)),
                        penalty.c(training_weight),
                    )?;
                    scores.passes += solved_problems.passes;
                    let functions: Vec<LinearFunction<'_>> =
                        solved_problems.best_points.iter().map(|best| (&best.w[..], best.b)).collect();
                    let stage = data.resources.stage_observer.start_stage("held-out rows", None);
                    scores.score_fold(features, penalty_index, j, &functions, fold, &*stage)?;
                }
            }
        }
        Ok(scores)
    }
}

impl<T: Real> Solver<T> for Svr {
    fn properties(&self) -> SolverProperties {
        SolverProperties {
            stores_features: true,
            uses_validation_rows: true,
            accepts_row_weights: true,
            supports_exact_kernel: true,
            ..SolverProperties::default()
        }
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        let plan = super::plan(plan, size, pass_shape, 10 * size.t, 1);
        cross_validation::plan(plan, size, size.t, self.penalties.len())
    }

    fn stages(&self, access: RowAccess, request: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        Ok(stages::<T>(self, access, request, (request.size.t, 1, self.penalties.len())))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        if let Some(solution) = self.fit_exact_kernel(data)? {
            return Ok(solution);
        }
        let (features, gathered) = StoredFeatures::gather(data, GatherOptions::default())?;
        let t = data.targets.count();
        let squared_error = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
            let squared_errors = scores.zip(&features.y[i * t..]).map(|(score, y)| (score - y) * (score - y));
            squared_errors.sum::<f64>() / t as f64
        };
        let held_out_scores = || self.held_out_scores(&features, data);
        let selection = cross_validation::cross_validate(
            &self.penalties,
            data,
            &features.weights,
            HELD_OUT_MSE,
            held_out_scores,
            squared_error,
        )?;
        let n = features.weight_outside(None);
        let (lambda, c) = (selection.penalty.lambda(n), selection.penalty.c(n));
        let mut solved_problems = SolvedProblems::default();
        for j in 0..t {
            solved_problems.append(self.solve_target(&features, data, j, None, c)?);
        }
        let mut solution = solution_of(solved_problems, 2.0 * lambda, Some(lambda), gathered.certificate);
        solution.passes += selection.passes;
        solution.figures.extend(selection.figures);
        Ok(solution)
    }
}

/// Returns the mean and the population standard deviation of (value, weight) pairs.
pub(super) fn mean_and_deviation(values: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let total_weight = values.clone().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE);
    let mean = values.clone().map(|(value, weight)| weight * value).sum::<f64>() / total_weight;
    let squared_deviation_sum = values.map(|(value, weight)| weight * (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squared_deviation_sum / total_weight).sqrt())
}
