//! Columns without a single value are no features, and are named.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::encoding::ColumnNote;
use kstore::{Missing, Selection, Table};
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

fn looked(table: &Table, selection: &Selection) -> (Vec<String>, Option<ColumnNote>) {
    let (selected, note) = table.select(selection).unwrap().looked();
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
            let (features, note) = looked(&table, &selection);
            assert_eq!(features, ["a", "late"], "{path:?} {missing:?}");
            let Some(ColumnNote::Blank { columns }) = note else { panic!("{path:?} {missing:?}") };
            assert!(columns.starts_with(&names(&["column1"])) && columns.contains(&"gone".to_string()), "{columns:?}");
            // what is named is not left out
            let (features, note) = looked(&table, &Selection { features: names(&["a", "gone"]), ..selection });
            assert_eq!((features, note), (names(&["a", "gone"]), None));
        }
        // of other rows the column has none either
        let selection = Selection { rows: Some(0..2900), targets: names(&["y"]), ..Selection::default() };
        assert_eq!(looked(&table, &selection).0, ["a"]);
        let selected = table.select(&Selection { features: names(&["a", "gone"]), ..selection }).unwrap();
        assert_eq!(selected.blank().unwrap(), ["gone"]);
    }
}
