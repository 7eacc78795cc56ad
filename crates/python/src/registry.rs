//! The contents of the registries, from which the Python side generates estimators, their
//! signatures and their documentation.

use crate::error::to_py_err;
use kfit::solver::parameter::{Parameter, ParameterKind};
use kmodel::grids;
use pyo3::{exceptions::PyValueError, prelude::*};
use serde_json::json;

/// Parses lists or ranges of regularisation parameters and of ranks.
#[pyfunction]
pub(crate) fn grid(lambdas: &str, ranks: &str) -> PyResult<(Vec<f64>, Vec<usize>)> {
    Ok((
        grids::parse_regularisation("lambda", lambdas).map_err(to_py_err)?,
        grids::parse_ranks(ranks).map_err(to_py_err)?,
    ))
}

/// Returns solvers with their parameters, kernels, landmark schemes and maps, as JSON.
#[pyfunction]
pub(crate) fn registries() -> PyResult<String> {
    let solvers = kfit::solver::registry().into_iter().map(|family| {
        let parameters: Vec<_> = family.parameters.iter().map(describe_parameter).collect();
        json!({"name": family.name, "about": family.about, "task": family.task, "parameters": parameters})
    });
    let kernels = kapprox::kernel::registry()
        .into_iter()
        .map(|family| json!({"name": family.name, "formula": family.formula, "example": family.example}));
    let schemes =
        kapprox::landmark::registry().into_iter().map(|scheme| json!({"name": scheme.name, "about": scheme.about}));
    let maps = kapprox::map::registry().into_iter().map(|family| json!({"name": family.name, "about": family.summary}));
    let all = json!({
        "solvers": solvers.collect::<Vec<_>>(),
        "kernels": kernels.collect::<Vec<_>>(),
        "landmarks": schemes.collect::<Vec<_>>(),
        "maps": maps.collect::<Vec<_>>(),
    });
    serde_json::to_string(&all).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn describe_parameter(parameter: &Parameter) -> serde_json::Value {
    let (kind, words): (&str, &[&str]) = match parameter.kind {
        ParameterKind::Flag => ("flag", &[]),
        ParameterKind::Count { .. } => ("count", &[]),
        ParameterKind::Counts { .. } => ("counts", &[]),
        ParameterKind::Number(_) => ("number", &[]),
        ParameterKind::Choice(words) => ("word", words),
        ParameterKind::Regularisations { accepts_grid: true, .. } => ("penalties", &[]),
        ParameterKind::Regularisations { accepts_grid: false, .. } => ("penalty", &[]),
        ParameterKind::Ranks => ("ranks", &[]),
        ParameterKind::Levels => ("levels", &[]),
        ParameterKind::Folds => ("folds", &[]),
        ParameterKind::Column => ("column", &[]),
        ParameterKind::ClassWeights => ("class weights", &[]),
        ParameterKind::Columns => ("columns", &[]),
        ParameterKind::Kernel => ("kernel", &[]),
    };
    json!({"name": parameter.name, "kind": kind, "words": words, "default": parameter.default, "about": parameter.help})
}
