//! `kmill fit`: turns the command line into a job of the library, and prints the report.

use crate::args::learn::MapArgs;
use crate::args::parse;
use crate::args::run::Run;
use crate::args::{DataArgs, FitArgs, JobArgs};
use crate::report::FitReport;
use crate::{Error, Result, convert, output, pipeline};
use kapprox::Spec;
use ksolve::job::Fit;
use ksolve::solver::Options;
use kstore::{Selected, Selection, Table, TextOptions};
use std::path::PathBuf;

/// A job of the library, and the table that it is of.
#[derive(Clone, Debug)]
pub(crate) struct FitOptions {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) text: TextOptions,
    /// The kernels to combine, where weights of a sum are to be learned.
    pub(crate) combine: Option<Vec<Spec>>,
    /// The job, whose target may be one `.npy` file.
    pub(crate) fit: Fit,
}

impl FitOptions {
    /// The options of a fit, from the parsed command line.
    pub(crate) fn new(job: &JobArgs) -> Result<Self> {
        Self::with(&job.solver, &job.data, &job.learn.features, job.learn.solver.0.clone())
    }

    /// The options of a fit whose solver is given these parameters.
    pub(crate) fn with(solver: &str, data: &DataArgs, learn: &MapArgs, given: Options) -> Result<Self> {
        let rows = convert::selection(&data.select, &data.features, data.target.clone());
        let fit = Fit::solver(solver)?
            .options(given)
            .rows(data.category.of(rows))
            .scaling(learn.scale.unwrap_or_default())
            .metric(learn.metric.clone().unwrap_or_default())
            .kernel(learn.kernel.clone())
            .map(learn.map.clone())
            .seed(learn.seed)
            .precision(learn.precision);
        let fit = learn.landmarks.iter().cloned().fold(fit, Fit::landmarks);
        let fit = learn.rank.into_iter().fold(fit, Fit::rank);
        let fit = learn.candidates.into_iter().fold(fit, Fit::candidates);
        if fit.task()?.has_target() && data.target.is_empty() {
            let why = "it learns from a target; name its column: --target y";
            return Err(Error::Missing { option: "--target", solver: solver.to_string(), why });
        }
        convert::only_convert_keeps(data.select.missing)?;
        Ok(Self { paths: data.select.paths.clone(), text: data.select.text.options(), combine: None, fit })
    }

    /// The options with kernels whose weights are to be learned.
    #[must_use]
    pub(crate) fn combining(self, kernels: Option<&parse::Kernels>) -> Self {
        Self { combine: kernels.map(|kernels| kernels.0.clone()), ..self }
    }

    /// The table, and the selection of the rows and columns that were asked for.
    pub(crate) fn open(&self) -> Result<(Table, Selection)> {
        let rows = self.fit.selected_rows();
        let (table, targets) = convert::open(&self.paths, &self.text, &rows.targets)?;
        Ok((table, self.fit.selection(Selection { targets, ..rows })?))
    }

    /// The job with the files open that it reads beside the table.
    pub(crate) fn job(&self, selected: &Selected) -> Result<Fit> {
        Ok(self.fit.clone().opened(selected, &self.text)?)
    }
}

/// Fits a model, writes it and its page, and returns the report.
pub(crate) fn run(args: &FitArgs, run: &Run) -> Result<FitReport> {
    let options = FitOptions::new(&args.job)?.combining(args.combine.as_ref());
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
    use ksolve::request::TrainOptions;
    use ksolve::solver::ridge::Ridge;

    /// The options of a line, for a table of two columns.
    fn options(line: &str) -> Result<(FitOptions, TrainOptions)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x0,y,fold\n1,2,0\n3,5,1\n").unwrap();
        let line = format!("kmill fit ridge {} --target y -o m {line}", path.display());
        let Command::Fit(fit) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else { panic!() };
        let options = FitOptions::new(&fit.job)?;
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
        let ridge = Ridge::new(o.fit.settings().unwrap());
        assert_eq!((t.rank, t.ranks.len(), ridge.lambdas.len(), t.folds), (1000, 1, 13, FoldSpec::Hash(5)));
        assert_eq!((t.kernel.to_string().as_str(), t.candidates), ("gaussian(sigma=median)", Some(50_000)));
        assert_eq!(
            (t.scaling.to_string().as_str(), ridge.intercept.to_string().as_str(), t.seed),
            ("standard", "free", 0)
        );
        assert_eq!((o.fit.selected_rows().rows, o.fit.element_type().to_string().as_str()), (None, "f32"));
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
