//! The options of `kmill herd`: the table, and how many of its rows are picked to stand for it.

use super::data::{CategoryArgs, SelectArgs};
use super::learn::kernel_help;
use super::parse;
use super::run::{RunArgs, ScratchArgs};
use clap::Args;
use kapprox::Spec;
use ksolve::job::ElementType;
use ksolve::train::Scaling;
use std::path::PathBuf;

/// Options of `kmill herd`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill herd all.parquet --count 100 -o few.parquet\n  \
    kmill herd all.parquet --features 'x*' --count 500 -o landmarks.parquet\n  \
    kmill fit ridge all.parquet --target y --landmarks landmarks.parquet -o model.safetensors\n\n\
    Rows are picked one after the other so that their mean in feature space comes near that of all rows; each pick is\n\
    the best step from those before it. Column row holds their numbers in the table, from 0.")]
pub struct HerdArgs {
    /// The files and rows of the table.
    #[command(flatten)]
    pub data: SelectArgs,
    /// Feature columns as names or globs, comma-separated [default: every column of numbers or text]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub features: Vec<String>,
    /// Which columns are categories.
    #[command(flatten)]
    pub category: CategoryArgs,
    /// Rows to pick
    #[arg(long, value_name = "N", value_parser = parse::rank, help_heading = "Herding")]
    pub count: usize,
    /// Scaling learned from all rows: standard, minmax, asinh (for long tails) or none; the rows are written as they are
    #[arg(long, value_parser = parse::word::<Scaling>, default_value_t, value_name = "SCALE", help_heading = "Herding")]
    pub scale: Scaling,
    /// The kernel expression.
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)",
        value_parser = parse::kernel, help_heading = "Herding")]
    pub kernel: Spec,
    /// Features of the map, nystrom on landmarks by rpcholesky
    #[arg(long, value_name = "M", value_parser = parse::rank, default_value = "300", help_heading = "Herding")]
    pub rank: usize,
    /// Seed of every random choice
    #[arg(long, value_name = "N", value_parser = parse::whole, default_value_t = 0, help_heading = "Herding")]
    pub seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE", help_heading = "Herding")]
    pub precision: ElementType,
    /// Where the rows go: .parquet, .arrow, .csv, .tsv or .npy (features alone)
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub output: PathBuf,
    /// The scratch folder, for features that do not fit the memory.
    #[command(flatten)]
    pub scratch: ScratchArgs,
    /// Memory, threads, and the form of the output.
    #[command(flatten)]
    pub run: RunArgs,
}
