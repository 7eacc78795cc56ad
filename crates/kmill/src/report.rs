//! The report of a fit: its JSON, which scripts rely on, and its text for people.

use crate::args::run::Run;
use crate::error::flags;
use crate::importance::{described, importance, most_important, slopes};
use crate::progress::Voice;
use crate::surface::short;
use crate::table::{Grid, Table, count, duration, list, number, percent, rounded};
use ksolve::Certificate;
use ksolve::job::{self, LAMBDA};
use kstore::budget::bytes;
use kstore::shown;
use serde::ser::{SerializeMap, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The report of `kmill fit`: that of the library, with the time, memory and files of the process.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FitReport {
    /// The report of the library: what was learned, and from what.
    #[serde(flatten)]
    pub fit: job::FitReport,
    /// Seconds of each stage, in the order in which they ended.
    #[serde(serialize_with = "as_map")]
    pub seconds: Vec<(String, f64)>,
    /// Bytes read from storage over all passes.
    pub bytes_read: u64,
    /// Highest resident memory of the process, everything counted; `None` where the system does not tell.
    pub peak_rss_bytes: Option<usize>,
    /// The memory budget, in bytes.
    pub memory_budget_bytes: usize,
    /// Number of threads; it never changes the result.
    pub threads: usize,
    /// The warnings of the run, one sentence each: rank reduced, constant feature, tolerance not reached, …
    pub warnings: Vec<String>,
    /// The model file; absent where none was written.
    #[serde(flatten)]
    pub model: Option<ModelFile>,
    /// How much of this people are shown.
    #[serde(skip)]
    pub voice: Voice,
}

/// A model file that was written.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ModelFile {
    /// The path of the model file.
    #[serde(rename = "model", serialize_with = "kstore::lossy::path")]
    pub path: PathBuf,
    /// Size of the model file, in bytes.
    #[serde(rename = "model_bytes")]
    pub bytes: u64,
}

impl ModelFile {
    /// The file at `path`, with its size.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf(), bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()) }
    }
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", shown::path(&self.path), bytes(self.bytes as usize))
    }
}

impl FitReport {
    /// The report as an HTML page, which is what `--report` writes.
    pub fn page(&self) -> crate::page::Page {
        crate::fit_page::page(self)
    }

    /// The report of a fit that has just ended.
    pub(crate) fn new(mut fit: job::FitReport, run: &Run, table: &kstore::Table, model: Option<&Path>) -> Self {
        if let Some(method) = &mut fit.method {
            method.why = flags(&method.why);
        }
        Self {
            fit,
            seconds: run.progress.seconds(),
            bytes_read: table.bytes_read(),
            peak_rss_bytes: kstore::budget::peak_rss(),
            memory_budget_bytes: run.memory,
            threads: run.threads,
            warnings: run.progress.warnings(),
            model: model.map(ModelFile::at),
            voice: run.progress.voice(),
        }
    }
}

/// Rows of a surface on either side of the chosen one that are shown, where the whole has more than [`WHOLE_SURFACE`].
const AROUND: usize = 1;
const WHOLE_SURFACE: usize = 4;

/// The rows of a surface about the marked one, and what is said of the others.
fn about_the_best(mut grid: Grid) -> (Grid, String) {
    let all = grid.rows.len();
    let Some((row, column)) = grid.marked.filter(|_| all > WHOLE_SURFACE) else { return (grid, String::new()) };
    let first = row.saturating_sub(AROUND).min(all.saturating_sub(2 * AROUND + 1));
    grid.rows = grid.rows.into_iter().skip(first).take(2 * AROUND + 1).collect();
    grid.marked = Some((row - first, column));
    (grid, format!("; -v shows all {all} rows"))
}

/// The certificate in a sentence.
pub(crate) fn certified(certificate: &Certificate) -> String {
    let (error, floor) = (number(certificate.trace_error, 3), number(certificate.floor, 2));
    format!("relative trace error {error} on all rows (rounding floor {floor})")
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
        let fit = &self.fit;
        let names = match &fit.target_names[..] {
            [] => String::new(),
            names => format!(", target {}", shown::line(&names.join(", "))),
        };
        let classes = fit.classes.as_ref().map_or(String::new(), |classes| format!(" ({} classes)", classes.len()));
        writeln!(
            f,
            "{} on {} rows, {} features{names}{classes}\n",
            fit.solver,
            count(fit.rows),
            count(fit.features as u64),
        )?;
        let whole = self.voice == Voice::Full;
        let mut facts = Table::facts();
        let kernel = |kernel: &str| if whole { kernel.to_string() } else { rounded(kernel) };
        match fit.neighbours {
            Some(_) => facts.fact("distances", DISTANCES),
            None => facts.fact("kernel", kernel(&fit.kernel)),
        }
        fit.with_kernel.iter().for_each(|with| facts.fact("with kernel", kernel(with)));
        fit.metric.iter().for_each(|metric| facts.fact("metric", described(metric)));
        fit.metric.iter().filter(|_| !whole).for_each(|metric| facts.fact("features", most_important(metric)));
        if let Some(landmarks) = &fit.landmarks {
            let (scheme, among) = (&landmarks.scheme, count(landmarks.candidates));
            match (fit.neighbours, self.nodes()) {
                (Some(k), Some(nodes)) => {
                    facts.fact("nodes", format!("{} by {scheme} among {among} rows, {}", count(nodes), joined(k)))
                }
                _ => {
                    facts.fact("landmarks", format!("{} by {scheme} among {among} rows", count(landmarks.count as u64)))
                }
            }
        }
        if let Some(method) = &fit.method {
            facts.fact("method", method.why.as_str());
        }
        if let Some(certificate) = &fit.certificate {
            facts.fact("certificate", certified(certificate));
        }
        write!(f, "{facts}")?;
        if let Some(grid) = self.surface_grid() {
            let score = if self.is_chosen_by_error() { "error" } else { "mse" };
            let (grid, rest) = if whole { (grid, String::new()) } else { about_the_best(grid) };
            write!(f, "\ncross-validated {score}, folds {} (* chosen{rest})\n{grid}", fit.folds)?;
        }
        write!(f, "\n{}\n", self.results())?;
        if let Some(metric) = fit.metric.as_ref().filter(|_| whole) {
            writeln!(f, "{}", importance(metric))?;
        }
        if !fit.importance.is_empty() {
            writeln!(f, "{}", slopes(&fit.importance))?;
        }
        if whole {
            writeln!(f, "{}\n{LAMBDA}", self.cost())?;
        }
        // whoever is not quiet has read them on stderr
        for warning in self.warnings.iter().filter(|_| self.voice == Voice::Quiet) {
            writeln!(f, "warning: {}", shown::line(warning))?;
        }
        self.model.iter().try_for_each(|model| writeln!(f, "model: {model}, in {}", self.in_all()))
    }
}

/// The distances of models of graphs.
pub(crate) const DISTANCES: &str = "Euclidean, of the scaled features";

/// How a graph is made.
pub(crate) fn joined(neighbours: usize) -> String {
    format!("each joined to its {} nearest", count(neighbours as u64))
}

/// The figure that tells the number of nodes.
const NODES: &str = "nodes";

impl FitReport {
    /// The number of nodes of a graph.
    fn nodes(&self) -> Option<u64> {
        let figure = self.fit.figures.iter().find(|figure| figure.name == NODES)?;
        figure.values.first().map(|nodes| *nodes as u64)
    }

    /// A table of what was chosen, and of how good it is.
    fn results(&self) -> Table {
        let fit = &self.fit;
        let mut facts = Table::facts();
        if fit.neighbours.is_none() {
            facts.fact("rank", count(fit.rank as u64));
        }
        fit.lambda.inspect(|lambda| facts.fact("lambda", short(*lambda)));
        if let Some(cell) = self.chosen() {
            cell.cv_mse.inspect(|mse| facts.fact("cv mse", number(*mse, 4)));
            cell.cv_error.inspect(|error| facts.fact("cv error", percent(*error)));
            cell.gcv.inspect(|gcv| facts.fact("gcv", number(*gcv, 4)));
        }
        if let Some(train) = &fit.train {
            let r2 = train.r2.map_or("–".to_string(), |r2| number(r2, 4));
            facts.fact("train mse", format!("{} (r2 {r2})", number(train.mse, 4)));
            train.loo_mse.inspect(|mse| facts.fact("loo mse", number(*mse, 4)));
        }
        let told = fit.figures.iter().filter(|figure| figure.name != NODES);
        told.for_each(|figure| facts.fact(figure.name, list(&figure.values)));
        facts
    }

    /// A table of time, passes and memory, stage by stage.
    fn cost(&self) -> Table {
        let mut facts = Table::facts();
        facts.fact("time", time(self.total()));
        self.seconds.iter().for_each(|(name, seconds)| facts.fact(&format!("  {name}"), time(*seconds)));
        let read = bytes(usize::try_from(self.bytes_read).unwrap_or(usize::MAX));
        facts.fact("read", format!("{read} in {} passes", self.fit.passes));
        let peak = self.peak_rss_bytes.map_or("unknown".to_string(), bytes);
        facts.fact("memory", format!("peak {peak}, budget {}", bytes(self.memory_budget_bytes)));
        facts
    }

    /// Seconds of all stages.
    fn total(&self) -> f64 {
        self.seconds.iter().map(|(_, seconds)| seconds).sum()
    }

    /// Time and memory in a few words.
    fn in_all(&self) -> String {
        let peak = self.peak_rss_bytes.map_or(String::new(), |peak| format!(" and at most {} of memory", bytes(peak)));
        format!("{}{peak}", time(self.total()))
    }
}

fn time(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds.max(0.0)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report() -> FitReport {
        let mut surface = Vec::new();
        for (rank, base) in [(250, 0.3), (1000, 0.2)] {
            for (i, lambda) in [1e-8, 1e-8 * 10f64.sqrt(), 1e-7].into_iter().enumerate() {
                surface.push(ksolve::Cell {
                    rank,
                    lambda,
                    cv_mse: Some(base - 0.01 * i as f64),
                    gcv: Some(0.25),
                    cv_error: None,
                    fold_mse: Vec::new(),
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
        fit.certificate = Some(Certificate { trace_error: 0.012_34, overshoot: 0.0, floor: 1e-7 });
        fit.surface = surface;
        fit.train = Some(job::Train { mse: 0.17, rmse: 0.412_3, r2: Some(0.83), loo_mse: None });
        FitReport {
            fit,
            seconds: vec![("scale".to_string(), 0.5), ("gram".to_string(), 4.0)],
            bytes_read: 17 << 20,
            peak_rss_bytes: Some(400 << 20),
            memory_budget_bytes: 512 << 20,
            threads: 2,
            warnings: vec!["feature x3 is constant".to_string()],
            model: Some(ModelFile { path: PathBuf::from("m.safetensors"), bytes: 120 << 10 }),
            voice: Voice::Brief,
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

model: m.safetensors (120 KiB), in 4.5 s and at most 400 MiB of memory
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn all_is_said_where_it_is_wanted_and_warnings_where_stderr_is_silent() {
        let full = FitReport { voice: Voice::Full, ..report() }.to_string();
        for part in ["\n    gram   4.0 s\n", "17.0 MiB in 4 passes", "budget 512 MiB", LAMBDA] {
            assert!(full.contains(part), "{part}: {full}");
        }
        assert!(!full.contains("warning"), "{full}");
        let quiet = FitReport { voice: Voice::Quiet, ..report() }.to_string();
        assert!(quiet.contains("warning: feature x3 is constant\n"), "{quiet}");
    }

    #[test]
    fn a_report_has_twenty_lines_at_most() {
        let mut report = report();
        let rank = |lambda: i32| ksolve::Cell { lambda: 10f64.powi(lambda), ..report.fit.surface[0].clone() };
        report.fit.surface = (-9..4).map(rank).collect();
        (report.fit.rank, report.fit.lambda) = (250, Some(1e-9));
        report.fit.kernel = "gaussian(sigma=5.80593116055527)".to_string();
        let text = report.to_string();
        assert!(text.lines().count() <= 20, "{text}");
        assert!(text.contains("gaussian(sigma=5.806)") && text.contains("-v shows all 13 rows"), "{text}");
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("0.3000")).collect();
        assert_eq!(
            shown,
            ["           1e-9  0.3000*", "           1e-8  0.3000", "           1e-7  0.3000", "  cv mse     0.3000"]
        );
        let whole = FitReport { voice: Voice::Full, ..report }.to_string();
        assert!(whole.contains("5.80593116055527") && whole.matches("0.3000").count() == 14, "{whole}");
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
