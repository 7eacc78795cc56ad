//! `kmill fit`: turns the command line into a job of the library, and prints the report.

use crate::args::data::{CategoryArgs, Missing};
use crate::args::learn::MapArgs;
use crate::args::parse::{self, Landmarks};
use crate::args::run::Run;
use crate::args::{DataArgs, FitArgs, LearnArgs};
use crate::report::FitReport;
use crate::{Error, Result, convert, output, pipeline};
use kapprox::Spec;
use ksolve::job::Fit;
use ksolve::solver::Options;
use kstore::condition::Condition;
use kstore::{Selection, TextOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The options of a fit: a table, the job of the library, and the source of its landmarks.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Files, folders and globs of the table.
    pub paths: Vec<PathBuf>,
    /// How text files among them are read.
    pub text: TextOptions,
    /// Names and globs of the features; empty for every column of numbers or text but the target.
    pub features: Vec<String>,
    /// Target columns, or one `.npy` file.
    pub target: Vec<String>,
    /// The stored rows to use; up to `u64::MAX` where no end was given.
    pub rows: Range<u64>,
    /// The condition on one column that selects rows.
    pub condition: Option<Condition>,
    /// What to do with missing values.
    pub missing: Missing,
    /// Which columns are categories.
    pub category: CategoryArgs,
    /// The landmark scheme, or the table with the landmarks, where one was named.
    pub landmarks: Option<Landmarks>,
    /// The kernels to combine, where weights of a sum are to be learned.
    pub combine: Option<Vec<Spec>>,
    /// The metric, where one is asked for.
    pub metric: Option<parse::Metric>,
    /// The job of the library. Its landmarks and its metric are set once the table is open.
    pub fit: Fit,
}

impl FitOptions {
    /// The options of a fit, from the parsed command line.
    ///
    /// # Errors
    /// [`Error::Missing`] and [`ksolve::Error::Missing`] for a target and parameters that the solver needs; [`ksolve::Error::Option`]
    /// for parameters of another solver.
    pub fn new(solver: &str, data: &DataArgs, learn: &LearnArgs) -> Result<Self> {
        Self::with(solver, data, &learn.features, learn.solver.0.clone())
    }

    /// The options of a fit whose solver is given these parameters.
    ///
    /// # Errors
    /// The errors of [`FitOptions::new`].
    pub fn with(solver: &str, data: &DataArgs, learn: &MapArgs, given: Options) -> Result<Self> {
        let (rows, missing) = (data.select.range(), data.select.missing.unwrap_or_default());
        let fit = Fit::solver(solver)?
            .options(given)
            .scaling(learn.scale.unwrap_or_default())
            .kernel(learn.kernel.clone())
            .map(learn.map.clone())
            .seed(learn.seed)
            .precision(learn.precision)
            .note("missing", serde_json::json!(missing))
            .note("rows", rows_text(&rows).into())
            .note("where", data.select.condition.as_ref().map(ToString::to_string).into());
        let fit = learn.rank.into_iter().fold(fit, Fit::rank);
        let fit = learn.candidates.into_iter().fold(fit, Fit::candidates);
        if fit.task()?.has_target() && data.target.is_empty() {
            let why = "it learns from a target; name its column: --target y";
            return Err(Error::Missing { option: "--target", solver: solver.to_string(), why });
        }
        // a solver that lacks a parameter says so before the table is opened
        fit.family().solver(&fit.settings()?)?;
        convert::only_convert_keeps(data.select.missing)?;
        Ok(Self {
            paths: data.select.paths.clone(),
            text: data.select.text.options(),
            features: data.features.clone(),
            target: data.target.clone(),
            rows,
            condition: data.select.condition.clone(),
            missing,
            category: data.category.clone(),
            landmarks: learn.landmarks.clone(),
            combine: None,
            metric: learn.metric.clone(),
            fit,
        })
    }

    /// The files beside the table: landmarks and a metric.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let landmarks = self.landmarks.iter().filter_map(|landmarks| match landmarks {
            Landmarks::File(path) => Some(path.as_path()),
            Landmarks::Scheme(_) => None,
        });
        let metric = self.metric.iter().filter_map(|metric| match metric {
            parse::Metric::File(path) => Some(path.as_path()),
            _ => None,
        });
        landmarks.chain(metric)
    }

    /// The options with kernels whose weights are to be learned.
    #[must_use]
    pub fn combining(self, kernels: Option<&parse::Kernels>) -> Self {
        Self { combine: kernels.map(|kernels| kernels.0.clone()), ..self }
    }

    /// The selection of the rows and columns that were asked for.
    ///
    /// # Errors
    /// A number of targets that the solver cannot learn from.
    pub(crate) fn selection(&self, targets: Vec<String>) -> Result<Selection> {
        let (features, rows) = (self.features.clone(), Some(self.rows.clone()));
        let (filter, missing) = (self.condition.clone(), self.missing.into());
        let selection = Selection { features, targets, rows, filter, missing, ..Selection::default() };
        Ok(self.fit.selection(self.category.of(selection))?)
    }
}

/// A range of rows as `--rows` takes it: `0..284217`, `284217..`.
fn rows_text(rows: &Range<u64>) -> String {
    let end = if rows.end == u64::MAX { String::new() } else { rows.end.to_string() };
    format!("{}..{end}", rows.start)
}

/// Fits a model, writes it and its page, and returns the report.
///
/// # Errors
/// All errors of the fit; nothing is written then.
pub fn run(args: &FitArgs, run: &Run) -> Result<FitReport> {
    let options = FitOptions::new(&args.solver, &args.data, &args.learn)?.combining(args.combine.as_ref());
    output::check_model(&args.output)?;
    if let Some(page) = &args.report {
        output::check_page(page, &args.output)?;
    }
    let report = pipeline::fit(&options, run, &args.output, &args.disk, &args.engine)?;
    if let Some(page) = &args.report {
        report.page().write(page)?;
    }
    Ok(report)
}

/// Runs `kmill fit` and prints its report.
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
    use ksolve::FoldSpec;
    use ksolve::solver::ridge::Ridge;
    use ksolve::train::TrainOptions;

    /// The options of a line, for a table of two columns.
    fn options(line: &str) -> Result<(FitOptions, TrainOptions)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x0,y,fold\n1,2,0\n3,5,1\n").unwrap();
        let line = format!("kmill fit ridge {} --target y -o m {line}", path.display());
        let Command::Fit(fit) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else { panic!() };
        let options = FitOptions::new(&fit.solver, &fit.data, &fit.learn)?;
        let selected = pipeline::select(&options, &fit.run.resolve())?;
        let training = options.fit.training(&selected)?;
        Ok((options, training))
    }

    fn training(line: &str) -> Result<TrainOptions> {
        options(line).map(|(_, training)| training)
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let (o, t) = options("").unwrap();
        let ridge = Ridge::new(&o.fit.settings().unwrap());
        assert_eq!((t.rank, t.ranks.len(), ridge.lambdas.len(), t.folds), (1000, 1, 13, FoldSpec::Hash(5)));
        assert_eq!((t.kernel.to_string().as_str(), t.candidates), ("gaussian(sigma=median)", Some(50_000)));
        assert_eq!(
            (t.scaling.to_string().as_str(), ridge.intercept.to_string().as_str(), t.seed),
            ("standard", "free", 0)
        );
        assert_eq!((o.rows, o.fit.element_type().to_string().as_str()), (0..u64::MAX, "f32"));
    }

    #[test]
    fn a_single_cell_has_no_folds_unless_asked() {
        assert_eq!(training("--lambda 1e-6").unwrap().folds, FoldSpec::None);
        assert_eq!(training("--lambda 1e-6 --folds 3").unwrap().folds, FoldSpec::Hash(3));
        assert!(training("--folds none").unwrap_err().to_string().contains("13 cells"));
    }

    #[test]
    fn rank_ranks_and_tolerance_go_together() {
        let t = training("--ranks 250,500 --rank 4000").unwrap();
        assert_eq!((t.rank, t.ranks, t.candidates), (4000, vec![250, 500, 4000], Some(80_000)));
        let refused = training("--ranks 250,500 --rank 300").unwrap_err().to_string();
        assert!(refused.starts_with("--rank 300") && refused.contains("raise it to 500"), "{refused}");
        assert_eq!(training("--tolerance 1e-3").unwrap().rank, 4000);
        assert_eq!(training("--tolerance 1e-3 --rank 700").unwrap().rank, 700);
        assert!(training("--tolerance 1e-3 --ranks 1,2").is_err());
    }

    #[test]
    fn lambdas_must_be_positive() {
        let refused = training("--lambda -1e-3").unwrap_err().to_string();
        assert!(refused.starts_with("--lambda") && refused.contains("positive"), "{refused}");
    }
}
