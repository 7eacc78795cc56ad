//! CSV: dialects, kinds, missing values, and errors of a line.

use crate::make::*;
use kstore::{Categories, Error, Kind, Label, Missing, ReadSettings, RowSource, Selection, Table, TextOptions};
use std::path::{Path, PathBuf};

fn text(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn open(path: &Path) -> Table {
    Table::open(&[path]).unwrap()
}

fn columns(table: &Table) -> Vec<(String, String)> {
    table.schema().columns.iter().map(|column| (column.name.clone(), column.kind.to_string())).collect()
}

fn everything(table: &Table) -> kstore::Result<Whole> {
    let rows =
        table.select(&Selection { missing: Missing::Mean, categories: Categories::None, ..Selection::default() })?;
    let rows = rows.rows::<f64>(ReadSettings::default())?;
    read(&rows, RowSource::range(&rows), 100)
}

#[test]
fn dialects_read_alike() {
    let folder = folder();
    let plain = "a,b,city\n1,0.5,Ulm\n-2,1e-3,\"Bonn, am Rhein\"\n3,.25,\"a \"\"b\"\"\nc\"\n";
    let quoted =
        "\"a\",\"b\",\"city\"\n\"1\",\"0.5\",\"Ulm\"\n\"-2\",\"1e-3\",\"Bonn, am Rhein\"\n3,.25,\"a \"\"b\"\"\nc\"";
    let semicolons = plain.replace(',', ";").replace("Bonn;", "Bonn,");
    let variants = [
        ("plain.csv", plain.to_string()),
        ("crlf.csv", plain.replace('\n', "\r\n").replace("\r\nc\"", "\nc\"")),
        ("cr.csv", plain.replace('\n', "\r").replace("\rc\"", "\nc\"")),
        ("bom.csv", format!("\u{feff}{plain}")),
        ("quoted.csv", quoted.to_string()),
        ("blank.csv", plain.replace("\n1,", "\n\n\r\n1,")),
        ("semicolon.csv", semicolons.clone()),
        ("pipe.csv", semicolons.replace(';', "|")),
        ("tab.csv", semicolons.replace(';', "\t")),
        ("tab.tsv", semicolons.replace(';', "\t")),
        ("spaces.csv", plain.replace("-2,1e-3", " -2 ,\t1e-3 ")),
    ];
    let label = |text: &str| Label::Text(text.into());
    for (name, variant) in variants {
        let table = open(&text(folder.path(), name, variant));
        let kinds = [("a", "int64"), ("b", "float64"), ("city", "text")];
        assert_eq!(columns(&table), kinds.map(|(name, kind)| (name.to_string(), kind.to_string())), "{name}");
        let selection = Selection { targets: names(&["city"]), class_target: true, ..Selection::default() };
        let rows = table.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
        let whole = read(&rows, 0..3, 2).unwrap();
        assert_eq!(whole.x, [1.0, 0.5, -2.0, 1e-3, 3.0, 0.25], "{name}");
        assert_eq!(whole.classes, [label("Ulm"), label("Bonn, am Rhein"), label("a \"b\"\nc")], "{name}");
    }
}

#[test]
fn files_without_a_header_and_with_any_delimiter() {
    let folder = folder();
    let path = text(folder.path(), "a.csv", "1^2.5\n3^4.5\n");
    let table = Table::open_with(&[&path], &TextOptions::default().delimiter(b'^').without_header()).unwrap();
    assert_eq!(columns(&table), [("x0".into(), "int64".into()), ("x1".into(), "float64".into())]);
    assert_eq!(everything(&table).unwrap().x, [1.0, 2.5, 3.0, 4.5]);
    // a first row of data is not accepted as column names, a row of years is
    for (first, fine) in [("1.5,2", false), ("0,0", false), ("2019,2020", true), ("a,1.5", true)] {
        let opened = Table::open(&[text(folder.path(), "b.csv", format!("{first}\n1,2\n"))]);
        assert_eq!(opened.is_ok(), fine, "{first}");
        if let Err(error) = opened {
            assert!(error.to_string().contains("add `no_header`"), "{error}");
        }
    }
    let unnamed = open(&text(folder.path(), "c.csv", ",a\n0,1\n"));
    assert_eq!(unnamed.schema().columns[0].name, "column0");
}

#[test]
fn missing_values_are_nulls_of_every_kind() {
    let folder = folder();
    let path =
        text(folder.path(), "a.csv", "f,i,b,t\n1.5,1,true,a\n,,,\nNA,null,NULL,NA\nNaN,nan,None,N/A\n-7,2,false,z\n");
    let table = open(&path);
    let kinds: Vec<_> = columns(&table).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, ["float64", "int64", "bool", "text"]);
    let x = everything(&table).unwrap().x;
    assert_eq!((&x[..3], &x[12..]), (&[1.5, 1.0, 1.0][..], &[-7.0, 2.0, 0.0][..]));
    assert!(x[3..12].iter().all(|value| value.is_nan()));
    let bad = |column: &str| {
        let selection = Selection { features: names(&[column]), ..Selection::default() };
        read_all(std::slice::from_ref(&path), &selection).unwrap_err().to_string()
    };
    assert!(bad("f").contains("row 1 (counted from 0), line 3, column \"f\" is missing"), "{}", bad("f"));
    // in text, only an empty field is missing
    let selection =
        Selection { targets: names(&["t"]), class_target: true, missing: Missing::Drop, ..Selection::default() };
    let selection = Selection { features: names(&["i"]), ..selection };
    let path = text(folder.path(), "b.csv", "i,t\n1,NA\n2,\n3,z\n");
    let whole = read_all(&[path], &selection).unwrap();
    assert_eq!((whole.rows, whole.classes), (vec![0, 2], vec![Label::Text("NA".into()), Label::Text("z".into())]));
}

#[test]
fn numbers_are_exact() {
    let folder = folder();
    let values = ["0.1", "123456789012345678", "1e-320", "1.7976931348623157e308", "2.2250738585072011e-308", "-0.0"];
    let rows: String =
        values.iter().map(|value| format!("{value},9223372036854775807,18446744073709551615\n")).collect();
    let table = open(&text(folder.path(), "a.csv", format!("f,i,u\n{rows}")));
    assert_eq!(columns(&table).into_iter().map(|(_, kind)| kind).collect::<Vec<_>>(), ["float64", "int64", "uint64"]);
    let x = everything(&table).unwrap().x;
    for (value, row) in values.iter().zip(x.chunks(3)) {
        assert_eq!(row[0].to_bits(), value.parse::<f64>().unwrap().to_bits(), "{value}");
    }
    let filter = Some(kstore::Condition::parse("i == 9223372036854775807").unwrap());
    let selection = Selection { filter, features: names(&["f"]), ..Selection::default() };
    assert_eq!(
        table
            .select(&selection)
            .unwrap()
            .rows::<f64>(ReadSettings::default())
            .map(|rows| read(&rows, 0..6, 9).unwrap().rows.len())
            .unwrap(),
        6
    );
}

/// Returns the error of a file whose types are detected from its first three rows.
fn fault(content: &[u8]) -> String {
    let folder = folder();
    let path = text(folder.path(), "bad.csv", content);
    let table = Table::open_with(&[&path], &TextOptions::default().infer_rows(3));
    let error = table.and_then(|table| {
        let selection = Selection { targets: names(&["t"]), class_target: true, ..Selection::default() };
        let rows = table.select(&selection)?.rows::<f64>(ReadSettings::default())?;
        read(&rows, RowSource::range(&rows), 100)
    });
    error.unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_told_with_its_line_and_a_remedy() {
    let start = "a,t\n1,x\n2,\"y\ny\"\n3,z\n";
    for (rest, part) in [
        (
            "4.5,w\n",
            "bad.csv: row 3 (counted from 0), line 6, column \"a\": expected an integer of 64 bits as in the first 3 rows, found \"4.5\"; correct it, or set `infer_rows` above 3",
        ),
        ("4,w\n99999999999999999999,w\n", "line 7, column \"a\": expected an integer"),
        ("4\n", "row 3 (counted from 0), line 6: expected 2 fields, found 1 field"),
        ("4,w,u\n", "expected 2 fields, found 3 fields; correct the line, put quotes around fields with a ','"),
        ("4,\"w\n", "line 6: expected a closing quote, found the end of the file"),
    ] {
        let error = fault(format!("{start}{rest}").as_bytes());
        assert!(error.contains(part), "{error}\nexpected: {part}");
    }
    let expected = "line 6, column \"a\": expected a number, because the column was missing in the first 3 rows, found \"no\"; \
                    give `types` a=text, or set `infer_rows` above 3";
    let error = fault(b"a,t\n,x\nNA,\"y\ny\"\n,z\nno,w\n");
    assert!(error.contains(expected), "{error}");
    let latin = [start.as_bytes(), b"4,M\xfcnchen\n"].concat();
    assert!(fault(&latin).contains("expected text in UTF-8, found \"M\u{fffd}nchen\""), "{}", fault(&latin));
    assert!(fault(b"").contains("it is empty"));
    assert!(fault(b"\xff\xfea\0,\0b\0").contains("UTF-16"));
    assert!(fault(b"PK\x03\x04\0\0\0").contains("unzip -p"));
    assert!(fault(b"a\xff,b\n1,2\n").contains("not UTF-8"));
    // the default detection uses more rows: a fold may run for hours before the bad line
    let folder = folder();
    let path = text(folder.path(), "late.csv", "a\n1\n2\n3\n4\n5.5\n");
    assert_eq!(open(&path).schema().columns[0].kind, Kind::Float { bits: 64 });
}

#[test]
fn a_row_without_end_is_told_and_not_kept() {
    let folder = folder();
    let mut content = b"a,b\n1,\"".to_vec();
    content.resize(40 << 20, b'x');
    let path = text(folder.path(), "long.csv", content);
    let error = Table::open(&[path]).unwrap_err();
    assert!(matches!(&error, Error::BadLine(bad) if (bad.row, bad.line) == (0, 2)), "{error}");
    assert!(error.to_string().contains("a row of at most 16777216 bytes"), "{error}");
    let wide = ",".repeat(200_000);
    let error = Table::open(&[text(folder.path(), "wide.csv", wide)]).unwrap_err().to_string();
    assert!(error.contains("more than 100000 columns"), "{error}");
}

/// Rows longer than a chunk of 1 MiB are read whole, whatever lies at the edges of chunks.
#[test]
fn long_rows_are_whole_and_those_behind_them_are_found() {
    let folder = folder();
    const MIB: usize = 1 << 20;
    let lengths = [3, MIB - 8, MIB, MIB + 1, 5 * MIB / 4 + 3, 3 * MIB + 7, 10, 9 * MIB];
    for (end, quote) in [("\n", ""), ("\r\n", "\""), ("\n", "\"")] {
        let filler = if quote.is_empty() { "xyz".to_string() } else { format!("x\"\"{end},") };
        let cell = |length: usize| filler.repeat(length.div_ceil(filler.len()));
        let rows: Vec<String> =
            (0..).zip(lengths).map(|(i, n)| format!("{i},{quote}{}{quote},{}", cell(n), i * i)).collect();
        for last in ["", end] {
            let path = text(folder.path(), "long.csv", format!("i,s,j{end}{}{last}", rows.join(end)));
            let table = open(&path);
            assert_eq!(table.stored_rows(), lengths.len() as u64);
            let whole = everything(&table).unwrap();
            let expected: Vec<f64> = (0..lengths.len()).flat_map(|i| [i as f64, (i * i) as f64]).collect();
            assert_eq!(whole.x, expected, "{end:?} {quote:?} {last:?}");
        }
    }
}

#[test]
fn opening_is_counted_and_cursors_start_anywhere() {
    let folder = folder();
    let rows = 30_000u64;
    let content: String =
        (0..rows).map(|i| if i % 7 == 0 { format!("{i},\"a\n{i}\"\n") } else { format!("{i},b\n") }).collect();
    let path = text(folder.path(), "a.csv", format!("i,t\n{content}"));
    let table = open(&path);
    let length = std::fs::metadata(&path).unwrap().len();
    assert_eq!((table.stored_rows(), table.bytes_read()), (rows, length));
    let selection = Selection { targets: names(&["t"]), class_target: true, ..Selection::default() };
    let reading = ReadSettings {
        class_labels: Some(std::sync::Arc::new(vec![Label::Text("b".into())])),
        ..ReadSettings::default()
    };
    let source = table.select(&selection).unwrap().rows::<f64>(reading).unwrap();
    for start in [0, 1, 4095, 4096, 4097, 12_345, rows - 1] {
        let end = (start + 5000).min(rows);
        let mut buf = kstore::RowBuf::new(5000);
        assert!(source.open(start..end).unwrap().next(&mut buf).unwrap());
        assert_eq!(buf.x, (start..end).map(|i| i as f64).collect::<Vec<_>>());
    }
    let before = table.bytes_read();
    let mut buf = kstore::RowBuf::new(10);
    assert!(source.open(rows - 10..rows).unwrap().next(&mut buf).unwrap());
    let (read, tail) = (table.bytes_read() - before, length * 4096 / rows);
    assert!(read <= tail + 1000, "{read} bytes for ten rows, of {length}");
}

/// Returns kind and values of the first column of a CSV file, and the note on how it is read.
fn first(text: &str, options: &TextOptions) -> kstore::Result<(String, Vec<f64>, Option<String>)> {
    let folder = folder();
    let path = folder.path().join("commas.csv");
    std::fs::write(&path, text).unwrap();
    let table = Table::open_with(&[path], options)?;
    let kind = table.schema().columns[0].kind.to_string();
    if kind == "text" {
        return Ok((kind, Vec::new(), table.note()));
    }
    let features = vec![table.schema().columns[0].name.clone()];
    let selection = Selection { features, missing: kstore::Missing::Mean, ..Selection::default() };
    let rows = table.select(&selection)?.rows::<f64>(ReadSettings::default())?;
    Ok((kind, read::<f64>(&rows, 0..100, 8)?.x, table.note()))
}

#[test]
fn decimal_commas_and_marks_between_thousands_are_read_or_refused() {
    let usual = TextOptions::default();
    let said = Some("numbers such as those of column a are read with decimal commas".to_string());
    let grouped = Some("commas in the numbers of column a are read as thousands separators".to_string());
    for (text, kind, values, note) in [
        ("a;b\n1,5;x\n-2,25;y\n", "float64", vec![1.5, -2.25], &said),
        ("a;b\n1.234,5;x\n7;y\n", "float64", vec![1234.5, 7.0], &said),
        // the second column shows what the marks in the first one mean
        ("a;b\n1.234;1,5\n2.500;2,5\n", "int64", vec![1234.0, 2500.0], &said),
        ("a;b\n1.25;1,5\n2.5;2,5\n", "float64", vec![1.25, 2.5], &None),
        ("a;b\n1,234.5;x\n7;y\n", "float64", vec![1234.5, 7.0], &grouped),
        ("a,b\n\"1,234.5\",x\n7,y\n", "float64", vec![1234.5, 7.0], &grouped),
        ("a,b\n\"1,234,567\",x\n\"-1,000\",y\n", "int64", vec![1_234_567.0, -1000.0], &grouped),
        ("a;b\n1.5;x\n2.5;y\n", "float64", vec![1.5, 2.5], &None),
        ("a;b\nUlm, Donau;x\n1,5;y\n", "text", vec![], &None),
        ("a,b\n\"Ulm, Donau\",1\n\"1,5\",2\n", "text", vec![], &None),
    ] {
        let (found, x, told) = first(text, &usual).unwrap();
        assert_eq!((found.as_str(), x), (kind, values), "{text}");
        // if only the second column has commas, the note names it
        let told = told.map(|told| told.replace("column b", "column a"));
        assert!(told == *note || text.contains("1.25;1,5"), "{text}: {told:?}");
    }
    let missing = first("a;b\n1,5;x\n;y\nNA;z\n", &usual).unwrap().1;
    assert!(missing[0] == 1.5 && missing[1].is_nan() && missing[2].is_nan());
    for text in ["a,b\n\"1,5\",x\n\"2,25\",y\n", "a\tb\n1,5\tx\n2,5\ty\n"] {
        let error = first(text, &usual).unwrap_err().to_string();
        assert!(error.contains("column \"a\"") && error.contains("`decimal` ,"), "{error}");
        assert_eq!(first(text, &TextOptions::default().decimal(b',')).unwrap().1[0], 1.5);
        assert_eq!(first(text, &TextOptions::default().decimal(b'.')).unwrap().0, "text");
    }
    // a bad value after the rows used for detection
    let late = format!("a;b\n1,5;x\n{}", "2;y\n".repeat(20)) + "x;y\n";
    let error = first(&late, &TextOptions::default().infer_rows(5)).unwrap_err().to_string();
    assert!(error.contains("a number") && error.contains("\"x\""), "{error}");
}

#[test]
fn delimiters_are_found() {
    let folder = folder();
    for (rows, names) in [
        ("a,b\n1,2\n", "a b"),
        ("a;b\n1,5;2,5\n1,5;3\n", "a b"),
        ("a\tb c\n1\t2\n", "a b_c"),
        ("a|b|c\n\"x,y\"|1|2\n", "a b c"),
        ("a\n1\n", "a"),
        ("only;one", "only one"),
        ("a,b,c\n1,\"x;\ny\",2\n", "a b c"),
        ("review\na|b\nc\nd\n", "review"),
        ("a,b\n1,\"x\n\ty\n\tz\"\n2,\"x\n\ty\n\tz\"\n", "a b"),
    ] {
        let found: Vec<String> =
            columns(&open(&text(folder.path(), "t.csv", rows))).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found.join(" "), names.replace('_', " "), "{rows:?}");
    }
    // the delimiter of most rows, not of the first rows
    let path = text(folder.path(), "t.csv", "sales, all\nof May\na;b;c\n1;2;3\n");
    let error = Table::open(&[path]).unwrap_err().to_string();
    assert!(error.contains("fields with a ';'"), "{error}");
}

#[test]
fn kinds_follow_the_values() {
    let folder = folder();
    for (values, expected) in [
        (&["1", "-2", ""][..], "int64"),
        (&["1", "NA", "nan"], "int64"),
        (&["1", " 2.5 "], "float64"),
        (&["1e3", "inf"], "float64"),
        (&["18446744073709551615", "1"], "uint64"),
        (&["18446744073709551615", "-1"], "float64"),
        (&["99999999999999999999"], "float64"),
        (&["true", "False", ""], "bool"),
        (&["true", "1"], "text"),
        (&["1", "x"], "text"),
        (&["", "NA"], "float64"),
    ] {
        let rows: String = values.iter().map(|value| format!("{value}|1\n")).collect();
        let table = open(&text(folder.path(), "t.csv", format!("v|w\n{rows}")));
        assert_eq!(columns(&table)[0].1, expected, "{values:?}");
    }
}
