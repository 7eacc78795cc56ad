//! `kmill convert`: rewrites a table in another format. Needs memory for a few batches of rows
//! only.
//!
//! Columns are not converted to float64, so 64-bit IDs are preserved.

use crate::args::{ConvertDataArgs, RunArgs, RunSettings, parse};
use crate::writer::{self, TableWriter};
use crate::{Error, Result, open, output};
use clap::Args;
use kreport::table::format_count;
use ksolve::job::ElementType;
use kstore::budget::MemoryTerm;
use kstore::pass::lanes::{self, LaneMemory};
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::source::TARGET_COLUMN;
use kstore::{
    KeptColumn, Kind, Missing, MissingTarget, Part, Pass, ReadSettings, RowBlock, SelectedTable, Selection,
    TILE_TEXT_BYTES, Table, TestSpec, TextLimit, Workers, display,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill convert table.parquet --target y -o table.npy      (target in table.y.npy)\n  \
    kmill convert table.npy --target table.y.npy -o back.parquet\n  \
    kmill convert a9a.svm --width 123 -o a9a.parquet\n  \
    kmill convert a9a.svm --sparse -o a9a.parquet            (sparse rows in column x, the label in y)\n  \
    kmill convert table.csv --target price -o table.svm\n  \
    kmill convert export.csv --delimiter ';' -o export.parquet\n  \
    kmill convert table.csv --split train.parquet,test.parquet --test 20%\n\n\
    Columns keep their type: uint64 stays uint64, other integers become int64, text stays text if the \
    format supports it (.npy does not), and no integer is rounded. Missing values stay missing; \
    --missing error stops at the first one.\n\n\
    In .svm the target is the label: the column of --target, or column y, or 0 without both. Zeros \
    are omitted.")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) data: ConvertDataArgs,
    #[arg(short, long, help = output::help("table"), value_name = "OUT", required_unless_present = "split")]
    pub(crate) output: Option<PathBuf>,
    /// Write the rows to two files, comma-separated: all rows except the test rows, and the test
    /// rows of --test
    #[arg(long, value_name = "TRAIN,TEST", value_parser = parse::two_files, conflicts_with = "output", requires = "test")]
    pub(crate) split: Option<[PathBuf; 2]>,
    /// Test rows of --split, as in `kmill fit`: 20%, 20%:COLUMN, last:15%, last:15%:COLUMN,
    /// groups:20%:COLUMN or 'where fold == 9'. The same rows as in a fit with the same --test,
    /// --target and --seed; write 20%:COLUMN if the target is a column of integer classes
    #[arg(long, value_name = "SPEC", value_parser = parse::test_spec)]
    pub(crate) test: Option<TestSpec>,
    /// Seed of the random choice of the test rows of --split [default: 0]
    #[arg(long, value_name = "N", value_parser = parse::parse_integer)]
    pub(crate) seed: Option<u64>,
    /// Type of the floating-point features [default: the type of each column; for .npy, the
    /// smallest type that stores all features exactly]
    #[arg(long, value_parser = parse::word::<ElementType>, value_name = "f32|f64")]
    pub(crate) precision: Option<ElementType>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The columns to write, and their types in the output.
struct TableColumns {
    /// Features, then targets, in the order of the kept columns.
    columns: Vec<OutputColumn>,
    feature_count: usize,
}

impl TableColumns {
    fn new(selected: &SelectedTable, feature_count: usize, path: &Path, precision: Option<ElementType>) -> Self {
        let schema = selected.table().schema();
        let index_by_name = schema.index_by_name();
        let stored_kind =
            |column: &OutputColumn| index_by_name.get(column.name.as_str()).map(|index| &schema.columns[*index].kind);
        let mut columns = selected.kept_columns();
        let (feature_columns, target_columns) = columns.split_at_mut(feature_count);
        let is_npy = writer::is_matrix(path);
        for column in feature_columns.iter_mut().filter(|_| is_npy) {
            // write dates and times (which are included only by name) as the numbers that store
            // them
            column.time_type = None;
        }
        let all_are = |kind| feature_columns.iter().all(|column| column.kind == kind);
        let are_integers = all_are(OutputKind::I64) || all_are(OutputKind::U64);
        let all_fit_in_f32 = feature_columns.iter().all(|column| stored_kind(column).is_some_and(fits_f32));
        for column in feature_columns {
            column.kind = match (column.kind, precision) {
                (OutputKind::F32 | OutputKind::F64, Some(precision)) => float_kind(precision),
                // .npy has one type for all columns: the requested type, or the smallest type that
                // represents every value
                (OutputKind::I64 | OutputKind::U64 | OutputKind::Bool, Some(precision)) if is_npy => {
                    float_kind(precision)
                }
                (OutputKind::F32 | OutputKind::I64 | OutputKind::Bool, None) if is_npy && all_fit_in_f32 => {
                    OutputKind::F32
                }
                (OutputKind::I64 | OutputKind::U64, None) if is_npy && !are_integers => OutputKind::F64,
                (kind, _) => kind,
            };
        }
        for column in target_columns.iter_mut().filter(|column| is_npy && column.kind == OutputKind::Bool) {
            column.kind = OutputKind::I64;
        }
        for label in target_columns.iter_mut().filter(|_| writer::is_labelled(path)) {
            label.name = TARGET_COLUMN.to_string();
        }
        Self { columns, feature_count }
    }
}

pub(crate) fn float_kind(precision: ElementType) -> OutputKind {
    match precision {
        ElementType::F32 => OutputKind::F32,
        ElementType::F64 => OutputKind::F64,
    }
}

/// Returns true if float32 represents every value of this type exactly.
fn fits_f32(kind: &Kind) -> bool {
    matches!(kind, Kind::Float { bits: ..=32 } | Kind::Int { bits: ..=16, .. } | Kind::Bool)
}

fn write_batch(out: &mut TableWriter, columns: &TableColumns, table: &Table, block: &RowBlock<'_, f64>) -> Result<()> {
    let expected_columns = block.kept_columns.iter().zip(&columns.columns);
    let converted_columns = expected_columns.map(|(column, expected)| match column.kind() == expected.kind {
        true => Ok(None),
        false => column
            .cast(expected.kind)
            .map(Some)
            .map_err(|(row, value)| conversion_error(table, block.row_numbers[row], expected, value)),
    });
    let converted_columns: Vec<Option<KeptColumn>> = converted_columns.collect::<Result<_>>()?;
    let value_pairs = block.kept_columns.iter().zip(&converted_columns);
    let batch: Vec<_> = value_pairs.map(|(column, cast)| OutputValues::Kept(cast.as_ref().unwrap_or(column))).collect();
    let (features, targets) = batch.split_at(columns.feature_count);
    out.write(features, targets)
}

#[cold]
fn conversion_error(table: &Table, row: u64, column: &OutputColumn, value: String) -> Error {
    let located = table.locate(row);
    let (path, row) = located.map_or_else(Default::default, |(path, row)| (path.to_path_buf(), row));
    let remedy = "write .parquet or .csv, which keep every column's type, or choose --precision f64";
    kstore::Error::BadValue { path, row, line: None, column: column.name.clone(), value, remedy }.into()
}

/// Selects the rows, and all columns or the named ones followed by the targets. Also returns the
/// number of targets.
fn select_columns(
    args: &ConvertArgs,
    opened: &(Table, Vec<String>),
    output: &Path,
    part: Option<Part>,
) -> Result<(SelectedTable, usize)> {
    let ((table, targets), select) = (opened, &args.data.select);
    let dropped = table.matching_columns(&args.data.drop)?;
    let targets =
        if writer::is_labelled(output) { label_target(table, targets.clone(), &dropped)? } else { targets.clone() };
    let mut features = match &args.data.features[..] {
        [] => table.schema().columns.iter().map(|column| column.name.clone()).collect(),
        patterns => table.matching_columns(patterns)?,
    };
    let excluded: HashSet<String> = dropped.into_iter().chain(targets.clone()).collect();
    features.retain(|name| !excluded.contains(name));
    let keep = [&features[..], &targets].concat();
    reject_unsupported(table, &keep, args, output)?;
    let requires_kept_values = !matches!(select.missing, None | Some(Missing::Mean));
    let base_selection = match part {
        Some(_) => rows_with_target(args, opened),
        None => open::selection(select, &[], Vec::new()),
    };
    let selection = Selection { keep, without_features: true, requires_kept_values, part, ..base_selection };
    Ok((table.select(&selection)?, features.len()))
}

/// Returns the target that becomes the label, for formats whose rows start with a label: the
/// requested target, or else the column `y` if it exists, or else nothing.
fn label_target(table: &Table, mut targets: Vec<String>, dropped: &[String]) -> Result<Vec<String>> {
    let kind = |name: &str| table.schema().position(name).map(|index| &table.schema().columns[index].kind);
    let has_default_label = || kind(TARGET_COLUMN).is_some_and(|kind| !matches!(kind, Kind::Sparse(_)));
    if targets.is_empty() && has_default_label() && !dropped.iter().any(|name| name == TARGET_COLUMN) {
        targets.push(TARGET_COLUMN.to_string());
    }
    let reject = |why: String, remedy| Err(Error::option("--target", targets.join(","), why, remedy));
    match &targets[..] {
        [name] if kind(name).is_some_and(|kind| !kind.is_direct_feature()) => {
            let found_kind = kind(name).map_or(String::new(), ToString::to_string);
            reject(
                format!("the label of an svmlight row is a number, and this column is {found_kind}"),
                "choose a numeric or Boolean column, or --drop this one to write label 0",
            )
        }
        [] | [_] => Ok(targets),
        _ => reject("an svmlight row has one label".to_string(), "choose one column"),
    }
}

/// Rejects columns that cannot be read, or not be written in the output format, and names all of
/// them in one message.
fn reject_unsupported(table: &Table, names: &[String], args: &ConvertArgs, path: &Path) -> Result<()> {
    let (schema, index_by_name) = (table.schema(), table.schema().index_by_name());
    // a time column that is requested by name is written as the number that stores it
    let is_matrix_of_named_columns = writer::is_matrix(path) && !args.data.features.is_empty();
    let mut unsupported = Vec::new();
    for column in names.iter().filter_map(|name| index_by_name.get(name.as_str()).map(|index| &schema.columns[*index]))
    {
        let is_supported = match &column.kind {
            Kind::Other(_) => false,
            Kind::Time(_) if is_matrix_of_named_columns => true,
            kind => sink::supports(path, &OutputColumn::for_kind(&column.name, kind))?,
        };
        if !is_supported {
            unsupported.push(column);
        }
    }
    if unsupported.is_empty() {
        return Ok(());
    }
    let descriptions =
        unsupported.iter().map(|column| format!("{:?} ({})", column.name, column.kind)).collect::<Vec<_>>();
    let names = unsupported.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
    let why = format!("the output format does not support these columns: {}", descriptions.join(", "));
    let mut remedy = format!("exclude them with --drop {}", quote(&names.join(",")));
    if let Some(Kind::Sparse(shape)) =
        unsupported.iter().map(|column| &column.kind).find(|kind| matches!(kind, Kind::Sparse(_)))
    {
        remedy = format!("write {}, which support sparse rows", output::extensions(OutputKind::Sparse(*shape)));
    }
    Err(Error::option("-o", path.display(), why, remedy))
}

/// Puts a word in quotes if a shell would change it.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-.,".contains(c);
    if word.chars().all(is_plain) { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Maximum number of simultaneous copies of the texts of a tile (a block of rows): three here, plus
/// the copies of a job ([`ksolve::job::TEXT_COPIES`]).
const TEXT_COPIES: usize = 3 + ksolve::job::TEXT_COPIES;

/// A table that was written.
struct WrittenTable {
    files: Vec<PathBuf>,
    rows: u64,
    /// Number of rows that `--split` leaves out.
    rows_without_target: u64,
}

fn write_rows(
    selected: &SelectedTable,
    columns: &TableColumns,
    path: &Path,
    run: &RunSettings,
) -> Result<WrittenTable> {
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let tile_rows = writer::batch_rows(columns.columns.len());
    let (features, targets) = columns.columns.split_at(columns.feature_count);
    let mut out = TableWriter::create(path, features, targets)?;
    let remedy = "exclude columns with --drop";
    let mut shared_terms = vec![MemoryTerm::new("row group being written", out.footprint(), remedy)];
    if selected.keeps_variable_size_columns() {
        shared_terms.push(MemoryTerm::new("texts", TEXT_COPIES * TILE_TEXT_BYTES, remedy));
    }
    let lane = LaneMemory {
        tile_rows,
        name: "batches of columns",
        bytes: tile_rows * selected.kept_bytes_per_row(),
        shared_terms,
    };
    let spare_bytes = lanes::fitting_lanes("conversion", &source, &lane, run.memory, run.threads)?.spare_bytes;
    let texts = TextLimit::new(run.memory, spare_bytes, TEXT_COPIES);
    let source = selected.rows::<f64>(ReadSettings { text_limit: texts, ..ReadSettings::default() })?;
    selected.table().note().iter().for_each(|note| run.progress.note(note));
    let stage = run.progress.stage("convert", selected.row_count_if_known());
    let workers = Workers::sequential();
    let pass = Pass { tile_rows, segment_rows: u64::MAX, ..lanes::default_pass(1, &workers, &stage) };
    let report = pass.visit(&source, |block| write_batch(&mut out, columns, selected.table(), block))?;
    if report.rows == 0 {
        return Err(Error::option("--where", "", "no row satisfies the condition", "change the condition"));
    }
    let files = out.finish()?;
    stage.finish();
    Ok(WrittenTable { files, rows: report.rows, rows_without_target: source.rows_without_target() })
}

/// Selects the rows of both parts of `--split`. As in a fit, rows without a target are in neither
/// part, unless `--missing error` rejects them.
fn rows_with_target(args: &ConvertArgs, (table, targets): &(Table, Vec<String>)) -> Selection {
    let select = &args.data.select;
    let kind = |name: &String| Some(&table.schema().columns[table.schema().position(name)?].kind);
    let class_target = targets.len() == 1 && matches!(targets.first().and_then(kind), Some(Kind::Text | Kind::Bool));
    let missing_target = match select.missing {
        Some(Missing::Error) => MissingTarget::Error,
        _ => MissingTarget::Drop,
    };
    let selection = open::selection(select, &[], targets.clone());
    Selection { class_target, missing_target: Some(missing_target), ..selection }
}

/// Notes that a fit to classes chooses other test rows, if the target is probably a class: a fit
/// chooses them within each class, and this verb does not know the task.
fn note_integer_classes(table: &Table, selection: &Selection, spec: &TestSpec, run: &RunSettings) -> Result<()> {
    let schema = table.schema();
    let kind = |name: &String| schema.position(name).map(|index| &schema.columns[index].kind);
    let ([target], TestSpec::Random { strata: None, .. }) = (&selection.targets[..], spec) else { return Ok(()) };
    if !matches!(kind(target), Some(Kind::Int { .. })) {
        return Ok(());
    }
    let classes = Selection { class_target: true, ..selection.clone() };
    if let Some(class_count) = ksolve::tune::likely_classes(&table.select(&classes)?, &run.job_run())? {
        let target = display::escape_line(target);
        run.progress.note(&format!(
            "note: the target has {class_count} distinct integer values; a fit to classes with --test {spec} chooses its test rows within \
             each class: --test {spec}:{target} writes the same rows"
        ));
    }
    Ok(())
}

/// Returns the output files with their parts of the table: one file with all rows, or the two files
/// of `--split`.
fn output_parts(
    args: &ConvertArgs,
    opened: &(Table, Vec<String>),
    run: &RunSettings,
) -> Result<Vec<(PathBuf, Option<Part>)>> {
    let (Some(paths), Some(spec)) = (&args.split, &args.test) else {
        return Ok(args.output.iter().map(|path| (path.clone(), None)).collect());
    };
    let selection = rows_with_target(args, opened);
    note_integer_classes(&opened.0, &selection, spec, run)?;
    let test_rows = run.job_run().choose_test_rows(&opened.0, &selection, spec, args.seed.unwrap_or(0))?.test_rows;
    let parts = [Part::Training(Arc::clone(&test_rows)), Part::Test(test_rows)];
    Ok(paths.iter().cloned().zip(parts.map(Some)).collect())
}

pub(crate) fn main(args: &ConvertArgs) -> Result<()> {
    let run = args.run.resolve();
    if args.split.is_none() && (args.test.is_some() || args.seed.is_some()) {
        let option = if args.test.is_some() { "--test" } else { "--seed" };
        let why = "it chooses the rows of two files, and -o writes all rows to one";
        return Err(Error::option(option, "", why, "write --split train.parquet,test.parquet instead of -o"));
    }
    let select = &args.data.select;
    let paths: Vec<&PathBuf> = args.output.iter().chain(args.split.iter().flatten()).collect();
    paths.iter().try_for_each(|path| output::check_writable(path))?;
    let target_paths: Vec<PathBuf> = paths.iter().filter_map(|path| writer::target_file(path)).collect();
    let opened = open::table(&select.paths, &select.text.text_options(), &args.data.target)?;
    output::protect_inputs(paths.into_iter().chain(&target_paths), output::table_files(&opened.0))?;
    let opened = (run.job_run().with_lags(opened.0, args.data.lags.lags().as_ref())?, opened.1);
    let (mut total_rows, mut rows_without_target, mut all_files) = (0, 0, Vec::new());
    for (path, part) in output_parts(args, &opened, &run)? {
        let (selected, feature_count) = select_columns(args, &opened, &path, part)?;
        let columns = TableColumns::new(&selected, feature_count, &path, args.precision);
        let written = write_rows(&selected, &columns, &path, &run)?;
        if !run.json {
            let files = writer::file_names(&written.files);
            run.progress.note(&format!("{} rows in {files}", format_count(written.rows)));
        }
        total_rows += written.rows;
        rows_without_target += written.rows_without_target;
        all_files.extend(written.files);
    }
    if rows_without_target > 0 {
        let count = format_count(rows_without_target);
        run.progress.warn(format!("rows without a target are in neither part: {count} (--missing error stops)"));
    }
    if run.json {
        return output::print_json(&writer::WrittenFiles { rows: total_rows, files: &all_files });
    }
    Ok(())
}
