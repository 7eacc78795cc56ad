//! Options that define what is learned: kernel, map, landmarks and solver parameters.

use super::data::DataArgs;
use super::parse;
use super::solver::SolverArgs;
use crate::error::with_option_names;
use clap::Args;
use clap::builder::PossibleValuesParser;
use kapprox::Kernel;
use kapprox::kernel::{KernelFamily, KernelProperties, registry};
use kapprox::map::MapSpec;
use kreport::table::join_with_commas;
use ksolve::job::{Candidates, ElementType};
use ksolve::job::{LandmarkSource, MetricSource, Scaling};

/// One-line help of `--kernel`.
pub(super) const KERNEL_HELP: &str =
    "Kernel, such as gaussian(sigma=2), matern(nu=1.5), laplacian or 1 + linear(); --help lists all";

pub(crate) fn kernel_help() -> String {
    let list_families = |has_property: fn(&KernelProperties) -> bool, describe: &dyn Fn(&KernelFamily) -> String| {
        let families = registry().into_iter().filter(|family| has_property(&family.properties));
        join_with_commas(families.map(describe))
    };
    let names_with = |has_property| list_families(has_property, &|family| family.name.to_string());
    let with_conditions = |has_property| {
        list_families(has_property, &|KernelFamily { name, properties, .. }| match properties.scope {
            "" => name.to_string(),
            scope => format!("{name} ({scope})"),
        })
    };
    let rate_kernels =
        registry().into_iter().filter(|family| family.rate_to_length_scale.is_some()).map(|family| family.name);
    format!(
        "Kernel: {}; sums, products and numbers, as in 1 + linear(). sigma=auto chooses the length \
         scale by the target, among multiples of the median distance of a sample; without a target \
         it is that median, and sigma=median always is; gamma=1/d is one over the number of \
         features; {} accept gamma instead of sigma. Bounded: {}. Translation-invariant (functions \
         of x - z): {}. Universal: {}. Characteristic (tests detect every difference): {}",
        names_with(|_| true),
        join_with_commas(rate_kernels),
        names_with(|properties| properties.bounded),
        names_with(|properties| properties.translation_invariant),
        with_conditions(|properties| properties.universal),
        with_conditions(|properties| properties.characteristic),
    )
}

fn landmarks_help() -> String {
    let schemes =
        with_descriptions(kapprox::landmark::registry().into_iter().map(|scheme| (scheme.name, scheme.about)));
    format!("Landmark scheme: {schemes}; or FILE, a table of landmarks [default: rpcholesky]")
}

fn map_help() -> String {
    let maps = with_descriptions(kapprox::map::registry().into_iter().map(|family| (family.name, family.summary)));
    format!("Feature map: {maps}")
}

/// The options that define the feature map: scaling, metric, kernel, landmarks and rank.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Learning")]
pub(crate) struct MapArgs {
    /// Scaling learned from the training rows and stored in the model: standard, minmax, robust
    /// (for outliers), asinh (for long tails), quantile (by rank) or none; for sparse rows and
    /// texts: tf-idf, unit, maxabs or none [default: standard; tune also tries asinh and quantile,
    /// and none for features of one range; sparse rows: none; texts: tf-idf]
    #[arg(long, value_parser = parse::word::<Scaling>, value_name = "SCALE")]
    pub(crate) scale: Option<Scaling>,
    /// Predict new rows with values outside the training range as they are, instead of clipped to
    /// the training range
    #[arg(long)]
    pub(crate) no_clip: bool,
    /// Metric before the kernel, learned from the target: learn, diagonal, full or low-rank(R); or
    /// the metric of a MODEL, or the numbers of a table FILE (one row: a factor for each feature;
    /// several rows: a matrix); or likelihood: no metric, but a length scale for each feature in
    /// each part of a sum of kernels; for sparse rows and texts only linear: a factor for each
    /// column, from the weights of a linear ridge regression [default: none; learn in tune]
    #[arg(long, value_name = "FORM|FILE", value_parser = parse::word::<MetricSource>)]
    pub(crate) metric: Option<MetricSource>,
    #[arg(long, help = KERNEL_HELP, long_help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=auto)", value_parser = parse::kernel)]
    pub(crate) kernel: Kernel,
    #[arg(long, help = map_help(), value_name = "MAP", default_value = "nystrom", value_parser = parse::map)]
    pub(crate) map: MapSpec,
    /// Number of features of the map; for nystrom, the number of landmarks [default: 1000, or the
    /// rows of --landmarks FILE]
    #[arg(long, value_name = "M", value_parser = parse::positive_integer)]
    pub(crate) rank: Option<usize>,
    #[arg(long, help = landmarks_help(), value_parser = parse::LandmarksParser, value_name = "SCHEME|FILE")]
    pub(crate) landmarks: Option<LandmarkSource>,
    /// Number of random rows among which landmarks are chosen, or all [default: max(20 * rank,
    /// 50000)]
    #[arg(long, value_name = "N|all", value_parser = parse::word::<Candidates>)]
    pub(crate) candidates: Option<Candidates>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE")]
    pub(crate) precision: ElementType,
}

/// The options of a fit: the solver, its parameters, the table and the feature map.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArgs {
    #[arg(value_name = "SOLVER", hide_possible_values = true, help = short_solvers_help(), long_help = solvers_help(),
        value_parser = solvers())]
    pub(crate) solver: String,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) map_args: MapArgs,
    #[command(flatten)]
    pub(crate) parameters: SolverArgs,
}

fn solvers() -> PossibleValuesParser {
    PossibleValuesParser::new(kfit::solver::registry().into_iter().map(|family| family.name))
}

fn short_solvers_help() -> String {
    format!("Solver: {}", join_with_commas(kfit::solver::registry().into_iter().map(|family| family.name)))
}

fn solvers_help() -> String {
    let solvers = with_descriptions(kfit::solver::registry().into_iter().map(|family| (family.name, family.about)));
    format!("Solver: {solvers}")
}

/// Formats (name, description) pairs as `name (description); …`.
pub(crate) fn with_descriptions(entries: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    entries.map(|(name, about)| format!("{name} ({})", with_option_names(about))).collect::<Vec<_>>().join("; ")
}
