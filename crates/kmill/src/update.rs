//! `kmill update`: continues the training of a model, row by row.

use crate::args::{MissingTargetArgs, RunArgs, RunSettings, SelectArgs, parse};
use crate::{Result, open, output};
use clap::Args;
use kreport::growth::growth_lines;
use kreport::table::{facts, format_count, number};
use ksolve::ModelMetadata;
use ksolve::growth::GrowthReport;
use ksolve::predict::{Extras, OnlineUpdate};
use kstore::Selection;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill fit ridge january.parquet --target load --std -o load.safetensors\n  \
    kmill update load.safetensors february.parquet -o load.safetensors\n  \
    kmill update load.safetensors march.csv --forgetting 0.9999 -o march.safetensors\n\n\
    Each row is first predicted and then learned, in the order of the table, by recursive least \
    squares. Without --forgetting, the model predicts like ridge regression on the rows of all tables, \
    with the landmarks and the scaling of the first. The report compares the new rows with the rows \
    of the fit: it says how much of them the landmarks miss, which ranges moved, and when to fit \
    the model anew.")]
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
    /// The learned rows, compared with the rows of the fit.
    growth: GrowthReport,
    /// All rows learned since the fit, compared with the rows of the fit; `None` after the first
    /// update.
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_since_fit: Option<GrowthReport>,
    #[serde(serialize_with = "kstore::display::lossy_path")]
    model: PathBuf,
}

impl std::fmt::Display for UpdateReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = vec![
            ("rows", format!("{} learned, {} in total", format_count(self.rows), format_count(self.rows_of_model))),
            ("running mse", format!("{}, each row predicted before it was learned", number(self.running_mse, 4))),
        ];
        write!(f, "{}{}", facts(lines), facts(growth_lines(&self.growth)))?;
        if let Some(growth) = &self.growth_since_fit {
            writeln!(f, "\nall {} rows learned since the fit:", format_count(growth.rows))?;
            write!(f, "{}", facts(growth_lines(growth)))?;
        }
        writeln!(f, "\nmodel: {}", kstore::display::escape_path(&self.model))
    }
}

/// Returns the command that fits an outgrown model anew.
pub(crate) fn command_of_new_fit(metadata: &ModelMetadata) -> String {
    let (solver, targets) = (&metadata.solver, metadata.targets.join(","));
    format!("fit it anew on old and new rows: kmill fit {solver} OLD NEW --target {targets} --std -o MODEL")
}

pub(crate) fn run(args: &UpdateArgs, run: &RunSettings) -> Result<UpdateReport> {
    output::check_model(&args.output)?;
    let mut predictor = ksolve::predict::Predictor::load_within_budget(&args.model, &run.job_run())?;
    let names = if args.target.is_empty() { predictor.metadata().targets.clone() } else { args.target.clone() };
    let missing_target = Some(args.missing_target.missing_target);
    let roles = Selection { missing_target, ..Selection::default() };
    let selected = open::select_for_model(&mut predictor, &args.data, &names, roles, Extras::default(), run)?;
    output::protect_inputs([&args.output], output::table_files(selected.table()))?;
    let OnlineUpdate { model, rows, running_mse, growth, .. } =
        predictor.learn(&selected, args.forgetting, &run.job_run())?;
    model.save(&args.output)?;
    let (metadata, remedy) = (model.metadata(), command_of_new_fit(model.metadata()));
    let rows_of_model = metadata.rows + metadata.online_rows;
    let growth_since_fit = metadata.growth.as_ref().filter(|all| all.rows > rows).map(|all| all.report(&remedy));
    let growth = growth.report(&remedy);
    Ok(UpdateReport { rows, running_mse, rows_of_model, growth, growth_since_fit, model: args.output.clone() })
}
