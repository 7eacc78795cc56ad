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
        "squared loss: values, or classes one against the rest",
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

/// The exact kernel has no surface to select from, and its iteration may end when the fitted values
/// are wrong by 1e-4 of the target.
fn on_kernel(given: Options) -> Options {
    let given = given.without(SELECT.name);
    if given.get(RESIDUAL.name).is_some() { given } else { given.set(RESIDUAL.name, 1e-4) }
}

pub(super) const SELECT: Parameter = Parameter {
    name: "select",
    kind: ParameterKind::Word(&["mse", "error"]),
    default: Some("mse"),
    about: "Choose rank and lambda by cross-validated mse, or by the error of classes (one more pass)",
};

pub(super) const METHOD: Parameter = Parameter {
    name: "method",
    kind: ParameterKind::Word(&["auto", "direct", "pcg"]),
    default: Some("auto"),
    about: "How the system is solved: direct, pcg (conjugate gradient; one rank, one lambda) or auto, which is pcg where direct does not fit memory, and for the map exact beyond 10,000 rows",
};

pub(super) const PRECONDITIONER: Parameter = Parameter {
    name: "preconditioner",
    kind: ParameterKind::Word(&["krill", "falkon"]),
    default: None,
    about: "Preconditioner of conjugate gradient on landmarks: krill (a sketch of 4 rank rows) or falkon [default: krill]",
};

/// The parameter `residual`: the relative residual at which conjugate gradient ends.
pub const RESIDUAL: Parameter = Parameter {
    name: "residual",
    kind: ParameterKind::Number(Interval::Fraction),
    default: None,
    about: "Relative residual at which conjugate gradient ends [default: 1e-6, and 1e-9 with precision f64]",
};

pub(super) const LOO: Parameter = Parameter::flag(
    "loo",
    "Leave-one-out errors at the chosen rank and lambda: the exact error of each row by a fit to all others; one more pass (direct)",
);

#[doc(hidden)]
pub const LOCAL: Parameter = Parameter {
    name: "local",
    kind: ParameterKind::Count { most: 30_000, reason: "the system of a leaf has the order of its rows" },
    default: None,
    about: "Learn what the features leave on the kernel itself, in leaves of a tree of at most about this many rows, such as 6000; where that helps on rows held out (direct). The model holds all rows",
};

pub(super) const IMPORTANCE: Parameter = Parameter::flag(
    "importance",
    "Report what each feature counts: the root mean square of the slope of the fit along it, for one standard deviation of the feature, in one more pass (direct)",
);
