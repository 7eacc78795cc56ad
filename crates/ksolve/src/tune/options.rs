//! The options of a search.

use crate::job::Fit;
use crate::solver::{parameter, ridge};
use crate::train::TrainOptions;
use crate::{Error, Intercept, Result, Task};
use kapprox::kernel::Spec;

/// The score that kernels are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// Cross-validated squared error.
    #[default]
    Cv,
    /// Generalised cross-validation.
    Gcv,
    /// Centred kernel-target alignment.
    Alignment,
}

impl Score {
    /// True where the larger number is the better.
    pub fn is_larger_better(self) -> bool {
        self == Self::Alignment
    }
}

crate::error::enum_of_words!(Score, "score", "cv" => Cv, "gcv" => Gcv, "alignment" => Alignment);

/// The options of a search, which define the result for given rows.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// Ranks, folds, map and landmarks; its kernel is not read.
    pub training: TrainOptions,
    /// Takes blocks of rows as folds, in the place of random ones, where rows that follow each other have like targets.
    pub blocks: bool,
    /// Lambdas, ascending.
    pub lambdas: Vec<f64>,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// Kernels to try; medians still to be taken are taken on the sample.
    pub kernels: Vec<Spec>,
    /// Factors that the length scales of each kernel are multiplied by.
    pub factors: Vec<f64>,
    /// The score they are compared by.
    pub score: Score,
    /// Number of rows of the last rung; fewer where the table has fewer.
    pub sample: usize,
}

/// The kernels that are tried where none is named: smooth, and rough in two degrees.
pub const KERNELS: [&str; 3] = ["gaussian()", "exponential()", "matern(nu=1.5)"];

/// Factors of the length scales, where no metric is learned with them.
pub const FACTORS: &str = "0.25..4";

/// The fit of ridge regression by which kernels are compared: the fit itself, or one in its place.
///
/// # Errors
/// Parameters of the solver that do not parse.
pub fn stand_in(fit: &Fit, score: Score) -> Result<Fit> {
    if fit.family().name == ridge::FAMILY.name || score == Score::Alignment {
        return Ok(fit.clone());
    }
    let folds = fit.settings()?.folds(&parameter::FOLDS);
    let task = if fit.task()? == Task::Classification { "classification" } else { "regression" };
    let ridge = fit.for_solver(ridge::FAMILY.name)?.set("task", task);
    Ok(folds.into_iter().fold(ridge, |ridge, folds| ridge.set("folds", folds)))
}

/// Refuses options that a search cannot follow.
pub(super) fn check(options: &TuneOptions, features: usize) -> Result<()> {
    let training = &options.training;
    training.check()?;
    if training.map.is_exact() {
        let remedy =
            "the search compares ranks of a map; leave it out, and fit with `map` exact and the kernel that is found";
        return Err(Error::option("map", "exact", remedy));
    }
    if training.tolerance.is_some() {
        return Err(Error::option("tolerance", "a tolerance", "the search chooses among `ranks`; leave it out"));
    }
    if let Some(factor) = options.factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
        return Err(Error::option(
            "factors",
            kstore::shown::number(*factor),
            "a length scale is multiplied by positive numbers only",
        ));
    }
    if options.kernels.is_empty() || options.factors.is_empty() {
        return Err(Error::option("kernels", "", "name a kernel to try, and a factor of its length scale"));
    }
    for kernel in &options.kernels {
        kernel.check_features(options.training.metric.outputs(features))?;
    }
    if options.score == Score::Cv && matches!(training.folds, crate::FoldSpec::None) {
        return Err(Error::option("score", "cv", "it needs folds; give `folds` 5, or `score` gcv"));
    }
    Ok(())
}
