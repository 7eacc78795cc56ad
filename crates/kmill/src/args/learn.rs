//! What to learn: kernel, map, penalties, folds.

use super::parse::{self, Candidates, Landmarks};
use clap::{Args, ValueEnum};
use kapprox::Spec;
use kapprox::kernel::registry;
use kapprox::map::MapSpec;
use ksolve::FoldSpec;

/// What the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Task {
    /// Numbers
    Regression,
    /// Labels: integers or text
    Classification,
}

/// What is done with the features before the kernel sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Mean 0 and standard deviation 1 over the training rows
    #[default]
    Standard,
    /// 0 to 1 over the training rows
    Minmax,
    /// As they are
    None,
}

/// The constant term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intercept {
    /// Not penalised
    #[default]
    Free,
    /// A further feature, penalised like the others
    Penalised,
    /// None
    None,
}

/// The loss of a support vector machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// max(0, 1 − margin)
    #[default]
    Hinge,
    /// Its square
    SquaredHinge,
}

/// Weights of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassWeight {
    /// n/(k n_c) for the rows of a class of n_c among k classes
    Balanced,
}

/// By what the cell of the surface is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Select {
    /// Cross-validated squared error
    #[default]
    Mse,
    /// Cross-validated share of wrong classes; one more pass
    Error,
}

/// How the system of ridge regression is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Directly where that fits the budget, else by conjugate gradient
    #[default]
    Auto,
    /// By a Cholesky factor
    Direct,
    /// By preconditioned conjugate gradient
    Pcg,
}

/// What helps conjugate gradient on landmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preconditioner {
    /// A sketch of the kernel's columns
    Krill,
    /// The landmarks taken for a sample of the rows
    Falkon,
}

/// Type of rows, kernel blocks and features. Sums over rows are in f64 either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floating point
    #[default]
    F32,
    /// 64-bit floating point
    F64,
}

impl From<Scale> for ksolve::train::Scaling {
    fn from(scale: Scale) -> Self {
        match scale {
            Scale::Standard => Self::Standard,
            Scale::Minmax => Self::Minmax,
            Scale::None => Self::None,
        }
    }
}

impl From<Method> for ksolve::train::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Auto => Self::Auto,
            Method::Direct => Self::Direct,
            Method::Pcg => Self::Pcg,
        }
    }
}

impl From<Preconditioner> for ksolve::train::Preconditioner {
    fn from(preconditioner: Preconditioner) -> Self {
        match preconditioner {
            Preconditioner::Krill => Self::Krill,
            Preconditioner::Falkon => Self::Falkon,
        }
    }
}

impl From<Intercept> for ksolve::Intercept {
    fn from(intercept: Intercept) -> Self {
        match intercept {
            Intercept::Free => Self::Free,
            Intercept::Penalised => Self::Penalised,
            Intercept::None => Self::None,
        }
    }
}

/// The registry's kernels, in a sentence.
pub(super) fn kernel_help() -> String {
    let names: Vec<&str> = registry().iter().map(|family| family.name).collect();
    format!(
        "Kernel: {}; sums and products of them. sigma=median takes the median distance of a sample",
        names.join(", ")
    )
}

/// The registry's landmark schemes, each with its line.
fn landmarks_help() -> String {
    let scheme = |scheme: &kapprox::landmark::Scheme| format!("{} ({})", scheme.name, scheme.about);
    let schemes: Vec<String> = kapprox::landmark::registry().iter().map(scheme).collect();
    format!("How landmarks are chosen: {}; or the rows of a table, FILE", schemes.join("; "))
}

/// The registry's maps, each with its line.
fn map_help() -> String {
    let maps: Vec<String> =
        kapprox::map::registry().iter().map(|family| format!("{} ({})", family.name, family.about)).collect();
    format!("How rows become features: {}", maps.join("; "))
}

/// The options that define the result of a fit, beside the table.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Learning")]
pub struct LearnArgs {
    /// What ridge learns: regression or classification (one against rest, labels kept) [default: regression]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "TASK")]
    pub task: Option<Task>,
    /// Components of kpca [default: 10]
    #[arg(long, value_name = "Q", value_parser = parse::rank)]
    pub components: Option<usize>,
    /// Components of the features as they are, their mean not taken off (kpca)
    #[arg(long)]
    pub uncentred: bool,
    /// Groups of kmeans and spectral
    #[arg(long, value_name = "K", value_parser = parse::rank)]
    pub clusters: Option<usize>,
    /// Starts of kmeans and spectral, on a sample; the best goes on [default: 10]
    #[arg(long, value_name = "N", value_parser = parse::rank)]
    pub starts: Option<usize>,
    /// The last coefficients of perceptron, not their average over the rows seen
    #[arg(long)]
    pub last: bool,
    /// Keep in the model what predict --novelty and --preimage need: 16 bytes for each pair of landmarks (kpca, kpca-l1)
    #[arg(long)]
    pub novelty: bool,
    /// Scores of variance 1 (kpca)
    #[arg(long)]
    pub whiten: bool,
    /// Scaling learned from the training rows and kept in the model: standard, minmax or none
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "SCALE")]
    pub scale: Scale,
    /// The kernel.
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)", value_parser = parse::kernel)]
    pub kernel: Spec,
    /// How rows become features.
    #[arg(long, help = map_help(), value_name = "MAP", default_value = "nystrom", value_parser = parse::map)]
    pub map: MapSpec,
    /// Number of features: for nystrom of landmarks [default: 1000, or the rows of --landmarks FILE]
    #[arg(long, value_name = "M", value_parser = parse::rank)]
    pub rank: Option<usize>,
    /// Take the smallest rank, up to --rank (then 4000 by default), with a relative trace error below this
    #[arg(long, value_name = "ERROR", allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// Ranks to compare in the same pass: 250,500,1000 or 50..2000 (doubling) [default: --rank alone]
    #[arg(long, value_name = "LIST", value_parser = parse::ranks)]
    pub ranks: Option<String>,
    /// How landmarks are chosen.
    #[arg(long, help = landmarks_help(), value_parser = parse::landmarks, default_value = "rpcholesky",
        value_name = "SCHEME|FILE")]
    pub landmarks: Landmarks,
    /// Choose landmarks among this many random rows, or all [default: max(20 * rank, 50000)]
    #[arg(long, value_name = "N|all", value_parser = parse::candidates)]
    pub candidates: Option<Candidates>,
    /// Penalties: 1e-6, or for ridge and svm several, 1e-8,1e-6 or 1e-9..1e-3 (two per decade) [default: 1e-9..1e-3 for
    /// ridge, else 1e-6]
    #[arg(long, value_name = "LIST", value_parser = parse::lambdas, allow_hyphen_values = true)]
    pub lambda: Option<String>,
    /// The penalty of svm, svr and logistic as LIBSVM writes it, in the place of --lambda: C = 1/(2 n lambda); for svm several,
    /// 0.1,1,10 or 0.01..100, compared on rows held out
    #[arg(long = "C", value_name = "LIST", conflicts_with = "lambda", value_parser = parse::penalties)]
    pub c: Option<String>,
    /// A machine for every pair of classes, not one for each class against the rest (svm)
    #[arg(long)]
    pub pairs: bool,
    /// Learn probabilities from rows held out, for predict --probabilities (svm)
    #[arg(long)]
    pub probabilities: bool,
    /// Loss of svm: hinge or squared-hinge
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "LOSS")]
    pub loss: Loss,
    /// Weigh the rows of svm and logistic by the inverse size of their class: balanced
    #[arg(long, value_enum, hide_possible_values = true, value_name = "balanced")]
    pub class_weight: Option<ClassWeight>,
    /// Errors below this cost nothing, in the unit of the target (svr) [default: 0.1]
    #[arg(long, value_name = "WIDTH", value_parser = parse::not_negative)]
    pub epsilon: Option<f64>,
    /// Share of the rows that may lie outside, above 0 and up to 1: of oneclass at most, of mean those farthest from the mean, whose
    /// score is negative [default: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = parse::share)]
    pub nu: Option<f64>,
    /// Relative duality gap at which svm, svr and oneclass stop [default: 1e-3]
    #[arg(long, value_name = "GAP", value_parser = parse::positive)]
    pub gap: Option<f64>,
    /// Most Newton steps of svm, svr, oneclass and logistic [default: 200]
    #[arg(long, value_name = "N", value_parser = parse::rank)]
    pub steps: Option<usize>,
    /// Cross-validation: 5 (rows at random), blocks:6 (contiguous rows) or column:NAME [default: 5, and none for a
    /// single cell]
    #[arg(long, value_name = "FOLDS", value_parser = parse::folds)]
    pub folds: Option<FoldSpec>,
    /// Constant term: free, penalised or none
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "INTERCEPT")]
    pub intercept: Intercept,
    /// How ridge is solved: direct, pcg (conjugate gradient; one rank, one lambda) or auto, which is pcg where direct does not
    /// fit --memory, and for --map exact beyond 10,000 rows
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "METHOD")]
    pub method: Method,
    /// Preconditioner of conjugate gradient on landmarks: krill (a sketch of 4 rank rows) or falkon [default: krill]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "NAME")]
    pub preconditioner: Option<Preconditioner>,
    /// Relative residual at which conjugate gradient ends [default: 1e-6, and 1e-9 with --precision f64]
    #[arg(long, value_name = "R", value_parser = parse::residual, allow_negative_numbers = true)]
    pub residual: Option<f64>,
    /// The error of every row by the fit to all others at the chosen rank and lambda, exactly: one more pass (ridge, direct)
    #[arg(long)]
    pub loo: bool,
    /// Column of the rows' weights, 0 or more: minimises (sum of w loss)/(sum of w) + lambda |w|^2 (ridge, direct)
    #[arg(long, value_name = "COLUMN")]
    pub weights: Option<String>,
    /// Keep in the model what predict --std needs: 16 bytes for each pair of landmarks (ridge, direct, numeric target)
    #[arg(long)]
    pub std: bool,
    /// Choose rank and lambda by cross-validated mse, or by the error of classes (one more pass)
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "mse|error")]
    pub select: Select,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "TYPE")]
    pub precision: Precision,
}
