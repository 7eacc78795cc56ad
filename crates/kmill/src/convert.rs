//! `kmill convert`: a table rewritten as Parquet or `.npy`, in the memory of a few batches.

use crate::args::ConvertArgs;
use crate::args::data::{Missing, SelectArgs};
use crate::args::learn::Precision;
use crate::args::run::Run;
use crate::passes::{self, Lane};
use crate::table::count;
use crate::writer::{self, Element, TableWriter};
use crate::{Error, Result, output};
use kstore::{Fold, Kind, Merge, Pass, Reading, RowBlock, Selected, Selection, Table, Workers};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Opens the files; targets named `FILE.npy` join as column `y`. Also gives the target columns' names.
///
/// # Errors
/// Files that cannot be opened or do not fit together.
pub fn open(paths: &[PathBuf], target: &[String]) -> Result<(Table, Vec<String>)> {
    let table = Table::open(paths)?;
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

/// Writes every tile as it comes: one lane, one segment, so that the order is that of the rows.
struct Rewrite<'a> {
    out: &'a Mutex<TableWriter>,
    d: usize,
}

/// The state of a fold whose result is a file.
#[derive(Debug)]
struct Written;

impl Merge for Written {
    fn merge(&mut self, _later: &Self) {}
}

impl<T: Element> Fold<T> for Rewrite<'_> {
    type State = Written;
    type Scratch = Vec<Vec<T>>;
    type Error = Error;

    fn init(&self) -> Written {
        Written
    }

    fn scratch(&self) -> Vec<Vec<T>> {
        vec![Vec::new(); self.d]
    }

    fn step(&self, _: &mut Written, columns: &mut Vec<Vec<T>>, block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        for (j, column) in columns.iter_mut().enumerate() {
            column.clear();
            column.extend(block.x.iter().skip(j).step_by(self.d));
        }
        self.out.lock().unwrap_or_else(PoisonError::into_inner).write(columns, block.y)
    }
}

/// Rewrites the selected rows and columns in `T` and tells the rows and files.
///
/// # Errors
/// Those of the source and the file system; then nothing is written.
pub fn rewrite<T: Element>(selected: &Selected, path: &Path, run: &Run) -> Result<(u64, Vec<PathBuf>)> {
    let features = selected.feature_names();
    let targets: Vec<(String, bool)> =
        selected.target_names().into_iter().map(|name| is_integer(selected, name)).collect();
    let source = selected.rows::<T>(Reading::default())?;
    let width = features.len() + targets.len();
    let tile = writer::batch_rows(width);
    let out = TableWriter::create::<T>(path, &features, &targets)?;
    let bytes = tile * width * size_of::<f64>();
    let lane = Lane {
        name: "batches of columns",
        bytes,
        what: "row group being written",
        shared: out.footprint(),
        remedy: "choose fewer columns with --features",
    };
    passes::lanes("conversion", &source, lane, run)?;
    let out = Mutex::new(out);
    let stage = run.progress.stage("convert", selected.known_rows());
    let workers = Workers::sequential();
    let pass = Pass { tile, segment: u64::MAX, lanes: 1, ..passes::pass(1, &workers, &stage) };
    let (_, report) = pass.fold(&source, &Rewrite { out: &out, d: features.len() })?;
    if report.rows == 0 {
        return Err(Error::option("--where", "", "no row fulfils the condition", "choose another one"));
    }
    let files = out.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
    stage.finish();
    Ok((report.rows, files))
}

/// A target's name, and whether it stays a whole number on disk.
fn is_integer(selected: &Selected, name: String) -> (String, bool) {
    let schema = selected.table().schema();
    let kind = schema.position(&name).map(|at| &schema.columns[at].kind);
    (name, matches!(kind, Some(Kind::Int { .. } | Kind::Bool)))
}

/// f32 where that holds every value of the features exactly, else f64.
fn exact_precision(selected: &Selected) -> Precision {
    let schema = selected.table().schema();
    let small = |name: &String| {
        let kind = schema.position(name).map(|at| &schema.columns[at].kind);
        matches!(kind, Some(Kind::Float { bits: ..=32 } | Kind::Int { bits: ..=16, .. } | Kind::Bool))
    };
    if selected.feature_names().iter().all(small) { Precision::F32 } else { Precision::F64 }
}

/// `kmill convert`.
pub(crate) fn main(args: &ConvertArgs) -> Result<()> {
    let run = args.run.resolve();
    if args.data.select.missing == Missing::Mean {
        let why = "a conversion learns no means";
        return Err(Error::option("--missing", "mean", why, "use --missing drop here, or --missing mean with fit"));
    }
    let (table, targets) = open(&args.data.select.paths, &args.data.target)?;
    let selected = table.select(&selection(&args.data.select, &args.data.features, targets))?;
    output::check(&args.output)?;
    output::spare(&args.output, selected.table(), None)?;
    if let Some(beside) = writer::target_file(&args.output) {
        output::spare(&beside, selected.table(), None)?;
    }
    let (rows, files) = match args.precision.unwrap_or_else(|| exact_precision(&selected)) {
        Precision::F32 => rewrite::<f32>(&selected, &args.output, &run)?,
        Precision::F64 => rewrite::<f64>(&selected, &args.output, &run)?,
    };
    if run.json {
        return output::json(&serde_json::json!({"rows": rows, "files": files}));
    }
    run.progress.note(&format!("{} rows in {}", count(rows), writer::named(&files)));
    Ok(())
}
