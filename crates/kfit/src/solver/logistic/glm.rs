//! Regression of counts and positive numbers: Poisson, Gamma and Tweedie distributions with a
//! logarithmic link.
//!
//! ```text
//! minimise over w, c   F = (1/n) Σ_i a_i ½ d(y_i, e_i exp(wᵀφ_i + c)) + lambda ‖w‖²
//! ```
//!
//! d is the unit [deviance](crate::Deviance), e_i the exposure of a row (`exposure`, 1 by default),
//! a_i its weight, and n the sum of the weights. Predictions are exp(wᵀφ + c), for exposure 1.
//! alpha of scikit-learn's `PoissonRegressor`, `GammaRegressor` and `TweedieRegressor` is 2 lambda.

use super::Logistic;
use super::response::Response;
use crate::solver::parameter::{
    DEFAULT_LAMBDA_GRID, EXPOSURE, FOLDS, INTERCEPT, Interval, Parameter, ParameterKind, STEPS, TOLERANCE, WEIGHTS,
};
use crate::solver::{Settings, SolverFamily, reject_if};
use crate::{Deviance, Result, Task};

pub(in crate::solver) const GLM: SolverFamily = SolverFamily::new(
    "glm",
    "counts and positive numbers: Poisson, Gamma or Tweedie regression with a logarithmic link",
    Task::Regression,
    &[FAMILY, POWER, EXPOSURE, DEFAULT_LAMBDA_GRID, FOLDS, INTERCEPT, STEPS, TOLERANCE, WEIGHTS],
    |settings| Ok(Box::new(build(settings)?)),
);

const FAMILY: Parameter = Parameter {
    name: "family",
    kind: ParameterKind::Choice(&["poisson", "gamma", "tweedie"]),
    default: Some("poisson"),
    help: "Distribution of the target: poisson (counts), gamma (positive numbers) or tweedie (numbers \
        of 0 or more, with many zeros)",
};

const POWER: Parameter = Parameter {
    name: "power",
    kind: ParameterKind::Number(Interval::Positive),
    default: None,
    help: "Power of the variance of family tweedie: the variance is proportional to the mean to this \
        power, above 1 and below 2 [default: 1.5]",
};

/// Power of the variance for `family` tweedie without `power`.
const DEFAULT_POWER: f64 = 1.5;

fn build(settings: &Settings) -> Result<Logistic> {
    let (family, power) = (settings.required(&FAMILY, Settings::word), settings.number(&POWER));
    let why = "only `family` tweedie has a power; omit the option";
    reject_if(family != "tweedie" && power.is_some(), POWER.name, power.unwrap_or_default(), why)?;
    let why = "expected a number above 1 and below 2, such as 1.5; for 1 use `family` poisson, for 2 gamma";
    reject_if(power.is_some_and(|power| power <= 1.0 || power >= 2.0), POWER.name, power.unwrap_or_default(), why)?;
    let exposure = settings.column(&EXPOSURE);
    let why = "exposures are weights of rates; leave one of the two out";
    reject_if(exposure.is_some() && settings.column(&WEIGHTS).is_some(), EXPOSURE.name, "with `weights`", why)?;
    let power = match family {
        "gamma" => 2.0,
        "tweedie" => power.unwrap_or(DEFAULT_POWER),
        _ => 1.0,
    };
    Ok(Logistic {
        penalties: settings.regularisation_grid()?,
        intercept: settings.intercept(),
        response: Response::Numbers { deviance: Deviance { power }, has_exposure: exposure.is_some() },
        max_steps: settings.required(&STEPS, Settings::count),
        stores_fold_functions: false,
    })
}
