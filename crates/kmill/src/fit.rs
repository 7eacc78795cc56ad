//! `kmill fit`: turns the command line into a job of the library, and prints the report.

use crate::args::{JobArgs, LagArgs, PersistenceArgs, RunArgs, RunSettings, TestRowsArgs, parse};
use crate::{Result, output, pipeline, pipeline::FitOptions};
use clap::Args;
use kreport::fit::FitReport;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  \
    kmill fit ridge train.parquet --target y -o model.safetensors\n  \
    kmill fit oneclass train.parquet --features '*,!id' --nu 0.01 -o model.safetensors\n\n\
    kmill help which helps to choose a solver; kmill fit SOLVER --help lists the options of one solver.",
    after_long_help = "Examples:\n  \
    kmill fit ridge train.parquet --target y -o model.safetensors\n  \
    kmill fit ridge parts/ --target y --kernel 'gaussian(sigma=5)' --ranks 250..2000 --memory 512MiB -o m.safetensors\n  \
    kmill fit logistic table.csv --target label --test 20% -o m.safetensors\n  \
    kmill fit ridge sales.csv --target sales --lags sales:1,7 --by shop --order day --missing drop -o m.safetensors\n  \
    kmill fit ridge all.parquet --target y --rows ..427500 --task classification --folds blocks:6 -o m.safetensors\n  \
    kmill fit kpca train.parquet --components 5 -o m.safetensors\n  \
    kmill fit fisher train.parquet --target label --lambda 1e-5 -o m.safetensors\n  \
    kmill fit svm train.parquet --target label --C 10 --scratch /fast/disk -o m.safetensors\n\n\
    Lambda is per row: ridge minimises (1/n) sum (y - f(x))^2 + lambda |w|^2, so scikit-learn's alpha is lambda * n,\n\
    and C of LIBSVM and of scikit-learn's logistic regression is 1/(2 n lambda)."
)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) lags: LagArgs,
    #[command(flatten)]
    pub(crate) test_rows: TestRowsArgs,
    /// Learn the weights of a sum of kernels from the target, instead of --kernel: comma-separated
    /// expressions
    #[arg(long, value_name = "EXPRS", value_parser = parse::kernels, conflicts_with = "kernel", help_heading = "Learning")]
    pub(crate) combine: Option<parse::Kernels>,
    /// Output file of the model: a name that ends with .safetensors, or one without an extension
    #[arg(short, long, value_name = "MODEL", help_heading = "Run")]
    pub(crate) output: PathBuf,
    /// Also write an HTML page: error surface, certificate, importance (with --importance),
    /// scaling, charts of the test rows (with --test), times
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) disk: PersistenceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

pub(crate) fn run(args: &FitArgs, run: &RunSettings) -> Result<FitReport> {
    let options = FitOptions::new(&args.job)?
        .with_lags(&args.lags)
        .with_combination(args.combine.as_ref())
        .with_test_rows(args.test_rows.test.as_ref(), args.job.map_args.seed);
    output::check_model(&args.output)?;
    if let Some(page) = &args.report {
        output::check_page(page)?;
    }
    let report = pipeline::fit_and_save(&options, run, &args.output, args.report.as_ref(), &args.disk)?;
    if let Some(page) = &args.report {
        report.page().write(page)?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, Command};
    use clap::Parser;
    use kfit::request::TrainOptions;
    use kfit::solver::ridge::Ridge;
    use ksolve::FoldSpec;

    /// Parses the options of a line, for a table of two columns.
    fn options(line: &str) -> Result<(FitOptions, TrainOptions)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x0,y,fold\n1,2,0\n3,5,1\n").unwrap();
        let line = format!("kmill fit ridge {} --target y -o m {line}", path.display());
        let Command::Fit(fit) = Cli::try_parse_from(line.split_whitespace()).unwrap().command else { panic!() };
        let mut options = FitOptions::new(&fit.job)?;
        let selected = pipeline::select(&mut options, &fit.run.resolve())?;
        let training = options.fit.train_options(&selected)?;
        Ok((options, training))
    }

    fn training(line: &str) -> Result<TrainOptions> {
        options(line).map(|(_, training)| training)
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let (o, t) = options("").unwrap();
        let ridge = Ridge::new(o.fit.settings().unwrap());
        assert_eq!((t.rank, t.ranks.len(), ridge.lambdas.len(), t.folds), (1000, 1, 13, FoldSpec::Random(5)));
        assert_eq!((t.kernel.to_string().as_str(), t.candidates), ("gaussian(sigma=auto)", Some(50_000)));
        assert_eq!(
            (t.scaling.to_string().as_str(), ridge.intercept.to_string().as_str(), t.seed),
            ("standard", "free", 0)
        );
        assert_eq!((o.fit.requested_selection().rows, o.fit.requested_precision().to_string().as_str()), (None, "f32"));
    }

    #[test]
    fn a_single_cell_has_no_folds_unless_asked() {
        assert_eq!(training("--lambda 1e-6").unwrap().folds, FoldSpec::None);
        assert_eq!(training("--lambda 1e-6 --folds 3").unwrap().folds, FoldSpec::Random(3));
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
}
