//! `kmill update`: continues the training of a model, row by row.

use crate::args::{MissingTargetArgs, RunArgs, RunSettings, SelectArgs, parse};
use crate::{Result, open, output};
use clap::Args;
use kreport::table::{facts, format_count, number};
use ksolve::predict::OnlineUpdate;
use kstore::Selection;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill fit ridge january.parquet --target load --std -o load.safetensors\n  \
    kmill update load.safetensors february.parquet -o load.safetensors\n  \
    kmill update load.safetensors march.csv --forgetting 0.9999 -o march.safetensors\n\n\
    Each row is first predicted and then learned, in the order of the table, by recursive least \
    squares. Without --forgetting, the model predicts like ridge regression on the rows of all tables, \
    with the landmarks and the scaling of the first.")]
pub(crate) struct UpdateArgs {
    /// Model file written by `kmill fit ridge --std`, `kmill fit online --std` or `kmill update`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Target columns, if they have other names than at the fit; FILE.npy for .npy tables
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) target: Vec<String>,
    #[command(flatten)]
    pub(crate) missing_target: MissingTargetArgs,
    /// Forgetting factor: every new row multiplies the weights of earlier rows by it, such as 0.999
    /// for about the last 1,000 rows
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, default_value = "1", help_heading = "Run")]
    pub(crate) forgetting: f64,
    /// Output file of the model; the name of the old model replaces it
    #[arg(short, long, value_name = "MODEL", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The report of an update.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct UpdateReport {
    rows: u64,
    running_mse: f64,
    /// Number of rows that the model has learned, including the rows of its fit.
    rows_of_model: u64,
    #[serde(serialize_with = "kstore::display::lossy_path")]
    model: PathBuf,
}

impl std::fmt::Display for UpdateReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = vec![
            ("rows", format!("{} learned, {} in total", format_count(self.rows), format_count(self.rows_of_model))),
            ("running mse", format!("{}, each row predicted before it was learned", number(self.running_mse, 4))),
        ];
        write!(f, "{}", facts(lines))?;
        writeln!(f, "\nmodel: {}", kstore::display::escape_path(&self.model))
    }
}

pub(crate) fn run(args: &UpdateArgs, run: &RunSettings) -> Result<UpdateReport> {
    output::check_model(&args.output)?;
    let mut predictor = ksolve::predict::Predictor::load_within_budget(&args.model, &run.job_run())?;
    let names = if args.target.is_empty() { predictor.metadata().targets.clone() } else { args.target.clone() };
    let missing_target = Some(args.missing_target.missing_target);
    let roles = Selection { missing_target, ..Selection::default() };
    let selected = open::select_for_model(&mut predictor, &args.data, &names, roles, run)?;
    output::protect_inputs([&args.output], output::table_files(selected.table()))?;
    let OnlineUpdate { model, rows, running_mse, .. } = predictor.learn(&selected, args.forgetting, &run.job_run())?;
    model.save(&args.output)?;
    let rows_of_model = model.metadata().rows + model.metadata().online_rows;
    Ok(UpdateReport { rows, running_mse, rows_of_model, model: args.output.clone() })
}
