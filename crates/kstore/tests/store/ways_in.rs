//! Other inputs of a table: compressed text, JSON lines, and folders that name columns.

use crate::make::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use kstore::arrow::array::*;
use kstore::{Condition, Kind, Missing, Selection, Table};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Returns rows with text, numbers and missing values, as CSV and as JSON lines.
fn texts() -> (String, String) {
    let (mut csv, mut json) = ("city,a,n,y\n".to_string(), String::new());
    for i in 0..9000u64 {
        let (_, a, y, n, city) = row(i);
        match i % 7 {
            0 => {
                csv += &format!("{city},,{n},{y}\n");
                json += &format!("{{\"city\": \"{city}\", \"a\": null, \"n\": {n}, \"y\": {y}}}\n");
            }
            _ => {
                csv += &format!("{city},{a},{n},{y}\n");
                json += &format!("{{\"city\":\"{city}\",\"a\":{a},\"n\":{n},\"y\":{y}}}\r\n");
            }
        }
        if i % 1000 == 3 {
            json += " \n";
        }
    }
    (csv, json)
}

pub(crate) fn gzip(text: &str) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

fn write_to(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn compressed_text_and_json_lines_are_the_rows_of_csv() {
    let folder = folder();
    let (csv, json) = texts();
    let selection = || Selection { targets: names(&["y"]), missing: Missing::Drop, ..only(&["a", "n"]) };
    let plain = folder.path().join("rows.csv");
    write_to(&plain, csv.as_bytes());
    let expected = all(&plain, &selection()).unwrap();
    // two gzip members, as `cat a.gz b.gz` produces
    let middle = csv.len() / 2;
    let members = [gzip(&csv[..middle]), gzip(&csv[middle..])].concat();
    for (name, bytes) in [
        ("rows.csv.gz", members),
        ("rows.CSV.GZ", gzip(&csv)),
        ("rows.csv.zst", zstd::encode_all(csv.as_bytes(), 1).unwrap()),
        ("rows.jsonl", json.clone().into_bytes()),
        ("rows.ndjson.gz", gzip(&json)),
    ] {
        let path = folder.path().join(name);
        write_to(&path, &bytes);
        assert!(all(&path, &selection()).unwrap() == expected, "{name}");
        let table = Table::open(&[&path]).unwrap();
        assert_eq!(table.file_bytes(), bytes.len() as u64, "{name}");
        assert_eq!(table.format(), if name.contains("json") { "JSON lines" } else { "CSV" });
    }
    let table = Table::open(&[folder.path().join("rows.jsonl")]).unwrap();
    let kinds: Vec<&Kind> = table.schema().columns.iter().map(|column| &column.kind).collect();
    assert_eq!(kinds[0], &Kind::Text);
    assert_eq!(kinds[2], &Kind::Int { bits: 64, signed: true });
    // all files of known formats in the folder are found, compressed ones too
    assert_eq!(Table::open(&[folder.path()]).unwrap().files().len(), 6);
}

#[test]
fn json_lines_are_read_in_place_from_any_row() {
    let folder = folder();
    let path = folder.path().join("rows.jsonl");
    let numbers = ["0.1", "1e-320", "1.7976931348623157e308", "2.2250738585072011e-308", "9007199254740993.0"];
    let line = |i: usize| {
        // keys in another order, an escaped key, a repeated key and an omitted key
        let number = numbers[i % 5];
        match i % 3 {
            0 => format!("{{\"x\": {number}, \"n\": {i}, \"t\": \"a\\n{i}\"}}\n"),
            1 => format!("{{\"n\": 0, \"t\": \"\", \"\\u006e\": {i}, \"x\": {number}}}\n"),
            _ => format!("\n{{\"x\": {number}, \"n\": {i}}}\r\n"),
        }
    };
    write_to(&path, (0..9000).map(line).collect::<String>().as_bytes());
    let table = Table::open(&[&path]).unwrap();
    assert_eq!((table.stored_rows(), table.bytes_read()), (9000, std::fs::metadata(&path).unwrap().len()));
    for start in [0, 1, 4095, 4097, 8999] {
        let selection = Selection { rows: Some(start..9000), ..only(&["n", "x"]) };
        let x = all(&path, &selection).unwrap().x;
        for (i, pair) in (start as usize..9000).zip(x.chunks(2)) {
            let number: f64 = numbers[i % 5].parse().unwrap();
            assert_eq!((pair[0], pair[1].to_bits()), (i as f64, number.to_bits()), "{i}");
        }
    }
    let labels = Selection { targets: names(&["t"]), class_target: true, missing: Missing::Drop, ..only(&["n"]) };
    let labels = Selection { rows: Some(0..4), ..labels };
    let text = |text: &str| kstore::Label::Text(text.into());
    assert_eq!(all(&path, &labels).unwrap().classes, [text("a\n0"), text(""), text("a\n3")]);
    // the error of a missing value contains its line
    let complete = Selection { targets: names(&["t"]), class_target: true, ..only(&["n"]) };
    let told = all(&path, &complete).unwrap_err().to_string();
    assert!(told.contains("row 2 (counted from 0), line 4, column \"t\" is missing"), "{told}");
}

#[test]
fn what_is_wrong_with_a_line_or_an_archive_is_told_with_its_place() {
    let folder = folder();
    let told = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        write_to(&path, bytes);
        Table::open(&[&path]).map(drop).unwrap_err().to_string()
    };
    for (text, parts) in [
        (
            "{\"a\": 1}\n\n{\"a\": \"x\"}\n",
            ["row 1 (counted from 0), line 3", "column \"a\": expected a number, found text"],
        ),
        ("{\"a\": 1}\n{\"a\": 1\n", ["line 2: expected an object", "correct the line"]),
        ("3\n", ["row 0", "expected an object"]),
        ("\n \n", ["as JSON lines", "it is empty"]),
    ] {
        let found = told("t.jsonl", text.as_bytes());
        assert!(parts.iter().all(|part| found.contains(part)) && found.contains("t.jsonl"), "{found}");
    }
    let whole = gzip("a,y\n1,2\n3,4\n");
    let cut = told("t.csv.gz", &whole[..whole.len() - 9]);
    assert!(cut.contains("t.csv.gz cannot be read as gzip"), "{cut}");
    assert!(told("t.csv.zst", b"a,y\n1,2\n").contains("cannot be read as gzip or zstd"));
    assert!(told("t.parquet.gz", &whole).contains("t.parquet.gz cannot be read as Parquet"));
    // the error of a row names the file
    let row = told("t2.csv.gz", &gzip("a,y\n1,2\n3\n"));
    assert!(row.contains("t2.csv.gz") && row.contains("line 3"), "{row}");
}

#[test]
fn folders_name_columns() {
    let folder = folder();
    for (year, city, values) in [(2025, "Ulm", [1.0, 2.0]), (2026, "Ulm", [3.0, 4.0]), (2026, "Neu%20Ulm", [5.0, 6.0])]
    {
        let path = folder.path().join(format!("sales/year={year}/city={city}/part.parquet"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, &batch(&[("x", Arc::new(Float64Array::from(values.to_vec())) as ArrayRef)]), groups_of(10));
    }
    let sales = folder.path().join("sales");
    let table = Table::open(&[&sales]).unwrap();
    let names: Vec<&str> = table.schema().columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!((names, table.stored_rows()), (vec!["x", "year", "city"], 6));
    let selection = |filter: Option<&str>| Selection {
        filter: filter.map(|text| Condition::parse(text).unwrap()),
        ..only(&["x", "year"])
    };
    let rows = |filter: Option<&str>| all(&sales, &selection(filter)).unwrap().x;
    assert_eq!(rows(None), [1.0, 2025.0, 2.0, 2025.0, 5.0, 2026.0, 6.0, 2026.0, 3.0, 2026.0, 4.0, 2026.0]);
    assert_eq!(rows(Some("city == Neu Ulm")), [5.0, 2026.0, 6.0, 2026.0]);
    assert_eq!(rows(Some("year < 2026")), [1.0, 2025.0, 2.0, 2025.0]);
    // a condition on a folder column excludes files before they are read
    let read = |filter: &str| {
        let table = Table::open(&[&sales]).unwrap();
        let rows =
            table.select(&selection(Some(filter))).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
        super::make::read(&rows, kstore::RowSource::range(&rows), 100).unwrap();
        table.bytes_read()
    };
    assert_eq!(2 * read("year == 2025"), read("year == 2026"));
    // a column of the file overrides the folder; a column that a folder does not name is missing
    let odd = sales.join("year=2027/part.parquet");
    std::fs::create_dir_all(odd.parent().unwrap()).unwrap();
    write(&odd, &batch(&[("x", Arc::new(Float64Array::from(vec![7.0])) as ArrayRef)]), groups_of(10));
    assert_eq!(rows(Some("year == 2027")), [7.0, 2027.0]);
    assert_eq!(rows(Some("city == Neu Ulm")), [5.0, 2026.0, 6.0, 2026.0]);
    // percent-encoded letters, missing values, and integers only if every file has one
    let odd = folder.path().join("odd");
    for (at, names) in
        ["code=07/kind=__HIVE_DEFAULT_PARTITION__/rate=50%", "code=7/kind=a%zz%41/rate=9"].iter().enumerate()
    {
        let path = odd.join(names).join("part.csv");
        write_to(&path, format!("x\n{at}\n").as_bytes());
    }
    let table = Table::open(&[&odd]).unwrap();
    let expected = "x,code,kind,rate\n0,07,,50%\n1,7,a%zzA,9\n";
    assert_eq!(crate::united::csv_of(&table, "").unwrap(), expected);
    let own = folder.path().join("own/x=1/part.parquet");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    write(&own, &batch(&[("x", Arc::new(Float64Array::from(vec![7.0])) as ArrayRef)]), groups_of(10));
    assert_eq!(all(&own, &only(&["x"])).unwrap().x, [7.0]);
}

#[test]
fn svmlight_is_told_by_its_first_row() {
    let folder = folder();
    // a file with this name, like a stream, is recognised by its bytes
    let path = folder.path().join("t.gz");
    let format = |text: &str| {
        write_to(&path, &gzip(text));
        Table::open(&[&path]).map(|table| table.format())
    };
    for text in ["1 3:0.5\n", "# a comment\n\n-1 qid:4 1:2", "2.5\t7:1 8:1e3"] {
        assert_eq!(format(text).unwrap(), "svmlight", "{text}");
    }
    for text in ["a,b\n1,2:3", "a 1:2", "x\n2 1:3", "y 1 a:2", "y 2 3:4", "12:30 1:2"] {
        assert_eq!(format(text).unwrap(), "CSV", "{text}");
    }
}
