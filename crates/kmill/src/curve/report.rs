//! The report of a curve, as written to JSON.

use super::{columns::as_objects, request::Request};
use crate::{args::Run, report::Spent, table::joined};
use kapprox::{Real, instruction_set};
use kfit::train::target_names;
use ksolve::curve::{CurveCell, Floor, Method, Setting, Tested};
use ksolve::job::LAMBDA;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct CurveReport {
    /// One cell per method, rank and repeat, in this order; flat objects in JSON.
    #[serde(serialize_with = "as_objects")]
    pub rows: Vec<CurveCell>,
    pub methods: Vec<String>,
    pub ranks: Vec<usize>,
    pub repeats: u64,
    /// First seed; the others are consecutive.
    pub seed: u64,
    pub table: TableReport,
    pub approximated_rows: u64,
    /// Number of matrix columns for the Frobenius error; all rows if it is exact.
    pub frobenius_columns: usize,
    /// Kernel, with numeric parameters.
    pub kernel: String,
    pub lambda: f64,
    pub lambda_convention: &'static str,
    /// Kind of test error: `mse` (squared error) or `error` (error rate); null without test rows.
    pub tested: Option<Tested>,
    /// Landmark scheme of maps that do not name one.
    pub landmarks: &'static str,
    /// Minimum error of any matrix of a rank; null for kernels that are not positive definite.
    pub floor: Option<Floor>,
    #[serde(flatten)]
    pub spent: Spent,
    pub plan: Vec<Planned>,
    pub threads: usize,
    /// Type of rows and features: `f32` or `f64`.
    pub precision: &'static str,
    pub version: &'static str,
    pub instruction_set: String,
    pub machine: String,
    pub command: String,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct TableReport {
    #[serde(serialize_with = "kstore::shown::lossy_paths")]
    pub files: Vec<PathBuf>,
    /// Size on disk, in bytes.
    pub bytes: u64,
    pub format: &'static str,
    pub stored_rows: u64,
    pub selected_rows: u64,
    pub selected_where: Option<String>,
    pub test_where: Option<String>,
    pub target: Vec<String>,
    /// Features, before scaling.
    pub features: Vec<FeatureReport>,
    pub scale: &'static str,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct FeatureReport {
    pub name: String,
    /// Smallest value among the selected rows.
    pub min: f64,
    pub mean: f64,
    pub deviation: f64,
    pub max: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Planned {
    pub method: String,
    pub stage: String,
    pub bytes: usize,
    /// Name and bytes of each term of the plan, largest first.
    pub terms: Vec<(String, usize)>,
}

impl Planned {
    pub(super) fn new(method: &Method, plan: kstore::Plan) -> Self {
        let bytes = plan.bytes();
        let terms = plan.terms.into_iter().filter(|term| term.bytes > 0);
        let mut terms: Vec<(String, usize)> = terms.map(|term| (term.name, term.bytes)).collect();
        terms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        Self { method: method.to_string(), stage: plan.what, bytes, terms }
    }

    pub(super) fn largest(stages: &[Self]) -> usize {
        stages.iter().map(|stage| stage.bytes).max().unwrap_or(0)
    }
}

impl CurveReport {
    pub(super) fn new<T: Real>(
        request: &Request,
        run: &Run,
        setting: &Setting<'_, T>,
        plan: Vec<Planned>,
        cells: &[CurveCell],
    ) -> Self {
        let options = &request.options;
        let methods: Vec<String> = options.methods.iter().map(ToString::to_string).collect();
        let mut rows: Vec<CurveCell> = cells.iter().filter(|cell| cell.repeat < options.repeats).cloned().collect();
        let place = |cell: &CurveCell| methods.iter().position(|method| *method == cell.method);
        rows.sort_by_key(|cell| (place(cell), cell.rank, cell.repeat));
        let table = request.train.table();
        let names = request.train.feature_names();
        let moments = names.into_iter().zip(&setting.statistics().features);
        let feature = |(name, m): (String, &kstore::statistics::Moments)| FeatureReport {
            name,
            min: m.min,
            mean: m.mean,
            deviation: m.deviation(),
            max: m.max,
        };
        let condition = |condition: &Option<kstore::Condition>| condition.as_ref().map(ToString::to_string);
        Self {
            rows,
            methods,
            ranks: options.ranks.clone(),
            repeats: options.repeats,
            seed: options.seed,
            table: TableReport {
                files: table.files().map(std::path::Path::to_path_buf).collect(),
                bytes: table.bytes(),
                format: table.format(),
                stored_rows: table.stored_rows(),
                selected_rows: setting.statistics().rows,
                selected_where: condition(&request.train_where),
                test_where: condition(&request.test_where),
                target: target_names(&request.train),
                features: moments.map(feature).collect(),
                scale: match options.scaling {
                    ksolve::job::Scaling::Standard => "mean 0, standard deviation 1",
                    ksolve::job::Scaling::Minmax => "from 0 to 1",
                    ksolve::job::Scaling::Robust => "distance from the median over its median",
                    ksolve::job::Scaling::Asinh => "asinh of the distance from the median",
                    ksolve::job::Scaling::Quantile => "place among the quantiles",
                    // other scalings are rejected
                    _ => "as they are",
                },
            },
            approximated_rows: setting.rows(),
            frobenius_columns: setting.columns(),
            kernel: setting.kernel().to_string(),
            lambda: options.lambda,
            lambda_convention: LAMBDA,
            tested: setting.tested(),
            landmarks: options.landmarks.name,
            floor: setting.floor(),
            spent: Spent::by(run, table.bytes_read()),
            plan,
            threads: run.threads,
            precision: T::NAME,
            version: env!("CARGO_PKG_VERSION"),
            instruction_set: instruction_set(),
            machine: crate::machine::machine(),
            command: crate::machine::command(),
        }
    }

    pub(super) fn files(&self) -> String {
        joined(self.table.files.iter().map(|file| file.display()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ksolve::curve::Estimate;

    pub(in crate::curve) fn report() -> CurveReport {
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
                files: vec![PathBuf::from("a<b>.parquet")],
                selected_rows: 900,
                features: vec![FeatureReport { name: "x\"0".to_string(), ..FeatureReport::default() }],
                ..TableReport::default()
            },
            approximated_rows: 900,
            frobenius_columns: 900,
            kernel: "gaussian(sigma=1)".to_string(),
            floor: Some(Floor {
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
