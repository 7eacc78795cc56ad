//! Conditions on a column: how they parse, and which rows they select.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::{Condition, ReadSettings, RowSource, Selection, Table};
use std::sync::Arc;

#[test]
fn conditions_parse_and_print() {
    for (text, printed) in [
        ("fold!=3", "fold != 3"),
        (" a  <=  -1.5e3 ", "a <= -1.5e3"),
        ("city == 'New York'", "city == 'New York'"),
        ("city==Bonn", "city == Bonn"),
        ("x>=0", "x >= 0"),
        ("t == ''", "t == ''"),
    ] {
        assert_eq!(Condition::parse(text).unwrap().to_string(), printed);
    }
}

#[test]
fn wrong_conditions_say_what_is_missing() {
    for (text, part) in [
        ("fold", "the comparison operator is missing"),
        ("fold = 3", "=="),
        ("== 3", "the column before the operator is missing"),
        ("fold ==", "the value after the operator is missing"),
        ("1 < x < 3", "the value contains another operator"),
        ("a >== 3", "the value contains another operator"),
    ] {
        let error = Condition::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

fn selected_rows(condition: &str, values: ArrayRef) -> kstore::Result<Vec<u64>> {
    let filter = Some(Condition::parse(condition).unwrap());
    let table = Table::from_batches(vec![batch(&[("a", values)])])?;
    let selected = table.select(&Selection { filter, without_features: true, ..Selection::default() })?;
    let rows = selected.rows::<f64>(ReadSettings::default())?;
    Ok(read(&rows, RowSource::range(&rows), 9)?.rows)
}

#[test]
fn comparisons_are_exact_in_the_columns_type() {
    let float = |values: Vec<f32>| -> ArrayRef { Arc::new(Float32Array::from(values)) };
    let int = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    assert_eq!(selected_rows("a == 0.1", float(vec![0.1, 0.2])).unwrap(), [0]);
    assert_eq!(selected_rows("a != 3", float(vec![f32::NAN, 3.0, 4.0])).unwrap(), [2]);
    assert_eq!(selected_rows("a == 9007199254740993", int(vec![(1 << 53) + 1, 1 << 53])).unwrap(), [0]);
    assert_eq!(selected_rows("a < 0.5", int(vec![0, 1])).unwrap(), [0]);
}

#[test]
fn text_with_a_number_column_is_refused() {
    let error = selected_rows("a == bonn", Arc::new(Int8Array::from(vec![1]))).unwrap_err();
    assert!(error.to_string().contains("int8") && error.to_string().contains("bonn"), "{error}");
}
