//! The report of `kmill curve`: error against rank, as text, JSON, page, picture and table.

mod columns;
mod comparison;
mod figure;
mod html;

pub use columns::COLUMNS;

use crate::{fit::ResourceReport, table::join_with_commas};
use columns::as_objects;
use ksolve::curve::{CurveCell, Method, MinimumErrors, TestErrorKind};
use std::path::PathBuf;

/// The report of a curve.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct CurveReport {
    /// One cell per method, rank and repeat, in this order; flat objects in JSON.
    #[serde(serialize_with = "as_objects")]
    pub rows: Vec<CurveCell>,
    /// Landmark schemes and maps that were compared.
    pub methods: Vec<String>,
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
    /// Number of runs of each method and rank.
    pub repeats: u64,
    /// First seed; further repeats use the consecutive seeds.
    pub seed: u64,
    /// Table that was measured.
    pub table: TableReport,
    /// Number of rows of the kernel matrix.
    pub approximated_rows: u64,
    /// Number of matrix columns for the Frobenius error; all rows if it is exact.
    pub frobenius_columns: usize,
    /// Kernel, with numeric parameters.
    pub kernel: String,
    /// Regularisation parameter of the test error.
    pub lambda: f64,
    /// Meaning of `lambda`.
    pub lambda_convention: &'static str,
    /// Kind of test error: `mse` (squared error) or `error` (error rate); null without test rows.
    pub tested: Option<TestErrorKind>,
    /// Landmark scheme of maps that do not name a scheme.
    pub landmarks: &'static str,
    /// Minimum error of any matrix of a rank; null for kernels that are not positive definite.
    #[serde(rename = "floor")]
    pub minimum_errors: Option<MinimumErrors>,
    /// Resources used by the run, and its warnings.
    #[serde(flatten)]
    pub resources: ResourceReport,
    /// Stages of the run that needs most memory.
    pub plan: Vec<StagePlan>,
    /// Number of threads; it never changes the result.
    pub threads: usize,
    /// Type of rows and features: `f32` or `f64`.
    pub precision: &'static str,
    /// Version of kmill.
    pub version: &'static str,
    /// SIMD instruction set.
    pub instruction_set: String,
    /// Processor, cores, memory and operating system.
    pub machine: String,
    /// Command line.
    pub command: String,
}

/// The table of a curve.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct TableReport {
    /// Files of the table.
    #[serde(serialize_with = "kstore::display::lossy_paths")]
    pub files: Vec<PathBuf>,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// File format.
    pub format: &'static str,
    /// Number of rows in the files.
    pub stored_rows: u64,
    /// Number of rows that were selected.
    pub selected_rows: u64,
    /// Condition on the rows.
    pub selected_where: Option<String>,
    /// Condition on the test rows.
    pub test_where: Option<String>,
    /// Names of the target columns.
    pub target: Vec<String>,
    /// Number of features; for sparse rows, of their columns.
    pub feature_count: usize,
    /// Features, before scaling; empty for sparse rows.
    pub features: Vec<FeatureReport>,
    /// Scaling of the features.
    pub scale: &'static str,
}

/// The range of a feature.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct FeatureReport {
    /// Name of the feature.
    pub name: String,
    /// Smallest value among the selected rows.
    pub min: f64,
    /// Mean over the selected rows.
    pub mean: f64,
    /// Standard deviation over the selected rows.
    pub deviation: f64,
    /// Largest value among the selected rows.
    pub max: f64,
}

/// A stage of a run with its memory plan.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct StagePlan {
    /// Landmark scheme or map.
    pub method: String,
    /// Name of the stage.
    pub stage: String,
    /// Planned memory, in bytes.
    pub bytes: usize,
    /// Name and bytes of each term of the plan, largest first.
    pub terms: Vec<(String, usize)>,
}

impl StagePlan {
    /// Returns a stage of a run with its memory plan.
    pub fn new(method: &Method, plan: kstore::MemoryPlan) -> Self {
        let bytes = plan.bytes();
        let terms = plan.terms.into_iter().filter(|term| term.bytes > 0);
        let mut terms: Vec<(String, usize)> = terms.map(|term| (term.name, term.bytes)).collect();
        terms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        Self { method: method.to_string(), stage: plan.stage, bytes, terms }
    }

    /// Returns the bytes of the stage that needs most memory.
    pub fn max_bytes(stages: &[Self]) -> usize {
        stages.iter().map(|stage| stage.bytes).max().unwrap_or(0)
    }
}

impl CurveReport {
    pub(super) fn files(&self) -> String {
        join_with_commas(self.table.files.iter().map(|file| file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::curve::Estimate;

    pub(super) fn report() -> CurveReport {
        let estimate = |value: f64, evidence: &str| Estimate {
            value,
            low: value,
            high: Some(value),
            evidence: evidence.to_string(),
        };
        let row =
            |method: &str, rank: usize, seconds: f64, evaluations: u64, trace: Option<f64>, error: f64| CurveCell {
                method: method.to_string(),
                rank,
                repeat: 0,
                features: rank,
                seconds,
                kernel_evaluations: evaluations,
                passes: 2,
                bytes_read: 1 << 20,
                planned_bytes: 64 << 20,
                trace_error: trace,
                trace_rounding: 1e-7,
                frobenius: estimate(error, "exact"),
                spectral: Some(estimate(error / 2.0, "bounds")),
                test_error: None,
                effective_dimension: None,
            };
        CurveReport {
            rows: vec![
                row("uniform", 50, 0.1, 50_000, Some(0.5), 0.3),
                row("uniform", 100, 0.4, 100_000, Some(0.25), 0.2),
                row("rpcholesky", 50, 0.2, 80_000, Some(0.4), 0.2),
                row("rpcholesky", 100, 0.8, 160_000, Some(0.1), 0.05),
                row("fourier", 50, 0.1, 0, None, 0.6),
                row("fourier", 100, 0.2, 0, None, 0.4),
            ],
            methods: ["uniform", "rpcholesky", "fourier"].map(str::to_string).to_vec(),
            ranks: vec![50, 100],
            repeats: 1,
            table: TableReport {
                feature_count: 1,
                files: vec![PathBuf::from("a<b>.parquet")],
                selected_rows: 900,
                features: vec![FeatureReport { name: "x\"0".to_string(), ..FeatureReport::default() }],
                ..TableReport::default()
            },
            approximated_rows: 900,
            frobenius_columns: 900,
            kernel: "gaussian(sigma=1)".to_string(),
            minimum_errors: Some(MinimumErrors {
                rows: 900,
                ranks: vec![50, 100],
                trace: vec![0.3, 0.05],
                frobenius: vec![0.1, 0.01],
                spectral: vec![0.05, 0.005],
            }),
            ..CurveReport::default()
        }
    }
}
