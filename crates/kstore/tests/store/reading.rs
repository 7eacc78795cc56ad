//! Partial reads: row groups excluded by a condition, single rows, and arrays stored by column.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::{Categories, Condition, Error, Missing, ReadSettings, RowSource, Selection, Table, TableRows};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn rows(path: &Path, selection: &Selection) -> TableRows<f64> {
    Table::open(&[path]).unwrap().select(selection).unwrap().rows(ReadSettings::default()).unwrap()
}

fn properties(statistics: EnabledStatistics) -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .set_statistics_enabled(statistics)
        .set_dictionary_enabled(false)
        .build()
}

/// Returns a table of slowly rising columns with NaN and missing values.
fn ascending_batch(n: i32) -> RecordBatch {
    let float = |i: i32| if i % 7 == 3 { f32::NAN } else { (i / 10) as f32 * 0.1 };
    let text = |i: i32| format!("{:05} and a text that is longer than bounds are kept in {}", i / 50, "x".repeat(80));
    batch(&[
        ("x", Arc::new(Float64Array::from_iter_values((0..n).map(f64::from)))),
        ("k", Arc::new(Int32Array::from_iter((0..n).map(|i| (i % 11 != 5).then_some(i / 30))))),
        ("u", Arc::new(UInt64Array::from_iter_values((0..n).map(|i| u64::MAX - 1000 + (i / 40) as u64)))),
        ("f", Arc::new(Float32Array::from_iter_values((0..n).map(float)))),
        ("t", Arc::new(StringArray::from_iter_values((0..n).map(text)))),
        ("b", Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(i > n / 2))))),
        ("time", Arc::new(TimestampMillisecondArray::from_iter_values((0..n).map(|i| i64::from(i / 20))))),
        ("nan", Arc::new(Float64Array::from_iter_values((0..n).map(|i| if i < 500 { f64::NAN } else { 1.0 })))),
        ("none", Arc::new(Int8Array::from_iter((0..n).map(|i| (i >= 500).then_some(1))))),
    ])
}

fn condition(text: &str, start: u64) -> Selection {
    Selection {
        features: names(&["x"]),
        rows: Some(start..u64::MAX),
        filter: Some(Condition::parse(text).unwrap()),
        ..Selection::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn statistics_change_what_is_read_and_never_what_is_found(
        column in prop::sample::select(vec!["k", "u", "f", "t", "b", "time", "nan", "none"]),
        operator in prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]),
        at in 0u64..34,
        start in 0u64..300,
        tile in 1usize..300,
    ) {
        let value = match column {
            "u" => (u64::MAX - 1000 + at).to_string(),
            "f" => format!("{:.1}", at as f64 * 0.3),
            "t" => format!("{:05} and", at),
            "b" => (at % 2 == 0).to_string(),
            "nan" | "none" => (at % 3).to_string(),
            _ => at.to_string(),
        };
        let folder = folder();
        let (with, without) = (folder.path().join("a.parquet"), folder.path().join("b.parquet"));
        write(&with, &ascending_batch(1000), properties(EnabledStatistics::Chunk));
        write(&without, &ascending_batch(1000), properties(EnabledStatistics::None));
        let selection = condition(&format!("{column} {operator} {value}"), start);
        let read = |path: &Path| -> kstore::Result<Whole> { crate::make::read(&rows(path, &selection), 0..1000, tile) };
        prop_assert_eq!(read(&with).unwrap(), read(&without).unwrap());
    }
}

#[test]
fn row_groups_that_cannot_match_are_not_read() {
    let folder = folder();
    let path = folder.path().join("a.parquet");
    write(&path, &ascending_batch(10_000), properties(EnabledStatistics::Chunk));
    let bytes = |text: &str| {
        let rows = rows(&path, &condition(text, 0));
        let whole = read(&rows, 0..10_000, 1000).unwrap();
        (whole.rows, RowSource::bytes_read(&rows))
    };
    let (all, everything) = bytes("k >= 0");
    assert_eq!(all.len(), 10_000 - 10_000 / 11 - usize::from(10_000 % 11 > 5));
    let (few, little) = bytes("k == 40");
    assert_eq!(few, (1200..1230).filter(|row| row % 11 != 5).collect::<Vec<u64>>());
    // one or two of a hundred row groups are read
    assert!(little * 40 < everything, "{little} of {everything} bytes");
    let (none, nothing) = bytes("f > 1e6");
    assert_eq!((none.len(), nothing), (0, 0));
    let (text, some) = bytes("t > '00199'");
    let all = bytes("t >= '0'").1;
    assert!(text[0] == 199 * 50 && some * 40 < all, "{some} of {all} bytes");
    // row groups of NaN have no bounds and are therefore read
    assert_eq!(bytes("nan == 1").0.first(), Some(&500));
}

fn npy_by_column(path: &Path, values: &[f32], n: usize, d: usize) {
    let text = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({n}, {d}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    for column in 0..d {
        bytes.extend((0..n).flat_map(|row| values[row * d + column].to_le_bytes()));
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn arrays_stored_by_column_read_as_those_stored_by_row() {
    let folder = folder();
    let (path, n, d) = (folder.path().join("a.npy"), 50_000, 5);
    let values: Vec<f32> = (0..n * d).map(|i| i as f32).collect();
    npy_by_column(&path, &values, n, d);
    let whole = read(&rows(&path, &Selection::default()), 0..n as u64, 999).unwrap();
    assert_eq!(whole.x, values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
    let some = Selection { features: names(&["x4", "x1"]), ..Selection::default() };
    let source = rows(&path, &some);
    let part = read(&source, 31_000..31_002, 7).unwrap();
    assert_eq!(part.x, [155_004.0, 155_001.0, 155_009.0, 155_006.0]);
    assert_eq!(RowSource::bytes_read(&source), 16);
    assert!(RowSource::footprint(&source).fixed <= 256 << 10);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(Table::open(&[&path]).unwrap_err().to_string().contains("needs"));
}

/// Writes the standard table in several formats.
fn formats(folder: &Path) -> Vec<PathBuf> {
    let table = standard(0..3000);
    let path = |name: &str| folder.join(name);
    write(&path("a.parquet"), &table, groups_of(700));
    write_ipc(&path("a.arrow"), &[table.slice(0, 1100), table.slice(1100, 1900)], None);
    let zstd = Some(kstore::arrow::ipc::CompressionType::ZSTD);
    write_ipc(&path("b.arrow"), &[table.slice(0, 1100), table.slice(1100, 1900)], zstd);
    vec![path("a.parquet"), path("a.arrow"), path("b.arrow")]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn gathered_rows_are_those_of_a_scan(
        picks in prop::collection::vec(0u64..3000, 0..60),
        near in prop::collection::vec(2000u64..2040, 0..20),
    ) {
        let folder = folder();
        let selection = Selection { features: names(&["a", "b"]), targets: names(&["y"]), ..Selection::default() };
        let picks: Vec<u64> = picks.into_iter().chain(near).collect();
        for path in formats(folder.path()) {
            let source = rows(&path, &selection);
            let whole = read(&source, 0..3000, 512).unwrap();
            let gathered = source.gather(&picks).unwrap();
            prop_assert_eq!(gathered.len(), picks.len());
            for (place, row) in picks.iter().enumerate() {
                let row = *row as usize;
                prop_assert_eq!(gathered.row_number(place), picks[place]);
                prop_assert_eq!(&gathered.x()[2 * place..][..2], &whole.x[2 * row..][..2]);
                prop_assert_eq!(gathered.y()[place], whole.y[row]);
            }
        }
    }
}

#[test]
fn a_gathered_row_must_be_selected_and_costs_little() {
    let folder = folder();
    let path = folder.path().join("a.npy");
    crate::files::npy(&path, "<f4", "(100000, 8)", &vec![0; 3_200_000]);
    let source = rows(&path, &Selection::default());
    source.gather(&[99_999, 5, 50_000, 5]).unwrap();
    assert_eq!(RowSource::bytes_read(&source), 3 * 32);
    assert!(matches!(source.gather(&[100_000]), Err(Error::Empty { why, .. }) if why.contains("100000")));
    assert_eq!(source.gather(&[]).unwrap().len(), 0);
    let [path] = &split(folder.path(), 100, &[], 50)[..] else { panic!() };
    let some = Selection { filter: Some(Condition::parse("fold == 1").unwrap()), missing: Missing::Drop, ..usual() };
    let source = rows(path, &some);
    let kept = read(&source, 0..100, 10).unwrap().rows;
    assert_eq!(source.gather(&[kept[3], kept[0]]).unwrap().row_number(0), kept[3]);
    let other = (0..100).find(|row| !kept.contains(row)).unwrap();
    assert!(source.gather(&[kept[0], other]).unwrap_err().to_string().contains(&format!("row {other} ")));
}

/// Writes 5,000 rows of three features, a target and a label; features are rows of float32.
fn row_major(folder: &Path, invalid_value: Option<(usize, f32)>) -> (kstore::Table, kstore::Table) {
    let n = 5000;
    let mut values: Vec<f32> = (0..3 * n).map(|i| i as f32 * 0.25).collect();
    if let Some((place, value)) = invalid_value {
        values[place] = value;
    }
    let (x, y, ipc) = (folder.join("x.npy"), folder.join("y.npy"), folder.join("x.arrow"));
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    crate::files::npy(&x, "<f4", &format!("({n}, 3)"), &bytes);
    let targets: Vec<f64> = (0..n).map(|i| i as f64).collect();
    crate::files::npy(&y, "<f8", &format!("({n},)"), &targets.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
    let item =
        Arc::new(kstore::arrow::datatypes::Field::new("item", kstore::arrow::datatypes::DataType::Float32, false));
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 3, Arc::new(Float32Array::from(values)), None));
    let city: ArrayRef = Arc::new(StringArray::from_iter_values((0..n).map(|i| ["Ulm", "Bonn"][i / 7 % 2])));
    let table = batch(&[("x", lists), ("y", Arc::new(Float64Array::from(targets))), ("city", city)]);
    write_ipc(&ipc, &[table.slice(0, 1234), table.slice(1234, 3766)], None);
    (Table::open(&[&x]).unwrap().with_target_file(&y).unwrap(), Table::open(&[&ipc]).unwrap())
}

/// Reads as float32, which copies directly from the file, and as float64, which converts by chunks.
fn read_both_ways(table: &Table, selection: &Selection, tile: usize) -> [kstore::Result<Whole>; 2] {
    let selected = table.select(selection).unwrap();
    let direct = selected.rows::<f32>(ReadSettings::default()).unwrap();
    let by_chunk = selected.rows::<f64>(ReadSettings::default()).unwrap();
    [read(&direct, 17..4990, tile), read(&by_chunk, 17..4990, tile)]
}

fn selection_with_target() -> Selection {
    Selection { targets: names(&["y"]), categories: Categories::None, ..Selection::default() }
}

#[test]
fn rows_that_go_straight_to_the_tile_are_the_same() {
    let folder = folder();
    let (npy, ipc) = row_major(folder.path(), None);
    for tile in [1, 64, 777, 10_000] {
        let labels = Selection { group: Some("city".to_string()), ..selection_with_target() };
        for (table, selection) in [(&npy, selection_with_target()), (&ipc, selection_with_target()), (&ipc, labels)] {
            let [direct, by_chunk] = read_both_ways(table, &selection, tile).map(Result::unwrap);
            assert_eq!(direct, by_chunk, "tile {tile}");
            assert_eq!((direct.rows.len(), direct.x[0], direct.y[0]), (4973, 12.75, 17.0));
        }
        // other column orders and subsets are read by chunks
        let some = Selection { features: names(&["*2*", "*0*"]), ..Selection::default() };
        for table in [&npy, &ipc] {
            let [direct, by_chunk] = read_both_ways(table, &some, tile).map(Result::unwrap);
            assert_eq!((direct.x[..2].to_vec(), &direct), (vec![13.25, 12.75], &by_chunk));
        }
    }
}

#[test]
fn bad_values_on_the_straight_way_are_found_and_filled() {
    let folder = folder();
    for value in [f32::NAN, f32::INFINITY] {
        let tables = row_major(folder.path(), Some((3 * 3000 + 1, value)));
        for table in [tables.0, tables.1] {
            for error in read_both_ways(&table, &selection_with_target(), 512).map(|outcome| outcome.unwrap_err()) {
                let found = matches!(&error, Error::BadValue { row: 3000, column, .. } if column.contains('1'));
                assert!(found, "{error}");
            }
            let mean = Selection { missing: Missing::Mean, ..selection_with_target() };
            let selected = table.select(&mean).unwrap();
            let (centre, scale, mean) = (vec![0.0; 3], vec![1.0; 3], vec![0.5, 1.5, 2.5]);
            let scaler = Some(Arc::new(kstore::Scaler { centre, scale, mean, ..kstore::Scaler::default() }));
            let reading = ReadSettings { scaler, ..ReadSettings::default() };
            let direct = read(&selected.rows::<f32>(reading.clone()).unwrap(), 0..5000, 512).unwrap();
            assert_eq!(direct, read(&selected.rows::<f64>(reading).unwrap(), 0..5000, 512).unwrap());
            assert_eq!(direct.x[3 * 3000..3 * 3000 + 3], [2250.0, 1.5, 2250.5]);
        }
    }
}
