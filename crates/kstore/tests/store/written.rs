//! Numbers, codes, dates and missing values in CSV: detected, read by an option, or rejected.

use crate::categories::search_columns;
use crate::make::*;
use kstore::arrow::array::{ArrayRef, Float64Array, StringArray};
use kstore::encoding::{ColumnEncoding, TimeEncoding, TimeFeatures, TimeForm};
use kstore::search::ColumnNote;
use kstore::{ColumnType, Missing, ReadSettings, SelectedTable, Selection, Table, TextOptions, TextReadOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn file(folder: &Path, name: &str, header: &str, values: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let rows: String = values.iter().enumerate().map(|(i, value)| format!("{value};{i}\n")).collect();
    std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
    path
}

fn numbers(table: &Table, name: &str) -> kstore::Result<Vec<f64>> {
    let selection = Selection {
        features: names(&[name]),
        missing: Missing::Mean,
        times: TimeFeatures::None,
        ..Selection::default()
    };
    Ok(read::<f64>(&table.select(&selection)?.rows::<f64>(ReadSettings::default())?, 0..100, 8)?.x)
}

fn kind(table: &Table) -> String {
    table.schema().columns[0].kind.to_string()
}

fn options_with_types(types: &[(&str, &str)]) -> TextOptions {
    let types = types.iter().map(|(name, of)| (name.to_string(), of.parse::<ColumnType>().unwrap()));
    TextOptions::default().types(types.collect())
}

#[test]
fn numbers_with_marks_are_read_by_themselves_if_all_have_the_same() {
    let folder = folder();
    for (values, expected) in [
        (["12%", "-3.5%", "0%"], [12.0, -3.5, 0.0]),
        (["$1.50", "-$20", "($3)"], [1.5, -20.0, -3.0]),
        (["1,50 €", "20,25 €", "1.000,00 €"], [1.5, 20.25, 1000.0]),
        (["(12)", "7", "(1)"], [-12.0, 7.0, -1.0]),
        (["12-", "7", "1-"], [-12.0, 7.0, -1.0]),
        (["\u{2212}12", "7", "\u{2212}0.5"], [-12.0, 7.0, -0.5]),
        (["5 kg", "12.5 kg", "7kg"], [5.0, 12.5, 7.0]),
        (["1'234.5", "12", "1'000'000"], [1234.5, 12.0, 1e6]),
        (["1\u{2009}234,5", "12", "1\u{202f}000"], [1234.5, 12.0, 1000.0]),
        (["1 234 567", "12", "-1 000"], [1_234_567.0, 12.0, -1000.0]),
        (["1 234,5 kg", "12 kg", "7 kg"], [1234.5, 12.0, 7.0]),
        (["5g", "6g", "70g"], [5.0, 6.0, 70.0]),
        (["0x1f", "0xFF", "0x0"], [31.0, 255.0, 0.0]),
        (["$-5", "$.5", "-$1,234.50"], [-5.0, 0.5, -1234.5]),
        (["20\u{b0}C", "-1\u{b0}C", "0\u{b0}C"], [20.0, -1.0, 0.0]),
    ] {
        let path = file(folder.path(), "t.csv", "p;y", &values);
        let table = Table::open(&[&path]).unwrap();
        assert_eq!(numbers(&table, "p").unwrap(), expected, "{values:?}");
        assert!(table.note().unwrap().contains("column p"), "{values:?}");
        // the original text is available on request
        assert_eq!(kind(&Table::open_with(&[&path], &options_with_types(&[("p", "text")])).unwrap()), "text");
    }
    for values in [
        ["5 kg", "12 lb", "7 kg"],
        ["12%", "0.5", "7%"],
        ["12a", "13a", "14b"],
        ["12", "13a", "14a"],
        ["1 234", "12 34", "7"],
        ["A12", "A13", "A14"],
        ["10-20", "20-30", "1-2"],
    ] {
        let path = file(folder.path(), "t.csv", "p;y", &values);
        assert_eq!(kind(&Table::open(&[&path]).unwrap()), "text", "{values:?}");
        let table = Table::open_with(&[&path], &options_with_types(&[("p", "number")])).unwrap();
        let error = numbers(&table, "p").unwrap_err().to_string();
        assert!(error.contains("column \"p\": expected a number"), "{error}");
    }
    for odd in ["--5", "(-5)", "5'11", "1/2", "12 34", "0xg", "1.2.3", "12:30"] {
        let path = file(folder.path(), "t.csv", "p;y", &["(5)", odd]);
        assert_eq!(kind(&Table::open(&[path]).unwrap()), "text", "{odd}");
    }
    // a value with another unit after the rows used for detection
    let path = file(folder.path(), "t.csv", "p;y", &["5 kg", "6 kg", "7 lb"]);
    let table = Table::open_with(&[&path], &TextOptions::default().infer_rows(2)).unwrap();
    assert!(numbers(&table, "p").unwrap_err().to_string().contains("found \"7 lb\""));
}

#[test]
fn codes_that_begin_with_zeros_are_text_and_numbers_if_that_is_said() {
    let folder = folder();
    let path = file(folder.path(), "t.csv", "zip;y", &["10115", "00501", "02110"]);
    let table = Table::open(&[&path]).unwrap();
    assert_eq!(kind(&table), "text");
    let note = table.note().unwrap();
    assert!(note.contains("column zip") && note.contains("00501") && note.contains("`types` zip=number"), "{note}");
    let known =
        search_columns(&table, &Selection { features: names(&["zip"]), ..Selection::default() }, 2, 2).unwrap().0;
    assert_eq!(known.feature_names(), ["zip=00501", "zip=02110", "zip=10115"]);
    let table = Table::open_with(&[&path], &options_with_types(&[("zip", "number")])).unwrap();
    assert_eq!((kind(&table).as_str(), numbers(&table, "zip").unwrap()), ("int64", vec![10115.0, 501.0, 2110.0]));
    for (values, expected) in [(["0", "10", "7"], "int64"), (["0.5", "00", "1"], "text"), (["-05", "1", "2"], "int64")]
    {
        assert_eq!(
            kind(&Table::open(&[file(folder.path(), "u.csv", "x;y", &values)]).unwrap()),
            expected,
            "{values:?}"
        );
    }
    // a leading zero after the rows used for detection is not lost
    let path = file(folder.path(), "t.csv", "zip;y", &["10115", "20095", "00501"]);
    let table = Table::open_with(&[&path], &TextOptions::default().infer_rows(2)).unwrap();
    assert!(numbers(&table, "zip").unwrap_err().to_string().contains("found \"00501\""));
    // a column that the file lacks, and a format that stores its types
    let error = Table::open_with(&[&path], &options_with_types(&[("zap", "text")])).unwrap_err().to_string();
    assert!(error.contains("zap") && error.contains("zip"), "{error}");
    let path = folder.path().join("t.parquet");
    write(&path, &standard(0..5), groups_of(5));
    let error = Table::open_with(&[&path], &options_with_types(&[("fold", "text")])).unwrap_err().to_string();
    assert!(error.contains("`types` applies to .csv only, because other files store their types"), "{error}");
}

#[test]
fn words_for_missing_values_are_missing_among_numbers_and_told_among_text() {
    let folder = folder();
    for word in ["?", "-", ".", "n/a", "#N/A"] {
        let table = Table::open(&[file(folder.path(), "t.csv", "x;y", &["1", word, "3"])]).unwrap();
        let x = numbers(&table, "x").unwrap();
        assert!(kind(&table) == "int64" && x[1].is_nan() && x[2] == 3.0, "{word}: {x:?}");
    }
    let path = file(folder.path(), "t.csv", "job;y", &["clerk", "?", "clerk", "nurse"]);
    let usual = Selection { missing: Missing::Indicator, ..Selection::default() };
    let (selected, notes) = search_columns(&Table::open(&[&path]).unwrap(), &usual, 2, 2).unwrap();
    assert_eq!(selected.feature_names(), ["job=?", "job=clerk", "job=nurse", "y"]);
    assert!(
        matches!(&notes[..], [note @ ColumnNote::Resembles { .. }] if note.to_string().contains("`missing_words` ?"))
    );
    // no option reads the texts of a table in memory differently
    let jobs: ArrayRef = Arc::new(StringArray::from(vec!["clerk", "?", "clerk"]));
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let in_memory = Table::from_batches(vec![batch(&[("job", jobs), ("y", values)])]).unwrap();
    let (_, notes) = search_columns(&in_memory, &usual, 2, 2).unwrap();
    let note = notes[0].to_string();
    assert!(
        note.ends_with("which is a category; if it means a missing value, replace it by one, such as None"),
        "{note}"
    );
    let words = TextOptions::default().missing_words(names(&["?", "unknown"]));
    let read_by = |path: &Path| {
        let (selected, notes) = search_columns(&Table::open_with(&[path], &words).unwrap(), &usual, 2, 2).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let mut names = selected.feature_names();
        names.sort();
        names
    };
    assert_eq!(read_by(&path), ["job=(missing)", "job=clerk", "job=nurse", "y"]);
    let lines = folder.path().join("t.jsonl");
    std::fs::write(
        &lines,
        "{\"job\":\"clerk\",\"y\":1}\n{\"job\":\"?\",\"y\":2}\n{\"job\":\"nurse\",\"y\":\"unknown\"}\n",
    )
    .unwrap();
    assert_eq!(read_by(&lines), ["job=(missing)", "job=clerk", "job=nurse", "y", "y=(missing)"]);
    // numbers with different units, and a format with typed text
    let (_, notes) =
        search_columns(&Table::open(&[file(folder.path(), "u.csv", "p;y", &["5 kg", "7 lb"])]).unwrap(), &usual, 2, 2)
            .unwrap();
    assert!(
        notes[0].to_string().contains("looks like numbers with a unit or another mark, such as \"5 kg\""),
        "{notes:?}"
    );
}

#[test]
fn dates_are_read_as_their_type_says() {
    let folder = folder();
    let days = |values: &[&str], of: &str| {
        let path = file(folder.path(), "t.csv", "day;y", values);
        numbers(&Table::open_with(&[path], &options_with_types(&[("day", of)])).unwrap(), "day")
            .map(|x| x.iter().map(|us| us / 86_400e6).collect::<Vec<_>>())
    };
    // days by Python's datetime
    for values in [
        ["20210114", "19991231"],
        ["14 Jan 2021", "31 Dec 1999"],
        ["January 14, 2021", "Dec 31, 1999"],
        ["2021-W02-4", "1999-W52-5"],
        ["14.1.2021", "31.12.1999"],
        ["1610582400", "946598400"],
        ["1610582400000", "946598400000"],
    ] {
        assert_eq!(days(&values, "date").unwrap(), [18641.0, 10956.0], "{values:?}");
    }
    let error = days(&["2021-01-14", "soon"], "date").unwrap_err().to_string();
    assert!(error.contains("expected a date or time, found \"soon\""), "{error}");
}

/// Reads the rows of a table as a model fitted on `known` does.
fn read_again(fitted: &SelectedTable, path: &Path, options: TextOptions) -> kstore::Result<Vec<f64>> {
    let reading = fitted.text_read_options().with_encoding(fitted.encoding());
    let table = Table::open_with(&[path], &options.with_reading(reading))?;
    let selected = table.select(&Selection { missing: Missing::Mean, ..fitted.same_features() })?;
    Ok(read::<f64>(&selected.rows::<f64>(ReadSettings::default())?, 0..100, 8)?.x)
}

#[test]
fn new_files_are_read_as_those_of_the_fit() {
    let folder = folder();
    let known = |values: &[&str]| {
        let path = file(folder.path(), "fit.csv", "p;y", values);
        let selection = Selection { features: names(&["p"]), ..Selection::default() };
        search_columns(&Table::open(&[path]).unwrap(), &selection, 2, 2).unwrap().0
    };
    let new = |values: &[&str]| file(folder.path(), "new.csv", "p;y", values);
    let commas = known(&["1,5", "1.234", "2,25"]);
    let usual = TextOptions::default;
    // a whole column without a comma is ambiguous by itself
    assert_eq!(read_again(&commas, &new(&["1.234", "2.500"]), usual()).unwrap(), [1234.0, 2500.0]);
    let error = read_again(&commas, &new(&["1.25", "2.5"]), usual()).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("\"1.25\"") && error.contains("`decimal`"), "{error}");
    assert_eq!(read_again(&commas, &new(&["1.25", "2.5"]), usual().decimal(b'.')).unwrap(), [1.25, 2.5]);
    let other = folder.path().join("other.csv");
    std::fs::write(&other, "p,y\n1.234,1\n").unwrap();
    let error = read_again(&commas, &other, usual()).unwrap_err().to_string();
    assert!(error.contains("its delimiter is ',', but ';' in the table of the fit"), "{error}");
    assert_eq!(read_again(&commas, &other, usual().decimal(b'.')).unwrap(), [1.234]);
    let percent = known(&["5%", "7%", "9%"]);
    assert!(read_again(&percent, &new(&["0.05", "0.07"]), usual()).is_err());
    // a model stores its reading as JSON, and stores nothing for the default
    let reading: TextReadOptions =
        serde_json::from_value(serde_json::to_value(percent.text_read_options()).unwrap()).unwrap();
    assert_eq!(reading, percent.text_read_options());
    assert!(known(&["1.5", "2", "3"]).text_read_options().is_default());
    // a completely empty column takes the type of the fit
    let dates = known(&["2021-01-14", "2021-01-15", "2021-02-01"]);
    let empty = new(&["", ""]);
    assert!(read_again(&dates, &empty, usual()).unwrap().iter().all(|x| x.is_nan()));
    // the same holds in formats with a type of their own for such columns
    let nulls = || -> ArrayRef { Arc::new(StringArray::from(vec![None::<&str>; 2])) };
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN; 2]));
    for (known, column) in [(&dates, nulls()), (&dates, floats), (&percent, nulls())] {
        let path = folder.path().join("nulls.parquet");
        write(&path, &batch(&[("p", column)]), groups_of(2));
        assert!(read_again(known, &path, usual()).unwrap().iter().all(|x| x.is_nan()));
    }
}

#[test]
fn files_of_one_table_are_read_alike() {
    let folder = folder();
    let open = |first: &[&str], second: &[&str]| {
        let paths = [file(folder.path(), "a.csv", "p;y", first), file(folder.path(), "b.csv", "p;y", second)];
        Table::open(&paths).unwrap()
    };
    for (first, second) in [(["1.234.567", "2"], ["1.234", "2.500"]), (["1.234", "2.500"], ["1.234.567", "2"])] {
        let mut x = numbers(&open(&first, &second), "p").unwrap();
        x.sort_by(f64::total_cmp);
        assert_eq!(x, [2.0, 1234.0, 2500.0, 1_234_567.0]);
    }
    assert_eq!(kind(&open(&["10115", "20095"], &["00501", "02110"])), "text");
}

#[test]
fn whole_numbers_that_are_dates_are_dates() {
    let folder = folder();
    let find = |values: &[&str]| {
        let table = Table::open(&[file(folder.path(), "t.csv", "day;y", values)]).unwrap();
        let (selected, notes) =
            crate::categories::search_selected(table.select(&Selection::default()).unwrap().inspect_columns().0, 3, 2)
                .unwrap();
        (selected.encoding().map(|encoding| encoding.columns()[0].encoding.clone()), notes)
    };
    let days = ["20210114", "20200229", "19991231", "20210131", "20210201"];
    let (code, notes) = find(&days);
    assert!(matches!(code, Some(ColumnEncoding::Time(TimeEncoding { form: TimeForm::YearMonthDay, .. }))), "{code:?}");
    assert!(notes[0].to_string().contains("20240131 for 2024-01-31"), "{notes:?}");
    assert_eq!(find(&[&days[..], &["20210230"]].concat()).0, None, "not a date");
    assert_eq!(find(&days[..4]).0, None, "too few");
}

#[test]
fn numbers_are_read_by_their_marks_and_others_are_none() {
    let folder = folder();
    let read = |value: &str, delimiter: char, options: &TextOptions| {
        let path = folder.path().join("t.csv");
        std::fs::write(&path, format!("p{delimiter}y\n\"{value}\"{delimiter}1\n")).unwrap();
        Some(numbers(&Table::open_with(&[path], options).ok()?, "p").ok()?[0])
    };
    for (text, grouped, comma) in [
        ("1.234,5", None, Some(1234.5)),
        ("1,234.5", Some(1234.5), None),
        ("-12,5", None, Some(-12.5)),
        ("1,234", Some(1234.0), Some(1.234)),
        ("0,123", None, Some(0.123)),
        ("1.234.567", None, Some(1_234_567.0)),
        ("1.5", Some(1.5), None),
        ("12.34,5", None, None),
        ("1,5e3", None, Some(1500.0)),
        ("1,2,3", None, None),
        (",5", None, Some(0.5)),
        ("17", Some(17.0), Some(17.0)),
        (",", None, None),
        ("a,b", None, None),
    ] {
        let found = (read(text, ',', &TextOptions::default()), read(text, ';', &TextOptions::default().decimal(b',')));
        assert_eq!(found, (grouped, comma), "{text}");
    }
}
