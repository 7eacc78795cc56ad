//! Every fault of a cell gives the same rows or the same message in every format that can store it.

use crate::make::*;
use crate::ways_in::gzip;
use kstore::arrow::array::*;
use kstore::source::formats;
use kstore::{Condition, Float, KeptColumn, Missing, ReadSettings, RowBuf, RowSource, Selection, Table};
use std::path::Path;
use std::sync::Arc;

const ROWS: usize = 300;
/// Row and column of the fault.
const BAD: (usize, usize) = (170, 2);

/// Kind of fault of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Null,
    Nan,
    Infinite,
    Fraction,
    Text,
}

/// Returns the cell at a row and a column: a small integer, or the fault.
fn cell(fault: Fault, at: (usize, usize)) -> Option<f64> {
    match fault {
        _ if at != BAD => Some(((at.0 * 7 + at.1 * 3) % 5) as f64 + 1.0),
        Fault::Null => None,
        Fault::Nan => Some(f64::NAN),
        Fault::Infinite => Some(f64::INFINITY),
        Fault::Fraction => Some(0.5),
        Fault::Text => Some(-1.0),
    }
}

fn column(fault: Fault, c: usize) -> Vec<Option<f64>> {
    (0..ROWS).map(|row| cell(fault, (row, c))).collect()
}

fn arrow(fault: Fault) -> RecordBatch {
    let columns = (0..4).map(|c| -> ArrayRef {
        let values = column(fault, c);
        match fault == Fault::Text && c == BAD.1 {
            true => Arc::new(StringArray::from_iter(values.iter().map(|v| v.map(|v| format!("a{v}"))))),
            false => Arc::new(Float64Array::from(values)),
        }
    });
    let columns: Vec<(String, ArrayRef)> = columns.enumerate().map(|(c, array)| (format!("x{c}"), array)).collect();
    batch(&columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect::<Vec<_>>())
}

fn csv(fault: Fault) -> String {
    let field = |row, c| match cell(fault, (row, c)) {
        Some(value) if fault == Fault::Text && c == BAD.1 => format!("a{value}"),
        value => value.map_or(String::new(), |value| format!("{value:?}")),
    };
    let line = |row| (0..4).map(|c| field(row, c)).collect::<Vec<_>>().join(",");
    format!("x0,x1,x2,x3\n{}\n", (0..ROWS).map(line).collect::<Vec<_>>().join("\n"))
}

fn json_lines(fault: Fault) -> String {
    let value = |row, c| match cell(fault, (row, c)) {
        Some(value) if fault == Fault::Text && c == BAD.1 => format!("\"a{value}\""),
        value => value.map_or("null".to_string(), |value| format!("{value:?}")),
    };
    let pair = |row, c| format!("\"x{c}\": {}", value(row, c));
    (0..ROWS).map(|row| format!("{{{}}}\n", (0..4).map(|c| pair(row, c)).collect::<Vec<_>>().join(", "))).collect()
}

/// Writes the table; returns false if the format cannot store the fault.
fn written(path: &Path, fault: Fault) -> bool {
    let numbers = !matches!(fault, Fault::Null | Fault::Text);
    match path.extension().unwrap().to_str().unwrap() {
        "parquet" => write(path, &arrow(fault), groups_of(64)),
        "arrow" => write_ipc(path, &[arrow(fault).slice(0, 100), arrow(fault).slice(100, 200)], None),
        "csv" => std::fs::write(path, csv(fault)).unwrap(),
        "gz" => std::fs::write(path, gzip(&csv(fault))).unwrap(),
        "jsonl" if !matches!(fault, Fault::Nan | Fault::Infinite) => std::fs::write(path, json_lines(fault)).unwrap(),
        "npy" if numbers => {
            let head = |c| kstore::OutputColumn::new(format!("x{c}"), kstore::OutputKind::F64);
            let mut out = kstore::sink::create(path, &(0..4).map(head).collect::<Vec<_>>()).unwrap();
            let columns: Vec<Vec<f64>> = (0..4).map(|c| column(fault, c).into_iter().flatten().collect()).collect();
            out.write(&columns.iter().map(|column| kstore::OutputValues::F64(column)).collect::<Vec<_>>()).unwrap();
            out.finish().unwrap();
        }
        "svm" if numbers => {
            let entry = |row, c: usize| format!("{}:{}", c + 1, cell(fault, (row, c)).unwrap());
            let line = |row| format!("0 {}\n", (0..4).map(|c| entry(row, c)).collect::<Vec<_>>().join(" "));
            std::fs::write(path, (0..ROWS).map(line).collect::<String>()).unwrap();
        }
        // .npz files have only sparse rows, whose faults have their own test
        "npy" | "svm" | "jsonl" | "npz" => return false,
        other => panic!("the law has no writer for .{other}"),
    }
    true
}

/// Returns the rows as text, or the error without file name and line number.
fn outcome<T: Float>(path: &Path, selection: &Selection) -> Result<String, String> {
    let read = || -> kstore::Result<String> {
        let rows = Table::open(&[path])?.select(selection)?.rows::<T>(ReadSettings::default())?;
        let (mut whole, mut kept) = (Whole::default(), Vec::<KeptColumn>::new());
        let (mut buf, mut cursor) = (RowBuf::new(97), rows.open(0..ROWS as u64)?);
        while cursor.next(&mut buf)? {
            whole.push(&buf.block(&RowSource::shape(&rows)));
            match kept.is_empty() {
                true => kept.clone_from(&buf.kept_columns),
                false => {
                    kept.iter_mut().zip(&buf.kept_columns).for_each(|(kept, more)| kept.append(more, 0..more.len()))
                }
            }
        }
        // the stored value of a missing entry is arbitrary
        let kept: Vec<Vec<String>> = kept.iter().map(shown).collect();
        Ok(format!("{whole:?} {kept:?}"))
    };
    read().map_err(|error| {
        let text = error.to_string().replace(path.to_str().unwrap(), "FILE");
        match text.split_once(", line ") {
            Some((before, after)) => format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
            None => text,
        }
    })
}

fn shown(column: &KeptColumn) -> Vec<String> {
    let values = format!("{:?}", column.values());
    let values = values.split_once('[').map_or("", |(_, values)| values);
    let values = values.split(", ").enumerate();
    values.map(|(row, value)| if column.is_null(row) { "null".to_string() } else { value.to_string() }).collect()
}

/// Selects the bad column in every role, also as the single feature that some formats copy
/// directly.
fn roles() -> Vec<(&'static str, Selection)> {
    let bad = || vec![format!("x{}", BAD.1)];
    let with = |features: &[&str], selection: Selection| Selection { features: names(features), ..selection };
    let none = Selection::default;
    let mut roles = vec![
        ("feature", with(&["x2"], none())),
        ("feature among others", with(&["x0", "x2"], none())),
        ("kept", Selection { keep: bad(), ..with(&["x0"], none()) }),
        ("kept and needed", Selection { keep: bad(), requires_kept_values: true, without_features: true, ..none() }),
        ("filter", Selection { filter: Some(Condition::parse("x2 != 2").unwrap()), ..with(&["x0"], none()) }),
    ];
    for features in [&["x0"][..], &["x0", "x1"]] {
        roles.extend([
            ("target", Selection { targets: bad(), ..with(features, none()) }),
            ("weight", Selection { weight: Some("x2".into()), targets: names(&["x3"]), ..with(features, none()) }),
            ("group", Selection { group: Some("x2".into()), ..with(features, none()) }),
            ("class", Selection { targets: bad(), class_target: true, ..with(features, none()) }),
        ]);
    }
    roles
}

fn the_same_everywhere<T: Float>(folder: &Path, fault: Fault) {
    let paths = formats().into_iter().map(|format| folder.join(format!("{fault:?}.csv.{}", format.extensions[0])));
    let paths: Vec<_> = paths.filter(|path| written(path, fault)).collect();
    assert!(paths.len() > 2, "{fault:?} is held by {paths:?}");
    for (role, selection) in roles() {
        for missing in [Missing::Error, Missing::Drop, Missing::Mean] {
            let selection = Selection { missing, ..selection.clone() };
            let expected = outcome::<T>(&paths[0], &selection);
            for path in &paths[1..] {
                assert_eq!(outcome::<T>(path, &selection), expected, "{role} {missing:?} {}", path.display());
            }
            if let (Err(told), false) = (expected, fault == Fault::Text) {
                let place = format!("row {}", BAD.0);
                assert!(told.contains(&place) && told.contains("\"x2\"") && told.contains("FILE"), "{role}: {told}");
            }
        }
    }
}

#[test]
fn a_fault_of_a_cell_gives_the_same_rows_or_the_same_sentence_in_every_format() {
    let folder = folder();
    for fault in [Fault::Null, Fault::Nan, Fault::Infinite, Fault::Fraction, Fault::Text] {
        the_same_everywhere::<f64>(folder.path(), fault);
        the_same_everywhere::<f32>(folder.path(), fault);
    }
}
