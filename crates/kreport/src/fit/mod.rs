//! The report of a fit. Scripts rely on the JSON; the text and the page show the same facts.

mod page;
mod plan;
mod surface;
mod test_set;
mod text;

pub use plan::PlanReport;
#[doc(hidden)]
pub use test_set::TestPart;
pub use test_set::TestSetReport;
pub use text::{DISTANCE_DESCRIPTION, describe_certificate, describe_neighbours};

use crate::table::format_seconds;
use ksolve::growth::GrowthReport;
use ksolve::job;
use ksolve::job::Combination;
use kstore::{budget::format_bytes, display};
use serde::Serializer;
use std::fmt;
use std::path::{Path, PathBuf};

/// The verbosity of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// No output but the result.
    Quiet,
    /// Warnings and notes; a bar during a stage, or a line every few seconds without a terminal.
    #[default]
    Normal,
    /// Also the plan, and a line for every stage.
    Verbose,
}

/// The report of `kmill fit`: the report of the library, with the time, memory and files of the
/// process.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FitReport {
    /// Report of the library: what was learned, and from which rows.
    #[serde(flatten)]
    pub fit: job::FitReport,
    /// Resources used by the run, and its warnings.
    #[serde(flatten)]
    pub resources: ResourceReport,
    /// Number of threads; it never changes the result.
    pub threads: usize,
    /// Learned weights of a sum of kernels; absent without `--combine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combination: Option<Combination>,
    /// Model file; absent if none was written.
    #[serde(flatten)]
    pub model: Option<ModelFile>,
    /// Scores on the test rows; absent without `--test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_set: Option<TestSetReport>,
    /// Rows that were added after the landmarks were chosen, compared with the earlier rows; absent
    /// without added rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub growth: Option<GrowthReport>,
    /// Verbosity of the text.
    #[serde(skip)]
    pub verbosity: Verbosity,
}

/// The resources used by a run, and its warnings.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ResourceReport {
    /// Seconds of each stage, in the order in which they ended.
    #[serde(serialize_with = "as_map")]
    pub seconds: Vec<(String, f64)>,
    /// Bytes read from storage in all passes.
    pub bytes_read: u64,
    /// Peak resident memory of the process, in bytes; `None` if the system does not report it.
    pub peak_rss_bytes: Option<usize>,
    /// Memory budget, in bytes.
    pub memory_budget_bytes: usize,
    /// Warnings, one sentence each: rank reduced, constant feature, tolerance not reached, …
    pub warnings: Vec<String>,
}

impl ResourceReport {
    /// Returns the seconds of all stages.
    pub fn total_seconds(&self) -> f64 {
        self.seconds.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Returns time, bytes read and memory as names and texts; `planned_bytes` is the planned
    /// memory.
    pub fn facts(&self, passes: Option<u64>, planned_bytes: Option<usize>) -> [(&'static str, String); 3] {
        let passes = passes.map_or(String::new(), |passes| format!(" in {passes} passes"));
        let read = format_bytes(usize::try_from(self.bytes_read).unwrap_or(usize::MAX));
        let peak = self.peak_rss_bytes.map_or("unknown".to_string(), format_bytes);
        let planned_text =
            planned_bytes.map_or(String::new(), |planned| format!(", planned {}", format_bytes(planned)));
        let memory = format!("peak {peak}{planned_text}, budget {}", format_bytes(self.memory_budget_bytes));
        [("time", format_seconds(self.total_seconds())), ("read", format!("{read}{passes}")), ("memory", memory)]
    }
}

/// A model file that was written.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct ModelFile {
    /// Path of the model file.
    #[serde(rename = "model", serialize_with = "kstore::display::lossy_path")]
    pub path: PathBuf,
    /// Size of the model file, in bytes.
    #[serde(rename = "model_bytes")]
    pub bytes: u64,
}

impl ModelFile {
    /// Returns the model file at a path, with its size.
    pub fn from_path(path: &Path) -> Self {
        Self { path: path.to_path_buf(), bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()) }
    }
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", display::escape_path(&self.path), format_bytes(self.bytes as usize))
    }
}

impl FitReport {
    /// Returns the report of a fit that wrote no model file, without a combination of kernels and
    /// without test rows.
    pub fn new(fit: job::FitReport, resources: ResourceReport, threads: usize) -> Self {
        Self {
            fit,
            resources,
            threads,
            combination: None,
            model: None,
            test_set: None,
            growth: None,
            verbosity: Verbosity::default(),
        }
    }
}

/// Serialises pairs as an object, preserving their order.
fn as_map<S: Serializer>(pairs: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, seconds)| (name, (seconds * 1e6).round() / 1e6)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ksolve::Certificate;

    pub(crate) fn report() -> FitReport {
        let mut surface = Vec::new();
        for (rank, base) in [(250, 0.3), (1000, 0.2)] {
            for (i, lambda) in [1e-8, 1e-8 * 10f64.sqrt(), 1e-7].into_iter().enumerate() {
                surface.push(ksolve::SurfaceCell {
                    rank,
                    lambda,
                    cv_mse: Some(base - 0.01 * i as f64),
                    gcv: Some(0.25),
                    cv_error: None,
                    fold_mse: Vec::new(),
                    fold_error: Vec::new(),
                });
            }
        }
        let mut fit = job::FitReport::default();
        (fit.solver, fit.rows, fit.features, fit.targets) = ("ridge", 284_217, 29, 1);
        (fit.target_names, fit.map) = (vec!["y".to_string()], "nystrom".to_string());
        let scheme = "rpcholesky".to_string();
        fit.landmarks = Some(job::LandmarkReport { scheme, count: 1000, candidates: 50_000 });
        (fit.kernel, fit.folds) = ("gaussian(sigma=5)".to_string(), "5".to_string());
        (fit.rank, fit.lambda, fit.passes) = (1000, Some(1e-7), 4);
        fit.lambda_convention = job::convention_of(fit.solver);
        fit.certificate = Some(Certificate { trace_error: 0.012_34, overshoot: 0.0, floor: 1e-7 });
        fit.surface = surface;
        let mut train = job::TrainScores::default();
        (train.mse, train.rmse, train.r2) = (0.17, 0.412_3, Some(0.83));
        fit.train = Some(train);
        FitReport {
            fit,
            resources: ResourceReport {
                seconds: vec![("scale".to_string(), 0.5), ("gram".to_string(), 4.0)],
                bytes_read: 17 << 20,
                peak_rss_bytes: Some(400 << 20),
                memory_budget_bytes: 512 << 20,
                warnings: vec!["feature x3 is constant".to_string()],
            },
            threads: 2,
            combination: None,
            model: Some(ModelFile { path: PathBuf::from("m.safetensors"), bytes: 120 << 10 }),
            test_set: None,
            growth: None,
            verbosity: Verbosity::Normal,
        }
    }
}
