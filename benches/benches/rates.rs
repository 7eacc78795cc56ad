//! Reading rates: the same column sums by a pass and by the fastest plain loop over the same file,
//! in alternation.
//!
//! `cargo bench -p kmill-benches -- rates [ROWS] [npy|ipc|plain|snappy|zstd …]`. A pass should
//! reach 0.9 of the rate of the parquet crate's own batch reader, and 0.8 of a sequential read of
//! the mapped file (`.npy`, and Arrow IPC with one list column of a fixed length). Both sides use
//! the same number of threads for decoding, and each file is in the page cache. The output shows
//! medians of the alternated rounds and their ratio. On a machine with other load, the ratio of
//! processor times is more informative.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use kmill_benches::{ColumnSums, FEATURES, STRIP_ROWS, add_rows, columns};
use kstore::arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Float32Array, RecordBatch};
use kstore::arrow::datatypes::{DataType, Field, Float32Type, Schema};
use kstore::arrow::ipc::writer::FileWriter;
use kstore::pass::NoObserver;
use kstore::source::{ipc::IpcFile, npy::NpyFile};
use kstore::{OutputColumn, OutputKind, OutputValues, Pass, ReadSettings, Selection, Table, TableRows, Workers, sink};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const BATCH: usize = 1 << 16;
const ROUNDS: usize = 9;

fn add_column(column: &[f32]) -> f64 {
    let (chunks, rest) = column.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|v| f64::from(*v)).sum::<f64>()
}

fn npy(path: &Path, rows: usize) {
    let names: Vec<_> = (0..FEATURES).map(|i| OutputColumn::new(format!("x{i}"), OutputKind::F32)).collect();
    let mut out = sink::create(path, &names).unwrap();
    for start in (0..rows).step_by(BATCH) {
        out.write(&columns(start..start + BATCH).iter().map(|column| OutputValues::F32(column)).collect::<Vec<_>>())
            .unwrap();
    }
    out.finish().unwrap();
}

fn ipc(path: &Path, rows: usize) {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let list = DataType::FixedSizeList(Arc::clone(&item), FEATURES as i32);
    let schema = Arc::new(Schema::new(vec![Field::new("x", list, false)]));
    let mut out = FileWriter::try_new(File::create(path).unwrap(), &schema).unwrap();
    for start in (0..rows).step_by(BATCH) {
        let columns = columns(start..start + BATCH);
        let values = (0..BATCH).flat_map(|row| columns.iter().map(move |column| column[row]));
        let values: ArrayRef = Arc::new(Float32Array::from_iter_values(values));
        let list = FixedSizeListArray::new(Arc::clone(&item), FEATURES as i32, values, None);
        out.write(&RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(list)]).unwrap()).unwrap();
    }
    out.finish().unwrap();
}

fn parquet(path: &Path, rows: usize, compression: Compression) {
    let fields = (0..FEATURES).map(|i| Field::new(format!("x{i}"), DataType::Float32, false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(BATCH))
        .build();
    let mut out = ArrowWriter::try_new(File::create(path).unwrap(), Arc::clone(&schema), Some(properties)).unwrap();
    for start in (0..rows).step_by(BATCH) {
        let arrays =
            columns(start..start + BATCH).into_iter().map(|column| Arc::new(Float32Array::from(column)) as ArrayRef);
        out.write(&RecordBatch::try_new(Arc::clone(&schema), arrays.collect()).unwrap()).unwrap();
    }
    out.close().unwrap();
}

fn open(path: &Path) -> TableRows<f32> {
    Table::open(&[path]).unwrap().select(&Selection::default()).unwrap().rows(ReadSettings::default()).unwrap()
}

/// Reads with one lane per processor; each lane decodes for itself.
fn pass(rows: &TableRows<f32>, lanes: usize) -> f64 {
    let workers = Workers::sequential();
    let pass = Pass {
        tile_rows: 1024,
        segment_rows: BATCH as u64,
        lane_count: lanes,
        prefetch_tiles: 0,
        workers: &workers,
        observer: &NoObserver,
        journal: None,
    };
    pass.reduce(rows, &ColumnSums).unwrap().0.0.iter().sum()
}

/// Reads the row groups with the parquet crate; each thread reads its own part.
fn batch_reader(path: &Path, threads: usize) -> f64 {
    let share = |thread: usize| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        let groups = (0..builder.metadata().num_row_groups()).skip(thread).step_by(threads).collect();
        let reader = builder.with_row_groups(groups).with_batch_size(4096).build().unwrap();
        let sum = |batch: RecordBatch| -> f64 {
            batch.columns().iter().map(|column| add_column(column.as_primitive::<Float32Type>().values())).sum()
        };
        reader.map(|batch| sum(batch.unwrap())).sum::<f64>()
    };
    parallel(threads, share)
}

fn parallel(threads: usize, share: impl Fn(usize) -> f64 + Sync) -> f64 {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| (thread, &share)).collect();
        let others: Vec<_> = others.into_iter().map(|(thread, share)| scope.spawn(move || share(thread))).collect();
        share(0) + others.into_iter().map(|other| other.join().unwrap()).sum::<f64>()
    })
}

fn slices(parts: &[&[f32]], threads: usize) -> f64 {
    let share = |thread: usize| {
        let mut sums = [0.0; FEATURES];
        for part in parts.iter().skip(thread).step_by(threads) {
            part.chunks(STRIP_ROWS * FEATURES).for_each(|rows| add_rows(rows, &mut sums));
        }
        sums.iter().sum()
    };
    parallel(threads, share)
}

fn mapped_npy(path: &Path, threads: usize) -> f64 {
    let file = NpyFile::open(path).unwrap();
    let map = file.map().unwrap();
    let values = map.slice::<f32>(file.header().data_offset, file.header().row_count as usize * FEATURES).unwrap();
    slices(&values.chunks(BATCH * FEATURES).collect::<Vec<_>>(), threads)
}

fn mapped_ipc(path: &Path, threads: usize) -> f64 {
    let file = IpcFile::open(path).unwrap();
    let map = file.map().unwrap();
    let parts: Vec<&[f32]> = (0..file.batch_count()).map(|batch| map.column(batch, "x").unwrap()).collect();
    slices(&parts, threads)
}

fn compare(name: &str, rows: usize, threads: usize, plain: impl Fn() -> f64, ours: impl Fn() -> f64) {
    let timed = |work: &dyn Fn() -> f64| {
        let (start, busy) = (Instant::now(), processor_seconds());
        let sum = work();
        (start.elapsed().as_secs_f64(), processor_seconds() - busy, sum)
    };
    let (mut walls, mut busy) = ([Vec::new(), Vec::new()], [0.0, 0.0]);
    for _ in 0..ROUNDS {
        let both = [timed(&plain), timed(&ours)];
        let [(.., sum), (.., same)] = both;
        assert!((sum - same).abs() <= 1e-9 * sum.abs(), "{sum} {same}");
        for (side, (wall, processor, _)) in both.into_iter().enumerate() {
            walls[side].push(wall);
            busy[side] += processor;
        }
    }
    let rate = |seconds: f64| rows as f64 * FEATURES as f64 * 4.0 / seconds / 1e9;
    let [a, b] = walls.map(|times| rate(median(times)));
    let (ratio, processor) = (b / a, busy[0] / busy[1]);
    println!(
        "{name:<22} {threads} threads: plain {a:5.2} GB/s, pass {b:5.2} GB/s, ratio {ratio:.2}; by processor time {processor:.2}"
    );
}

/// Returns user and system time of all threads in seconds, in steps of 10 ms; 0 if not available.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // fields after the process name, which may contain spaces: utime is the 12th, stime the 13th
    let fields = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub(crate) fn main(arguments: &[String]) {
    let rows = arguments.iter().find_map(|arg| arg.parse().ok()).unwrap_or(if kmill_benches::measuring() {
        1 << 21
    } else {
        1 << 14
    });
    let known = ["npy", "ipc", "plain", "snappy", "zstd"];
    let wanted = |name: &str| {
        let mut named = arguments.iter().filter(|arg| known.contains(&arg.as_str())).peekable();
        named.peek().is_none() || named.any(|arg| arg == name)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    if wanted("npy") {
        npy(&path("a.npy"), rows);
    }
    if wanted("ipc") {
        ipc(&path("a.arrow"), rows);
    }
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let kinds = [("plain", Compression::UNCOMPRESSED), ("snappy", Compression::SNAPPY), ("zstd", zstd)];
    for (name, compression) in kinds.into_iter().filter(|(name, _)| wanted(name)) {
        parquet(&path(&format!("{name}.parquet")), rows, compression);
    }
    for threads in [1, 2] {
        if wanted("npy") {
            let source = open(&path("a.npy"));
            compare("npy / mapped", rows, threads, || mapped_npy(&path("a.npy"), threads), || pass(&source, threads));
        }
        if wanted("ipc") {
            let source = open(&path("a.arrow"));
            compare("ipc / mapped", rows, threads, || mapped_ipc(&path("a.arrow"), threads), || pass(&source, threads));
        }
        for (name, _) in kinds.into_iter().filter(|(name, _)| wanted(name)) {
            let file = path(&format!("{name}.parquet"));
            let source = open(&file);
            let title = format!("{name} / batch reader");
            compare(&title, rows, threads, || batch_reader(&file, threads), || pass(&source, threads));
        }
    }
}
