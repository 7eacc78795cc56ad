//! Messages: operating-system errors in words, and suggestions of similar names.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::names::nearest;
use kstore::{Error, ReadSettings, RowSource, Selection, Table, TableRows};
use std::io;
use std::sync::Arc;

#[test]
fn what_the_system_says_is_told_in_words_with_a_next_step() {
    let said = |error: io::Error| Error::io("write", "a.npy")(error).to_string();
    // error numbers of Linux
    for number in [1, 2, 5, 12, 13, 20, 21, 22, 23, 24, 26, 27, 28, 30, 32, 36, 40, 122] {
        let text = said(io::Error::from_raw_os_error(number));
        assert!(text.starts_with("cannot write a.npy: ") && text.contains("; "), "{text}");
        assert!(!text.contains("os error"), "{text}");
    }
    #[cfg(target_os = "linux")]
    for (number, part) in [
        (13, "permission denied"),
        (20, "a part of its path is a file instead of a folder"),
        (27, "the file would exceed the size limit"),
        (30, "the disk is read-only"),
        (40, "a symbolic link that leads back to itself"),
    ] {
        assert!(said(io::Error::from_raw_os_error(number)).contains(part), "{number}");
    }
}

#[test]
fn near_names_are_suggested_and_far_names_are_not() {
    assert_eq!(nearest("temperatur", ["time", "temperature"]), Some("temperature"));
    assert_eq!(nearest("Y", ["x0", "y"]), Some("y"));
    assert_eq!(nearest("target", ["x0", "y"]), None);
    // two edits of four letters and three of seven: at most a third, rounded up, may differ
    assert_eq!(nearest("flod", ["fold", "kitten"]), Some("fold"));
    assert_eq!(nearest("sitting", ["kitten"]), Some("kitten"));
    assert_eq!(nearest("abc", [""]), None);
}

#[test]
fn addresses_are_told_from_paths_and_the_message_says_how_to_get_a_store() {
    for (path, is_address) in [
        ("s3://bucket/rows.parquet", true),
        ("https://host/rows.csv", true),
        ("gopher://host/rows.csv", true),
        ("nowhere/rows.parquet", false),
        ("a/b://c", false),
        ("C://rows", false),
        ("s3://", false),
    ] {
        let error = Table::open(&[path]).unwrap_err().to_string();
        assert_eq!(error.contains("feature `cloud`"), is_address, "{error}");
    }
}

#[test]
fn fractions_and_too_many_labels_are_refused() {
    let labels = |values: ArrayRef| {
        let table = Table::from_batches(vec![batch(&[("x", Arc::clone(&values)), ("class", values)])]).unwrap();
        let selection =
            Selection { targets: names(&["class"]), class_target: true, keep: names(&["x"]), ..Selection::default() };
        let selection = Selection { without_features: true, ..selection };
        all_rows(&table.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap())
    };
    let error = labels(Arc::new(Float64Array::from(vec![1.0, 0.5]))).unwrap_err();
    assert!(error.to_string().contains("holds 0.5 in row 1"), "{error}");
    assert!(labels(Arc::new(Float64Array::from(vec![1e300]))).is_err());
    assert!(labels(Arc::new(Int32Array::from_iter_values(0..10_000))).is_ok());
    let error = labels(Arc::new(Int32Array::from_iter_values(0..10_001))).unwrap_err();
    assert!(matches!(&error, Error::TooManyLabels { .. }), "{error}");
    // few labels with the maximum total text: ten thousand times 64 bytes
    let texts = |bytes: usize| -> ArrayRef { Arc::new(StringArray::from(vec!["a".repeat(bytes), "b".repeat(bytes)])) };
    assert!(labels(texts(320_000)).is_ok());
    assert!(matches!(labels(texts(320_001)), Err(Error::TooManyLabels { .. })));
}

fn all_rows(rows: &TableRows<f64>) -> kstore::Result<Whole> {
    read(rows, RowSource::range(rows), 1000)
}
