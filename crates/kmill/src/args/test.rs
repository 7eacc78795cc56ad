//! The options of `kmill test`: the statistic and the samples.

use super::data::{CategoryArgs, SelectArgs};
use super::learn::kernel_help;
use super::run::{RunArgs, ScratchArgs};
use super::{explained, parse};
use clap::Args;
use clap::builder::PossibleValuesParser;
use kapprox::Spec;
use kapprox::map::MapSpec;
use ksolve::job::{Candidates, ElementType};
use ksolve::request::{LandmarkSource, Scaling};
use kstore::condition::Condition;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill test mmd january.parquet july.parquet\n  \
    kmill test mmd all.parquet --by 'station == 3' --features 'x*' --rank 200\n  \
    kmill test mmd a.npy b.npy --map exact --permutations 200\n  \
    kmill test hsic all.parquet --features 'x*' --with y --json\n\n\
    A p-value is the probability of a statistic at least as large if there were no difference, or no dependence. There are\n\
    three: by permutations, which is exact, by the limit distribution, and by a gamma distribution.")]
pub struct TestArgs {
    #[arg(value_name = "STATISTIC", hide_possible_values = true, help = statistics_help(), value_parser = statistics())]
    pub statistic: String,
    #[command(flatten)]
    pub data: SelectArgs,
    /// Columns to compare, as names or globs, comma-separated [default: every column of numbers or text but those of --by
    /// and --with]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub features: Vec<String>,
    #[command(flatten)]
    pub category: CategoryArgs,
    /// The first sample of mmd: rows with 'column == value' (== != < <= > >=); the second is the others
    #[arg(
        long,
        value_name = "CONDITION",
        value_parser = parse::condition,
        conflicts_with = "condition",
        help_heading = "Table"
    )]
    pub by: Option<Condition>,
    /// The columns that hsic compares --features with, as names or globs, comma-separated
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub with: Vec<String>,
    /// Scaling learned from all rows of the test: standard, minmax, asinh (for long tails) or none
    #[arg(long, value_parser = parse::word::<Scaling>, default_value_t, value_name = "SCALE", help_heading = "Test")]
    pub scale: Scaling,
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)",
        value_parser = parse::kernel, help_heading = "Test")]
    pub kernel: Spec,
    /// The kernel of the columns of --with [default: --kernel]
    #[arg(long, value_name = "EXPR", value_parser = parse::kernel, requires = "with", help_heading = "Test")]
    pub with_kernel: Option<Spec>,
    /// How rows become features, as fit --help lists; exact for the kernel itself (mmd, some thousand rows)
    #[arg(long, value_name = "MAP", default_value = "nystrom", value_parser = parse::map, help_heading = "Test")]
    pub map: MapSpec,
    /// Features of each map [default: 300]
    #[arg(long, value_name = "M", value_parser = parse::rank, help_heading = "Test")]
    pub rank: Option<usize>,
    /// How landmarks are chosen, as fit --help lists; or the rows of a table, FILE (mmd) [default: rpcholesky]
    #[arg(long, value_parser = parse::LandmarksParser, value_name = "SCHEME|FILE", help_heading = "Test")]
    pub landmarks: Option<LandmarkSource>,
    /// Choose landmarks among this many random rows, or all [default: max(20 * rank, 50000)]
    #[arg(long, value_name = "N|all", value_parser = parse::word::<Candidates>, help_heading = "Test")]
    pub candidates: Option<Candidates>,
    /// Number of random assignments of rows to samples; 0 for the limit distributions alone
    #[arg(long, value_name = "N", value_parser = parse::permutations, default_value = "1000", help_heading = "Test")]
    pub permutations: u64,
    /// Seed of every random choice
    #[arg(long, value_name = "N", value_parser = parse::whole, default_value_t = 0, help_heading = "Test")]
    pub seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE", help_heading = "Test")]
    pub precision: ElementType,
    #[command(flatten)]
    pub scratch: ScratchArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

fn statistics() -> PossibleValuesParser {
    PossibleValuesParser::new(ksolve::statistic::registry().iter().map(|family| family.name))
}

fn statistics_help() -> String {
    let all = ksolve::statistic::registry().iter().map(|family| (family.name, family.about));
    format!("What to measure: {}", explained(all))
}
