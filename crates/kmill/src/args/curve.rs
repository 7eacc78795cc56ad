//! The options of `kmill curve`: the methods to compare, and the rows to compare them on.

use super::data::DataArgs;
use super::learn::kernel_help;
use super::parse::{self, Methods};
use super::run::{EngineArgs, RunArgs};
use clap::Args;
use kapprox::Spec;
use kapprox::landmark::Scheme;
use ksolve::Intercept;
use ksolve::job::ElementType;
use ksolve::request::Scaling;
use ksolve::task::Task;
use kstore::condition::Condition;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill curve train.parquet -o curve.html\n  \
    kmill curve all.parquet --target y --test-where 'fold == 0' --methods uniform,kmeans,rpcholesky,fourier \\\n    \
        --ranks 50..2000 --repeats 10 -o curve.html -o curve.csv\n  \
    kmill curve train.parquet -o figure.svg\n\n\
    Seconds, passes, kernel evaluations and bytes read are those of choosing landmarks, making the map and forming the \
    features of every row once. Schemes with nested landmarks run once for all ranks. A stopped curve keeps its \
    finished cells in OUT.cells.json; the same command with --resume goes on.")]
pub struct CurveArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Rows to test ridge regression on: 'fold == 0'. Without --where all others are approximated and learned from
    #[arg(long, value_name = "CONDITION", value_parser = parse::condition, help_heading = "Table")]
    pub test_where: Option<Condition>,
    /// Measure on a uniform sample of so many rows, held in memory [default: all rows]
    #[arg(long, value_name = "N", value_parser = parse::rank, help_heading = "Table")]
    pub sample: Option<usize>,
    /// Landmark schemes (with the map nystrom) and maps, comma-separated; fit --help lists them
    #[arg(long, value_name = "LIST", value_parser = parse::methods, default_value = "uniform,kmeans,greedy,rpcholesky",
        help_heading = "Comparison")]
    pub methods: Methods,
    /// Ranks: 250,500,1000 or 50..2000 (doubling)
    #[arg(long, value_name = "LIST", value_parser = parse::ranks, default_value = "50..1000", help_heading = "Comparison")]
    pub ranks: String,
    /// Seeds to try, from --seed on; a method without random choices runs once
    #[arg(long, value_name = "N", value_parser = parse::repeats, default_value = "5", help_heading = "Comparison")]
    pub repeats: u64,
    /// Landmark scheme of those maps among --methods that need landmarks [default: rpcholesky]
    #[arg(long, value_name = "SCHEME", value_parser = parse::scheme, help_heading = "Comparison")]
    pub landmarks: Option<&'static Scheme>,
    /// Scaling learned from the rows: standard, minmax, asinh (for long tails) or none
    #[arg(long, value_parser = parse::word::<Scaling>, default_value_t, value_name = "SCALE", help_heading = "Comparison")]
    pub scale: Scaling,
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)",
        value_parser = parse::kernel, help_heading = "Comparison")]
    pub kernel: Spec,
    /// What the target is: regression or classification [default: regression]
    #[arg(long, requires = "test_where", value_parser = parse::word::<Task>, value_name = "TASK", help_heading = "Comparison")]
    pub task: Option<Task>,
    /// Penalty of the test error, per row: (1/n) sum loss + lambda |w|^2
    #[arg(long, requires = "test_where", value_name = "LAMBDA", value_parser = parse::lambda, default_value = "1e-6", allow_hyphen_values = true,
        help_heading = "Comparison")]
    pub lambda: String,
    /// Constant term of the test error: free, penalised or none
    #[arg(long, requires = "test_where", value_parser = parse::word::<Intercept>, default_value_t, value_name = "INTERCEPT", help_heading = "Comparison")]
    pub intercept: Intercept,
    /// First seed
    #[arg(long, value_name = "N", value_parser = parse::whole, default_value_t = 0, help_heading = "Comparison")]
    pub seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE", help_heading = "Comparison")]
    pub precision: ElementType,
    /// Where the curve goes: .html, .svg, .png, .json, .csv, .tsv, .parquet or .arrow; may be given several times
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub output: Vec<PathBuf>,
    /// Go on with the cells that a stopped curve left beside the first output
    #[arg(long, help_heading = "Run")]
    pub resume: bool,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub run: RunArgs,
}
