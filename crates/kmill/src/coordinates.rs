//! `kmill coordinates`: computes coordinates of objects from the matrix of their pairwise distances
//! or kernel values.

use crate::args::{RunArgs, RunSettings, SelectArgs, parse};
use crate::features::MEMORY_ROUNDING;
use crate::{Error, Result, allocator, open, output};
use clap::Args;
use kreport::table::{facts, format_count, number};
use ksolve::AnyModel;
use ksolve::coordinates::{CoordinateOptions, MatrixKind, SpectrumReport, coordinates, landmark_coordinates};
use ksolve::predict::{Extras, Predictor};
use kstore::{SelectedTable, Selection};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill coordinates distances.parquet --features 'd*' --keep label -o places.parquet --model map.safetensors\n  \
    kmill fit ridge places.parquet --target label --kernel linear -o model.safetensors\n  \
    kmill coordinates similarities.npy --of kernel --rank 200 -o places.npy\n  \
    kmill predict map.safetensors new.parquet -o new_places.parquet\n  \
    kmill coordinates to_landmarks.parquet --landmarks landmarks.parquet -o places.parquet\n  \
    kmill coordinates to_landmarks.parquet --landmarks ..500 -o places.parquet\n\n\
    Row i of the table has the distances of object i to all objects, or its kernel values with them. \
    With --landmarks, it has the distances to a few objects only, the landmarks, and the table may be \
    larger than memory. Distances need not be Euclidean: the report shows how far they are from it. \
    A linear kernel on the coordinates makes the objects available to every subcommand. New rows \
    need their distances to the same objects.")]
pub(crate) struct CoordinatesArgs {
    #[command(flatten)]
    pub(crate) data: SelectArgs,
    /// Columns of the matrix, in the order of its rows, as names or globs, comma-separated
    /// [default: every numeric column]
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) features: Vec<String>,
    /// Landmarks, if the columns are distances to landmarks only: FILE is a table of the distances
    /// among the landmarks, with the same columns, a row for each column in their order; A..B are
    /// its rows, if DATA contains them
    #[arg(long, value_name = "FILE|A..B", help_heading = "Learning")]
    pub(crate) landmarks: Option<PathBuf>,
    /// Meaning of the numbers: distances, squared-distances or kernel (kernel values, such as
    /// similarities)
    #[arg(long, value_parser = parse::word::<MatrixKind>, default_value_t, value_name = "WHAT", help_heading = "Learning")]
    pub(crate) of: MatrixKind,
    /// Maximum number of coordinates
    #[arg(long, value_name = "M", value_parser = parse::positive_integer, default_value = "500", help_heading = "Learning")]
    pub(crate) rank: usize,
    /// Relative trace error at which fewer coordinates suffice; also the relative rounding error of
    /// the numbers
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
    /// Number of landmarks, with `--landmarks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    landmarks: Option<usize>,
    coordinates: usize,
    trace_error: f64,
    /// Indices of the objects whose columns were used.
    pivots: Vec<u64>,
    #[serde(skip)]
    kind: MatrixKind,
    /// Whether points have these distances or kernel values, up to `--tolerance`.
    euclidean: bool,
    /// Eigenvalues of the matrix of inner products; `None` if they were not computed, because the
    /// matrix is positive semi-definite.
    #[serde(skip_serializing_if = "Option::is_none")]
    spectrum: Option<SpectrumReport>,
    #[serde(serialize_with = "kstore::display::lossy_path")]
    output: PathBuf,
}

impl std::fmt::Display for CoordinatesReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut lines = vec![("objects", format_count(self.objects))];
        lines.extend(self.landmarks.map(|count| ("landmarks", format_count(count as u64))));
        lines.push(("coordinates", format_count(self.coordinates as u64)));
        let (name, is_valid, is_invalid) = match self.kind {
            MatrixKind::Kernel => ("kernel", "positive semi-definite", "not positive semi-definite"),
            _ => ("distances", "Euclidean", "not Euclidean"),
        };
        lines.push((
            name,
            match self.euclidean {
                true => is_valid.to_string(),
                false => format!("{is_invalid}; the coordinates are those of the positive part"),
            },
        ));
        let trace_error = number(self.trace_error, 3);
        match &self.spectrum {
            Some(spectrum) => {
                let part = |fraction: f64, count: usize, name: &str, extreme: f64| {
                    format!(
                        "{} of the sum of absolute eigenvalues; {} eigenvalues, the {name} {}",
                        number(fraction, 3),
                        format_count(count as u64),
                        number(extreme, 4)
                    )
                };
                let (positive, count) = (spectrum.positive_fraction, spectrum.positive_count);
                lines.push(("positive part", part(positive, count, "largest", spectrum.largest)));
                if spectrum.negative_count > 0 {
                    let (negative, count) = (1.0 - positive, spectrum.negative_count);
                    lines.push(("negative part", part(negative, count, "smallest", spectrum.smallest)));
                }
                lines.push(("certificate", format!("relative trace error {trace_error} of the positive part")));
            }
            None => lines.push(("certificate", format!("relative trace error {trace_error} at most"))),
        }
        lines.push(("rows", kstore::display::escape_path(&self.output).to_string()));
        write!(f, "{}", facts(lines))
    }
}

/// Selects the rows with the distances among the landmarks, with the columns of `selected`.
fn select_landmarks(args: &CoordinatesArgs, selected: &SelectedTable, source: &Path) -> Result<SelectedTable> {
    let range = source.to_str().filter(|text| *text != "..").and_then(|text| parse::rows(text).ok());
    let selection = Selection { rows: range.clone(), ..selected.same_features() };
    Ok(match range {
        Some(_) => selected.table().select(&selection)?,
        None => open::table(&[source.to_path_buf()], &args.data.text.text_options(), &[])?.0.select(&selection)?,
    })
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
    let landmarks = args.landmarks.as_ref().map(|source| select_landmarks(args, &selected, source)).transpose()?;
    if let Some(table) = &landmarks {
        output::protect_inputs(args.model.iter().chain([&args.output]), output::table_files(table.table()))?;
    }
    let &CoordinatesArgs { of: kind, rank, tolerance, seed, .. } = args;
    let (options, job_run) = (CoordinateOptions { kind, rank, tolerance, seed }, run.job_run());
    let resident_before = allocator::trim_and_measure();
    let solution = match &landmarks {
        Some(landmarks) => landmark_coordinates(landmarks, &options, &job_run)?,
        None => coordinates(&selected, &options, &job_run)?,
    };
    let euclidean = solution.is_euclidean(tolerance);
    let (coordinates, trace_error, pivots) = (solution.model.metadata.rank, solution.trace_error, solution.pivots);
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
    Ok(CoordinatesReport {
        objects: written.rows,
        landmarks: landmarks.map(|table| table.shape().input_count),
        coordinates,
        trace_error,
        pivots,
        kind,
        euclidean,
        spectrum: solution.spectrum.map(SpectrumReport::new),
        output: args.output.clone(),
    })
}
