//! Columns without a single value are not features, and a note names them.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::search::ColumnNote;
use kstore::{Missing, ReadSettings, Selection, Table};
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

fn inspect_names(table: &Table, selection: &Selection) -> (Vec<String>, Option<ColumnNote>) {
    let (selected, note) = table.select(selection).unwrap().inspect_columns();
    (selected.feature_columns(), note)
}

#[test]
fn columns_without_values_are_left_out_whatever_their_type_and_the_format() {
    let folder = folder();
    let n = 3000;
    let number = |i: usize| i as f64 * 0.5;
    let line = |i: usize| format!("{},,,{},{}\n", number(i), if i == 2900 { "1" } else { "" }, i % 7);
    let csv = "a,,gone,late,y\n".to_string() + &(0..n).map(line).collect::<String>();
    let paths = ["a.csv", "a.parquet", "a.arrow"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], csv).unwrap();
    let late = Float64Array::from_iter((0..n).map(|i| (i == 2900).then_some(1.0)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Float64Array::from_iter_values((0..n).map(number)))),
        ("column1", Arc::new(StringArray::new_null(n))),
        ("time", Arc::new(TimestampMicrosecondArray::new_null(n))),
        ("gone", Arc::new(Float64Array::from(vec![f64::NAN; n]))),
        ("none", Arc::new(NullArray::new(n))),
        ("late", Arc::new(late)),
        ("y", Arc::new(Int64Array::from_iter_values((0..n as i64).map(|i| i % 7)))),
    ];
    write(&paths[1], &batch(&columns), WriterProperties::default());
    write_ipc(&paths[2], &[batch(&columns)], None);
    for path in &paths {
        let table = Table::open(&[path]).unwrap();
        for missing in [Missing::Error, Missing::Drop, Missing::Indicator, Missing::Mean] {
            let selection = Selection { targets: names(&["y"]), missing, ..Selection::default() };
            let (features, note) = inspect_names(&table, &selection);
            assert_eq!(features, ["a", "late"], "{path:?} {missing:?}");
            let Some(ColumnNote::Blank { columns }) = note else { panic!("{path:?} {missing:?}") };
            assert!(columns.starts_with(&names(&["column1"])) && columns.contains(&"gone".to_string()), "{columns:?}");
            // a column that is named explicitly is kept
            let (features, note) = inspect_names(&table, &Selection { features: names(&["a", "gone"]), ..selection });
            assert_eq!((features, note), (names(&["a", "gone"]), None));
        }
        // column `late` has no value in these rows
        let selection = Selection { rows: Some(0..2900), targets: names(&["y"]), ..Selection::default() };
        assert_eq!(inspect_names(&table, &selection).0, ["a"]);
        let selected = table.select(&Selection { features: names(&["a", "gone"]), ..selection }).unwrap();
        assert_eq!(selected.find_blank_columns().unwrap(), ["gone"]);
    }
}

/// The columns of a wide table are inspected in groups. Every column keeps its place, also in the
/// last group.
#[test]
fn columns_of_every_group_of_a_wide_table_are_inspected() {
    let folder = folder();
    let value = |column: usize, row: usize| match column {
        100 | 1900 => f64::NAN,
        1400 => row as f64 + 5.0,
        _ => (row * 7 + column) as f64 % 13.0 + 0.5,
    };
    let column_names: Vec<String> = (0..2000).map(|column| format!("x{column}")).collect();
    let column = |j: usize| Arc::new(Float64Array::from_iter_values((0..300).map(|row| value(j, row)))) as ArrayRef;
    let columns: Vec<(&str, ArrayRef)> =
        column_names.iter().enumerate().map(|(j, name)| (name.as_str(), column(j))).collect();
    let path = folder.path().join("wide.parquet");
    write(&path, &batch(&columns), WriterProperties::default());
    let selected = Table::open(&[&path]).unwrap().select(&Selection::default()).unwrap();
    let (inspected, note) = selected.inspect_columns();
    assert_eq!(note, Some(ColumnNote::Blank { columns: names(&["x100", "x1900"]) }));
    let (searched, notes) = crate::categories::search_selected(inspected, 64, 2).unwrap();
    assert!(matches!(&notes[..], [ColumnNote::RowCounter { column }] if column == "x1400"), "{notes:?}");
    assert_eq!(searched.feature_columns().len(), 1997);
}

/// Pandas writes a text column without values to Parquet as NaN.
#[test]
fn counted_text_without_a_value_is_missing_whatever_the_file_takes_it_for() {
    let folder = folder();
    let y = || ("y", Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef);
    let table = |name: &str, x: ArrayRef| {
        let path = folder.path().join(name);
        write(&path, &batch(&[("x", x), y()]), WriterProperties::default());
        Table::open(&[path]).unwrap()
    };
    let words = table("fit.parquet", Arc::new(StringArray::from(vec!["red car", "red house"])));
    for features in [&["x"][..], &["x", "y"]] {
        let (text, features) = (names(&["x"]), names(features));
        let fit = Selection { text, features, sparse: true, missing: Missing::Indicator, ..Selection::default() };
        let known = crate::categories::search_columns(&words, &fit, 2, 2).unwrap().0;
        let known = crate::words::counted(&known, 2, 2).unwrap();
        let again = |x: ArrayRef| {
            let new = Selection { sparse: true, missing: Missing::Indicator, ..known.same_features() };
            let selected = table("new.parquet", x).select(&new)?;
            read::<f64>(&selected.rows::<f64>(ReadSettings::default())?, 0..2, 2)
        };
        let nulls = again(Arc::new(StringArray::new_null(2))).unwrap();
        assert_eq!(again(Arc::new(Float64Array::from(vec![f64::NAN; 2]))).unwrap(), nulls);
        assert_eq!(again(Arc::new(Int32Array::new_null(2))).unwrap(), nulls);
        let error = again(Arc::new(Float64Array::from(vec![f64::NAN, 1.0]))).unwrap_err().to_string();
        assert!(error.contains("the model expects text, whose words it counts"), "{error}");
    }
}
