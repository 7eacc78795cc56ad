//! Support vector regression with the epsilon-insensitive loss.

use super::regression::{LossOption, Regression};
use crate::Task;
use crate::solver::parameter::{
    C_GRID, FOLDS, GAP, INTERCEPT, INTERVAL, Interval, LAMBDA_GRID, Parameter, ParameterKind, STEPS, TOLERANCE, WEIGHTS,
};
use crate::solver::{Settings, SolverFamily};

pub(in crate::solver) const SVR: SolverFamily = SolverFamily::new(
    "svr",
    "support vector regression: errors below epsilon cost nothing",
    Task::Regression,
    &[LAMBDA_GRID, C_GRID, FOLDS, INTERCEPT, EPSILON, GAP, STEPS, TOLERANCE, INTERVAL, WEIGHTS],
    |settings| {
        Ok(Box::new(Regression {
            penalties: settings.regularisation_grid()?,
            intercept: settings.intercept(),
            loss: LossOption::Insensitive { epsilon: settings.required(&EPSILON, Settings::number) },
            gap_tolerance: settings.required(&GAP, Settings::number),
            max_steps: settings.required(&STEPS, Settings::count),
            stores_fold_functions: settings.levels(&INTERVAL).is_some(),
        }))
    },
);

const EPSILON: Parameter = Parameter {
    name: "epsilon",
    kind: ParameterKind::Number(Interval::NonNegative),
    default: Some("0.1"),
    help: "Half-width of the insensitive tube: smaller errors cost nothing, in the unit of the \
        target",
};
