//! Selection of columns and rows, conditions, missing values and labels.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::condition::parse_rows;
use kstore::encoding::TimeFeatures;
use kstore::{
    Categories, Condition, Error, KeptValues, Label, LabelCodes, Missing, MissingTarget, OutputColumn, OutputKind,
    ReadSettings, RowBuf, RowSource, Scaler, Selection, Table,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

fn table(columns: &[(&str, ArrayRef)]) -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("t.parquet");
    write(&path, &batch(columns), WriterProperties::default());
    (folder, path)
}

#[test]
fn features_follow_the_file_or_the_patterns() {
    let folder = folder();
    let table = Table::open(&split(folder.path(), 10, &[], 10)).unwrap();
    let features = |selection: Selection| table.select(&selection).unwrap().feature_names();
    assert_eq!(features(Selection::default()), ["a", "b", "y", "fold", "city"]);
    assert_eq!(features(usual()), ["a", "b"]);
    let chosen = Selection { targets: names(&["y"]), group: Some("fold".into()), ..Selection::default() };
    assert_eq!(features(chosen), ["a", "b", "city"]);
    let filter = Some(Condition::parse("fold != 3").unwrap());
    assert_eq!(features(Selection { filter, keep: names(&["a"]), ..Selection::default() }), ["b", "y", "city"]);
    assert_eq!(features(Selection { features: names(&["[b-z]", "?"]), ..Selection::default() }), ["b", "y", "a"]);
    let error = table.select(&Selection { targets: names(&["Y"]), ..Selection::default() }).unwrap_err().to_string();
    assert!(error.contains("did you mean \"y\""), "{error}");
    for wrong in [
        Selection { features: names(&["z*"]), ..usual() },
        Selection { features: names(&["city"]), categories: Categories::None, ..usual() },
        Selection { features: names(&["y"]), ..usual() },
        Selection { targets: names(&["city"]), ..usual() },
        Selection { keep: names(&["nothing"]), ..usual() },
        Selection { targets: names(&["y", "a"]), class_target: true, ..Selection::default() },
    ] {
        assert!(table.select(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn columns_are_left_out_by_name_and_pattern() {
    let folder = folder();
    let table = Table::open(&split(folder.path(), 10, &[], 10)).unwrap();
    let select = |features: &[&str], keep: &[&str]| {
        let (features, keep, targets) = (names(features), names(keep), names(&["y"]));
        let selection = Selection { features, keep, targets, categories: Categories::None, ..Selection::default() };
        table.select(&selection)
    };
    let features = |list: &[&str]| select(list, &[]).unwrap().feature_names();
    assert_eq!(features(&["*"]), ["a", "b", "fold"]);
    assert_eq!(features(&["*", "!fold"]), ["a", "b"]);
    assert_eq!(features(&["!fold", "!a"]), ["b"]);
    assert_eq!(features(&["[a-f]*", "!?"]), ["fold"]);
    assert!(select(&["*", "!flod"], &[]).unwrap_err().to_string().contains("did you mean \"fold\""));
    assert!(select(&["a", "!a"], &[]).unwrap_err().to_string().contains("selects no column"));
    // text can be kept, and a kept column is not a feature
    let kept = |list: &[&str]| {
        let selected = select(&[], list).unwrap();
        let names: Vec<String> = selected.kept_columns().into_iter().map(|column| column.name).collect();
        (names, selected.feature_names())
    };
    let (carried, others) = kept(&["c*", "fold"]);
    assert_eq!((carried, others), (names(&["city", "fold"]), names(&["a", "b"])));
    assert_eq!(kept(&["[a-c]*", "!a"]).0, ["b", "city"]);
    assert_eq!(table.matching_columns(&names(&["!city", "!a"])).unwrap(), ["b", "y", "fold"]);
}

#[test]
fn a_pattern_for_all_has_no_clock_that_is_not_wanted_and_a_name_with_a_mark_is_a_name() {
    let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2]));
    let numbers: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let (_folder, path) = table(&[("time", time), ("!a", numbers.clone()), ("a", numbers)]);
    let table = Table::open(&[path]).unwrap();
    let features = |list: &[&str]| {
        let selection = Selection { features: names(list), times: TimeFeatures::None, ..Selection::default() };
        table.select(&selection).unwrap().feature_names()
    };
    assert_eq!(features(&["*"]), ["!a", "a"]);
    let wanted = Selection { features: names(&["*"]), ..Selection::default() };
    assert_eq!(table.select(&wanted).unwrap().feature_names(), ["time", "!a", "a"]);
    assert_eq!(features(&["!a"]), ["!a"], "a column of that name is meant");
    assert_eq!(features(&["t*", "a"]), ["time", "a"]);
}

#[test]
fn conditions_and_ranges_keep_the_stored_row_numbers() {
    let folder = folder();
    let paths = split(folder.path(), 1000, &[137, 600], 90);
    let all = read_all(&paths, &usual()).unwrap();
    assert_eq!(all.rows, (0..1000).collect::<Vec<u64>>());
    for (text, holds) in [
        ("fold != 3", (|i| row(i).3 != 3) as fn(u64) -> bool),
        ("city == Kiel", |i| row(i).4 == "Kiel"),
        ("a<0.25", |i| row(i).0 < 0.25),
        ("y >= 0", |i| row(i).2 >= 0.0),
    ] {
        let filter = Some(Condition::parse(text).unwrap());
        let selection = Selection { filter, rows: Some(parse_rows("100..900").unwrap()), ..usual() };
        let some = read_all(&paths, &selection).unwrap();
        let expected: Vec<u64> = (100..900).filter(|i| holds(*i)).collect();
        assert_eq!(some.rows, expected, "{text}");
        assert_eq!(some.y, expected.iter().map(|i| all.y[*i as usize]).collect::<Vec<_>>());
        assert_eq!(some.groups, expected.iter().map(|i| all.groups[*i as usize].clone()).collect::<Vec<_>>());
    }
    let beyond = Selection { rows: Some(5000..6000), ..usual() };
    assert!(read_all(&paths, &beyond).unwrap_err().to_string().contains("none of its 1000 rows"));
}

#[test]
fn the_first_bad_value_is_found_with_its_file_row_and_column() {
    let folder = folder();
    let good: ArrayRef = Arc::new(Float32Array::from(vec![1.0; 300]));
    let (first, second) = (folder.path().join("1.parquet"), folder.path().join("2.parquet"));
    write(&first, &batch(&[("a", good.clone()), ("b", good.clone())]), WriterProperties::default());
    let with = |at: usize, value: Option<f32>| {
        Arc::new(Float32Array::from_iter((0..300).map(|i| if i == at { value } else { Some(1.0) }))) as ArrayRef
    };
    for (value, named) in [(Some(f32::NAN), "NaN"), (Some(f32::NEG_INFINITY), "infinite"), (None, "missing")] {
        // the earlier row has its bad value in the later column
        write(&second, &batch(&[("a", with(211, value)), ("b", with(205, value))]), WriterProperties::default());
        match read_all(&[first.clone(), second.clone()], &Selection::default()).unwrap_err() {
            Error::BadValue { path, row, column, value, .. } => {
                assert_eq!((path, row, column.as_str(), value.as_str()), (second.clone(), 205, "b", named));
            }
            error => panic!("{error}"),
        }
    }
}

#[test]
fn a_number_too_large_for_f32_is_an_error_and_not_infinity() {
    let (_folder, path) = table(&[("a", Arc::new(Float64Array::from(vec![1.0, 1e300])))]);
    let rows = Table::open(&[path]).unwrap().select(&Selection::default()).unwrap();
    let rows32 = rows.rows::<f32>(ReadSettings::default()).unwrap();
    let error = read(&rows32, 0..2, 10).unwrap_err().to_string();
    assert!(error.contains("row 1") && error.contains("too large for f32"), "{error}");
    assert_eq!(read(&rows.rows::<f64>(ReadSettings::default()).unwrap(), 0..2, 10).unwrap().x, [1.0, 1e300]);
}

#[test]
fn rows_with_missing_values_are_dropped_or_filled() {
    let a = Float64Array::from(vec![Some(1.0), None, Some(f64::NAN), Some(4.0), Some(5.0)]);
    let y = Float64Array::from(vec![Some(1.0), Some(2.0), Some(3.0), Some(4.0), None]);
    let (_folder, path) = table(&[("a", Arc::new(a)), ("y", Arc::new(y))]);
    let selection = |missing| Selection { targets: names(&["y"]), missing, ..Selection::default() };
    let dropped = read_all(std::slice::from_ref(&path), &selection(Missing::Drop)).unwrap();
    assert_eq!((dropped.rows, dropped.x), (vec![0, 3], vec![1.0, 4.0]));
    let error = read_all(std::slice::from_ref(&path), &selection(Missing::Mean)).unwrap_err();
    assert!(matches!(error, Error::BadValue { row: 4, .. }), "a target is never made up: {error}");

    let selection = Selection { rows: Some(0..4), ..selection(Missing::Mean) };
    let unscaled = read_all(std::slice::from_ref(&path), &selection).unwrap();
    assert!(unscaled.x[1].is_nan() && unscaled.x[2].is_nan() && unscaled.x[3] == 4.0);
    let scaler = Scaler { centre: vec![1.0], scale: vec![3.0], mean: vec![2.5], ..Scaler::default() };
    let reading = ReadSettings { scaler: Some(Arc::new(scaler)), ..ReadSettings::default() };
    let rows = Table::open(&[path]).unwrap().select(&selection).unwrap().rows::<f64>(reading).unwrap();
    assert_eq!(read(&rows, 0..4, 10).unwrap().x, [0.0, 0.5, 0.5, 1.0]);
}

#[test]
fn rows_without_a_target_are_told_from_rows_without_a_feature() {
    let a = Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(4.0), Some(5.0)]);
    let y = Float64Array::from(vec![Some(1.0), Some(2.0), Some(f64::NAN), None, Some(5.0)]);
    let c = StringArray::from(vec![Some("u"), None, Some("v"), Some("u"), Some("v")]);
    let (folder, path) = table(&[("a", Arc::new(a)), ("y", Arc::new(y)), ("c", Arc::new(c))]);
    let opened = Table::open(&[path]).unwrap();
    let found = |table: &Table, target: &str, missing, missing_target| {
        let (features, targets, class_target) = (names(&["a"]), names(&[target]), target == "c");
        let selection = Selection { features, targets, class_target, missing, missing_target, ..Selection::default() };
        let rows = table.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
        match read(&rows, 0..5, 100) {
            Ok(whole) => Ok((whole.rows, rows.rows_without_target())),
            Err(Error::BadValue { row, column, .. }) => Err((row, column)),
            Err(other) => panic!("{other}"),
        }
    };
    let (drop, error) = (Some(MissingTarget::Drop), Some(MissingTarget::Error));
    let of_y = |missing, target| found(&opened, "y", missing, target);
    assert_eq!(of_y(Missing::Mean, drop), Ok((vec![0, 1, 4], 2)));
    assert_eq!(of_y(Missing::Mean, None), Err((2, "y".to_string())));
    assert_eq!(of_y(Missing::Error, drop), Err((1, "a".to_string())));
    assert_eq!(of_y(Missing::Drop, None), Ok((vec![0, 4], 2)));
    assert_eq!(of_y(Missing::Drop, error), Err((2, "y".to_string())));
    assert_eq!(found(&opened, "c", Missing::Mean, drop), Ok((vec![0, 2, 3, 4], 1)));
    assert_eq!(found(&opened, "c", Missing::Mean, error), Err((1, "c".to_string())));
    // rows that are copied directly from the file
    let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let (x, t) = (folder.path().join("x.npy"), folder.path().join("t.npy"));
    crate::files::npy(&x, "<f8", "(4, 2)", &bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
    crate::files::npy(&t, "<f8", "(4,)", &bytes(&[f64::NAN, 10.0, f64::NAN, 30.0]));
    let matrix = Table::open(&[x]).unwrap().with_target_file(&t).unwrap();
    let selection = Selection { targets: names(&["y"]), missing_target: drop, ..Selection::default() };
    let rows = matrix.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
    let whole = read(&rows, 0..4, 3).unwrap();
    assert_eq!((whole.rows, whole.x, whole.y), (vec![1, 3], vec![3.0, 4.0, 7.0, 8.0], vec![10.0, 30.0]));
}

#[test]
fn kept_numbers_must_be_there_where_that_is_asked_for() {
    let a = Float64Array::from(vec![Some(1.0), Some(2.0), Some(3.0), None, Some(5.0)]);
    let b = Int64Array::from(vec![Some(1), None, Some(3), Some(4), Some(5)]);
    let c = Float32Array::from(vec![1.0, 2.0, f32::INFINITY, 4.0, 5.0]);
    let city = StringArray::from(vec![Some("Ulm"), Some("Ulm"), Some("Ulm"), Some("Ulm"), None]);
    let (_folder, path) =
        table(&[("a", Arc::new(a)), ("b", Arc::new(b)), ("c", Arc::new(c)), ("city", Arc::new(city))]);
    let of = |missing, requires_kept_values, rows| Selection {
        keep: names(&["a", "b", "c", "city"]),
        without_features: true,
        requires_kept_values,
        missing,
        rows,
        ..Selection::default()
    };
    let read = |selection: &Selection| read_all(std::slice::from_ref(&path), selection);
    assert_eq!(read(&of(Missing::Error, false, None)).unwrap().rows, [0, 1, 2, 3, 4]);
    // the first missing number in row order is reported; a missing text does not count
    for (start, row, name, what) in [(0, 1, "b", "missing"), (2, 2, "c", "infinite"), (3, 3, "a", "missing")] {
        let error = read(&of(Missing::Error, true, Some(start..5))).unwrap_err();
        let named = matches!(&error, Error::BadValue { row: at, column, value, .. }
            if *at == row && column == name && value == what);
        assert!(named, "{error}");
    }
    assert_eq!(read(&of(Missing::Error, true, Some(4..5))).unwrap().rows, [4]);
    assert_eq!(read(&of(Missing::Drop, true, None)).unwrap().rows, [0, 4]);
    assert_eq!(read(&of(Missing::Drop, false, None)).unwrap().rows, [0, 1, 2, 3, 4]);
}

#[test]
fn scaling_happens_in_f64_before_narrowing() {
    let time = 1_700_000_000_000i64;
    let (_folder, path) = table(&[
        ("time", Arc::new(Int64Array::from(vec![time, time + 1, time + 2]))),
        ("same", Arc::new(Int64Array::from(vec![time; 3]))),
    ]);
    let scaler =
        Scaler { centre: vec![time as f64; 2], scale: vec![1.0, 0.0], mean: vec![time as f64; 2], ..Scaler::default() };
    let reading = ReadSettings { scaler: Some(Arc::new(scaler)), ..ReadSettings::default() };
    let rows = Table::open(&[path]).unwrap().select(&Selection::default()).unwrap().rows::<f32>(reading).unwrap();
    assert_eq!(read(&rows, 0..3, 10).unwrap().x, [0.0, 0.0, 1.0, 0.0, 2.0, 0.0]);
}

#[test]
fn labels_of_every_type_and_unknown_ones() {
    let x: ArrayRef = Arc::new(Float32Array::from(vec![0.0; 3]));
    let columns: [(ArrayRef, Vec<Label>); 3] = [
        (Arc::new(Int8Array::from(vec![3, -1, 3])), vec![Label::Int(3), Label::Int(-1), Label::Int(3)]),
        (Arc::new(BooleanArray::from(vec![true, false, true])), [true, false, true].map(Label::Bool).to_vec()),
        (Arc::new(Float32Array::from(vec![1.0, 2.0, 1.0])), [1, 2, 1].map(Label::Int).to_vec()),
    ];
    let selection = Selection { targets: names(&["c"]), class_target: true, ..Selection::default() };
    for (column, labels) in columns {
        let (_folder, path) = table(&[("x", x.clone()), ("c", column)]);
        assert_eq!(read_all(std::slice::from_ref(&path), &selection).unwrap().classes, labels);
        let reading = ReadSettings { class_labels: Some(Arc::new(vec![labels[1].clone()])), ..ReadSettings::default() };
        let rows = Table::open(&[path]).unwrap().select(&selection).unwrap().rows::<f32>(reading).unwrap();
        let mut buf = RowBuf::new(5);
        assert!(rows.open(0..3).unwrap().next(&mut buf).unwrap());
        assert_eq!(buf.classes, [LabelCodes::UNKNOWN, 0, LabelCodes::UNKNOWN]);
    }
    let fractions: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 0.5, 1.0]));
    let (_folder, path) = table(&[("x", x), ("c", fractions)]);
    let error = read_all(&[path], &selection).unwrap_err().to_string();
    assert!(error.contains("row 1") && error.contains("`task` regression"), "{error}");
}

#[test]
fn prediction_takes_features_by_name_in_its_own_order() {
    let folder = folder();
    let paths = split(folder.path(), 3, &[], 10);
    let selection = Selection { features: names(&["b", "a"]), ..Selection::default() };
    let whole = read_all(&paths, &selection).unwrap();
    assert_eq!(whole.x[..2], [row(0).1, f64::from(row(0).0)]);
    assert!(whole.y.is_empty());
}

#[test]
fn kept_columns_ride_along_with_the_selected_rows() {
    let folder = folder();
    let table = Table::open(&split(folder.path(), 10_000, &[3000], 2500)).unwrap();
    let keep = names(&["city", "fold", "a", "y"]);
    let filter = Some(Condition::parse("fold != 3").unwrap());
    let selection = Selection { keep, filter, rows: Some(10..9000), ..Selection::default() };
    // column a is kept and therefore not a feature
    let selected = table.select(&selection).unwrap();
    assert_eq!(selected.feature_names(), ["b"]);
    assert_eq!(selected.kept_columns()[1], OutputColumn::new("fold", OutputKind::I64).nullable());
    let everything = Selection { keep: names(&["a", "city"]), without_features: true, ..Selection::default() };
    assert!(table.select(&everything).unwrap().feature_names().is_empty());
    for selection in [selection.clone(), Selection { features: names(&["b", "a"]), ..selection }] {
        let rows = table.select(&selection).unwrap().rows::<f32>(ReadSettings::default()).unwrap();
        let mut buf = RowBuf::new(777);
        let mut cursor = rows.open(0..10_000).unwrap();
        let mut seen = 0;
        while cursor.next(&mut buf).unwrap() {
            let expect = || buf.row_numbers.iter().map(|i| row(*i));
            assert_eq!(*buf.kept_columns[0].values(), KeptValues::Text(expect().map(|r| r.4).collect()));
            assert_eq!(*buf.kept_columns[1].values(), KeptValues::I64(expect().map(|r| r.3.into()).collect()));
            assert_eq!(*buf.kept_columns[2].values(), KeptValues::F32(expect().map(|r| r.0).collect()));
            assert_eq!(*buf.kept_columns[3].values(), KeptValues::F64(expect().map(|r| r.2).collect()));
            seen += buf.row_numbers.len();
        }
        assert_eq!(seen, (10..9000).filter(|i| row(*i).3 != 3).count());
    }
}

#[test]
fn kept_columns_may_have_missing_values() {
    let (_folder, path) = table(&[
        ("id", Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(3)]))),
        ("t", Arc::new(StringArray::from(vec![None, Some("b"), None]))),
        ("x", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]))),
        ("u", Arc::new(UInt64Array::from(vec![1, 2, u64::MAX]))),
    ]);
    let kept = |names: &[&str]| {
        let selection =
            Selection { keep: crate::make::names(names), features: crate::make::names(&["x"]), ..Selection::default() };
        let rows = Table::open(&[&path])?.select(&selection)?.rows::<f64>(ReadSettings::default())?;
        let mut buf = RowBuf::new(9);
        rows.open(0..3)?.next(&mut buf)?;
        Ok::<_, Error>(buf.kept_columns)
    };
    let columns = kept(&["id", "t"]).unwrap();
    assert_eq!(columns[0].validity(), Some(&[true, false, true][..]));
    assert_eq!(*columns[0].values(), KeptValues::I64(vec![i64::MAX, 0, 3]));
    assert_eq!(columns[1].validity(), Some(&[false, true, false][..]));
    assert_eq!(*kept(&["u"]).unwrap()[0].values(), KeptValues::U64(vec![1, 2, u64::MAX]));
}

#[test]
fn the_index_of_a_pandas_table_is_a_feature_only_where_it_is_named() {
    let folder = folder();
    let column =
        |scale: f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values((0..9).map(|i| scale * f64::from(i)))) };
    let table =
        batch(&[("x", column(1.0)), ("y", column(2.0)), ("__index_level_0__", column(3.0)), ("z", column(4.0))]);
    let pandas = r#"{"index_columns": ["__index_level_0__", {"kind": "range"}], "columns": []}"#;
    let schema = table
        .schema()
        .as_ref()
        .clone()
        .with_metadata(std::collections::HashMap::from([("pandas".to_string(), pandas.to_string())]));
    let table = table.with_schema(Arc::new(schema)).unwrap();
    let paths = [folder.path().join("a.parquet"), folder.path().join("a.arrow")];
    let pair = KeyValue::new("pandas".to_string(), pandas.to_string());
    write(&paths[0], &table, WriterProperties::builder().set_key_value_metadata(Some(vec![pair])).build());
    write_ipc(&paths[1], &[table], None);
    for path in paths {
        let table = Table::open(&[path]).unwrap();
        let features = |features: &[&str]| {
            let selection = Selection { targets: names(&["y"]), ..only(features) };
            table.select(&selection).unwrap().feature_names()
        };
        assert_eq!(features(&[]), ["x", "z"]);
        assert_eq!(features(&["x", "__index_level_0__"]), ["x", "__index_level_0__"]);
    }
}
