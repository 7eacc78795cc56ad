//! The fit itself: source, scaler, landmarks, map, Gram, surface, model.

use crate::args::run::Run;
use crate::fit::FitOptions;
use crate::report::{FitReport, PlanReport};
use crate::{Error, Result};
use std::path::Path;

/// Fits a model and writes it to `output`.
///
/// # Errors
/// Always, until the pipeline is merged.
pub fn fit(options: &FitOptions, _run: &Run, _output: &Path) -> Result<FitReport> {
    Err(not_here(options))
}

/// The plan of a fit.
///
/// # Errors
/// Always, until the pipeline is merged.
pub fn plan(options: &FitOptions, _run: &Run) -> Result<PlanReport> {
    Err(not_here(options))
}

fn not_here(options: &FitOptions) -> Error {
    Error::option("--kernel", &options.kernel, "the pipeline is not part of this build", "merge it")
}
