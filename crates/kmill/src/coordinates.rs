//! `kmill coordinates`: computes coordinates of objects from the matrix of their pairwise distances
//! or kernel values.

use crate::args::{RunArgs, RunSettings, SelectArgs, parse};
use crate::features::MEMORY_ROUNDING;
use crate::{Error, Result, allocator, open, output};
use clap::Args;
use kreport::table::{facts, format_count, number};
use ksolve::AnyModel;
use ksolve::coordinates::{CoordinateOptions, MatrixKind, coordinates};
use ksolve::predict::{Extras, Predictor};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill coordinates distances.parquet --features 'd*' --keep label -o places.parquet --model map.safetensors\n  \
    kmill fit ridge places.parquet --target label --kernel linear -o model.safetensors\n  \
    kmill coordinates similarities.npy --of kernel --rank 200 -o places.npy\n  \
    kmill predict map.safetensors new.parquet -o new_places.parquet\n\n\
    Row i of the table has the distances of object i to all objects, or its kernel values with them. \
    A linear kernel on the coordinates makes the objects available to every subcommand. New rows \
    need their distances to the same objects.")]
pub(crate) struct CoordinatesArgs {
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Columns of the matrix, in the order of its rows, as names or globs, comma-separated
    /// [default: every numeric column]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) features: Vec<String>,
    /// Meaning of the numbers: distances, squared-distances or kernel (kernel values, such as
    /// similarities)
    #[arg(long, value_parser = parse::word::<MatrixKind>, default_value_t, value_name = "WHAT", help_heading = "Learning")]
    pub(crate) of: MatrixKind,
    /// Maximum number of coordinates
    #[arg(long, value_name = "M", value_parser = parse::positive_integer, default_value = "500", help_heading = "Learning")]
    pub(crate) rank: usize,
    /// Relative trace error at which fewer coordinates suffice
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, default_value = "1e-6", help_heading = "Learning")]
    pub(crate) tolerance: f64,
    /// Seed of the random choice of objects whose columns are used
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value_t = 0, help_heading = "Learning")]
    pub(crate) seed: u64,
    /// Columns to copy to the output, before the coordinates, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) keep: Vec<String>,
    #[arg(short, long, help = output::help("coordinates"), value_name = "OUT", help_heading = "Run")]
    pub(crate) output: PathBuf,
    /// Also write a model, with which predict computes the coordinates of new rows
    #[arg(long, value_name = "MODEL", help_heading = "Run")]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct CoordinatesReport {
    objects: u64,
    coordinates: usize,
    trace_error: f64,
    /// Indices of the objects whose columns were used.
    pivots: Vec<u64>,
    #[serde(serialize_with = "kstore::display::lossy_path")]
    output: PathBuf,
}

impl std::fmt::Display for CoordinatesReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = vec![
            ("objects", format_count(self.objects)),
            ("coordinates", format_count(self.coordinates as u64)),
            ("certificate", format!("relative trace error {} at most", number(self.trace_error, 3))),
            ("rows", kstore::display::escape_path(&self.output).to_string()),
        ];
        write!(f, "{}", facts(lines))
    }
}

pub(crate) fn run(args: &CoordinatesArgs, run: &RunSettings) -> Result<CoordinatesReport> {
    output::check_writable(&args.output)?;
    if !(args.tolerance >= 0.0 && args.tolerance < 1.0) {
        let why = "it is a fraction of the trace";
        return Err(Error::option("--tolerance", args.tolerance, why, "choose a number of at least 0 and below 1"));
    }
    let (table, _) = open::table(&args.data.paths, &args.data.text.text_options(), &[])?;
    let selected = table.select(&open::selection(&args.data, &args.features, Vec::new()))?;
    output::protect_inputs(args.model.iter().chain([&args.output]), output::table_files(selected.table()))?;
    if let Some(model) = &args.model {
        output::check_model(model)?;
    }
    let copied = open::copied_columns(&selected, &args.data, &args.keep)?;
    let &CoordinatesArgs { of, rank, tolerance, seed, .. } = args;
    let job_run = run.job_run();
    let resident_before = allocator::trim_and_measure();
    let solution = coordinates(&selected, &CoordinateOptions { kind: of, rank, tolerance, seed }, &job_run)?;
    let (coordinates, trace_error, pivots) = (solution.pivots.len(), solution.trace_error, solution.pivots);
    let predictor = Predictor::new(AnyModel::F64(solution.model))?;
    // memory that is still allocated after the matrix was processed is unavailable to the
    // prediction. The number of bytes is rounded up, because it varies between runs
    let leftover_bytes =
        allocator::trim_and_measure().saturating_sub(resident_before).next_multiple_of(MEMORY_ROUNDING);
    let job_run = run.job_run().memory(run.memory.saturating_sub(leftover_bytes));
    let report = predictor.write(&selected, copied.as_ref(), Extras::default(), &args.output, &job_run);
    let written = report.map_err(|error| error.with_reserved(leftover_bytes))?;
    // write the model last, so that an earlier interruption leaves both files unchanged
    args.model.iter().try_for_each(|model| predictor.save(model))?;
    Ok(CoordinatesReport { objects: written.rows, coordinates, trace_error, pivots, output: args.output.clone() })
}
