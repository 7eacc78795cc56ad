//! What is written reads back, and nothing half-written stays.

use crate::make::*;
use kstore::{Label, Output, OutputColumn, OutputKind, Selection, Table, remove_temporaries, sink};
use std::sync::Arc;

fn columns() -> Vec<OutputColumn> {
    use OutputKind::*;
    let columns = [("f", F32), ("d", F64), ("i", I64), ("b", Bool), ("t", Text)];
    columns.into_iter().map(|(name, kind)| OutputColumn::new(name, kind)).collect()
}

#[test]
fn parquet_reads_back() {
    let folder = folder();
    let path = folder.path().join("out.parquet");
    let mut out = sink::create(&path, &columns()).unwrap();
    let n = 3000;
    for start in [0, n] {
        let range = start..start + n;
        let f: Vec<f32> = range.clone().map(|i| i as f32 * 0.1).collect();
        let d: Vec<f64> = range.clone().map(|i| f64::from(i).sqrt()).collect();
        let i: Vec<i64> = range.clone().map(|i| i64::from(i) - 5).collect();
        let b: Vec<bool> = range.clone().map(|i| i % 3 == 0).collect();
        let t: Vec<Arc<str>> = range.map(|i| ["Ulm", "Bonn"][i as usize % 2].into()).collect();
        out.write(&[Output::F32(&f), Output::F64(&d), Output::I64(&i), Output::Bool(&b), Output::Text(&t)]).unwrap();
    }
    assert!(!path.exists());
    out.finish().unwrap();
    let selection = Selection { targets: names(&["t"]), class_target: true, ..Selection::default() };
    let whole = read_all(&[path], &selection).unwrap();
    assert_eq!(whole.rows.len(), 6000);
    let expected = [f64::from(4001f32 * 0.1), 4001f64.sqrt(), 3996.0, 0.0];
    assert_eq!(whole.x[4 * 4001..4 * 4002], expected);
    assert_eq!(whole.classes[4001], Label::Text("Bonn".into()));
}

#[test]
fn npy_reads_back() {
    let folder = folder();
    let path = folder.path().join("out.npy");
    let columns = [OutputColumn::new("a", OutputKind::F64), OutputColumn::new("b", OutputKind::I64)];
    let mut out = sink::create(&path, &columns).unwrap();
    out.write(&[Output::F64(&[0.5, 1.5]), Output::I64(&[1, 2])]).unwrap();
    out.write(&[Output::F64(&[2.5]), Output::I64(&[3])]).unwrap();
    out.finish().unwrap();
    assert_eq!(read_all(std::slice::from_ref(&path), &Selection::default()).unwrap().x, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 128 + 6 * 8);
    let text = [OutputColumn::new("t", OutputKind::Text)];
    assert!(sink::create(&path, &text).err().unwrap().to_string().contains(".parquet"));
}

#[test]
fn unfinished_tables_leave_nothing_and_other_kinds_are_refused() {
    let folder = folder();
    for name in ["a.parquet", "a.npy"] {
        let columns = [OutputColumn::new("a", OutputKind::F64)];
        let mut out = sink::create(&folder.path().join(name), &columns).unwrap();
        out.write(&[Output::F64(&vec![0.25; 100_000])]).unwrap();
        drop(out);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
    assert!(sink::create(&folder.path().join("a.doc"), &columns()).is_err());
    assert!(
        sink::create(&folder.path().join("no/a.parquet"), &columns()).err().unwrap().to_string().contains("create it")
    );
}

#[test]
fn temporaries_are_removed_on_demand() {
    // in a process of its own, because it removes the files of all tests
    const CHILD: &str = "KSTORE_TEST_REMOVE";
    if let Some(folder) = std::env::var_os(CHILD) {
        let path = std::path::Path::new(&folder).join("a.parquet");
        let out = sink::create(&path, &columns()).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        remove_temporaries();
        std::mem::forget(out);
        return;
    }
    let folder = folder();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let status =
        command.args(["--exact", "sinks::temporaries_are_removed_on_demand"]).env(CHILD, folder.path()).status();
    assert!(status.unwrap().success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_told_as_one() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let error = std::fs::write(full, "x").unwrap_err();
    let text = kstore::Error::io("write", "out.parquet")(error).to_string();
    assert!(text.contains("free some space"), "{text}");
}

#[test]
fn a_written_table_is_split_into_row_groups() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let mut out = sink::create(&path, &[OutputColumn::new("a", OutputKind::F64)]).unwrap();
    out.write(&[Output::F64(&vec![0.5; 200_000])]).unwrap();
    out.finish().unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(groups, [65_536, 65_536, 65_536, 3392]);
    assert_eq!(Table::open(&[path]).unwrap().stored_rows(), 200_000);
}

#[test]
fn row_groups_are_capped_in_bytes() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    let mut out = sink::create(&path, &[OutputColumn::new("t", OutputKind::Text)]).unwrap();
    // 160 MB in 10,000 rows, which are fewer than a group may have
    let text = |i: usize| -> Arc<str> { format!("{i:08}").repeat(2000).into() };
    for start in (0..10_000).step_by(500) {
        let texts: Vec<_> = (start..start + 500).map(text).collect();
        out.write(&[Output::Text(&texts)]).unwrap();
    }
    out.finish().unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let sizes = reader.metadata().row_groups().iter().map(|group| group.total_byte_size());
    let sizes: Vec<i64> = sizes.collect();
    // a slice of 1024 rows may come on top
    assert!(sizes.iter().all(|size| *size < (64 << 20) + (17 << 20)), "{sizes:?}");
}
