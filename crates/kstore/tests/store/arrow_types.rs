//! Arrow types as column kinds, and decimals as numbers.

use crate::make::*;
use kstore::arrow::array::{ArrayRef, Decimal128Array, new_null_array};
use kstore::arrow::datatypes::{DataType, Field, Fields};
use kstore::{ReadSettings, RowSource, Selection, Table};
use std::sync::Arc;

#[test]
fn names_of_kinds_are_words() {
    let field = |kind: DataType| Arc::new(Field::new("item", kind, true));
    let record = DataType::Struct(Fields::from(vec![field(DataType::Int8), field(DataType::Utf8)]));
    for (kind, name) in [
        (DataType::FixedSizeBinary(16), "binary"),
        (record.clone(), "records of 2 fields"),
        (DataType::List(field(record)), "lists of records of 2 fields"),
        (DataType::List(field(DataType::Utf8)), "lists of text"),
        (DataType::List(field(DataType::FixedSizeBinary(2))), "lists of binary"),
        (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Binary)), "binary"),
    ] {
        let table = Table::from_batches(vec![batch(&[("a", new_null_array(&kind, 1))])]).unwrap();
        assert_eq!(table.schema().columns[0].kind.to_string(), name);
    }
}

#[test]
fn decimals_are_the_nearest_float() {
    for (unscaled, scale, text) in [
        (1, 1, "0.1"),
        (-12345678901234567, 3, "-12345678901234.567"),
        (99999999999999999999999999999999999999, 38, "0.99999999999999999999999999999999999999"),
        (9007199254740993, 0, "9007199254740993"),
        (3, -2, "300"),
        (7, 25, "0.0000000000000000000000007"),
        (0, 10, "0"),
    ] {
        let decimal = Decimal128Array::from(vec![unscaled]).with_precision_and_scale(38, scale).unwrap();
        let table = Table::from_batches(vec![batch(&[("a", Arc::new(decimal) as ArrayRef)])]).unwrap();
        let rows = table.select(&Selection::default()).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
        assert_eq!(read(&rows, RowSource::range(&rows), 1).unwrap().x, [text.parse::<f64>().unwrap()], "{text}");
    }
}
