//! A fit in parts: prepare, stats, merge, solve.

use super::{DataArgs, LearnArgs, RunArgs, data, parse, solvers, solvers_help};
use clap::Args;
use std::ops::Range;
use std::path::PathBuf;

/// Options of `kmill prepare`.
#[derive(Debug, Args)]
#[command(after_help = "Example, a table in two parts:\n  \
    kmill prepare ridge parts/ --target y -o job.safetensors\n  \
    kmill stats job.safetensors parts/ --part 1/2 -o a.safetensors   (on one machine)\n  \
    kmill stats job.safetensors parts/ --part 2/2 -o b.safetensors   (on another)\n  \
    kmill merge a.safetensors b.safetensors -o all.safetensors\n  \
    kmill solve job.safetensors all.safetensors -o model.safetensors\n\n\
    Rows that come later, with the scaling, landmarks and folds of the job:\n  \
    kmill stats job.safetensors tuesday.parquet --after all.safetensors -o tuesday.safetensors\n\n\
    The model has the bytes of `kmill fit ridge parts/ --target y`. Solvers whose fit makes one pass: ridge, kpca, fisher.")]
pub struct PrepareArgs {
    /// What to minimise
    #[arg(value_name = "SOLVER", hide_possible_values = true, help = solvers_help(), value_parser = solvers())]
    pub solver: String,
    /// The table.
    #[command(flatten)]
    pub data: DataArgs,
    /// What to learn.
    #[command(flatten)]
    pub learn: LearnArgs,
    /// Where the job goes: what every shard needs
    #[arg(short, long, value_name = "JOB", help_heading = "Run")]
    pub output: PathBuf,
    /// Memory, threads, output.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `kmill stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// A job written by `kmill prepare`
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// Files, folders or globs: the whole table, or with --first-row or --after a part of it
    #[arg(value_name = "DATA", required = true)]
    pub paths: Vec<PathBuf>,
    /// Stored rows of the whole table to fold, half-open [default: all that are there]
    #[arg(long, value_name = "A..B", value_parser = parse::rows, allow_hyphen_values = true)]
    pub rows: Option<Range<u64>>,
    /// Fold part I of K of the whole table, I from 1 to K: parts of about equal size
    #[arg(long, value_name = "I/K", value_parser = parse::part, conflicts_with_all = ["rows", "first_row", "after"])]
    pub part: Option<(u64, u64)>,
    /// DATA is the part of the whole table that begins with this stored row
    #[arg(long, value_name = "N", value_parser = parse::whole)]
    pub first_row: Option<u64>,
    /// DATA are the rows that come next after those of these statistics, such as what was merged the day before
    #[arg(long, value_name = "STATS", conflicts_with = "first_row")]
    pub after: Option<PathBuf>,
    /// FILE.npy with the target of .npy tables
    #[arg(long, value_name = "FILE.npy", value_parser = parse::name)]
    pub target: Vec<String>,
    /// Text files.
    #[command(flatten)]
    pub text: data::TextArgs,
    /// Where the statistics go
    #[arg(short, long, value_name = "STATS", help_heading = "Run")]
    pub output: PathBuf,
    /// Memory, threads, output.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `kmill merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Files of statistics of one job, in any order
    #[arg(value_name = "STATS", required = true)]
    pub files: Vec<PathBuf>,
    /// Stored rows to take away, as if they had never been there; several, comma-separated
    #[arg(long, value_name = "A..B", value_delimiter = ',', value_parser = parse::rows)]
    pub without: Vec<Range<u64>>,
    /// Where the merged statistics go
    #[arg(short, long, value_name = "STATS", help_heading = "Run")]
    pub output: PathBuf,
    /// One JSON object on stdout, and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Neither progress nor warnings on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of `kmill solve`.
#[derive(Debug, Args)]
pub struct SolveArgs {
    /// A job written by `kmill prepare`
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// Statistics of all of its rows
    #[arg(value_name = "STATS")]
    pub statistics: PathBuf,
    /// Where the model goes: a name that ends with .safetensors, or one without an extension
    #[arg(short, long, value_name = "MODEL", help_heading = "Run")]
    pub output: PathBuf,
    /// Memory, threads, output.
    #[command(flatten)]
    pub run: RunArgs,
}
