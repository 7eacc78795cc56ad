//! `kmill fit`: from what was typed to plain options, and from the pipeline's report to the terminal.

use crate::args::data::Missing;
use crate::args::learn::{Intercept, Method, Precision, Preconditioner, Scale, Select};
use crate::args::parse::{Candidates, Landmarks};
use crate::args::run::Run;
use crate::args::{DataArgs, FitArgs, LearnArgs};
use crate::report::FitReport;
use crate::solver::Learner;
use crate::{Error, Result, convert, fit_page, output, pipeline};
use kapprox::Spec;
use kapprox::map::MapSpec;
use ksolve::{FoldSpec, Task};
use kstore::condition::Condition;
use kstore::shown::number;
use kstore::{Selection, TextOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Rank where neither `--rank` nor `--ranks` nor `--tolerance` says otherwise.
const RANK: usize = 1000;
/// Largest rank of a `--tolerance` without `--rank`: its Gram matrix takes 128 MB.
const TOLERANCE_CAP: usize = 4000;
/// Lambdas where none are given.
const LAMBDAS: &str = "1e-9..1e-3";
/// Folds where there is more than one cell to choose from.
const FOLDS: usize = 5;
/// Candidates for each landmark: selection then costs less than the fit.
const CANDIDATES_PER_RANK: u64 = 20;
/// Fewest candidates unless told otherwise.
const FEWEST_CANDIDATES: u64 = 50_000;

/// Everything that defines the result of a fit, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct FitOptions {
    /// What is learned.
    pub learner: Learner,
    /// Files, folders and globs.
    pub paths: Vec<PathBuf>,
    /// How text files among them are read.
    pub text: TextOptions,
    /// Names and globs of the features; empty for every numeric column but the target.
    pub features: Vec<String>,
    /// Target columns, or one `.npy` file.
    pub target: Vec<String>,
    /// Stored rows; up to `u64::MAX` where no end was given.
    pub rows: Range<u64>,
    /// Condition on one column.
    pub condition: Option<Condition>,
    /// Missing values.
    pub missing: Missing,
    /// Scaling of the features.
    pub scale: Scale,
    /// Kernel expression; `sigma=median` still open.
    pub kernel: Spec,
    /// Feature map.
    pub map: MapSpec,
    /// Number of features: the largest rank, or the cap of the tolerance.
    pub rank: usize,
    /// Take the smallest rank with a relative trace error below this.
    pub tolerance: Option<f64>,
    /// Ranks of the surface, ascending; the last is `rank`.
    pub ranks: Vec<usize>,
    /// Where landmarks come from.
    pub landmarks: Landmarks,
    /// Rows they are chosen among.
    pub candidates: Candidates,
    /// Penalties of the surface, ascending, positive.
    pub lambdas: Vec<f64>,
    /// Cross-validation.
    pub folds: FoldSpec,
    /// Constant term.
    pub intercept: Intercept,
    /// How the system of ridge regression is solved.
    pub method: Method,
    /// What helps conjugate gradient on landmarks, where one was named.
    pub preconditioner: Option<Preconditioner>,
    /// Where conjugate gradient ends, where that was said.
    pub residual: Option<f64>,
    /// The error of every row by the others is measured.
    pub loo: bool,
    /// What predictive variances need is kept.
    pub std: bool,
    /// Column of the rows' weights.
    pub weights: Option<String>,
    /// By what the cell is chosen.
    pub select: Select,
    /// Seed of every random choice.
    pub seed: u64,
    /// Type of rows and features.
    pub precision: Precision,
}

impl FitOptions {
    /// Fills in the defaults and checks what needs more than one option.
    ///
    /// # Errors
    /// [`Error::Option`] or [`ksolve::Error::Option`] for options that contradict each other or make no sense.
    pub fn new(solver: &str, data: &DataArgs, learn: &LearnArgs) -> Result<Self> {
        let learner = Learner::new(solver, learn)?;
        let ridge = matches!(learner, Learner::Ridge(_));
        match (learner.task().has_target(), data.target.is_empty()) {
            (true, true) => {
                let why = "it learns from a target; name its column: --target y";
                return Err(Error::Missing { option: "--target", solver: solver.to_string(), why });
            }
            (false, false) => {
                let why = format!("{solver} learns without a target");
                let remedy = "leave it out; --features chooses columns";
                return Err(Error::option("--target", data.target.join(","), why, remedy));
            }
            _ => {}
        }
        let lambdas = ksolve::grid::lambdas(learn.lambda.as_deref().unwrap_or(LAMBDAS))?;
        let (rank, ranks) = ranks(learn, &data.select.text.options())?;
        let folds = match &learn.folds {
            Some(folds) => folds.clone(),
            None if learner.holds_out() => FoldSpec::Hash(FOLDS),
            None if !ridge || ranks.len() * lambdas.len() == 1 => FoldSpec::None,
            None => FoldSpec::Hash(FOLDS),
        };
        if learner.holds_out() && folds == FoldSpec::None {
            let why = "without folds no rows are held out";
            return Err(Error::option("--folds", "none", why, "give folds, or one penalty and no --probabilities"));
        }
        if ridge && folds == FoldSpec::None && ranks.len() * lambdas.len() > 1 {
            let cells = ranks.len() * lambdas.len();
            let why = format!("without folds nothing chooses among the {cells} cells");
            return Err(Error::option("--folds", "none", why, "give one --lambda and one --rank, or folds"));
        }
        if learn.select == Select::Error && learner.task() == Task::Regression {
            let why = "only classes can be wrong";
            return Err(Error::option("--select", "error", why, "add --task classification or leave it out"));
        }
        convert::only_convert_keeps(data.select.missing)?;
        Ok(Self {
            learner,
            paths: data.select.paths.clone(),
            text: data.select.text.options(),
            features: data.features.clone(),
            target: data.target.clone(),
            rows: data.select.range(),
            condition: data.select.condition.clone(),
            missing: data.select.missing,
            scale: learn.scale,
            kernel: learn.kernel.clone(),
            map: learn.map.clone(),
            rank,
            tolerance: learn.tolerance,
            ranks,
            landmarks: learn.landmarks.clone(),
            candidates: learn.candidates.unwrap_or(Candidates::Rows(candidates(rank))),
            lambdas,
            folds,
            intercept: learn.intercept,
            method: learn.method,
            preconditioner: learn.preconditioner,
            residual: learn.residual,
            loo: learn.loo,
            std: learn.std,
            weights: learn.weights.clone(),
            select: learn.select,
            seed: learn.seed,
            precision: learn.precision,
        })
    }

    /// Options of the solver; of ridge regression only those that were given.
    fn solver_options(&self) -> serde_json::Value {
        let usual = (self.method, self.preconditioner, self.residual) == (Method::default(), None, None);
        match &self.learner {
            Learner::Ridge(_) if self.weights.is_some() => serde_json::json!({"weights": self.weights}),
            Learner::Ridge(_) if !usual => serde_json::json!({
                "method": self.method,
                "preconditioner": self.preconditioner,
                "residual": self.residual,
            }),
            learner => learner.canonical(),
        }
    }

    /// The result-defining options for the model file, keys sorted.
    ///
    /// Paths and column patterns are absent: the same rows from Parquet and from `.npy` give the same model, and the
    /// model holds the names of its columns.
    pub fn canonical(&self) -> serde_json::Value {
        serde_json::json!({
            "candidates": self.candidates.to_string(),
            "folds": self.folds.to_string(),
            "intercept": self.intercept,
            "kernel": self.kernel.to_string(),
            "lambdas": self.lambdas,
            "landmarks": self.landmarks.to_string(),
            "map": self.map.to_string(),
            "missing": self.missing,
            "precision": self.precision,
            "rank": self.rank,
            "ranks": self.ranks,
            "rows": rows_text(&self.rows),
            "scale": self.scale,
            "seed": self.seed,
            "select": self.select,
            "solver": self.learner.name(),
            "solver_options": self.solver_options(),
            "task": self.learner.task(),
            "tolerance": self.tolerance,
            "where": self.condition.as_ref().map(ToString::to_string),
        })
    }
}

/// `0..284217`, `284217..`: as `--rows` takes them.
fn rows_text(rows: &Range<u64>) -> String {
    let end = if rows.end == u64::MAX { String::new() } else { rows.end.to_string() };
    format!("{}..{end}", rows.start)
}

/// Rows that landmarks of a rank are chosen among, where nothing else is said.
pub(crate) fn candidates(rank: usize) -> u64 {
    (CANDIDATES_PER_RANK * rank as u64).max(FEWEST_CANDIDATES)
}

/// Rows of a table of landmarks.
fn rows_of(path: &Path, text: &TextOptions) -> Result<usize> {
    let (table, _) = convert::open(&[path.to_path_buf()], text, &[])?;
    let range = table.select(&Selection::default())?.range();
    Ok(usize::try_from(range.end - range.start).unwrap_or(usize::MAX).max(1))
}

/// The number of features and the ranks of the surface.
fn ranks(learn: &LearnArgs, text: &TextOptions) -> Result<(usize, Vec<usize>)> {
    if let Some(tolerance) = learn.tolerance {
        if !(tolerance > 0.0 && tolerance < 1.0) {
            let why = "a relative trace error lies between 0 and 1";
            return Err(Error::option("--tolerance", number(tolerance), why, "give a number such as 1e-3"));
        }
        if learn.ranks.is_some() {
            let why = "the tolerance chooses the rank itself";
            return Err(Error::option("--tolerance", number(tolerance), why, "leave --ranks out, or --tolerance"));
        }
        let cap = learn.rank.unwrap_or(TOLERANCE_CAP);
        return Ok((cap, vec![cap]));
    }
    let Some(ranks) = &learn.ranks else {
        let rank = match (learn.rank, &learn.landmarks) {
            (Some(rank), _) => rank,
            (None, Landmarks::File(path)) => rows_of(path, text)?,
            (None, Landmarks::Scheme(_)) => RANK,
        };
        return Ok((rank, vec![rank]));
    };
    let mut ranks = ksolve::grid::ranks(ranks)?;
    let largest = ranks.last().copied().unwrap_or(RANK);
    match learn.rank {
        Some(rank) if rank < largest => {
            let why = format!("--ranks asks for {largest}");
            Err(Error::option("--rank", rank, why, format!("raise --rank to {largest}, or leave it out")))
        }
        Some(rank) if rank > largest => {
            ranks.push(rank);
            Ok((rank, ranks))
        }
        _ => Ok((largest, ranks)),
    }
}

/// Fits a model and writes it.
///
/// # Errors
/// Whatever stops the fit; then nothing is written.
pub fn run(args: &FitArgs, run: &Run) -> Result<FitReport> {
    let options = FitOptions::new(&args.solver, &args.data, &args.learn)?;
    output::check_model(&args.output)?;
    if let Some(page) = &args.report {
        output::check_page(page, &args.output)?;
    }
    let report = pipeline::fit(&options, run, &args.output, &args.disk)?;
    if let Some(page) = &args.report {
        fit_page::page(&report).write(page)?;
    }
    Ok(report)
}

/// `kmill fit`.
pub(crate) fn main(args: &FitArgs) -> Result<()> {
    let context = args.run.resolve();
    let report = run(args, &context)?;
    output::report(&report, context.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn options(line: &str) -> Result<FitOptions> {
        let line = format!("kmill fit ridge a.parquet --target y -o m {line}");
        let Command::Fit(fit) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else { panic!() };
        FitOptions::new(&fit.solver, &fit.data, &fit.learn)
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let o = options("").unwrap();
        assert_eq!((o.rank, o.ranks.len(), o.lambdas.len(), o.folds), (1000, 1, 13, FoldSpec::Hash(5)));
        assert_eq!((o.kernel.to_string().as_str(), o.candidates), ("gaussian(sigma=median)", Candidates::Rows(50_000)));
        assert_eq!((o.scale, o.intercept, o.precision, o.seed), (Scale::Standard, Intercept::Free, Precision::F32, 0));
        assert_eq!(o.rows, 0..u64::MAX);
    }

    #[test]
    fn a_single_cell_has_no_folds_unless_asked() {
        assert_eq!(options("--lambda 1e-6").unwrap().folds, FoldSpec::None);
        assert_eq!(options("--lambda 1e-6 --folds 3").unwrap().folds, FoldSpec::Hash(3));
        assert!(options("--folds none").unwrap_err().to_string().contains("13 cells"));
    }

    #[test]
    fn rank_ranks_and_tolerance_go_together() {
        let o = options("--ranks 250,500 --rank 4000").unwrap();
        assert_eq!((o.rank, o.ranks, o.candidates), (4000, vec![250, 500, 4000], Candidates::Rows(80_000)));
        assert!(options("--ranks 250,500 --rank 300").unwrap_err().to_string().contains("raise --rank to 500"));
        assert_eq!(options("--tolerance 1e-3").unwrap().rank, 4000);
        assert_eq!(options("--tolerance 1e-3 --rank 700").unwrap().rank, 700);
        assert!(options("--tolerance 1e-3 --ranks 1,2").is_err());
        assert!(options("--tolerance -1").is_err());
    }

    #[test]
    fn lambdas_must_be_positive() {
        for wrong in ["0", "-1e-3"] {
            assert!(options(&format!("--lambda {wrong}")).unwrap_err().to_string().contains("positive"));
        }
    }

    #[test]
    fn canonical_options_hold_no_path() {
        let text = options("--where fold!=3 --rows ..100").unwrap().canonical().to_string();
        assert!(!text.contains("parquet") && text.contains(r#""where":"fold != 3""#), "{text}");
        assert!(text.contains(r#""rows":"0..100""#), "{text}");
    }
}
