//! The options of `kmill tune`: the kernels to search among, and how.

use super::data::DataArgs;
use super::learn::LearnArgs;
use super::parse::{self, Kernels};
use super::run::{DiskArgs, EngineArgs, RunArgs};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ksolve::tune::{Score, SearchWork};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill tune ridge train.parquet --target y -o model.safetensors\n  \
    kmill tune ridge train.parquet --target y --kernels 'gaussian(),laplacian(),matern(nu=1.5)' \\\n    \
        --factors 0.25..4 --ranks 100..800 -o model.safetensors -o search.csv\n  \
    kmill tune svm train.parquet --target label --score alignment -o model.safetensors\n\n\
    Of every kernel a metric and a length scale are learned on a sample of the rows, and the kernels compared there; with\n\
    --metric none every kernel is measured at every factor on a small sample, the better half of them on twice as many,\n\
    and so on. The winner is fitted on all rows as `kmill fit` does, over all --ranks and --lambda.")]
pub struct TuneArgs {
    /// What learns with the kernel that is found: a solver that has a target, or any, which tries ridge, svm and logistic on rows held out
    #[arg(value_name = "SOLVER", hide_possible_values = true, value_parser = solvers())]
    pub solver: String,
    #[command(flatten)]
    pub data: DataArgs,
    /// Kernels to try, comma-separated [default: gaussian, exponential and matern, or --kernel alone]
    #[arg(long, value_name = "LIST", value_parser = parse::kernels, help_heading = "Search")]
    pub kernels: Option<Kernels>,
    /// Factors for the length scale of each kernel: 0.5,1,2 or 0.25..4 (doubling); a learned metric brings a length scale of its
    /// own [default: 0.25..4]
    #[arg(long, value_name = "LIST", value_parser = parse::factors, help_heading = "Search")]
    pub factors: Option<String>,
    /// Time for the search and the fit: ranks 500, 1000, 2000, … as far as the fit is likely to end in time
    #[arg(long, value_name = "TIME", value_parser = parse::duration, conflicts_with_all = ["rank", "ranks"], help_heading = "Search")]
    pub time: Option<std::time::Duration>,
    /// Work of the search, in the place of --time: so many rounds that learn metrics and kernels that are measured, and so many trials
    /// of solvers. The report of a search with --time tells the work and ranks it came to; these give the same model on any machine
    #[arg(long, value_name = "STEPS,TRIALS", conflicts_with = "time", help_heading = "Search")]
    pub work: Option<SearchWork>,
    /// By what kernels are compared: cv (held-out error), gcv (no folds) or alignment (nothing is solved; compares
    /// lengths, not families of kernels)
    #[arg(long, value_parser = parse::word::<Score>, default_value_t, value_name = "SCORE", help_heading = "Search")]
    pub score: Score,
    /// Rows of the last comparison, of two kernels; those before have half as many each
    #[arg(long, value_name = "N", value_parser = parse::rank, default_value = "20000", help_heading = "Search")]
    pub sample: usize,
    #[command(flatten)]
    pub learn: LearnArgs,
    /// Where the model goes (safetensors), and the table of the search: .csv, .tsv, .parquet, .arrow or .json; may be
    /// given several times. Without a model nothing is fitted
    #[arg(short, long, value_name = "MODEL|OUT", required = true, help_heading = "Run")]
    pub output: Vec<PathBuf>,
    #[command(flatten)]
    pub disk: DiskArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The names of the solvers that learn from a target, as the values that clap accepts.
fn solvers() -> PossibleValuesParser {
    let families = ksolve::solver::registry().into_iter().filter(|family| family.task.has_target());
    PossibleValuesParser::new(families.map(|family| family.name).chain([ksolve::tune::ANY]))
}
