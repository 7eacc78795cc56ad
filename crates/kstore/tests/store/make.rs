//! Builders of small tables, and readers of whole tables.

use kstore::arrow::array::{ArrayRef, Float32Array, Float64Array, Int32Array, RecordBatch, StringArray};
use kstore::arrow::datatypes::{Field, Schema};
use kstore::arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use kstore::arrow::ipc::{CompressionType, MetadataVersion};
use kstore::key::{Purpose, Stream};
use kstore::{Float, Label, Merge, ReadSettings, RowBlock, RowBuf, RowSource, Selection, Table, TableRows, Workers};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.iter().map(|(_, array)| Arc::clone(array)).collect()).unwrap()
}

pub(crate) fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

pub(crate) fn write_ipc(path: &Path, batches: &[RecordBatch], compression: Option<CompressionType>) {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
    let options = options.try_with_compression(compression).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = FileWriter::try_new_with_options(file, &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

pub(crate) const COMPRESSIONS: [Option<CompressionType>; 3] =
    [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

pub(crate) fn groups_of(rows: usize) -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows))
        .set_data_page_row_count_limit((rows / 3).max(1))
        .set_write_batch_size(16)
        .build()
}

/// Returns row `i` of the standard table: two features, a target, a fold and a city.
pub(crate) fn row(i: u64) -> (f32, f64, f64, i32, &'static str) {
    let random = Stream::new(1, Purpose::Data, 0);
    let city = ["Bonn", "Kiel", "Ulm"][random.uniform_below(4 * i + 3, 3) as usize];
    let u = |k: u64| random.uniform(4 * i + k);
    (u(0) as f32, 1e6 + u(1), u(2) - 0.5, random.uniform_below(4 * i + 3, 5) as i32, city)
}

pub(crate) fn standard(rows: std::ops::Range<u64>) -> RecordBatch {
    let rows: Vec<_> = rows.map(row).collect();
    batch(&[
        ("a", Arc::new(Float32Array::from_iter_values(rows.iter().map(|r| r.0)))),
        ("b", Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.1)))),
        ("y", Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.2)))),
        ("fold", Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.3)))),
        ("city", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.4)))),
    ])
}

/// Writes the standard table to Parquet files cut at `cuts`.
pub(crate) fn split(folder: &Path, rows: u64, cuts: &[u64], group: usize) -> Vec<PathBuf> {
    let mut edges = vec![0];
    edges.extend(cuts.iter().copied().filter(|cut| *cut < rows));
    edges.push(rows);
    edges.sort_unstable();
    let paths = edges.windows(2).enumerate().map(|(i, edge)| {
        let path = folder.join(format!("part-{i:03}.parquet"));
        write(&path, &standard(edge[0]..edge[1]), groups_of(group));
        path
    });
    paths.collect()
}

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// Selects features a and b, target y, and the cities as groups.
pub(crate) fn usual() -> Selection {
    Selection {
        features: names(&["a", "b"]),
        targets: names(&["y"]),
        group: Some("city".to_string()),
        ..Selection::default()
    }
}

/// Returns the rows of the [`usual`] selection, unscaled.
pub(crate) fn usual_rows(paths: &[PathBuf]) -> TableRows<f64> {
    Table::open(paths).unwrap().select(&usual()).unwrap().rows(ReadSettings::default()).unwrap()
}

#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) struct Whole {
    pub(crate) rows: Vec<u64>,
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    pub(crate) classes: Vec<Label>,
    pub(crate) groups: Vec<Label>,
}

impl Whole {
    pub(crate) fn push<T: Float>(&mut self, block: &RowBlock<'_, T>) {
        self.rows.extend(block.row_numbers);
        self.x.extend(block.x.iter().map(|v| v.to_f64()));
        self.y.extend(block.y);
        for (coded, labels) in [(&block.classes, &mut self.classes), (&block.groups, &mut self.groups)] {
            if let Some(coded) = coded {
                labels.extend(coded.codes.iter().map(|code| coded.labels[*code as usize].clone()));
            }
        }
    }
}

impl Merge for Whole {
    fn merge(&mut self, later: &Self) {
        self.rows.extend(&later.rows);
        self.x.extend(&later.x);
        self.y.extend(&later.y);
        self.classes.extend(later.classes.iter().cloned());
        self.groups.extend(later.groups.iter().cloned());
    }
}

/// Reads the segment with one cursor and checks that every tile but the last is full.
pub(crate) fn read<T: Float>(
    source: &dyn RowSource<T>,
    segment: std::ops::Range<u64>,
    tile: usize,
) -> kstore::Result<Whole> {
    let (mut whole, mut buf, mut ended) = (Whole::default(), RowBuf::new(tile), false);
    let mut cursor = source.open(segment)?;
    while cursor.next(&mut buf)? {
        assert!(!ended, "a tile after a short one");
        assert!(!buf.row_numbers.is_empty() && buf.row_numbers.len() <= tile);
        ended = buf.row_numbers.len() < tile;
        whole.push(&buf.block(&source.shape()));
    }
    Ok(whole)
}

pub(crate) fn read_all(paths: &[PathBuf], selection: &Selection) -> kstore::Result<Whole> {
    let rows = Table::open(paths)?.select(selection)?.rows::<f64>(ReadSettings::default())?;
    read(&rows, RowSource::range(&rows), 100)
}

pub(crate) fn all(path: &Path, selection: &Selection) -> kstore::Result<Whole> {
    read_all(&[path.to_path_buf()], selection)
}

pub(crate) fn only(columns: &[&str]) -> Selection {
    Selection { features: names(columns), ..Selection::default() }
}

pub(crate) fn sequential() -> &'static Workers {
    static WORKERS: std::sync::OnceLock<Workers> = std::sync::OnceLock::new();
    WORKERS.get_or_init(Workers::sequential)
}

/// Reports that the test is skipped on this machine. The line bypasses the test runner's capture,
/// and `scripts/test` counts it.
pub(crate) fn skip(why: &str) {
    let current = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", current.name().unwrap_or("a test"));
}
