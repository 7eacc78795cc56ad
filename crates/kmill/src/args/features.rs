//! The options of `kmill features`: those of a fit without a solver, and where the features go.

use super::{DataArgs, DiskArgs, LearnArgs, RunArgs, parse};
use clap::{Arg, Args};
use std::path::PathBuf;

/// Options of `kmill features`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill features train.parquet --features 'x*' --rank 500 --keep y -o phi.parquet --model map.safetensors\n  \
    kmill predict map.safetensors test.parquet --keep y -o phi_test.parquet\n\n\
    Columns phi_0, phi_1, …: their inner products are kernel values, so that any linear method on them is a kernel method.\n\
    With --residual the column residual too: the length of what lies outside their span, squared k(x, x) - |phi|^2.")]
pub struct FeaturesArgs {
    /// The files, rows and columns of the table.
    #[command(flatten)]
    pub data: DataArgs,
    /// The kernel, the map and the landmarks.
    #[command(flatten)]
    pub learn: LearnArgs,
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
    /// Memory, threads, and the form of the output.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Hides an option of solvers, which have nothing to do here.
pub(super) fn without_solver(arg: Arg) -> Arg {
    let solver = arg.get_help_heading() == Some("Solver") || arg.get_id() == "target";
    arg.hide(solver)
}
