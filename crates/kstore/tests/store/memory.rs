//! Decoders stay within their footprints: wide tables, long row groups, each in its own process.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::ipc::CompressionType;
use kstore::{ReadSettings, RowBuf, RowSource, Selection, Table};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::path::Path;
use std::sync::Arc;

const CHILD: &str = "KSTORE_TEST_FOOTPRINT";
const INSPECTION: &str = "KSTORE_TEST_INSPECTION";
const TILE: usize = 1024;

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Inspects the columns of a file or reads it twice; prints the growth of the peak memory and the
/// plan.
fn child(path: &Path) {
    let rows = Table::open(&[path]).unwrap().select(&Selection::default()).unwrap();
    if std::env::var_os(INSPECTION).is_some() {
        let (planned, before) = (rows.inspection_bytes(), resident());
        assert!(rows.inspect_columns().1.is_none());
        let peak = kstore::budget::peak_rss().unwrap();
        return println!("\ngrew {} planned {planned}", peak.saturating_sub(before));
    }
    let rows = rows.rows::<f32>(ReadSettings::default()).unwrap();
    let planned = RowSource::footprint(&rows).bytes_for(TILE);
    let before = resident();
    let mut buf = RowBuf::new(TILE);
    for _ in 0..2 {
        let mut cursor = rows.open(0..u64::MAX).unwrap();
        while cursor.next(&mut buf).unwrap() {}
    }
    let peak = kstore::budget::peak_rss().unwrap();
    println!("\ngrew {} planned {planned}", peak.saturating_sub(before));
}

/// Returns growth and plan in bytes.
fn measure(path: &Path, is_inspection: bool) -> (usize, usize) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "memory::decoders_stay_within_their_footprint", "--nocapture"]).env(CHILD, path);
    is_inspection.then(|| command.env(INSPECTION, "1"));
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).to_string();
    assert!(done.status.success(), "{text} {}", String::from_utf8_lossy(&done.stderr));
    let line = text.lines().find(|line| line.starts_with("grew")).unwrap();
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

fn table(columns: usize, rows: usize) -> RecordBatch {
    let column = |c: usize| Float32Array::from_iter_values((0..rows).map(|i| (((i + c) % 5000) as f32).sin()));
    let columns: Vec<(String, ArrayRef)> = (0..columns).map(|c| (format!("x{c}"), Arc::new(column(c)) as _)).collect();
    batch(&columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect::<Vec<_>>())
}

#[test]
fn decoders_stay_within_their_footprint() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    if !cfg!(target_os = "linux") {
        crate::make::skip("the operating system tells no peak of memory");
        return;
    }
    let folder = folder();
    let properties = |codec, dictionary| {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1 << 20));
        properties.set_compression(codec).set_dictionary_enabled(dictionary).build()
    };
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for (name, columns, rows) in [("wide", 800, 16_384), ("long", 6, 1_000_000), ("many", 5000, 300)] {
        let table = table(columns, rows);
        let path = |kind: &str| folder.path().join(format!("{name}-{kind}"));
        write(&path("plain.parquet"), &table, properties(Compression::UNCOMPRESSED, false));
        write(&path("zstd.parquet"), &table, properties(zstd, false));
        write(&path("dictionary.parquet"), &table, properties(Compression::SNAPPY, true));
        write_ipc(&path("plain.arrow"), std::slice::from_ref(&table), None);
        write_ipc(&path("lz4.arrow"), std::slice::from_ref(&table), Some(CompressionType::LZ4_FRAME));
        drop(table);
        for kind in ["plain.parquet", "zstd.parquet", "dictionary.parquet", "plain.arrow", "lz4.arrow"] {
            let (grew, planned) = measure(&path(kind), false);
            eprintln!(
                "{name} {kind}: grew {:.1} MiB of {:.1} planned",
                grew as f64 / 1048576.0,
                planned as f64 / 1048576.0
            );
            // allowance for the allocator and one-time allocations such as metadata; 0.7 MiB seen
            assert!(grew <= planned + (2 << 20), "{name} {kind}: grew {grew}, planned {planned}");
        }
        // the columns of a wide table are inspected in groups, which need no plan
        let (grew, planned) = measure(&path("dictionary.parquet"), true);
        assert!(planned <= 8 << 20 && grew <= planned + (2 << 20), "{name}: grew {grew}, planned {planned}");
    }
}
