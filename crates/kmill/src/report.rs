//! What a run answers: the JSON of the contract, and the tables people read.

use crate::surface::{Cell, short};
use crate::table::{Table, count, duration, number, percent};
use kstore::Label;
use kstore::budget::bytes;
use kstore::shown;
use serde::ser::{SerializeMap, Serializer};
use std::fmt;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// The convention of every output that names a lambda.
pub const LAMBDA: &str = "lambda is per row: (1/n) sum loss + lambda |w|^2 (scikit-learn's alpha = lambda n)";

/// Numbers of a figure that are shown.
pub(crate) const SHOWN: usize = 8;

/// What `kmill fit` did.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FitReport {
    /// Name of the solver.
    pub solver: &'static str,
    /// Rows learned from.
    pub rows: u64,
    /// Number of features, d.
    pub features: usize,
    /// Number of target columns; for classes 1.
    pub targets: usize,
    /// Their names.
    pub target_names: Vec<String>,
    /// Labels of a classification, in code order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<Label>>,
    /// The feature map, such as `nystrom`.
    pub map: String,
    /// How landmarks were chosen, and among how many rows.
    pub landmarks: Option<LandmarkReport>,
    /// The kernel with every parameter a number.
    pub kernel: String,
    /// Rank of the chosen cell.
    pub rank: usize,
    /// Lambda of the chosen cell; `None` for solvers without.
    pub lambda: Option<f64>,
    /// [`LAMBDA`].
    pub lambda_convention: &'static str,
    /// The folds, as `--folds` takes them; `none` without cross-validation.
    pub folds: String,
    /// The relative trace error over all rows; `None` for maps that are no projection.
    pub certificate: Option<Certificate>,
    /// The cells, by rank, then lambda.
    pub surface: Vec<Cell>,
    /// Scores of ridge regression on the training rows, from the Gram matrix.
    pub train: Option<Train>,
    /// How ridge regression was solved, where not from a Gram matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<ksolve::train::Solved>,
    /// What the solver says of its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<ksolve::solver::Figure>,
    /// Seconds of each stage, in the order of the stages.
    #[serde(serialize_with = "as_map")]
    pub seconds: Vec<(String, f64)>,
    /// Passes over the rows.
    pub passes: u64,
    /// Bytes read from storage over all passes.
    pub bytes_read: u64,
    /// Highest resident memory of the process, everything counted; `None` where the system does not tell.
    pub peak_rss_bytes: Option<usize>,
    /// The budget.
    pub memory_budget_bytes: usize,
    /// What the plan said before work started.
    pub planned_bytes: usize,
    /// Threads used; they never change the result.
    pub threads: usize,
    /// The instruction set that computed: the same bits are promised within one.
    pub instruction_set: String,
    /// `f32` or `f64`.
    pub precision: &'static str,
    /// Name, shift and divisor of each feature; for the page.
    #[serde(skip)]
    pub scaling: Vec<(String, f64, f64)>,
    /// Relative trace error at each rank of the surface; for the page.
    #[serde(skip)]
    pub certificates: Vec<(usize, f64)>,
    /// What the user should know: rank reduced, constant feature, tolerance not reached, …
    pub warnings: Vec<String>,
    /// The model file.
    #[serde(serialize_with = "kstore::lossy::path")]
    pub model: PathBuf,
    /// Its size.
    pub model_bytes: u64,
}

/// How landmarks were chosen.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LandmarkReport {
    /// Name of the scheme.
    pub scheme: String,
    /// Landmarks kept: the largest rank of the surface.
    pub count: usize,
    /// Rows they were chosen among.
    pub candidates: u64,
}

/// The certified error of a landmark map.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Certificate {
    /// Sum of the positive residuals over the trace of K.
    pub trace_error: f64,
    /// Sum of the negative residuals, which only rounding makes, over the trace of K.
    pub overshoot: f64,
    /// What rounding alone may account for.
    pub floor: f64,
}

impl From<ksolve::Certificate> for Certificate {
    fn from(found: ksolve::Certificate) -> Self {
        Self { trace_error: found.trace_error, overshoot: found.overshoot, floor: found.floor }
    }
}

/// Scores on the training rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Train {
    /// Mean squared error (±1 codes for classes).
    pub mse: f64,
    /// Its square root.
    pub rmse: f64,
    /// Share of variance explained; `None` for a constant target.
    pub r2: Option<f64>,
    /// Mean squared error of every row by the fit to all others, where `--loo` asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loo_mse: Option<f64>,
}

/// Serialises pairs as an object that keeps their order.
pub(crate) fn as_map<S: Serializer>(pairs: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, seconds) in pairs {
        map.serialize_entry(name, &((seconds * 1e6).round() / 1e6))?;
    }
    map.end()
}

impl fmt::Display for FitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = match &self.target_names[..] {
            [] => String::new(),
            names => format!(", target {}", shown::line(&names.join(", "))),
        };
        let classes = self.classes.as_ref().map_or(String::new(), |classes| format!(" ({} classes)", classes.len()));
        writeln!(
            f,
            "{} on {} rows, {} features{names}{classes}\n",
            self.solver,
            count(self.rows),
            count(self.features as u64),
        )?;
        let mut facts = Table::facts();
        facts.fact("kernel", self.kernel.as_str());
        if let Some(landmarks) = &self.landmarks {
            let (m, scheme, among) = (count(landmarks.count as u64), &landmarks.scheme, count(landmarks.candidates));
            facts.fact("landmarks", format!("{m} by {scheme} among {among} rows"));
        }
        if let Some(method) = &self.method {
            facts.fact("method", method.why.as_str());
        }
        if let Some(certificate) = &self.certificate {
            facts.fact("certificate", certificate.to_string());
        }
        write!(f, "{facts}")?;
        if let Some(grid) = self.surface_grid() {
            let score = if self.is_chosen_by_error() { "error" } else { "mse" };
            write!(f, "\ncross-validated {score}, folds {} (* chosen)\n\n{grid}", self.folds)?;
        }
        let mut facts = Table::facts();
        facts.fact("rank", count(self.rank as u64));
        self.lambda.inspect(|lambda| facts.fact("lambda", short(*lambda)));
        if let Some(cell) = self.chosen() {
            cell.cv_mse.inspect(|mse| facts.fact("cv mse", number(*mse, 4)));
            cell.cv_error.inspect(|error| facts.fact("cv error", percent(*error)));
            cell.gcv.inspect(|gcv| facts.fact("gcv", number(*gcv, 4)));
        }
        if let Some(train) = &self.train {
            let r2 = train.r2.map_or("–".to_string(), |r2| number(r2, 4));
            facts.fact("train mse", format!("{} (r2 {r2})", number(train.mse, 4)));
            train.loo_mse.inspect(|mse| facts.fact("loo mse", number(*mse, 4)));
        }
        for figure in &self.figures {
            let values = figure.values.iter().take(SHOWN).map(|value| number(*value, 4));
            let more = if figure.values.len() > SHOWN { ", …" } else { "" };
            facts.fact(figure.name, format!("{}{more}", values.collect::<Vec<_>>().join(", ")));
        }
        write!(f, "\n{facts}\n")?;
        write!(f, "{}", self.cost())?;
        // on one terminal with stderr they were read a moment ago
        let read = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        for warning in self.warnings.iter().filter(|_| !read) {
            writeln!(f, "\nwarning: {}", shown::line(warning))?;
        }
        writeln!(f, "\n{LAMBDA}\nmodel: {} ({})", shown::path(&self.model), bytes(self.model_bytes as usize))
    }
}

impl FitReport {
    /// Time, passes and memory.
    fn cost(&self) -> Table {
        let mut facts = Table::facts();
        let total: f64 = self.seconds.iter().map(|(_, seconds)| seconds).sum();
        let stage = |(name, seconds): &(String, f64)| format!("{name} {}", time(*seconds));
        let stages: Vec<String> = self.seconds.iter().map(stage).collect();
        facts.fact("time", format!("{} ({})", time(total), stages.join(", ")));
        let read = bytes(usize::try_from(self.bytes_read).unwrap_or(usize::MAX));
        facts.fact("read", format!("{read} in {} passes", self.passes));
        let peak = self.peak_rss_bytes.map_or("unknown".to_string(), bytes);
        facts.fact("memory", format!("peak {peak}, budget {}", bytes(self.memory_budget_bytes)));
        facts
    }
}

fn time(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds.max(0.0)))
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (error, floor) = (number(self.trace_error, 3), number(self.floor, 2));
        write!(f, "relative trace error {error} on all rows (rounding floor {floor})")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report() -> FitReport {
        let mut surface = Vec::new();
        for (rank, base) in [(250, 0.3), (1000, 0.2)] {
            for (i, lambda) in [1e-8, 1e-8 * 10f64.sqrt(), 1e-7].into_iter().enumerate() {
                surface.push(Cell {
                    rank,
                    lambda,
                    cv_mse: Some(base - 0.01 * i as f64),
                    gcv: Some(0.25),
                    cv_error: None,
                    fold_mse: Vec::new(),
                });
            }
        }
        FitReport {
            solver: "ridge",
            rows: 284_217,
            features: 29,
            targets: 1,
            target_names: vec!["y".to_string()],
            classes: None,
            map: "nystrom".to_string(),
            landmarks: Some(LandmarkReport { scheme: "rpcholesky".to_string(), count: 1000, candidates: 50_000 }),
            kernel: "gaussian(sigma=5)".to_string(),
            rank: 1000,
            lambda: Some(1e-7),
            lambda_convention: LAMBDA,
            folds: "5".to_string(),
            certificate: Some(Certificate { trace_error: 0.012_34, overshoot: 0.0, floor: 1e-7 }),
            surface,
            train: Some(Train { mse: 0.17, rmse: 0.412_3, r2: Some(0.83), loo_mse: None }),
            method: None,
            figures: Vec::new(),
            seconds: vec![("scale".to_string(), 0.5), ("gram".to_string(), 4.0)],
            passes: 4,
            bytes_read: 17 << 20,
            peak_rss_bytes: Some(400 << 20),
            memory_budget_bytes: 512 << 20,
            planned_bytes: 450 << 20,
            threads: 2,
            instruction_set: "x86-64 AVX2".to_string(),
            precision: "f32",
            scaling: Vec::new(),
            certificates: Vec::new(),
            warnings: vec!["feature x3 is constant".to_string()],
            model: PathBuf::from("m.safetensors"),
            model_bytes: 120 << 10,
        }
    }

    #[test]
    fn the_table_of_a_fit() {
        let expected = "\
ridge on 284,217 rows, 29 features, target y

  kernel       gaussian(sigma=5)
  landmarks    1,000 by rpcholesky among 50,000 rows
  certificate  relative trace error 0.0123 on all rows (rounding floor 1.0e-7)

cross-validated mse, folds 5 (* chosen)

  lambda \\ rank     250     1000
           1e-8  0.3000   0.2000
        3.16e-8  0.2900   0.1900
           1e-7  0.2800   0.1800*

  rank       1,000
  lambda     1e-7
  cv mse     0.1800
  gcv        0.2500
  train mse  0.1700 (r2 0.8300)

  time    4.5 s (scale 500 ms, gram 4.0 s)
  read    17.0 MiB in 4 passes
  memory  peak 400 MiB, budget 512 MiB

warning: feature x3 is constant

lambda is per row: (1/n) sum loss + lambda |w|^2 (scikit-learn's alpha = lambda n)
model: m.safetensors (120 KiB)
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn the_json_of_a_fit_has_the_contracts_keys() {
        let text = serde_json::to_string(&report()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys = [
            "solver",
            "rows",
            "features",
            "targets",
            "map",
            "kernel",
            "rank",
            "lambda",
            "certificate",
            "surface",
            "train",
            "seconds",
            "passes",
            "bytes_read",
            "peak_rss_bytes",
            "memory_budget_bytes",
        ];
        assert!(keys.iter().all(|key| json.get(key).is_some()), "{text}");
        assert_eq!(json["certificate"]["trace_error"], 0.012_34);
        assert_eq!(
            json["surface"][5],
            serde_json::json!({"rank": 1000, "lambda": 1e-7, "cv_mse": 0.2 - 0.01 * 2.0, "gcv": 0.25})
        );
        // stages keep their order in the text
        assert!(text.contains(r#""seconds":{"scale":0.5,"gram":4.0}"#), "{text}");
    }
}
