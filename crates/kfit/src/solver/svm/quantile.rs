//! Quantile, expectile and Huber regression.
//!
//! The three losses are those of [`RegressionLoss`](crate::RegressionLoss). Quantiles describe the
//! distribution of the target given the inputs, expectiles generalise its mean, and the Huber loss
//! estimates a mean that outliers do not dominate.

use super::regression::{LossOption, Regression};
use crate::solver::parameter::{
    DEFAULT_LAMBDA_GRID, FOLDS, GAP, INTERCEPT, INTERVAL, Interval, Parameter, ParameterKind, STEPS, TOLERANCE, WEIGHTS,
};
use crate::solver::{Settings, SolverFamily, reject_if};
use crate::{Result, Task};

pub(in crate::solver) const QUANTILE: SolverFamily = SolverFamily::new(
    "quantile",
    "quantile regression: quantiles, expectiles, or robust means by the Huber loss",
    Task::Regression,
    &[QUANTILES, LOSS, DELTA, DEFAULT_LAMBDA_GRID, FOLDS, INTERCEPT, GAP, STEPS, TOLERANCE, INTERVAL, WEIGHTS],
    |settings| Ok(Box::new(build(settings)?)),
);

const QUANTILES: Parameter = Parameter {
    name: "quantiles",
    kind: ParameterKind::Levels,
    default: None,
    help: "Levels between 0 and 1 of the quantiles or expectiles, comma-separated, such as \
        0.1,0.5,0.9 [default: 0.5]",
};

const LOSS: Parameter = Parameter {
    kind: ParameterKind::Choice(&["pinball", "expectile", "huber"]),
    default: Some("pinball"),
    ..super::LOSS
};

const DELTA: Parameter = Parameter {
    name: "delta",
    kind: ParameterKind::Number(Interval::Positive),
    default: None,
    help: "Huber loss: larger errors have a linear loss, in the unit of the target [default: \
        1.994 median absolute deviations of the target]",
};

/// Level of a model without `quantiles`: the median.
const DEFAULT_LEVEL: f64 = 0.5;

fn build(settings: &Settings) -> Result<Regression> {
    let (levels, delta) = (settings.levels(&QUANTILES), settings.number(&DELTA));
    let word = settings.required(&LOSS, Settings::word);
    let why = "the Huber loss has no levels; omit the option, or choose `loss` pinball or expectile";
    reject_if(word == "huber" && levels.is_some(), QUANTILES.name, "with `loss` huber", why)?;
    let why = "it is the threshold of the Huber loss; omit the option, or choose `loss` huber";
    reject_if(word != "huber" && delta.is_some(), DELTA.name, delta.unwrap_or_default(), why)?;
    let levels = levels.unwrap_or_else(|| vec![DEFAULT_LEVEL]);
    Ok(Regression {
        penalties: settings.regularisation_grid()?,
        intercept: settings.intercept(),
        loss: match word {
            "huber" => LossOption::Huber(delta),
            "expectile" => LossOption::Expectile(levels),
            _ => LossOption::Pinball(levels),
        },
        gap_tolerance: settings.required(&GAP, Settings::number),
        max_steps: settings.required(&STEPS, Settings::count),
        stores_fold_functions: settings.levels(&INTERVAL).is_some(),
    })
}
