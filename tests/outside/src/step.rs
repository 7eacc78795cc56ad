//! A solver with an option of its own: one step of gradient descent from the mean of the target,
//! w = rate · (1/n) Σ (y_i − ȳ) φ_i.

use faer::Mat;
use kapprox::Real;
use kfit::features::FitData;
use kfit::request::{PassShape, ProblemSize};
use kfit::solver::parameter::{Interval, Parameter, ParameterKind};
use kfit::solver::{Settings, Solution, Solver, SolverFamily};
use ksolve::{Result, Task};
use kstore::MemoryPlan;

pub(crate) static FAMILY: SolverFamily =
    SolverFamily::new("step", "one step of gradient descent", Task::Regression, &[RATE], |settings: &Settings| {
        Ok(Box::new(Step { rate: settings.number(&RATE).unwrap_or(1.0) }))
    });

const RATE: Parameter = Parameter {
    name: "rate",
    kind: ParameterKind::Number(Interval::Positive),
    default: Some("1"),
    help: "Length of the step",
};

#[derive(Debug)]
struct Step {
    rate: f64,
}

impl<T: Real> Solver<T> for Step {
    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        plan.term("gradient", 8 * size.map.p * size.t, "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let state = data.moments()?;
        let moments = &state.gram.folds()[0];
        let (n, p, t) = (moments.row_count as f64, moments.s.len(), moments.sy.len());
        let gradient = |i: usize, j: usize| (moments.b[j * p + i] - moments.s[i] * moments.sy[j] / n) / n;
        let weights = Mat::from_fn(p, t, |i, j| self.rate * gradient(i, j));
        let mean = |j: usize| (0..p).map(|i| weights[(i, j)] * moments.s[i] / n).sum::<f64>();
        let centre = data.targets.centre();
        let intercept = (0..t).map(|j| centre[j] + moments.sy[j] / n - mean(j)).collect();
        Ok(Solution { weights, intercept, certificate: state.certificate, passes: 1, ..Solution::default() })
    }
}
