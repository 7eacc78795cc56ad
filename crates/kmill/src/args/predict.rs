//! The options of `kmill predict`: a model, a table, and what is written beside the predictions.

use super::{RunArgs, data, parse};
use clap::Args;
use std::path::PathBuf;

/// Options of `kmill predict`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill predict model.safetensors new.parquet -o predictions.parquet\n  \
    kmill predict model.safetensors new.csv --keep id,time -o predictions.csv\n  \
    kmill predict anomalies.safetensors new.csv --top 100 --keep '*' -o strange.csv\n\n\
    Columns are matched by name; the target may be absent. Rows keep their order.")]
pub struct PredictArgs {
    /// A model written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The files, rows and columns of the table.
    #[command(flatten)]
    pub data: data::SelectArgs,
    /// The scores that classes are decided by too: `score_<label>` for each, the largest wins; `score` for two classes, positive for
    /// the second in the order of `inspect`; `score_<a>_<b>` for each pair (fit svm --pairs), positive for b
    #[arg(long, help_heading = "Run")]
    pub scores: bool,
    /// Probabilities of the classes too, in columns `probability_<label>` (logistic)
    #[arg(long, help_heading = "Run")]
    pub probabilities: bool,
    /// Coordinates along the components too, as `component_0`, … (models of fit pls, fit fisher --components)
    #[arg(long, help_heading = "Run")]
    pub components: bool,
    /// Standard deviations too: `std` of a new observation and `std_mean` of the prediction itself (models of fit --std)
    #[arg(long, help_heading = "Run")]
    pub std: bool,
    /// The squared distance of a row from what the components span, as `novelty` (models of fit kpca --novelty)
    #[arg(long, help_heading = "Run")]
    pub novelty: bool,
    /// The row nearest to a row's projection on the components, as `preimage_<feature>`: rows without their noise (Gaussian kernel,
    /// models of fit kpca --novelty)
    #[arg(long, help_heading = "Run")]
    pub preimage: bool,
    /// The coordinate outside the span of the features, sqrt(k(x, x) - |phi|^2), as `residual` (models of features or of fit features)
    #[arg(long, help_heading = "Run")]
    pub residual: bool,
    /// Decide for the second of two classes above this probability, or above this score in a model without probabilities
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, allow_negative_numbers = true, help_heading = "Run")]
    pub threshold: Option<f64>,
    /// Only the N most unusual rows, the strangest first, with their number as `row` (oneclass, mean)
    #[arg(long, value_name = "N", value_parser = parse::rank, help_heading = "Run")]
    pub top: Option<usize>,
    /// Columns to carry along, before the predictions: names or globs, comma-separated; !NAME leaves one out
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub keep: Vec<String>,
    /// Where the predictions go: .parquet, .csv, .tsv (column `prediction`) or .npy
    #[arg(short, long, value_name = "OUT", help_heading = "Run")]
    pub output: PathBuf,
    /// Memory, threads, and the form of the output.
    #[command(flatten)]
    pub run: RunArgs,
}
