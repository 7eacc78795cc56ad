//! The options of `kmill features`: those of a fit without a solver, and where the features go.

use super::data::{CategoryArgs, SelectArgs};
use super::learn::MapArgs;
use super::{DiskArgs, EngineArgs, RunArgs, parse};
use clap::Args;
use std::path::PathBuf;

/// Options of `kmill features`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill features train.parquet --features 'x*' --rank 500 --keep y -o phi.parquet --model map.safetensors\n  \
    kmill predict map.safetensors test.parquet --keep y -o phi_test.parquet\n\n\
    Columns phi_0, phi_1, …: their inner products are kernel values, so that any linear method on them is a kernel method.\n\
    With --residual the column residual too: the length of what lies outside their span, squared k(x, x) - |phi|^2.")]
pub struct FeaturesArgs {
    /// The files and rows of the table.
    #[command(flatten)]
    pub data: SelectArgs,
    /// Feature columns as names or globs, comma-separated [default: every column of numbers or text]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub features: Vec<String>,
    /// Which columns are categories.
    #[command(flatten)]
    pub category: CategoryArgs,
    /// The kernel, the map and the landmarks.
    #[command(flatten)]
    pub learn: MapArgs,
    /// Take the smallest rank, up to --rank (then 4000 by default), with a relative trace error below this
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = "Learning")]
    pub tolerance: Option<String>,
    /// The coordinate outside the span of the features too, as `residual` (maps on landmarks)
    #[arg(long, help_heading = "Run")]
    pub residual: bool,
    /// Columns to carry along, before the features, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub keep: Vec<String>,
    /// Where the features go: .parquet, .arrow, .csv, .tsv or .npy
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub output: PathBuf,
    /// Also write the map as a model: predict gives the same features of new rows by it
    #[arg(long, value_name = "MODEL", help_heading = "Run")]
    pub model: Option<PathBuf>,
    /// The options for the checkpoint and the scratch folder.
    #[command(flatten)]
    pub disk: DiskArgs,
    /// Other processes of the same run, which share its passes but the last.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Memory, threads, and the form of the output.
    #[command(flatten)]
    pub run: RunArgs,
}
