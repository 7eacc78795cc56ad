//! The description of ridge regression, and its parameters.

use super::Ridge;
use crate::Task;
use crate::solver::SolverFamily;
use crate::solver::parameter::{
    FOLDS, INTERCEPT, Interval, LAMBDAS, Parameter, ParameterKind, TASK, TOLERANCE, WEIGHTS,
};

#[doc(hidden)]
pub const FAMILY: SolverFamily = SolverFamily {
    name: "ridge",
    about: "squared loss: values, or classes one against the rest",
    task: Task::Regression,
    parameters: &[
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
    make: |settings| Ok(Box::new(Ridge::new(settings))),
};

/// Ranks of the surface.
pub const RANKS: Parameter = Parameter {
    name: "ranks",
    kind: ParameterKind::Ranks,
    default: None,
    about: "Ranks to compare in the same pass: 250,500,1000 or 50..2000 (doubling) [default: rank alone]",
};

#[doc(hidden)]
pub const SELECT: Parameter = Parameter {
    name: "select",
    kind: ParameterKind::Word(&["mse", "error"]),
    default: Some("mse"),
    about: "Choose rank and lambda by cross-validated mse, or by the error of classes (one more pass)",
};

#[doc(hidden)]
pub const METHOD: Parameter = Parameter {
    name: "method",
    kind: ParameterKind::Word(&["auto", "direct", "pcg"]),
    default: Some("auto"),
    about: "How the system is solved: direct, pcg (conjugate gradient; one rank, one lambda) or auto, which is pcg where direct does not fit memory, and for the map exact beyond 10,000 rows",
};

#[doc(hidden)]
pub const PRECONDITIONER: Parameter = Parameter {
    name: "preconditioner",
    kind: ParameterKind::Word(&["krill", "falkon"]),
    default: None,
    about: "Preconditioner of conjugate gradient on landmarks: krill (a sketch of 4 rank rows) or falkon [default: krill]",
};

/// Where conjugate gradient ends.
pub const RESIDUAL: Parameter = Parameter {
    name: "residual",
    kind: ParameterKind::Number(Interval::Fraction),
    default: None,
    about: "Relative residual at which conjugate gradient ends [default: 1e-6, and 1e-9 with precision f64]",
};

#[doc(hidden)]
pub const LOO: Parameter = Parameter::flag(
    "loo",
    "Leave-one-out errors at the chosen rank and lambda: the exact error of each row by a fit to all others; one more pass (direct)",
);

#[doc(hidden)]
pub const STD: Parameter = Parameter::flag(
    "std",
    "Keep in the model what predict --std and kmill update need: 16 bytes for each pair of landmarks (a numeric target; ridge direct, online rls)",
);

#[doc(hidden)]
pub const LOCAL: Parameter = Parameter {
    name: "local",
    kind: ParameterKind::Count { most: 30_000, reason: "the system of a leaf has the order of its rows" },
    default: None,
    about: "Learn what the features leave on the kernel itself, in leaves of a tree of at most about this many rows, such as 6000; where that helps on rows held out (direct). The model holds all rows",
};

#[doc(hidden)]
pub const IMPORTANCE: Parameter = Parameter::flag(
    "importance",
    "Report what each feature counts: the root mean square of the slope of the fit along it, for one standard deviation of the feature, in one more pass (direct)",
);
