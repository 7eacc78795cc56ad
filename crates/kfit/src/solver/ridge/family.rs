//! Description of ridge regression, and its parameters.

use super::Ridge;
use crate::solver::parameter::{
    FOLDS, INTERCEPT, Interval, LAMBDAS, Parameter, ParameterKind, RANKS, STD, TASK, TOLERANCE, WEIGHTS,
};
use crate::solver::{Options, Settings, SolverFamily, refuse};
use crate::{Result, Task};

#[doc(hidden)]
pub const FAMILY: SolverFamily = SolverFamily {
    of_rank: &[LOCAL],
    on_kernel,
    ..SolverFamily::new(
        "ridge",
        "squared loss: regression, or one-vs-rest classification",
        Task::Regression,
        &[
            TASK,
            Parameter {
                default: Some("1e-9..1e-3"),
                kind: ParameterKind::Penalties { several: true, zero: true },
                ..LAMBDAS
            },
            RANKS,
            TOLERANCE,
            FOLDS,
            SELECT,
            INTERCEPT,
            METHOD,
            PRECONDITIONER,
            RESIDUAL,
            LOO,
            STD,
            IMPORTANCE,
            LOCAL,
            WEIGHTS,
        ],
        |settings| {
            check_iteration(settings)?;
            Ok(Box::new(Ridge::new(settings)))
        },
    )
};

/// Rejects parameters of the iteration if the system is solved directly.
fn check_iteration(settings: &Settings) -> Result<()> {
    let given = [
        (PRECONDITIONER.name, settings.word(&PRECONDITIONER).is_some()),
        (RESIDUAL.name, settings.number(&RESIDUAL).is_some()),
    ];
    let direct = settings.word(&METHOD) == Some("direct");
    let why = "`method` direct does not iterate; leave it out";
    given.into_iter().try_for_each(|(name, given)| refuse(direct && given, name, "", why))
}

/// Removes the selection criterion, because the exact kernel has no surface, and sets a default
/// residual of 1e-4, which bounds the error of fitted values relative to the target.
fn on_kernel(given: Options) -> Options {
    let given = given.without(SELECT.name);
    if given.get(RESIDUAL.name).is_some() { given } else { given.set(RESIDUAL.name, 1e-4) }
}

pub(super) const SELECT: Parameter = Parameter {
    name: "select",
    kind: ParameterKind::Word(&["mse", "error"]),
    default: Some("mse"),
    about: "Choose rank and lambda by cross-validated mse, or by the error rate of the classes \
        (one more pass)",
};

pub(super) const METHOD: Parameter = Parameter {
    name: "method",
    kind: ParameterKind::Word(&["auto", "direct", "pcg"]),
    default: Some("auto"),
    about: "Method for the linear system: auto, direct or pcg; pcg is the preconditioned \
        conjugate gradient method (one rank, one lambda); auto is pcg if direct does not fit in \
        memory, or for the map exact beyond 10,000 rows",
};

pub(super) const PRECONDITIONER: Parameter = Parameter {
    name: "preconditioner",
    kind: ParameterKind::Word(&["krill", "falkon"]),
    default: None,
    about: "Preconditioner of pcg on landmarks: krill or falkon; krill uses a sketch of 4 * rank \
        rows [default: krill]",
};

/// The parameter `residual`: the relative residual at which conjugate gradient ends.
pub const RESIDUAL: Parameter = Parameter {
    name: "residual",
    kind: ParameterKind::Number(Interval::Fraction),
    default: None,
    about: "Relative residual at which pcg stops [default: 1e-6; 1e-9 with precision f64]",
};

pub(super) const LOO: Parameter = Parameter::flag(
    "loo",
    "Report the leave-one-out error at the chosen rank and lambda: the exact error of each row \
        under a fit to all other rows; one more pass (direct)",
);

#[doc(hidden)]
pub const LOCAL: Parameter = Parameter {
    name: "local",
    kind: ParameterKind::Count { most: 30_000, reason: "the linear system of a leaf has one unknown per row" },
    default: None,
    about: "Learn the residuals of the features with the exact kernel, in the leaves of a tree; \
        each leaf has at most about this many rows, such as 6000; used only if it reduces the \
        error on validation rows (direct). The model stores all rows",
};

pub(super) const IMPORTANCE: Parameter = Parameter::flag(
    "importance",
    "Report the importance of each feature: the root mean square slope of the fit along it, per \
        standard deviation of the feature; one more pass (direct)",
);
