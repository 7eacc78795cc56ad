//! `kmill herd`: selects a few rows whose mean in feature space approximates the mean of all rows.

use crate::args::{CategoryArgs, RunArgs, RunSettings, ScratchArgs, SelectArgs, kernel_help, parse};
use crate::{Error, Result, open, output, writer};
use clap::Args;
use kapprox::{Kernel, Real};
use kfit::request::TrainOptions;
use kreport::fit::ResourceReport;
use kreport::table::{facts, format_count, number};
use ksolve::Task;
use ksolve::job::Scaling;
use ksolve::job::{self, Candidates, ElementType};
use ksolve::statistic::{Representatives, represent};
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::sparse::{NO_INDEX, SparseColumn};
use kstore::{ReadSettings, Scaler, SelectedTable, Selection};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill herd all.parquet --count 100 -o few.parquet\n  \
    kmill herd all.parquet --features 'x*' --count 500 -o landmarks.parquet\n  \
    kmill fit ridge all.parquet --target y --landmarks landmarks.parquet -o model.safetensors\n\n\
    Rows are selected greedily, so that their mean in feature space approximates the mean of all rows. \
    The column row holds their indices in the table, from 0.")]
pub(crate) struct HerdArgs {
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Feature columns as names or globs, comma-separated [default: every numeric or text column]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) features: Vec<String>,
    #[command(flatten)]
    pub(crate) category: CategoryArgs,
    /// Number of rows to select
    #[arg(long, value_name = "N", value_parser = parse::positive_integer, help_heading = "Herding")]
    pub(crate) count: usize,
    /// Scaling learned from all rows: standard, minmax, robust (for outliers), asinh (for long
    /// tails), quantile (by rank) or none; for sparse rows tf-idf, unit, maxabs or none; the rows
    /// are written unscaled [default: standard; none for sparse rows]
    #[arg(long, value_parser = parse::word::<Scaling>, value_name = "SCALE", help_heading = "Herding")]
    pub(crate) scale: Option<Scaling>,
    #[arg(long, help = kernel_help(), value_name = "EXPR", default_value = "gaussian(sigma=median)",
        value_parser = parse::kernel, help_heading = "Herding")]
    pub(crate) kernel: Kernel,
    /// Number of features of the map, which is nystrom on landmarks by rpcholesky
    #[arg(long, value_name = "M", value_parser = parse::positive_integer, default_value = "300", help_heading = "Herding")]
    pub(crate) rank: usize,
    /// Seed of all random choices
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value_t = 0, help_heading = "Herding")]
    pub(crate) seed: u64,
    /// Type of rows and features: f32 or f64 (sums are f64)
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE", help_heading = "Herding")]
    pub(crate) precision: ElementType,
    #[arg(short, long, help = output::help("rows (in .npy only the features)"), value_name = "OUT", help_heading = "Run")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct HerdReport {
    #[serde(flatten)]
    pub(crate) representatives: Representatives,
    pub(crate) features: usize,
    #[serde(flatten)]
    pub(crate) resources: ResourceReport,
    #[serde(serialize_with = "kstore::display::lossy_path")]
    pub(crate) output: PathBuf,
}

const ROW_COLUMN: &str = "row";

pub(crate) fn run(args: &HerdArgs, run: &RunSettings) -> Result<HerdReport> {
    output::check_writable(&args.output)?;
    let selection = args.category.apply_to(open::selection(&args.data, &args.features, Vec::new()));
    // words of texts are written as columns
    let sparse = args.category.text.is_empty();
    let selection = Selection { sparse, weighting: args.scale.and_then(Scaling::weighting), ..selection };
    let text = args.data.text.text_options();
    let text = job::text_options_for(&selection, &args.kernel, args.scale, true, text);
    let (table, _) = open::table(&args.data.paths, &text, &[])?;
    let selected = run.job_run().resolve_categories(&table.select(&selection)?)?;
    output::protect_inputs([&args.output], output::table_files(selected.table()))?;
    if selected.feature_names().iter().any(|name| name == ROW_COLUMN) && !writer::is_matrix(&args.output) {
        let why = "the output column of row numbers has this name";
        return Err(Error::option("--features", ROW_COLUMN, why, "exclude the column, or write .npy"));
    }
    let representatives = match args.precision {
        ElementType::F32 => select_rows::<f32>(args, &selected, run)?,
        ElementType::F64 => select_rows::<f64>(args, &selected, run)?,
    };
    match selected.sparse_shape() {
        // entries are written as they are stored, without the weights of the scaling
        Some(_) => {
            let unweighted = table.select(&Selection { weighting: None, ..selection })?;
            write_sparse_rows(&args.output, &unweighted, &representatives)?;
        }
        None => write_rows(&args.output, &selected, &representatives)?,
    }
    let features = selected.sparse_shape().map_or(selected.shape().input_count, |shape| shape.column_count);
    let resources = run.resource_report(selected.table().bytes_read());
    Ok(HerdReport { representatives, features, resources, output: args.output.clone() })
}

fn select_rows<T: Real>(args: &HerdArgs, selected: &SelectedTable, run: &RunSettings) -> Result<Representatives> {
    let kernel = job::kernel_for(&args.kernel, selected)?;
    let options = TrainOptions {
        scaling: job::scaling_for(args.scale, selected)?,
        candidates: Candidates::default_for_rank(args.rank).row_count(),
        seed: args.seed,
        ..TrainOptions::new(Task::Components, kernel, args.rank)
    };
    let scratch = args.scratch.open()?;
    let job = scratch.iter().fold(run.job_run(), job::Run::scratch);
    Ok(represent::<T>(selected, &options, args.count, &job.resources())?)
}

/// Writes the selected rows, unscaled, in the order of selection. Missing values are replaced as
/// they were for the selection: by the means.
fn write_rows(path: &Path, selected: &SelectedTable, representatives: &Representatives) -> Result<()> {
    let names = selected.feature_names();
    let d = names.len();
    let means = representatives.means.clone();
    let identity = Scaler { centre: vec![0.0; d], scale: vec![1.0; d], mean: means, ..Scaler::default() };
    let read_settings = ReadSettings { scaler: Some(Arc::new(identity)), ..ReadSettings::default() };
    let selected_rows = selected.rows::<f64>(read_settings)?.gather(&representatives.rows)?;
    let row_numbers = row_numbers(representatives);
    let values: Vec<Vec<f64>> =
        (0..d).map(|j| selected_rows.x().iter().skip(j).step_by(d).copied().collect()).collect();
    let row_column = (!writer::is_matrix(path)).then(|| OutputColumn::new(ROW_COLUMN, OutputKind::I64));
    let columns = names.iter().map(|name| OutputColumn::new(name.as_str(), OutputKind::F64));
    let mut sink = sink::create(path, &row_column.iter().cloned().chain(columns).collect::<Vec<_>>())?;
    let row_output = row_column.iter().map(|_| OutputValues::I64(&row_numbers));
    let batch: Vec<OutputValues<'_>> =
        row_output.chain(values.iter().map(|column| OutputValues::F64(column))).collect();
    sink.write(&batch)?;
    Ok(sink.finish()?)
}

/// Writes the selected sparse rows in the order of selection, as one column of lists.
fn write_sparse_rows(path: &Path, selected: &SelectedTable, representatives: &Representatives) -> Result<()> {
    let shape = selected.sparse_shape().unwrap_or_default();
    let rows = selected.rows::<f64>(ReadSettings::default())?.gather(&representatives.rows)?;
    let mut entries = SparseColumn::new(shape);
    for row in rows.x().chunks_exact(shape.values_per_row()) {
        let (indices, values) = row.split_at(row.len() / 2);
        for (index, value) in indices.iter().zip(values).take_while(|(index, _)| **index != NO_INDEX) {
            entries.push_entry(*index as u32, *value);
        }
        entries.end_row();
    }
    let row_numbers = row_numbers(representatives);
    let name = selected.feature_columns().first().cloned().unwrap_or_default();
    let columns = [OutputColumn::new(ROW_COLUMN, OutputKind::I64), OutputColumn::new(name, OutputKind::Sparse(shape))];
    let mut sink = sink::create(path, &columns)?;
    sink.write(&[OutputValues::I64(&row_numbers), OutputValues::Sparse(&entries)])?;
    Ok(sink.finish()?)
}

fn row_numbers(representatives: &Representatives) -> Vec<i64> {
    representatives.rows.iter().map(|row| i64::try_from(*row).unwrap_or(i64::MAX)).collect()
}

impl fmt::Display for HerdReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Representatives { rows, squared_distances, variance, table_rows, kernel, rank, .. } = &self.representatives;
        let selected_count = rows.len();
        writeln!(
            f,
            "{} of {} rows, {} features\n",
            format_count(selected_count as u64),
            format_count(*table_rows),
            format_count(self.features as u64)
        )?;
        let squared_distance = squared_distances.last().copied().unwrap_or(f64::NAN);
        let random_distance = number(variance / selected_count.max(1) as f64, 3);
        let lines = [
            ("kernel", kernel.clone()),
            ("features", format!("{} (nystrom)", format_count(*rank as u64))),
            (
                "distance",
                format!(
                    "{} squared, between the means ({random_distance} for the same number of random rows)",
                    number(squared_distance, 3)
                ),
            ),
            ("rows", self.output.display().to_string()),
        ];
        write!(f, "{}", facts(lines))
    }
}
