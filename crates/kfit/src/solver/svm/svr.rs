//! Support vector regression with the epsilon-insensitive loss.

use super::lagrangian::Terms;
use super::loss::{Loss, Row};
use super::{Solutions, fitted, solve, stages};
use crate::features::{FitData, StoredFeatures, Wanted};
use crate::request::{FitRequest, PassShape, ProblemSize, RowAccess, Stage};
use crate::solver::held_out::{self, Function, HeldOutScores};
use crate::solver::parameter::{
    COSTS, FOLDS, GAP, INTERCEPT, Interval, LAMBDAS, Parameter, ParameterKind, STEPS, TOLERANCE, WEIGHTS,
};
use crate::solver::{Found, Penalty, Settings, Solver, SolverFacts, SolverFamily};
use crate::{Intercept, Result, Task};
use kapprox::Real;
use kstore::Plan;

pub(in crate::solver) const SVR: SolverFamily = SolverFamily::new(
    "svr",
    "support vector regression: errors below epsilon cost nothing",
    Task::Regression,
    &[LAMBDAS, COSTS, FOLDS, INTERCEPT, EPSILON, GAP, STEPS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(Svr::new(settings)?)),
);

const EPSILON: Parameter = Parameter {
    name: "epsilon",
    kind: ParameterKind::Number(Interval::NotNegative),
    default: Some("0.1"),
    about: "Half-width of the insensitive tube: smaller errors cost nothing, in the unit of the \
        target",
};

pub(super) const HELD_OUT_MSE: &str = "held-out mse at each";

#[derive(Clone, Debug)]
pub(super) struct Svr {
    pub(super) penalties: Vec<Penalty>,
    pub(super) intercept: Intercept,
    /// Half the width of the tube without loss, in the unit of the target.
    pub(super) epsilon: f64,
    pub(super) gap: f64,
    pub(super) steps: usize,
}

impl Svr {
    fn new(settings: &Settings) -> Result<Self> {
        Ok(Self {
            penalties: settings.compared()?,
            intercept: settings.intercept(),
            epsilon: settings.required(&EPSILON, Settings::number),
            gap: settings.required(&GAP, Settings::number),
            steps: settings.required(&STEPS, Settings::count),
        })
    }

    pub(super) fn terms(&self) -> Terms {
        Terms::new(Loss::Insensitive { epsilon: self.epsilon }, self.intercept, self.gap)
    }

    /// Learns the function of target `j` from the rows outside a fold, or from all rows, at the
    /// cost C.
    fn machine<T: Real>(
        &self,
        kept: &StoredFeatures<'_, T>,
        data: &FitData<'_, T>,
        j: usize,
        held: Option<(&[u16], u16)>,
        cost: f64,
    ) -> Result<Solutions> {
        let t = data.targets.count();
        let seen = |i: &usize| held.is_none_or(|(folds, fold)| folds[*i] != fold);
        // the target's standard deviation is the unit of the envelope
        let rows = (0..kept.n).filter(seen);
        let (mean, deviation) = moments(rows.map(|i| (kept.y[i * t + j], kept.weights.of(i))));
        let shift = if self.intercept == Intercept::Free { mean } else { 0.0 };
        let unit = if deviation > 0.0 { deviation } else { 1.0 };
        let typical = cost * kept.mean_weight(held.map(|(_, fold)| fold)) / unit;
        let terms = Terms { cost: typical, ..self.terms() };
        let (y, weights) = (&kept.y[..], &kept.weights);
        let rows = move |i: usize| {
            let held = held.is_some_and(|(folds, fold)| folds[i] == fold);
            Row { y: y[i * t + j] - shift, c: if held { 0.0 } else { cost * weights.of(i) } }
        };
        let mut solved = solve(kept, data, terms, self.steps, vec![rows])?;
        solved.best.iter_mut().for_each(|best| best.b += shift);
        Ok(solved)
    }

    /// Learns from the rows outside every fold at every regularisation parameter, and scores the
    /// rows of the fold.
    fn held_out<T: Real>(&self, kept: &StoredFeatures<'_, T>, data: &FitData<'_, T>) -> Result<HeldOutScores<T>> {
        let t = data.targets.count();
        let mut found = HeldOutScores::new(kept.n, t, self.penalties.len());
        for fold in 0..data.folds.count() as u16 {
            let weight = kept.weight_outside(Some(fold));
            for (at, penalty) in self.penalties.iter().enumerate() {
                for j in 0..t {
                    let solved = self.machine(kept, data, j, Some((&kept.folds, fold)), penalty.c(weight))?;
                    found.passes += solved.passes;
                    let functions: Vec<Function<'_>> = solved.best.iter().map(|best| (&best.w[..], best.b)).collect();
                    let stage = data.resources.stages.stage("held-out rows", None);
                    found.score(kept, at, j, &functions, fold, &*stage)?;
                }
            }
        }
        Ok(found)
    }
}

impl<T: Real> Solver<T> for Svr {
    fn facts(&self) -> SolverFacts {
        SolverFacts { keeps: true, holds_out: true, weights: true, exact: true, ..SolverFacts::default() }
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan {
        let plan = super::plan(plan, shape, cut, 10 * shape.t, 1);
        held_out::plan(plan, shape, shape.t, self.penalties.len())
    }

    fn stages(&self, view: RowAccess, work: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        Ok(stages::<T>(self, view, work, (work.shape.t, 1, self.penalties.len())))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        if let Some(fitted) = self.fit_exactly(data)? {
            return Ok(fitted);
        }
        let (kept, gathered) = StoredFeatures::gather(data, Wanted::default())?;
        let t = data.targets.count();
        let square = |i: usize, scores: &mut dyn Iterator<Item = f64>| {
            let squares = scores.zip(&kept.y[i * t..]).map(|(score, y)| (score - y) * (score - y));
            squares.sum::<f64>() / t as f64
        };
        let found = || self.held_out(&kept, data);
        let compared = held_out::compare(&self.penalties, data, &kept.weights, HELD_OUT_MSE, found, square)?;
        let n = kept.weight_outside(None);
        let (lambda, c) = (compared.penalty.lambda(n), compared.penalty.c(n));
        let mut all = Solutions::default();
        for j in 0..t {
            all.add(self.machine(&kept, data, j, None, c)?);
        }
        let mut fitted = fitted(all, 2.0 * lambda, Some(lambda), gathered.certificate);
        fitted.passes += compared.passes;
        fitted.figures.extend(compared.figures);
        Ok(fitted)
    }
}

/// Returns the mean and population standard deviation of weighted values, in several passes over
/// the values.
pub(super) fn moments(values: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let n = values.clone().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE);
    let mean = values.clone().map(|(value, weight)| weight * value).sum::<f64>() / n;
    let squares = values.map(|(value, weight)| weight * (value - mean) * (value - mean)).sum::<f64>();
    (mean, (squares / n).sqrt())
}
