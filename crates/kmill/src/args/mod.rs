//! The command line: every verb and its options. It is a contract; scripts rely on it.
//!
//! The types here hold the options as typed; a verb's file turns them into a job ([`ksolve::job::Fit`]) and checks those that
//! depend on each other.

mod command;
pub mod curve;
pub mod data;
pub(crate) mod elsewhere;
pub mod learn;
pub mod parse;
pub mod run;
pub mod solver;
pub mod test;
pub mod tune;

pub use crate::export::ExportArgs;
pub use crate::features::FeaturesArgs;
pub use crate::herd::HerdArgs;
pub use crate::manual::{CompletionsArgs, ManArgs};
pub use crate::predict::PredictArgs;
pub use crate::shards::{MergeArgs, PrepareArgs, SolveArgs, StatsArgs};
pub use command::command;
pub use curve::CurveArgs;
pub use data::DataArgs;
pub use learn::LearnArgs;
pub use run::{DiskArgs, EngineArgs, RunArgs, ScratchArgs};
pub use test::TestArgs;
pub use tune::TuneArgs;

use crate::error::flags;
use crate::generators;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand};
use ksolve::job::ElementType;
use std::path::PathBuf;

/// Kernel machines on tables larger than memory.
#[derive(Debug, Parser)]
#[command(
    name = "kmill",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "kmill help which chooses a solver. Start with kmill demo, or:\n  \
        kmill generate friedman1 --rows 1e6 -o train.parquet\n  \
        kmill fit ridge train.parquet --target y --rank 500 -o model.safetensors\n  \
        kmill evaluate model.safetensors train.parquet"
)]
pub struct Cli {
    /// The verb with its options.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Learn a model from a table
    Fit(FitArgs),
    /// Write a model's predictions for a table
    Predict(PredictArgs),
    /// Score a model on a table that has the target
    Evaluate(EvaluateArgs),
    /// Show what a table or a model holds
    Inspect(InspectArgs),
    /// Say what a fit would need; runs nothing
    Plan(PlanArgs),
    /// Draw what a model says over one or two of its features
    Plot(PlotArgs),
    /// Write a generated table of any size
    Generate(GenerateArgs),
    /// Rewrite a table in another format
    Convert(ConvertArgs),
    /// Compare landmark schemes and maps: error against rank, and what each costs
    Curve(CurveArgs),
    /// Choose kernel, rank and penalty on growing samples of the rows, and fit
    Tune(TuneArgs),
    /// Write a model as an ONNX file, for runtimes that know nothing of kernels
    Export(ExportArgs),
    /// Pick a few rows that represent all rows
    Herd(HerdArgs),
    /// Write the features of a map for every row: what any linear method can learn from
    Features(FeaturesArgs),
    /// Compare two samples, or look for dependence between two sets of columns
    Test(TestArgs),
    /// Begin a fit in shards, parts of the table: write what every shard needs
    Prepare(PrepareArgs),
    /// Read the rows of a shard, and write their statistics
    Stats(StatsArgs),
    /// Put statistics of shards together, or take some away
    Merge(MergeArgs),
    /// Make the model of a job from the statistics of its shards
    Solve(SolveArgs),
    /// Generate data, fit, evaluate, and explain: the first thing to run
    Demo(DemoArgs),
    /// Print what a shell needs to complete options by the tab key
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
}

/// What a fit learns, and from what.
#[derive(Clone, Debug, Args)]
pub struct JobArgs {
    #[arg(value_name = "SOLVER", hide_possible_values = true, help = solvers_in_short(), long_help = solvers_help(),
        value_parser = solvers())]
    pub solver: String,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub learn: LearnArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  \
    kmill fit ridge train.parquet --target y -o model.safetensors\n  \
    kmill fit oneclass train.parquet --features '*,!id' --nu 0.01 -o model.safetensors\n\n\
    kmill help which chooses a solver; kmill fit SOLVER --help has all options of one.",
    after_long_help = "Examples:\n  \
    kmill fit ridge train.parquet --target y -o model.safetensors\n  \
    kmill fit ridge parts/ --target y --kernel 'gaussian(sigma=5)' --ranks 250..2000 --memory 512MiB -o m.safetensors\n  \
    kmill fit ridge all.parquet --target y --rows ..427500 --task classification --folds blocks:6 -o m.safetensors\n  \
    kmill fit kpca train.parquet --components 5 -o m.safetensors\n  \
    kmill fit fisher train.parquet --target label --lambda 1e-5 -o m.safetensors\n  \
    kmill fit svm train.parquet --target label --C 10 --scratch /fast/disk -o m.safetensors\n\n\
    Lambda is per row: ridge minimises (1/n) sum (y - f(x))^2 + lambda |w|^2, so scikit-learn's alpha is lambda * n,\n\
    and C of LIBSVM and of scikit-learn's logistic regression is 1/(2 n lambda)."
)]
pub struct FitArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Learn the weights of a sum of kernels from the target, in the place of --kernel: expressions with commas between
    #[arg(long, value_name = "EXPRS", value_parser = parse::kernels, conflicts_with = "kernel", help_heading = "Learning")]
    pub combine: Option<parse::Kernels>,
    /// Where the model goes: a name that ends with .safetensors, or one without an extension
    #[arg(short, long, value_name = "MODEL", help_heading = "Run")]
    pub output: PathBuf,
    /// Also write a page: surface, certificate, scaling, times
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub disk: DiskArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    kmill plan ridge train.parquet --target y --rank 4000 --memory 512MiB")]
pub struct PlanArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Learn the weights of a sum of kernels from the target, in the place of --kernel: expressions with commas between
    #[arg(long, value_name = "EXPRS", value_parser = parse::kernels, conflicts_with = "kernel", help_heading = "Learning")]
    pub combine: Option<parse::Kernels>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill evaluate model.safetensors all.parquet --rows 427500..\n  \
    kmill evaluate model.safetensors kin40k.parquet --where 'fold == 0' --json\n  \
    kmill evaluate anomalies.safetensors test.parquet --target is_fraud --top 100\n\n\
    A model of oneclass or mean is scored where --target names a column that is 0 for usual rows and 1 for unusual ones.")]
pub struct EvaluateArgs {
    /// A model written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: data::SelectArgs,
    /// The target columns, where they are named otherwise than at the fit; FILE.npy for .npy tables
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub target: Vec<String>,
    /// Decide for the second of two classes above this probability, or above this score in a model without probabilities
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, allow_negative_numbers = true, help_heading = "Run")]
    pub threshold: Option<f64>,
    /// Score the N most unusual rows (oneclass, mean) [default: as many as the target says there are]
    #[arg(long, value_name = "N", value_parser = parse::rank, help_heading = "Run")]
    pub top: Option<usize>,
    /// Also write a page: residuals, or confusions and the ROC curve
    #[arg(long, value_name = "FILE.html", help_heading = "Run")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill plot model.safetensors moons.parquet -o moons.svg\n  \
    kmill plot model.safetensors all.parquet --x x3 --y x7 -o picture.html\n\n\
    Classes are regions; numbers and components are shades, with lines of equal value. Features that are not drawn \
    stand at their mean over the training rows. A model with one feature is a line. A page (.html) saves the picture as PNG.")]
pub struct PlotArgs {
    /// A model written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    #[command(flatten)]
    pub data: data::SelectArgs,
    /// The feature along the horizontal axis [default: the first of two]
    #[arg(long, value_name = "NAME", value_parser = parse::name, help_heading = "Picture")]
    pub x: Option<String>,
    /// The feature along the vertical axis [default: the second of two]
    #[arg(long, value_name = "NAME", value_parser = parse::name, help_heading = "Picture")]
    pub y: Option<String>,
    /// Which output to draw, from 1: a target, or a component of kpca [default: 1]
    #[arg(long, value_name = "K", value_parser = parse::rank, help_heading = "Picture")]
    pub component: Option<usize>,
    /// Where the picture goes: .png, .svg, or .html for a page
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub output: PathBuf,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill inspect train.parquet --stats\n  \
    kmill inspect model.safetensors --json")]
pub struct InspectArgs {
    /// Files, folders or globs of one table, or one model
    #[arg(value_name = "DATA|MODEL", required = true)]
    pub paths: Vec<PathBuf>,
    /// Minimum, mean, maximum and missing values of every column: one pass over the table. Without being asked for
    /// up to a million numbers
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub text: data::TextArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill generate friedman1 --rows 1e6 -o friedman1.parquet\n  \
    kmill generate smile --rows 10000 --precision f64 -o smile.npy\n\n\
    Row i depends on the seed and on i only. Columns are x0.. and y; an .npy table puts y beside it, in OUT.y.npy (smile.npy, smile.y.npy).")]
pub struct GenerateArgs {
    /// What to generate
    #[arg(value_name = "NAME", value_parser = generator_names())]
    pub name: String,
    /// Number of rows, such as 100000 or 1e6
    #[arg(long, value_name = "N", value_parser = parse::whole)]
    pub rows: u64,
    /// Where the table goes: .parquet, .csv, .tsv or .npy
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", value_parser = parse::whole, default_value_t = 0)]
    pub seed: u64,
    /// Number of features, for friedman1 (at least 5), hidden (at least 4) and blobs [default: the generator's own]
    #[arg(long, value_name = "D", value_parser = parse::features)]
    pub features: Option<usize>,
    /// Standard deviation of the noise, for friedman1 (1), hidden (0.2), moons (0.1), blobs (1), parabolas and circle (0.05), swissroll and scurve (0)
    #[arg(long, value_name = "SD", value_parser = parse::number, allow_negative_numbers = true)]
    pub noise: Option<f64>,
    /// Type of the features: f32 or f64
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE")]
    pub precision: ElementType,
    /// Neither progress nor notes on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also a line for every stage with its time
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill convert table.parquet --target y -o table.npy      (target beside it, in table.y.npy)\n  \
    kmill convert table.npy --target table.y.npy -o back.parquet\n  \
    kmill convert a9a.svm --width 123 -o a9a.parquet\n  \
    kmill convert export.csv --delimiter ';' --missing keep -o export.parquet\n\n\
    Columns keep their type: integers of every size become int64, text stays text where the format has it (.npy has\n\
    not), and no integer is rounded. --missing keep leaves missing values missing; by default they stop the run.")]
pub struct ConvertArgs {
    #[command(flatten)]
    pub data: data::ConvertDataArgs,
    /// Where the table goes: .parquet, .csv, .tsv or .npy
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Type of the fractions among the features [default: their own; of all features in .npy the smallest exact one]
    #[arg(long, value_parser = parse::word::<ElementType>, value_name = "f32|f64")]
    pub precision: Option<ElementType>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Rows to generate for training; a fifth as many for the test
    #[arg(long, value_name = "N", value_parser = parse::whole, default_value = "100000")]
    pub rows: u64,
    /// Keep the tables, the model and the predictions in this folder [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
}

fn solvers() -> PossibleValuesParser {
    PossibleValuesParser::new(ksolve::solver::registry().into_iter().map(|family| family.name))
}

fn solvers_in_short() -> String {
    let names: Vec<&str> = ksolve::solver::registry().into_iter().map(|family| family.name).collect();
    format!("What to learn: {}", names.join(", "))
}

fn solvers_help() -> String {
    format!(
        "What to learn: {}",
        explained(ksolve::solver::registry().into_iter().map(|family| (family.name, family.about)))
    )
}

/// Names, each with what it is.
pub(crate) fn explained(all: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    all.map(|(name, about)| format!("{name} ({})", flags(about))).collect::<Vec<_>>().join("; ")
}

fn generator_names() -> PossibleValuesParser {
    let value = |generator: &generators::Generator| PossibleValue::new(generator.name).help(generator.about);
    PossibleValuesParser::new(generators::all().into_iter().map(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_long_line_is_understood() {
        let line = "kmill fit ridge a.parquet b.parquet --target y,z --features x*,t --rows ..100 --where fold!=3 \
            --kernel gaussian(sigma=2) --lambda 1e-9..1e-3 --ranks 50..400 --folds blocks:6 --memory 512MiB -o m";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Fit(fit) = cli.command else { panic!("not a fit") };
        assert_eq!(fit.job.data.select.paths.len(), 2);
        assert_eq!(fit.job.data.target, ["y", "z"]);
        assert_eq!(fit.job.data.features, ["x*", "t"]);
        assert_eq!(fit.job.data.select.rows, Some(0..100));
        assert_eq!(fit.job.data.select.condition.unwrap().to_string(), "fold != 3");
        assert_eq!(fit.run.memory, Some(512 << 20));
    }

    #[test]
    fn a_verb_that_is_not_there_yet_does_not_appear() {
        assert!(Cli::try_parse_from(["kmill", "serve"]).is_err());
    }
}
