//! `kmill generate`: writes a generated table of any size. Needs memory for one batch of rows only.

use crate::convert::float_kind;
use crate::generators::{self, Generator, TableSpec, Target};
use crate::progress::Progress;
use crate::writer::{self, TableWriter};
use crate::{Error, Result, args::parse, interrupt, output};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use kreport::table::format_count;
use ksolve::job::ElementType;
use kstore::pass::Observer;
use kstore::sink::{OutputColumn, OutputKind, OutputValues};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill generate friedman1 --rows 1e6 -o friedman1.parquet\n  \
    kmill generate smile --rows 10000 --precision f64 -o smile.npy\n\n\
    Row i depends only on the seed and on i. The columns are x0, x1, … and y; with .npy, y goes to a second \
    file OUT.y.npy (smile.npy, smile.y.npy).")]
pub(crate) struct GenerateArgs {
    /// Generator
    #[arg(value_name = "NAME", value_parser = names())]
    pub(crate) name: String,
    /// Number of rows, such as 100000 or 1e6
    #[arg(long, value_name = "N", value_parser = parse::parse_integer)]
    pub(crate) rows: u64,
    #[arg(short, long, help = output::help("table"), value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Number of features, for friedman1 (at least 5), hidden (at least 4) and blobs [default:
    /// depends on the generator]
    #[arg(long, value_name = "D", value_parser = parse::features)]
    pub(crate) features: Option<usize>,
    /// Standard deviation of the noise; defaults: friedman1 (1), hidden (0.2), moons (0.1), blobs
    /// (1), parabolas and circle (0.05), swissroll and scurve (0)
    #[arg(long, value_name = "SD", value_parser = parse::number, allow_negative_numbers = true)]
    pub(crate) noise: Option<f64>,
    /// Type of the features: f32 or f64
    #[arg(long, value_parser = parse::word::<ElementType>, default_value_t, value_name = "TYPE")]
    pub(crate) precision: ElementType,
    /// Print no progress and no notes to stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also print every stage with its time
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

fn names() -> PossibleValuesParser {
    let value = |generator: &Generator| PossibleValue::new(generator.name).help(generator.about);
    PossibleValuesParser::new(generators::all().into_iter().map(value))
}

/// Writes a generated table with features of type `precision`, and returns the paths of its files.
/// If writing fails or is interrupted, no file remains.
pub(crate) fn write(
    generator: &Generator,
    spec: &TableSpec,
    path: &Path,
    precision: ElementType,
    progress: &Progress,
) -> Result<Vec<PathBuf>> {
    let d = spec.features;
    let features: Vec<_> =
        (0..d).map(|column| OutputColumn::new(format!("x{column}"), float_kind(precision))).collect();
    let has_classes = generator.target == Target::Class;
    let target = OutputColumn::new("y", if has_classes { OutputKind::I64 } else { OutputKind::F64 });
    let mut table_writer = TableWriter::create(path, &features, &[target])?;
    let stage = progress.stage("generate", Some(spec.rows));
    let rows_per_batch = writer::batch_rows(d);
    let (mut x, mut y, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for first_row in (0..spec.rows).step_by(rows_per_batch) {
        interrupt::fail_if_requested()?;
        let row_count = rows_per_batch.min(usize::try_from(spec.rows - first_row).unwrap_or(rows_per_batch));
        x.resize(row_count * d, 0.0);
        y.resize(row_count, 0.0);
        generators::fill_rows(generator, spec, first_row, &mut x, &mut y);
        let values = |j: usize| x.iter().skip(j).step_by(d).copied();
        let (mut f32_columns, mut f64_columns) = (Vec::new(), Vec::new());
        match precision {
            ElementType::F32 => f32_columns.extend((0..d).map(|j| values(j).map(|v| v as f32).collect::<Vec<_>>())),
            ElementType::F64 => f64_columns.extend((0..d).map(|j| values(j).collect::<Vec<_>>())),
        }
        let features = f32_columns.iter().map(|column| OutputValues::F32(column));
        let features: Vec<_> = features.chain(f64_columns.iter().map(|column| OutputValues::F64(column))).collect();
        labels.clear();
        labels.extend(y.iter().filter(|_| has_classes).map(|label| *label as i64));
        table_writer
            .write(&features, &[if has_classes { OutputValues::I64(&labels) } else { OutputValues::F64(&y) }])?;
        stage.advance(row_count as u64);
    }
    interrupt::fail_if_requested()?;
    let files = table_writer.finish()?;
    stage.finish();
    Ok(files)
}

pub(crate) fn main(args: &GenerateArgs) -> Result<()> {
    let unknown_generator = || Error::option("NAME", &args.name, "unknown generator", "see kmill generate --help");
    let generator = generators::by_name(&args.name).ok_or_else(unknown_generator)?;
    let spec = TableSpec::new(generator, args.rows, args.seed, args.features, args.noise)?;
    output::check_writable(&args.output)?;
    let progress = Progress::new(crate::progress::verbosity(args.quiet, args.verbose));
    let files = write(generator, &spec, &args.output, args.precision, &progress)?;
    progress.note(&format!("{} rows of {} in {}", format_count(spec.rows), generator.name, writer::file_names(&files)));
    Ok(())
}
