//! `kmill convert`: rewrites a table in another format, in the memory of a few batches.
//!
//! Columns are copied without conversion to float64, so a 64-bit ID is preserved.

use crate::args::{ConvertDataArgs, Run, RunArgs, parse};
use crate::writer::{self, TableWriter};
use crate::{Error, Result, open, output};
use clap::Args;
use kreport::table::count;
use ksolve::job::ElementType;
use kstore::budget::Term;
use kstore::pass::lanes::{self, Lane};
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::source::TARGET;
use kstore::{
    KeptColumn, Kind, Missing, Pass, Reading, RowBlock, Selected, Selection, TILE_TEXT, Table, TextLimit, Workers,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill convert table.parquet --target y -o table.npy      (target in table.y.npy)\n  \
    kmill convert table.npy --target table.y.npy -o back.parquet\n  \
    kmill convert a9a.svm --width 123 -o a9a.parquet\n  \
    kmill convert a9a.svm --sparse -o a9a.parquet            (sparse rows in column x, the label in y)\n  \
    kmill convert table.csv --target price -o table.svm\n  \
    kmill convert export.csv --delimiter ';' -o export.parquet\n\n\
    Columns keep their type: uint64 stays uint64, other integers become int64, text stays text if the \
    format supports it (.npy does not), and no integer is rounded. Missing values stay missing; \
    --missing error stops at the first one.\n\n\
    In .svm the target is the label: the column of --target, or column y, or 0 without both. Zeros \
    are omitted.")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) data: ConvertDataArgs,
    #[arg(short, long, help = output::help("table"), value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Type of the floating-point features [default: the type of each column; for .npy, the
    /// smallest type that stores all features exactly]
    #[arg(long, value_parser = parse::word::<ElementType>, value_name = "f32|f64")]
    pub(crate) precision: Option<ElementType>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The columns to write, and their types in the output.
struct Columns {
    /// Features, then targets, in the order of the kept columns.
    columns: Vec<OutputColumn>,
    features: usize,
}

impl Columns {
    fn new(selected: &Selected, features: usize, path: &Path, precision: Option<ElementType>) -> Self {
        let schema = selected.table().schema();
        let places = schema.places();
        let kind = |column: &OutputColumn| places.get(column.name.as_str()).map(|at| &schema.columns[*at].kind);
        let mut columns = selected.kept_columns();
        let (features_of, targets_of) = columns.split_at_mut(features);
        let npy = writer::is_npy(path);
        for column in features_of.iter_mut().filter(|_| npy) {
            // dates and times are included only by name, as the numbers that store them
            column.time = None;
        }
        let whole = |kind| features_of.iter().all(|column| column.kind == kind);
        let whole = whole(OutputKind::I64) || whole(OutputKind::U64);
        let small = features_of.iter().all(|column| kind(column).is_some_and(is_small));
        for column in features_of {
            column.kind = match (column.kind, precision) {
                (OutputKind::F32 | OutputKind::F64, Some(precision)) => float(precision),
                // one type for all: the requested one, or the smallest that represents every value
                (OutputKind::I64 | OutputKind::U64 | OutputKind::Bool, Some(precision)) if npy => float(precision),
                (OutputKind::F32 | OutputKind::I64 | OutputKind::Bool, None) if npy && small => OutputKind::F32,
                (OutputKind::I64 | OutputKind::U64, None) if npy && !whole => OutputKind::F64,
                (kind, _) => kind,
            };
        }
        for column in targets_of.iter_mut().filter(|column| npy && column.kind == OutputKind::Bool) {
            column.kind = OutputKind::I64;
        }
        for label in targets_of.iter_mut().filter(|_| writer::is_labelled(path)) {
            label.name = TARGET.to_string();
        }
        Self { columns, features }
    }
}

pub(crate) fn float(precision: ElementType) -> OutputKind {
    match precision {
        ElementType::F32 => OutputKind::F32,
        ElementType::F64 => OutputKind::F64,
    }
}

/// Returns true if float32 represents every value.
fn is_small(kind: &Kind) -> bool {
    matches!(kind, Kind::Float { bits: ..=32 } | Kind::Int { bits: ..=16, .. } | Kind::Bool)
}

fn write(out: &mut TableWriter, columns: &Columns, table: &Table, block: &RowBlock<'_, f64>) -> Result<()> {
    let wanted = block.kept.iter().zip(&columns.columns);
    let cast = wanted.map(|(have, wanted)| match have.kind() == wanted.kind {
        true => Ok(None),
        false => {
            have.cast(wanted.kind).map(Some).map_err(|(row, value)| refused(table, block.rows[row], wanted, value))
        }
    });
    let cast: Vec<Option<KeptColumn>> = cast.collect::<Result<_>>()?;
    let written = block.kept.iter().zip(&cast);
    let batch: Vec<_> = written.map(|(have, cast)| Output::Kept(cast.as_ref().unwrap_or(have))).collect();
    let (features, targets) = batch.split_at(columns.features);
    out.write(features, targets)
}

#[cold]
fn refused(table: &Table, row: u64, column: &OutputColumn, value: String) -> Error {
    let located = table.locate(row);
    let (path, row) = located.map_or_else(Default::default, |(path, row)| (path.to_path_buf(), row));
    let remedy = "write .parquet or .csv, which keep every column's type, or choose --precision f64";
    kstore::Error::BadValue { path, row, line: None, column: column.name.clone(), value, remedy }.into()
}

/// Selects the rows, and all columns or the named ones followed by the targets. Also returns the
/// number of targets.
fn select(args: &ConvertArgs) -> Result<(Selected, usize)> {
    let select = &args.data.select;
    let (table, targets) = open::table(&select.paths, &select.text.options(), &args.data.target)?;
    let dropped = table.columns_like(&args.data.drop)?;
    let targets = if writer::is_labelled(&args.output) { label(&table, targets, &dropped)? } else { targets };
    let mut features = match &args.data.features[..] {
        [] => table.schema().columns.iter().map(|column| column.name.clone()).collect(),
        named => table.columns_like(named)?,
    };
    let left_out: HashSet<String> = dropped.into_iter().chain(targets.clone()).collect();
    features.retain(|name| !left_out.contains(name));
    let keep = [&features[..], &targets].concat();
    refuse_what_is_lost(&table, &keep, args)?;
    let kept_complete = !matches!(select.missing, None | Some(Missing::Mean));
    let selection =
        Selection { keep, without_features: true, kept_complete, ..open::selection(select, &[], Vec::new()) };
    Ok((table.select(&selection)?, features.len()))
}

/// Returns the target that becomes the label in formats whose rows start with one: the named
/// target, the column `y`, or none.
fn label(table: &Table, mut targets: Vec<String>, dropped: &[String]) -> Result<Vec<String>> {
    let kind = |name: &str| table.schema().position(name).map(|at| &table.schema().columns[at].kind);
    let usual = || kind(TARGET).is_some_and(|kind| !matches!(kind, Kind::Sparse(_)));
    if targets.is_empty() && usual() && !dropped.iter().any(|name| name == TARGET) {
        targets.push(TARGET.to_string());
    }
    let refused = |why: String, remedy| Err(Error::option("--target", targets.join(","), why, remedy));
    match &targets[..] {
        [name] if kind(name).is_some_and(|kind| !kind.is_feature()) => {
            let held = kind(name).map_or(String::new(), ToString::to_string);
            refused(
                format!("the label of an svmlight row is a number, and this column is {held}"),
                "choose a numeric or Boolean column, or --drop this one to write label 0",
            )
        }
        [] | [_] => Ok(targets),
        _ => refused("an svmlight row has one label".to_string(), "choose one column"),
    }
}

/// Rejects columns that cannot be read, or not be written in the output format, and names all of
/// them in one message.
fn refuse_what_is_lost(table: &Table, names: &[String], args: &ConvertArgs) -> Result<()> {
    let (schema, places, path) = (table.schema(), table.schema().places(), &args.output);
    // a time column that is requested by name is written as the number that stores it
    let named = writer::is_npy(path) && !args.data.features.is_empty();
    let mut lost = Vec::new();
    for column in names.iter().filter_map(|name| places.get(name.as_str()).map(|place| &schema.columns[*place])) {
        let held = match &column.kind {
            Kind::Other(_) => false,
            Kind::Time(_) if named => true,
            kind => sink::holds(path, &OutputColumn::of(&column.name, kind))?,
        };
        if !held {
            lost.push(column);
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    let told = lost.iter().map(|column| format!("{:?} ({})", column.name, column.kind)).collect::<Vec<_>>();
    let names = lost.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
    let why = format!("the output format does not support these columns: {}", told.join(", "));
    let mut remedy = format!("exclude them with --drop {}", shell(&names.join(",")));
    if let Some(Kind::Sparse(shape)) =
        lost.iter().map(|column| &column.kind).find(|kind| matches!(kind, Kind::Sparse(_)))
    {
        remedy = format!("write {}, which support sparse rows", output::extensions(OutputKind::Sparse(*shape)));
    }
    Err(Error::option("-o", path.display(), why, remedy))
}

/// Quotes a word if a shell would change it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-.,".contains(c);
    if word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Maximum number of simultaneous copies of the texts of a tile: three tiles, plus those of
/// predictions.
const COPIES: usize = 3 + ksolve::job::COPIES;

/// Writes the selected rows, and returns their number and the files.
fn rewrite(selected: &Selected, columns: &Columns, path: &Path, run: &Run) -> Result<(u64, Vec<PathBuf>)> {
    let source = selected.rows::<f64>(Reading::default())?;
    let tile = writer::batch_rows(columns.columns.len());
    let (features, targets) = columns.columns.split_at(columns.features);
    let mut out = TableWriter::create(path, features, targets)?;
    let remedy = "exclude columns with --drop";
    let mut shared = vec![Term::new("row group being written", out.footprint(), remedy)];
    if selected.keeps_text() {
        shared.push(Term::new("texts", COPIES * TILE_TEXT, remedy));
    }
    let lane = Lane { tile, name: "batches of columns", bytes: tile * selected.kept_bytes_per_row(), shared };
    let spare = lanes::lanes("conversion", &source, &lane, run.memory, run.threads)?.spare;
    let texts = TextLimit::new(run.memory, spare, COPIES);
    let source = selected.rows::<f64>(Reading { texts, ..Reading::default() })?;
    selected.table().note().iter().for_each(|note| run.progress.note(note));
    let stage = run.progress.stage("convert", selected.known_rows());
    let workers = Workers::sequential();
    let pass = Pass { tile, segment: u64::MAX, ..lanes::scan(1, &workers, &stage) };
    let report = pass.visit(&source, |block| write(&mut out, columns, selected.table(), block))?;
    if report.rows == 0 {
        return Err(Error::option("--where", "", "no row satisfies the condition", "change the condition"));
    }
    let files = out.finish()?;
    stage.finish();
    Ok((report.rows, files))
}

pub(crate) fn main(args: &ConvertArgs) -> Result<()> {
    let run = args.run.resolve();
    let (selected, features) = select(args)?;
    output::check(&args.output)?;
    let beside = writer::target_file(&args.output);
    output::protect_inputs([&args.output].into_iter().chain(&beside), output::inputs(selected.table()))?;
    let columns = Columns::new(&selected, features, &args.output, args.precision);
    let (rows, files) = rewrite(&selected, &columns, &args.output, &run)?;
    if run.json {
        return output::json(&writer::Written { rows, files: &files });
    }
    run.progress.note(&format!("{} rows in {}", count(rows), writer::named(&files)));
    Ok(())
}
