//! Description of ridge regression, and its parameters.

use super::Ridge;
use crate::solver::parameter::{
    FOLDS, INTERCEPT, INTERVAL, Interval, LAMBDA_GRID, Parameter, ParameterKind, RANKS, STD, TASK, TOLERANCE, WEIGHTS,
};
use crate::solver::{Options, Settings, SolverFamily, reject_if};
use crate::{Result, Task};

#[doc(hidden)]
pub const FAMILY: SolverFamily = SolverFamily {
    joint_rank_parameters: &[LEAF_ROWS, LEAF_KERNEL],
    options_for_exact_kernel,
    ..SolverFamily::new(
        "ridge",
        "squared loss: regression, or one-vs-rest classification",
        Task::Regression,
        &[
            TASK,
            Parameter {
                default: Some("1e-9..1e-3"),
                kind: ParameterKind::Regularisations { accepts_grid: true, accepts_zero: true },
                ..LAMBDA_GRID
            },
            RANKS,
            TOLERANCE,
            FOLDS,
            CRITERION,
            INTERCEPT,
            METHOD,
            PRECONDITIONER,
            RESIDUAL,
            LOO,
            STD,
            INTERVAL,
            IMPORTANCE,
            LEAF_ROWS,
            LEAF_KERNEL,
            WEIGHTS,
        ],
        |settings| {
            reject_iteration_parameters(settings)?;
            Ok(Box::new(Ridge::new(settings)))
        },
    )
};

/// Rejects the parameters of conjugate gradient if `method` is direct.
fn reject_iteration_parameters(settings: &Settings) -> Result<()> {
    let iteration_parameters = [
        (PRECONDITIONER.name, settings.word(&PRECONDITIONER).is_some()),
        (RESIDUAL.name, settings.number(&RESIDUAL).is_some()),
    ];
    let is_direct = settings.word(&METHOD) == Some("direct");
    let why = "`method` direct does not iterate; leave it out";
    iteration_parameters.into_iter().try_for_each(|(name, is_set)| reject_if(is_direct && is_set, name, "", why))
}

/// Returns the options with which an exact kernel is fitted instead of a feature map. Removes the
/// selection criterion, because the exact kernel has no grid of ranks and lambdas. Unless
/// `residual` is set, sets it to 1e-4: the error of the fitted values is then at most 1e-4 of the
/// targets.
fn options_for_exact_kernel(options: Options) -> Options {
    let options = options.without(CRITERION.name);
    if options.get(RESIDUAL.name).is_some() { options } else { options.set(RESIDUAL.name, 1e-4) }
}

pub(super) const CRITERION: Parameter = Parameter {
    name: "select",
    kind: ParameterKind::Choice(&["mse", "error"]),
    default: Some("mse"),
    help: "Choose rank and lambda by cross-validated mse, or by the error rate of the classes \
        (one more pass)",
};

pub(super) const METHOD: Parameter = Parameter {
    name: "method",
    kind: ParameterKind::Choice(&["auto", "direct", "pcg"]),
    default: Some("auto"),
    help: "Method for the linear system: auto, direct or pcg; pcg is the preconditioned \
        conjugate gradient method (one rank, one lambda); auto is pcg if direct does not fit in \
        memory, or for the map exact beyond 10,000 rows",
};

pub(super) const PRECONDITIONER: Parameter = Parameter {
    name: "preconditioner",
    kind: ParameterKind::Choice(&["krill", "falkon"]),
    default: None,
    help: "Preconditioner of pcg on landmarks: krill or falkon; krill uses a sketch of 8 * rank \
        rows [default: krill]",
};

/// The parameter `residual`: the relative residual at which conjugate gradient ends.
pub const RESIDUAL: Parameter = Parameter {
    name: "residual",
    kind: ParameterKind::Number(Interval::PositiveBelowOne),
    default: None,
    help: "Relative residual at which pcg stops [default: 1e-6; 1e-9 with precision f64]",
};

pub(super) const LOO: Parameter = Parameter::flag(
    "loo",
    "Report the leave-one-out error at the chosen rank and lambda: the exact error of each row \
        under a fit to all other rows; one more pass (direct)",
);

#[doc(hidden)]
pub const LEAF_ROWS: Parameter = Parameter {
    name: "local",
    kind: ParameterKind::Count { max: 30_000, reason: "the linear system of a leaf has one unknown per row" },
    default: None,
    help: "Learn the residuals of the features with the exact kernel, in the leaves of a tree; \
        each leaf has at most about this many rows, such as 6000; used only if it reduces the \
        error on validation rows (direct). The model stores all rows",
};

#[doc(hidden)]
pub const LEAF_KERNEL: Parameter = Parameter {
    name: "local_kernel",
    kind: ParameterKind::Kernel,
    default: None,
    help: "Kernel of the leaves of `local`, such as 'exponential()'; its length scales, one for \
        each feature, are learned from the residuals by marginal likelihood, and it is used only \
        if it reduces the error on random rows and does not raise the error on a fold [default: \
        the kernel of the fit]",
};

pub(super) const IMPORTANCE: Parameter = Parameter::flag(
    "importance",
    "Without test rows, report the importance of each feature: the root mean square slope of the \
        fit along it, per standard deviation of the feature; one more pass (direct)",
);
