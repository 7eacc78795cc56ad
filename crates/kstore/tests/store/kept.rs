//! Kept columns, which are carried along with the rows.

use crate::make::*;
use kstore::arrow::array::UInt64Array;
use kstore::sink::OutputKind;
use kstore::{KeptColumn, KeptValues, ReadSettings, RowBuf, RowSource, Selection, Table};
use std::sync::Arc;

#[test]
fn missing_values_are_known_whatever_the_order_of_the_parts() {
    let part = |texts: Vec<Option<&str>>| {
        let valid = texts.iter().map(Option::is_some).collect();
        KeptColumn::with_validity(KeptValues::Text(texts.into_iter().map(Option::unwrap_or_default).collect()), valid)
    };
    let (whole, holed) = (part(vec![Some("a"), Some("b")]), part(vec![None, Some("c")]));
    let mut joined = whole.clone();
    joined.append(&holed, 0..2);
    joined.append(&whole, 0..2);
    assert_eq!((joined.len(), joined.validity()), (6, Some(&[true, true, false, true, true, true][..])));
    joined.clear();
    joined.append(&holed, 1..1);
    joined.append(&whole, 0..2);
    assert_eq!(joined, whole);
    assert!(whole.validity().is_none() && holed.is_null(0) && !holed.is_null(1));
}

#[test]
fn casting_rounds_fractions_and_never_whole_numbers() {
    let of = |values| KeptColumn::with_validity(values, Vec::new());
    let whole = of(KeptValues::I64(vec![1 << 24, (1 << 24) + 1]));
    let error = whole.cast(OutputKind::F32).unwrap_err();
    assert_eq!(error, (1, "16777217, outside the range of integers that float32 represents exactly".to_string()));
    assert_eq!(*whole.cast(OutputKind::F64).unwrap().values(), KeptValues::F64(vec![16777216.0, 16777217.0]));
    assert_eq!(of(KeptValues::I64(vec![1 << 53, (1 << 53) + 1])).cast(OutputKind::F64).unwrap_err().0, 1);
    assert_eq!(of(KeptValues::I64(vec![i64::MIN])).cast(OutputKind::F64).unwrap_err().0, 0);
    let fractions = of(KeptValues::F64(vec![0.1, f64::INFINITY, 1e300]));
    assert_eq!(fractions.cast(OutputKind::F32).unwrap_err(), (2, "1e300, too large for float32".to_string()));
    let truths = of(KeptValues::Bool(vec![true, false]));
    assert_eq!(*truths.cast(OutputKind::I64).unwrap().values(), KeptValues::I64(vec![1, 0]));
    assert!(of(KeptValues::Text(["a"].into_iter().collect())).cast(OutputKind::F64).is_err());
}

#[test]
fn an_integer_beyond_int64_keeps_its_digits() {
    let rows = batch(&[("id", Arc::new(UInt64Array::from(vec![7, u64::MAX])))]);
    let selection = Selection { keep: names(&["id"]), without_features: true, ..Selection::default() };
    let rows = Table::from_batches(vec![rows]).unwrap().select(&selection).unwrap();
    let (rows, mut buf) = (rows.rows::<f64>(ReadSettings::default()).unwrap(), RowBuf::new(2));
    assert!(rows.open(0..2).unwrap().next(&mut buf).unwrap());
    let column = &buf.kept_columns[0];
    assert_eq!(*column.values(), KeptValues::U64(vec![7, u64::MAX]));
    let error = column.cast(OutputKind::F64).unwrap_err();
    assert_eq!(
        error,
        (1, "18446744073709551615, outside the range of integers that float64 represents exactly".to_string())
    );
}
