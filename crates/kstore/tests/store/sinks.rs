//! Written files read back, and no partial file remains.

use crate::make::*;
use kstore::{
    KeptColumn, KeptValues, Label, Missing, OutputColumn, OutputKind, OutputValues, Selection, Strings, Table,
    remove_temporaries, sink,
};

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
        let t: Strings = range.map(|i| ["Ulm", "Bonn"][i as usize % 2]).collect();
        out.write(&[
            OutputValues::F32(&f),
            OutputValues::F64(&d),
            OutputValues::I64(&i),
            OutputValues::Bool(&b),
            OutputValues::Text(&t),
        ])
        .unwrap();
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
    out.write(&[OutputValues::F64(&[0.5, 1.5]), OutputValues::I64(&[1, 2])]).unwrap();
    out.write(&[OutputValues::F64(&[2.5]), OutputValues::I64(&[3])]).unwrap();
    out.finish().unwrap();
    assert_eq!(read_all(std::slice::from_ref(&path), &Selection::default()).unwrap().x, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 128 + 6 * 8);
    let text = [OutputColumn::new("t", OutputKind::Text)];
    assert!(sink::create(&path, &text).err().unwrap().to_string().contains(".parquet"));
}

#[test]
fn csv_reads_back_to_the_bit() {
    let folder = folder();
    let values = [0.1, -0.0, 1.0, 1e300, 5e-324, f64::MAX, 123_456.789, 1.0 / 3.0, f64::INFINITY, 1e16, 1e-5];
    let singles = values.map(|v| v as f32 / 3.0);
    let texts = ["Ulm", "a,b", "say \"x\"", "two\nlines", "\ttab", "ä", " s ", "x", "\r", ";", "y"];
    let texts: Strings = texts.into_iter().collect();
    let whole: Vec<i64> = (0..11).map(|i| i64::MAX - i).collect();
    let bools: Vec<bool> = (0..11).map(|i| i % 3 == 0).collect();
    for name in ["out.csv", "out.tsv"] {
        let path = folder.path().join(name);
        let mut out = sink::create(&path, &columns()).unwrap();
        let batch = [
            OutputValues::F32(&singles),
            OutputValues::F64(&values),
            OutputValues::I64(&whole),
            OutputValues::Bool(&bools),
            OutputValues::Text(&texts),
        ];
        out.write(&batch).unwrap();
        assert!(!path.exists());
        out.finish().unwrap();
        let table = Table::open(&[&path]).unwrap();
        let kinds: Vec<_> = table.schema().columns.iter().map(|column| column.kind.to_string()).collect();
        assert_eq!(kinds, ["float64", "float64", "int64", "bool", "text"]);
        let keep = crate::make::names(&["f", "d", "i", "b", "t"]);
        let selection = Selection { keep, without_features: true, ..Selection::default() };
        let rows = table.select(&selection).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
        let mut buf = kstore::RowBuf::new(100);
        assert!(kstore::RowSource::open(&rows, 0..11).unwrap().next(&mut buf).unwrap());
        let bits = |column: &KeptColumn| match column.values() {
            KeptValues::F64(v) => v.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bits(&buf.kept_columns[0]), singles.map(|v| f64::from(v).to_bits()));
        assert_eq!(bits(&buf.kept_columns[1]), values.map(f64::to_bits));
        assert_eq!(*buf.kept_columns[2].values(), KeptValues::I64(whole.clone()));
        assert_eq!(*buf.kept_columns[3].values(), KeptValues::Bool(bools.clone()));
        assert_eq!(*buf.kept_columns[4].values(), KeptValues::Text(texts.clone()));
    }
}

#[test]
fn missing_values_are_written_as_such_or_refused() {
    let folder = folder();
    let source = folder.path().join("in.csv");
    std::fs::write(&source, "f,i,t\n0.5,1,a\n,,\n1.5,3,c\n").unwrap();
    let keep = crate::make::names(&["f", "i", "t"]);
    let selection = Selection { keep, without_features: true, ..Selection::default() };
    let read = |path: &std::path::Path| {
        let selected = Table::open(&[path]).unwrap().select(&selection).unwrap();
        let rows = selected.rows::<f64>(kstore::ReadSettings::default()).unwrap();
        let mut buf = kstore::RowBuf::new(100);
        assert!(kstore::RowSource::open(&rows, 0..3).unwrap().next(&mut buf).unwrap());
        (selected.kept_columns(), buf.kept_columns)
    };
    let (columns, kept) = read(&source);
    assert!(kept.iter().all(|column| column.validity() == Some(&[true, false, true])));
    let batch: Vec<OutputValues<'_>> = kept.iter().map(OutputValues::Kept).collect();
    for name in ["out.parquet", "out.csv"] {
        let path = folder.path().join(name);
        let mut out = sink::create(&path, &columns).unwrap();
        out.write(&batch).unwrap();
        out.finish().unwrap();
        let (_, again) = read(&path);
        for (again, before) in again.iter().zip(&kept) {
            assert_eq!(again.validity(), before.validity(), "{name}");
        }
        assert_eq!(again[1..], kept[1..], "{name}");
    }
    let path = folder.path().join("one.csv");
    let mut out = sink::create(&path, &columns[1..2]).unwrap();
    out.write(&batch[1..2]).unwrap();
    out.finish().unwrap();
    assert_eq!(Table::open(&[&path]).unwrap().stored_rows(), 3, "a missing value alone is no empty line");
    let path = folder.path().join("out.npy");
    let mut out = sink::create(&path, &columns[..1]).unwrap();
    out.write(&batch[..1]).unwrap();
    out.finish().unwrap();
    let selection = Selection { missing: Missing::Mean, ..Selection::default() };
    let x = read_all(&[path], &selection).unwrap().x;
    assert!((x[0], x[2]) == (0.5, 1.5) && x[1].is_nan());
    let mut out = sink::create(&folder.path().join("no.npy"), &columns[1..2]).unwrap();
    let error = out.write(&batch[1..2]).unwrap_err().to_string();
    assert!(error.contains("column \"i\"") && error.contains("a missing value in row 1"), "{error}");
}

/// IDs beyond int64, such as 64-bit hashes, in every output format that supports them.
#[test]
fn integers_beyond_int64_read_back_to_the_digit() {
    let folder = folder();
    let ids: Vec<u64> = (0..50).map(|i| u64::MAX - i * i).collect();
    let columns = [OutputColumn::new("id", OutputKind::U64)];
    for format in kstore::source::formats() {
        let path = folder.path().join("out").with_extension(format.extensions[0]);
        if !sink::supports(&path, &columns[0]).unwrap_or(false) {
            continue;
        }
        let mut out = sink::create(&path, &columns).unwrap();
        out.write(&[OutputValues::U64(&ids)]).unwrap();
        out.finish().unwrap();
        let table = Table::open(&[&path]).unwrap();
        if format.is_labelled() {
            assert!(std::fs::read_to_string(&path).unwrap().starts_with("0 1:18446744073709551615\n"));
            continue;
        }
        let keep = vec![table.schema().columns[0].name.clone()];
        let selection = Selection { keep, without_features: true, ..Selection::default() };
        let rows = table.select(&selection).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
        let mut buf = kstore::RowBuf::new(100);
        assert!(kstore::RowSource::open(&rows, 0..50).unwrap().next(&mut buf).unwrap());
        assert_eq!(*buf.kept_columns[0].values(), KeptValues::U64(ids.clone()), "{}", path.display());
    }
}

#[test]
fn npy_keeps_whole_numbers_whole_or_refuses_them() {
    let folder = folder();
    let path = folder.path().join("out.npy");
    let column = |name| OutputColumn::new(name, OutputKind::I64);
    let mut out = sink::create(&path, &[column("a"), column("b")]).unwrap();
    out.write(&[OutputValues::I64(&[i64::MAX, 1]), OutputValues::I64(&[i64::MIN, 2])]).unwrap();
    out.finish().unwrap();
    assert_eq!(Table::open(&[&path]).unwrap().schema().columns[0].kind.to_string(), "int64");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[128..136], i64::MAX.to_le_bytes());
    let mixed = [column("a"), OutputColumn::new("b", OutputKind::F64)];
    let mut out = sink::create(&path, &mixed).unwrap();
    out.write(&[OutputValues::I64(&[-(1 << 53), 1 << 53]), OutputValues::F64(&[0.5, 0.5])]).unwrap();
    let error = out.write(&[OutputValues::I64(&[(1 << 53) + 1]), OutputValues::F64(&[0.5])]).unwrap_err().to_string();
    assert!(error.contains("9007199254740993 beyond 2^53 in row 2"), "{error}");
}

#[test]
fn unfinished_tables_leave_nothing_and_other_kinds_are_refused() {
    let folder = folder();
    for name in ["a.parquet", "a.npy", "a.csv"] {
        let columns = [OutputColumn::new("a", OutputKind::F64)];
        let mut out = sink::create(&folder.path().join(name), &columns).unwrap();
        out.write(&[OutputValues::F64(&vec![0.25; 100_000])]).unwrap();
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
    // in a separate process, because it removes the temporary files of all tests
    const CHILD: &str = "KSTORE_TEST_REMOVE";
    if let Some(folder) = std::env::var_os(CHILD) {
        let path = std::path::Path::new(&folder).join("a.parquet");
        let out = sink::create(&path, &columns()).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        remove_temporaries();
        std::mem::forget(out);
        // nothing would remove a file that is created now
        assert!(sink::create(&path, &columns()).is_err());
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
        crate::make::skip("there is no /dev/full");
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
    out.write(&[OutputValues::F64(&vec![0.5; 200_000])]).unwrap();
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
    // 160 MB in 10,000 rows, which is below the row limit of a row group
    let text = |i: usize| format!("{i:08}").repeat(2000);
    for start in (0..10_000).step_by(500) {
        let texts: Strings = (start..start + 500).map(text).collect();
        out.write(&[OutputValues::Text(&texts)]).unwrap();
    }
    out.finish().unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let sizes = reader.metadata().row_groups().iter().map(|group| group.total_byte_size());
    let sizes: Vec<i64> = sizes.collect();
    // a group may exceed its limit by one slice of 1024 rows
    assert!(sizes.iter().all(|size| *size < (16 << 20) + (17 << 20)), "{sizes:?}");
}

#[test]
fn seconds_are_milliseconds_in_parquet_and_times_for_every_reader() {
    use kstore::arrow::datatypes::{DataType, TimeUnit};
    use parquet::basic::{LogicalType, TimeUnit as Unit};
    let folder = folder();
    let path = folder.path().join("out.parquet");
    let zone = || Some("Europe/Berlin".into());
    let times = [
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Second, zone()),
        DataType::Time32(TimeUnit::Second),
    ];
    let columns = ["s", "stz", "tod"].iter().zip(&times).map(|(name, time)| OutputColumn {
        time_type: Some(time.clone()),
        ..OutputColumn::new(*name, OutputKind::I64).nullable()
    });
    let columns: Vec<OutputColumn> = columns.collect();
    let mut out = sink::create(&path, &columns).unwrap();
    let (moments, of_day) = ([1_609_459_200i64, -1, 253_402_300_799], [0i64, 25_200, 86_399]);
    out.write(&[OutputValues::I64(&moments), OutputValues::I64(&moments), OutputValues::I64(&of_day)]).unwrap();
    out.finish().unwrap();
    let file =
        parquet::file::serialized_reader::SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let schema = parquet::file::reader::FileReader::metadata(&file).file_metadata().schema_descr();
    // the types that pyarrow writes for times in seconds
    let expected = [
        LogicalType::timestamp(false, Unit::MILLIS),
        LogicalType::timestamp(true, Unit::MILLIS),
        LogicalType::time(false, Unit::MILLIS),
    ];
    let found: Vec<_> = (0..3).map(|i| schema.column(i).logical_type_ref().cloned().unwrap()).collect();
    assert_eq!(found, expected);
    let csv = crate::united::csv_of(&Table::open(&[&path]).unwrap(), "").unwrap();
    let last = csv.lines().nth(3).unwrap();
    assert!(last.starts_with("9999-12-31T23:59:59.000,") && last.ends_with("23:59:59.000"), "{csv}");
    // a time that is out of range in milliseconds
    let mut out = sink::create(&path, &columns[..1]).unwrap();
    let error = out.write(&[OutputValues::I64(&[i64::MAX / 500])]).unwrap_err().to_string();
    assert!(error.contains("seconds exceed the range of milliseconds"), "{error}");
}
