//! `kmill features`: writes the features of a map for every row of a table.

use crate::args::{CategoryArgs, MapArgs, PersistenceArgs, RunArgs, RunSettings, SelectArgs, parse};
use crate::pipeline::FitOptions;
use crate::{Error, Result, allocator, open, output, pipeline};
use clap::Args;
use kfit::solver::Options;
use kmodel::model::FEATURES_SOLVER;
use kreport::fit::FitReport;
use kreport::table::format_count;
use ksolve::predict::{Extras, Predictor};
use kstore::Selection;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill features train.parquet --features 'x*' --rank 500 --keep y -o phi.parquet --model map.safetensors\n  \
    kmill predict map.safetensors test.parquet --keep y -o phi_test.parquet\n\n\
    Inner products of the columns phi_0, phi_1, … approximate the kernel, so any linear method on them \
    is a kernel method. --residual adds the column residual, sqrt(k(x, x) - |phi|^2): the norm of the \
    component outside the span of the features.")]
pub(crate) struct FeaturesArgs {
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Feature columns as names or globs, comma-separated [default: every numeric or text column]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) features: Vec<String>,
    #[command(flatten)]
    pub(crate) category: CategoryArgs,
    #[command(flatten)]
    pub(crate) learn: MapArgs,
    /// Use the smallest rank with a relative trace error below this, up to --rank (then 4000 by
    /// default)
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = "Learning")]
    pub(crate) tolerance: Option<String>,
    /// Also write the norm of the component outside the span of the features, as `residual` (maps
    /// on landmarks)
    #[arg(long, help_heading = "Run")]
    pub(crate) residual: bool,
    /// Columns to copy to the output, before the features, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) keep: Vec<String>,
    #[arg(short, long, help = output::help("features"), value_name = "OUT", help_heading = "Run")]
    pub(crate) output: PathBuf,
    /// Also write the map as a model, with which predict computes the same features of new rows
    #[arg(long, value_name = "MODEL", help_heading = "Run")]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) disk: PersistenceArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The bytes that a fit leaves allocated are rounded up to a multiple of this. Their exact number
/// varies between runs, but a memory budget that an error message proposes must suffice in the next
/// run.
pub(crate) const MEMORY_ROUNDING: usize = 4 << 20;

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct FeaturesReport {
    #[serde(flatten)]
    pub(crate) map: FitReport,
    /// True if the column `residual` was written too.
    pub(crate) residual: bool,
    #[serde(serialize_with = "kstore::display::lossy_path")]
    pub(crate) output: PathBuf,
}

pub(crate) fn run(args: &FeaturesArgs, run: &RunSettings) -> Result<FeaturesReport> {
    let selection = Selection { sparse: true, ..open::selection(&args.data, &args.features, Vec::new()) };
    let selection = args.category.apply_to(selection);
    let parameters = args.tolerance.iter().fold(Options::new(), |options, text| options.set("tolerance", text));
    let mut options = FitOptions::for_solver(FEATURES_SOLVER, selection, &args.data, &args.learn, parameters)?;
    output::check_writable(&args.output)?;
    if let Some(model) = &args.model {
        output::check_model(model)?;
    }
    if args.residual && options.fit.requested_map().is_data_independent() {
        let why = "the map is not a projection, so its residual is unknown";
        return Err(Error::option("--residual", "", why, "omit it, or choose a map on landmarks, such as nystrom"));
    }
    let selected = pipeline::select(&mut options, run)?;
    let outputs = args.model.iter().chain([&args.output]);
    output::protect_inputs(outputs, output::table_files(selected.table()).chain(options.fit.files()))?;
    let copied = open::copied_columns(&selected, &args.data, &args.keep)?;
    let resident_before = allocator::trim_and_measure();
    let checkpoint_path = args.model.as_ref().unwrap_or(&args.output);
    let fitted = pipeline::fit_model(&options, &selected, run, checkpoint_path, false, &args.disk)?;
    let (report, predictor) = (fitted.report, Predictor::new(fitted.model)?);
    // memory that is still allocated after the fit, including the model, is unavailable to the
    // prediction
    let leftover_bytes =
        allocator::trim_and_measure().saturating_sub(resident_before).next_multiple_of(MEMORY_ROUNDING);
    let job_run = run.job_run().memory(run.memory.saturating_sub(leftover_bytes));
    let extras = Extras { residual: args.residual, ..Extras::default() };
    let written = predictor.write(&selected, copied.as_ref(), extras, &args.output, &job_run);
    written.map_err(|error| error.with_reserved(leftover_bytes))?;
    // write the model last, so that an earlier interruption leaves both files unchanged
    args.model.iter().try_for_each(|model| predictor.save(model))?;
    let map = pipeline::fit_report(report, run, selected.table(), args.model.as_deref());
    Ok(FeaturesReport { map, residual: args.residual, output: args.output.clone() })
}

impl fmt::Display for FeaturesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, rank) = (format_count(self.map.fit.rows), format_count(self.map.fit.rank as u64));
        let residual_note = if self.residual { " and the residual" } else { "" };
        write!(f, "{}", self.map)?;
        writeln!(f, "{rank} features{residual_note} of {rows} rows: {}", kstore::display::escape_path(&self.output))
    }
}
