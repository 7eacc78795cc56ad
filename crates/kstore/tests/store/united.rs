//! Tables of several files with different columns.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::datatypes::{DataType, TimeUnit};
use kstore::{Condition, Error, OutputValues, ReadSettings, RowBuf, RowSource, Selection, Table, TextOptions, sink};
use parquet::file::properties::WriterProperties;
use std::path::Path;
use std::sync::Arc;

/// Converts a table to CSV.
pub(crate) fn csv_of(table: &Table, condition: &str) -> kstore::Result<String> {
    let filter = (!condition.is_empty()).then(|| Condition::parse(condition).unwrap());
    let keep = names(&["*"]);
    let selected = table.select(&Selection { keep, filter, without_features: true, ..Selection::default() })?;
    let folder = folder();
    let path = folder.path().join("out.csv");
    let mut out = sink::create(&path, &selected.kept_columns())?;
    let rows = selected.rows::<f64>(ReadSettings::default())?;
    let (mut buf, mut cursor) = (RowBuf::new(3), rows.open(0..u64::MAX)?);
    while cursor.next(&mut buf)? {
        out.write(&buf.kept_columns.iter().map(OutputValues::Kept).collect::<Vec<_>>())?;
    }
    out.finish()?;
    Ok(std::fs::read_to_string(path).unwrap())
}

fn texts(folder: &Path, files: &[(&str, &str)]) -> Table {
    let files: Vec<_> = files.iter().map(|(name, text)| (folder.join(name), text)).collect();
    files.iter().for_each(|(path, text)| std::fs::write(path, text).unwrap());
    Table::open(&files.iter().map(|(path, _)| path).collect::<Vec<_>>()).unwrap()
}

#[test]
fn texts_are_joined_by_the_names_of_their_columns() {
    let folder = folder();
    // expected results of duckdb's read_csv with union_by_name
    for (a, b, expected) in [
        ("x,y\n1,2\n3,4\n", "x,y\n1.5,2\n3,4\n", "x,y\n1.0,2\n3.0,4\n1.5,2\n3.0,4\n"),
        ("x,y\n1,2\n3,4\n", "x,y\n,2\n,4\n", "x,y\n1,2\n3,4\n,2\n,4\n"),
        ("x,y\n,2\n,4\n", "x,y\nred,2\nblue,4\n", "x,y\n,2\n,4\nred,2\nblue,4\n"),
        ("x,y\n1,2\n3,4\n", "x,y\n", "x,y\n1,2\n3,4\n"),
        ("x,y\n", "x,z\nred,2\n", "x,z\nred,2\n"),
        ("x,y\n1,2\n", "", "x,y\n1,2\n"),
        ("x,y\n1,2\n3,4\n", "y,x\n10,20\n30,40\n", "x,y\n1,2\n3,4\n20,10\n40,30\n"),
        ("x,y\n1,2\n", "x,y,z\n3,4,u\n", "x,y,z\n1,2,\n3,4,u\n"),
        ("x,y\n1,2\n", "z\ntrue\nfalse\n", "x,y,z\n1,2,\n,,true\n,,false\n"),
    ] {
        let table = texts(folder.path(), &[("a.csv", a), ("b.csv", b)]);
        assert_eq!(csv_of(&table, "").unwrap(), expected, "{a:?} {b:?}");
    }
    let table = texts(folder.path(), &[("a.csv", "x\n1\n2\n"), ("b.csv", "y\n3\n")]);
    assert_eq!(csv_of(&table, "x > 0").unwrap(), "x,y\n1,\n2,\n");
    assert_eq!(csv_of(&table, "y > 0").unwrap(), "x,y\n,3\n");
    let note = table.note().unwrap();
    assert!(note.contains("files without column x: 1 of 2") && note.ends_with("differ between the files: 1"), "{note}");
    let json = texts(folder.path(), &[("a.jsonl", "{\"x\":null,\"y\":1}\n"), ("b.jsonl", "{\"y\":2.5,\"x\":\"u\"}\n")]);
    assert_eq!(csv_of(&json, "").unwrap(), "x,y\n,1.0\nu,2.5\n");
}

#[test]
fn parquet_and_arrow_are_joined_as_texts_are() {
    let folder = folder();
    let y = || ("y", Arc::new(Float64Array::from(vec![0.5, 1.5])) as ArrayRef);
    let time = |unit: TimeUnit, values: [i64; 2]| {
        let data = Int64Array::from(values.to_vec()).to_data().into_builder();
        ("x", make_array(data.data_type(DataType::Timestamp(unit, None)).build().unwrap()))
    };
    let x = |array: ArrayRef| ("x", array);
    let nothing = || x(Arc::new(NullArray::new(2)));
    let date = Date32Array::from(vec![Some(1), None]);
    let cases = [
        (
            x(Arc::new(Int32Array::from(vec![1, 2]))),
            x(Arc::new(Int64Array::from(vec![1 << 40, 2]))),
            "1\n2\n1099511627776\n2\n",
        ),
        (
            x(Arc::new(UInt32Array::from(vec![u32::MAX, 2]))),
            x(Arc::new(Int8Array::from(vec![-1, 2]))),
            "4294967295\n2\n-1\n2\n",
        ),
        (
            x(Arc::new(UInt8Array::from(vec![1, 2]))),
            x(Arc::new(UInt16Array::from(vec![Some(300), None]))),
            "1\n2\n300\n\n",
        ),
        (
            x(Arc::new(Float32Array::from(vec![0.1, 2.0]))),
            x(Arc::new(Float64Array::from(vec![0.1, 2.0]))),
            "0.10000000149011612\n2.0\n0.1\n2.0\n",
        ),
        (
            time(TimeUnit::Nanosecond, [1_500_000_000, 1]),
            time(TimeUnit::Second, [2, 3]),
            "1970-01-01T00:00:01.500000000\n1970-01-01T00:00:00.000000001\n1970-01-01T00:00:02.000000000\n1970-01-01T00:00:03.000000000\n",
        ),
        (
            x(Arc::new(date)),
            time(TimeUnit::Microsecond, [1, 0]),
            "1970-01-02T00:00:00.000000\n\n1970-01-01T00:00:00.000001\n1970-01-01T00:00:00.000000\n",
        ),
        (nothing(), x(Arc::new(Float64Array::from(vec![1.5, 2.5]))), "\n\n1.5\n2.5\n"),
        (x(Arc::new(StringArray::from(vec!["a", "b"]))), nothing(), "a\nb\n\n\n"),
        (x(Arc::new(Int64Array::from(vec![None, None]))), x(Arc::new(StringArray::from(vec!["a", "b"]))), "\n\na\nb\n"),
    ];
    for (at, (a, b, expected)) in cases.into_iter().enumerate() {
        let (a, b) = (batch(&[a, y()]), batch(&[y(), b]));
        let paths = ["a.parquet", "b.parquet", "b.arrow"].map(|name| folder.path().join(name));
        write(&paths[0], &a, WriterProperties::default());
        write(&paths[1], &b, WriterProperties::default());
        write_ipc(&paths[2], &[b], None);
        let expected: String =
            expected.lines().zip(["0.5", "1.5", "0.5", "1.5"]).map(|(x, y)| format!("{x},{y}\n")).collect();
        for second in [&paths[1], &paths[2]] {
            let table = Table::open(&[&paths[0], second]).unwrap();
            assert_eq!(csv_of(&table, "").unwrap(), format!("x,y\n{expected}"), "{at} {second:?}");
        }
    }
    // a time in seconds that is out of range in nanoseconds
    let paths = ["c.parquet", "d.arrow"].map(|name| folder.path().join(name));
    write(&paths[0], &batch(&[time(TimeUnit::Nanosecond, [0, 1])]), WriterProperties::default());
    write_ipc(&paths[1], &[batch(&[time(TimeUnit::Second, [0, 253_402_300_799])])], None);
    let error = csv_of(&Table::open(&paths).unwrap(), "").unwrap_err();
    assert!(matches!(&error, Error::BadValue { row: 1, column, .. } if column == "x"), "{error}");
}

#[test]
fn a_column_that_cannot_be_joined_stops_only_those_who_name_it() {
    let folder = folder();
    let table = texts(folder.path(), &[("a.csv", "x,y\n1,2\n"), ("b.csv", "x,y\ntrue,4\n")]);
    assert!(table.note().unwrap().contains("column x cannot be read: it holds int64 in"), "{:?}", table.note());
    let rows = |selection: &Selection| read(&table.select(selection)?.rows::<f64>(ReadSettings::default())?, 0..9, 9);
    assert_eq!(rows(&Selection::default()).unwrap().x, [2.0, 4.0]);
    let error = rows(&only(&["x"])).unwrap_err().to_string();
    assert!(error.contains("holds int64 in") && error.contains("and bool in"), "{error}");
    // columns that are identified by position
    let array = |name: &str, shape: &str| {
        let path = folder.path().join(name);
        crate::files::npy(&path, "<f4", shape, &[0; 24]);
        path
    };
    let error = Table::open(&[array("a.npy", "(2, 3)"), array("b.npy", "(3, 2)")]).unwrap_err();
    assert!(matches!(&error, Error::SchemaMismatch { .. }), "{error}");
    let bare = [folder.path().join("c.csv"), folder.path().join("d.csv")];
    std::fs::write(&bare[0], "1,2\n").unwrap();
    std::fs::write(&bare[1], "1,2,3\n").unwrap();
    let error = Table::open_with(&bare, &TextOptions::default().without_header()).unwrap_err();
    assert!(matches!(&error, Error::SchemaMismatch { .. }), "{error}");
    // if all files are empty, the error says so
    let empty = [folder.path().join("e.csv"), folder.path().join("f.csv")];
    empty.iter().for_each(|path| std::fs::write(path, "").unwrap());
    assert!(Table::open(&empty).unwrap_err().to_string().contains("it is empty"));
}

#[test]
fn text_in_one_file_and_something_else_in_another_is_text() {
    let folder = folder();
    // CSV values keep their original text
    let table = texts(folder.path(), &[("a.csv", "x,y\n1.50,2\n+7,3\n"), ("b.csv", "x,y\nv1.9,4\n")]);
    assert_eq!(csv_of(&table, "").unwrap(), "x,y\n1.50,2\n+7,3\nv1.9,4\n");
    let note = table.note().unwrap();
    assert!(note.contains("column x is read as text: it holds float64 in") && note.contains("and text in"), "{note}");
    let json =
        texts(folder.path(), &[("a.jsonl", "{\"x\":1}\n{\"x\":null}\n{\"x\":2.5}\n"), ("b.jsonl", "{\"x\":\"u\"}\n")]);
    assert_eq!(csv_of(&json, "x != u").unwrap(), "x\n1.0\n2.5\n");
    let cases: [(ArrayRef, &str); 5] = [
        (Arc::new(Int8Array::from(vec![Some(-1), None])), "-1,1\n,1\n"),
        (Arc::new(UInt64Array::from(vec![u64::MAX, 0])), "18446744073709551615,1\n0,1\n"),
        (Arc::new(Float64Array::from(vec![0.1, f64::NAN])), "0.1,1\n,1\n"),
        (Arc::new(BooleanArray::from(vec![true, false])), "true,1\nfalse,1\n"),
        (
            Arc::new(TimestampMillisecondArray::from(vec![0, -1000])),
            "1970-01-01T00:00:00.000,1\n1969-12-31T23:59:59.000,1\n",
        ),
    ];
    let paths = ["a.parquet", "b.parquet"].map(|name| folder.path().join(name));
    let y = |n: usize| ("y", Arc::new(Int8Array::from(vec![1; n])) as ArrayRef);
    write(&paths[1], &batch(&[("x", Arc::new(StringArray::from(vec!["u"]))), y(1)]), WriterProperties::default());
    for (array, expected) in cases {
        write(&paths[0], &batch(&[("x", array), y(2)]), WriterProperties::default());
        let table = Table::open(&paths).unwrap();
        assert_eq!(csv_of(&table, "").unwrap(), format!("x,y\n{expected}u,1\n"));
    }
    // an explicit column type overrides the detected one
    let paths = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
    let types = [("x".to_string(), "number".parse().unwrap())];
    let table = Table::open_with(&paths, &TextOptions::default().types(types.into())).unwrap();
    assert!(csv_of(&table, "").unwrap_err().to_string().contains("found \"v1.9\""));
}

#[test]
fn a_value_behind_the_rows_that_decided_is_no_other_value() {
    let folder = folder();
    let paths = [folder.path().join("a.csv"), folder.path().join("b.csv")];
    std::fs::write(&paths[0], "x,y\n,1\n,2\n7,3\n").unwrap();
    std::fs::write(&paths[1], "x,y\nred,4\n").unwrap();
    let table = Table::open_with(&paths, &TextOptions::default().infer_rows(2)).unwrap();
    let error = csv_of(&table, "").unwrap_err();
    assert!(matches!(&error, Error::BadValue { row: 2, line: Some(4), column, .. } if column == "x"), "{error}");
}

#[test]
fn nested_values_of_json_lines_stop_only_those_who_name_them() {
    let folder = folder();
    let text = "{\"a\":1,\"b\":{\"c\":2},\"d\":null}\n{\"a\":3,\"b\":null,\"d\":[1]}\n{\"a\":5,\"b\":\"x\"}\n";
    let table = texts(folder.path(), &[("a.jsonl", text)]);
    assert_eq!(csv_of(&table, "").unwrap(), "a\n1\n3\n5\n");
    let error = table.select(&only(&["b"])).unwrap_err().to_string();
    assert!(error.contains("lists or objects"), "{error}");
}
