//! `kmill convert`: a table rewritten in another format, in the memory of a few batches.
//!
//! Columns are copied as they are, not by way of float64: an id of 64 bits arrives as it left.

use crate::args::ConvertArgs;
use crate::args::data::{Missing, SelectArgs};
use crate::args::learn::Precision;
use crate::args::run::Run;
use crate::passes::{self, Lane};
use crate::table::count;
use crate::writer::{self, TableWriter};
use crate::{Error, Result, output};
use kstore::sink::{Output, OutputColumn, OutputKind};
use kstore::{
    Fold, KeptColumn, Kind, Merge, Pass, Reading, RowBlock, Selected, Selection, Table, TextOptions, Workers,
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Opens the files; targets named `FILE.npy` join as column `y`. Also gives the target columns' names.
///
/// # Errors
/// Files that cannot be opened or do not fit together.
pub fn open(paths: &[PathBuf], text: &TextOptions, target: &[String]) -> Result<(Table, Vec<String>)> {
    let table = Table::open_with(paths, text)?;
    match target {
        [file] if file.to_ascii_lowercase().ends_with(".npy") => {
            let table = table.with_target_file(Path::new(file))?;
            Ok((table, vec![kstore::source::TARGET.to_string()]))
        }
        names => Ok((table, names.to_vec())),
    }
}

/// The selection that rows and columns of the command line make.
pub fn selection(select: &SelectArgs, features: &[String], targets: Vec<String>) -> Selection {
    Selection {
        features: features.to_vec(),
        targets,
        rows: select.rows.clone(),
        filter: select.condition.clone(),
        missing: select.missing.into(),
        ..Selection::default()
    }
}

/// Refuses `--missing keep` where numbers are needed.
///
/// # Errors
/// [`Error::Option`].
pub fn only_convert_keeps(missing: Missing) -> Result<()> {
    match missing {
        Missing::Keep => {
            let why = "only a conversion can leave values missing";
            Err(Error::option("--missing", "keep", why, "choose error, drop or mean"))
        }
        _ => Ok(()),
    }
}

/// What is written: columns of the block, and what they become.
struct Columns {
    /// Features, then targets: the order of the kept columns.
    columns: Vec<OutputColumn>,
    features: usize,
}

impl Columns {
    fn new(selected: &Selected, features: usize, path: &Path, precision: Option<Precision>) -> Self {
        let schema = selected.table().schema();
        let places = schema.places();
        let kind = |column: &OutputColumn| places.get(column.name.as_str()).map(|at| &schema.columns[*at].kind);
        let mut columns = selected.kept_columns();
        let (features_of, targets_of) = columns.split_at_mut(features);
        let npy = writer::is_npy(path);
        let whole = features_of.iter().all(|column| column.kind == OutputKind::I64);
        let small = features_of.iter().all(|column| kind(column).is_some_and(is_small));
        for column in features_of {
            column.kind = match (column.kind, precision) {
                (OutputKind::F32 | OutputKind::F64, Some(precision)) => float(precision),
                // one type for all: the one that was asked for, or the smallest that holds every value
                (OutputKind::I64 | OutputKind::Bool, Some(precision)) if npy => float(precision),
                (OutputKind::F32 | OutputKind::I64 | OutputKind::Bool, None) if npy && small => OutputKind::F32,
                (OutputKind::I64, None) if npy && !whole => OutputKind::F64,
                (kind, _) => kind,
            };
        }
        for column in targets_of.iter_mut().filter(|column| npy && column.kind == OutputKind::Bool) {
            column.kind = OutputKind::I64;
        }
        Self { columns, features }
    }
}

fn float(precision: Precision) -> OutputKind {
    match precision {
        Precision::F32 => OutputKind::F32,
        Precision::F64 => OutputKind::F64,
    }
}

/// True where float32 holds every value.
fn is_small(kind: &Kind) -> bool {
    matches!(kind, Kind::Float { bits: ..=32 } | Kind::Int { bits: ..=16, .. } | Kind::Bool)
}

/// Writes every tile as it comes: one lane, one segment, so that the order is that of the rows.
struct Rewrite<'a> {
    out: &'a Mutex<TableWriter>,
    columns: &'a Columns,
    table: &'a Table,
}

/// The state of a fold whose result is a file.
#[derive(Debug)]
struct Written;

impl Merge for Written {
    fn merge(&mut self, _later: &Self) {}
}

impl Fold<f64> for Rewrite<'_> {
    type State = Written;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Written {
        Written
    }

    fn scratch(&self) {}

    fn step(&self, _: &mut Written, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        let wanted = block.kept.iter().zip(&self.columns.columns);
        let cast = wanted.map(|(have, wanted)| match have.kind() == wanted.kind {
            true => Ok(None),
            false => have.cast(wanted.kind).map(Some).map_err(|(row, value)| self.refused(block, row, wanted, value)),
        });
        let cast: Vec<Option<KeptColumn>> = cast.collect::<Result<_>>()?;
        let columns = block.kept.iter().zip(&cast);
        let batch: Vec<_> = columns.map(|(have, cast)| Output::Kept(cast.as_ref().unwrap_or(have))).collect();
        let (features, targets) = batch.split_at(self.columns.features);
        self.out.lock().unwrap_or_else(PoisonError::into_inner).write(features, targets)
    }
}

impl Rewrite<'_> {
    #[cold]
    fn refused(&self, block: &RowBlock<'_, f64>, row: usize, column: &OutputColumn, value: String) -> Error {
        let located = self.table.locate(block.rows[row]);
        let (path, row) = located.map_or_else(Default::default, |(path, row)| (path.to_path_buf(), row));
        let remedy = "write .parquet or .csv, which keep every column's type, or choose --precision f64";
        kstore::Error::BadValue { path, row, line: None, column: column.name.clone(), value, remedy }.into()
    }
}

/// The rows, and the columns by name: all of them, or those asked for; then the targets.
fn select(args: &ConvertArgs, run: &Run) -> Result<(Selected, usize)> {
    let select = &args.data.select;
    let (table, targets) = open(&select.paths, &select.text.options(), &args.data.target)?;
    let (columns, places) = (&table.schema().columns, table.schema().places());
    let mut features = table.columns_like(&args.data.features)?;
    features.retain(|name| !targets.contains(name));
    if args.data.features.is_empty() && writer::is_npy(&args.output) {
        let text = |name: &String| places.get(name.as_str()).is_some_and(|at| columns[*at].kind == Kind::Text);
        let (left_out, kept): (Vec<_>, Vec<_>) = features.into_iter().partition(text);
        features = kept;
        if !left_out.is_empty() {
            run.progress.warn(format!("text is left out, which .npy cannot hold: {}", left_out.join(", ")));
        }
    }
    let keep = [&features[..], &targets].concat();
    let kept_complete = select.missing != Missing::Keep;
    let selection = Selection { keep, without_features: true, kept_complete, ..selection(select, &[], Vec::new()) };
    Ok((table.select(&selection)?, features.len()))
}

/// Rewrites the selected rows and tells their number and the files.
fn rewrite(selected: &Selected, columns: &Columns, path: &Path, run: &Run) -> Result<(u64, Vec<PathBuf>)> {
    let source = selected.rows::<f64>(Reading::default())?;
    let tile = writer::batch_rows(columns.columns.len());
    let (features, targets) = columns.columns.split_at(columns.features);
    let out = TableWriter::create(path, features, targets)?;
    let lane = Lane {
        tile,
        name: "batches of columns",
        bytes: tile * selected.kept_bytes_per_row(),
        shared: vec![passes::term("row group being written", out.footprint(), "choose fewer columns with --features")],
    };
    passes::lanes("conversion", &source, &lane, run)?;
    let out = Mutex::new(out);
    let stage = run.progress.stage("convert", selected.known_rows());
    let workers = Workers::sequential();
    let pass = Pass { tile, segment: u64::MAX, lanes: 1, ..passes::pass(1, &workers, &stage) };
    let (_, report) = pass.fold(&source, &Rewrite { out: &out, columns, table: selected.table() })?;
    if report.rows == 0 {
        return Err(Error::option("--where", "", "no row fulfils the condition", "choose another one"));
    }
    let files = out.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
    stage.finish();
    Ok((report.rows, files))
}

/// `kmill convert`.
pub(crate) fn main(args: &ConvertArgs) -> Result<()> {
    let run = args.run.resolve();
    if args.data.select.missing == Missing::Mean {
        let why = "a conversion learns no means";
        let remedy = "use --missing drop or --missing keep here, or --missing mean with fit";
        return Err(Error::option("--missing", "mean", why, remedy));
    }
    let (selected, features) = select(args, &run)?;
    output::check(&args.output)?;
    output::spare(&args.output, selected.table(), None)?;
    if let Some(beside) = writer::target_file(&args.output) {
        output::spare(&beside, selected.table(), None)?;
    }
    let columns = Columns::new(&selected, features, &args.output, args.precision);
    let (rows, files) = rewrite(&selected, &columns, &args.output, &run)?;
    if run.json {
        return output::json(&serde_json::json!({"rows": rows, "files": files}));
    }
    run.progress.note(&format!("{} rows in {}", count(rows), writer::named(&files)));
    Ok(())
}
