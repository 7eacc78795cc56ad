//! svmlight files: dense rows, indices, and errors of a line.

use crate::make::*;
use kstore::{Condition, Label, ReadSettings, RowBuf, RowSource, Selection, Table, TextOptions};
use std::path::{Path, PathBuf};

fn text(folder: &Path, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join("t.svm");
    std::fs::write(&path, content).unwrap();
    path
}

fn whole(path: &Path, options: &TextOptions, selection: &Selection) -> kstore::Result<(Vec<String>, Whole)> {
    let selected = Table::open_with(&[path], options)?.select(selection)?;
    let rows = selected.rows::<f64>(ReadSettings::default())?;
    Ok((selected.feature_names(), read(&rows, RowSource::range(&rows), 2)?))
}

const USUAL: &str = "# a comment\n+1 1:0.5  3:2 # more\n\n-1\tqid:3\t2:1e-3\r\n+1\n0 1:1 2:2 3:3";

#[test]
fn rows_become_dense() {
    let folder = folder();
    let path = text(folder.path(), USUAL);
    let target = Selection { targets: names(&["y"]), ..Selection::default() };
    let (columns, rows) = whole(&path, &TextOptions::default(), &target).unwrap();
    assert_eq!(columns, ["x0", "x1", "x2"]);
    assert_eq!(rows.x, [0.5, 0.0, 2.0, 0.0, 1e-3, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
    assert_eq!(rows.y, [1.0, -1.0, 1.0, 0.0]);
    let classes = Selection { class_target: true, features: names(&["x2", "x0"]), ..target.clone() };
    let (_, rows) = whole(&path, &TextOptions::default(), &classes).unwrap();
    assert_eq!(rows.x, [2.0, 0.5, 0.0, 0.0, 0.0, 0.0, 3.0, 1.0]);
    assert_eq!(rows.classes, [1, -1, 1, 0].map(Label::Int));
    let (columns, rows) = whole(&path, &TextOptions::default().zero_based().width(5), &target).unwrap();
    assert_eq!((columns.len(), &rows.x[..5]), (5, &[0.0, 0.5, 0.0, 2.0, 0.0][..]));
}

#[test]
fn groups_are_a_column_where_every_row_has_one() {
    let folder = folder();
    let lines = "3 qid:7 1:0.5 3:2\n0 qid:7 2:1 # qid:9\n1 qid:9 3:4\n";
    let path = text(folder.path(), lines);
    let target = Selection { targets: names(&["y"]), ..Selection::default() };
    let grouped = Selection { group: Some("qid".into()), ..target.clone() };
    let (columns, rows) = whole(&path, &TextOptions::default(), &grouped).unwrap();
    assert_eq!(columns, ["x0", "x1", "x2"]);
    assert_eq!((rows.groups, rows.y), (Vec::from([7, 7, 9].map(Label::Int)), vec![3.0, 0.0, 1.0]));
    assert_eq!(rows.x, [0.5, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 4.0]);
    // `qid` is a feature only if it is named
    let named = Selection { features: names(&["qid", "x2"]), ..target.clone() };
    assert_eq!(whole(&path, &TextOptions::default(), &named).unwrap().1.x, [7.0, 2.0, 7.0, 0.0, 9.0, 4.0]);
    assert_eq!(whole(&path, &TextOptions::default(), &target).unwrap().0, ["x0", "x1", "x2"]);
    let sparse = Selection { sparse: true, ..grouped };
    let (_, rows) = whole(&path, &TextOptions::default().sparse(), &sparse).unwrap();
    assert_eq!((rows.groups, rows.y), (Vec::from([7, 7, 9].map(Label::Int)), vec![3.0, 0.0, 1.0]));
    assert_eq!(entries(&rows.x, 4), [vec![(0.0, 0.5), (2.0, 2.0)], vec![(1.0, 1.0)], vec![(2.0, 4.0)]]);
    // the same rule holds for every format
    let csv = folder.path().join("t.csv");
    std::fs::write(&csv, "x,qid,y\n1,2,3\n4,5,6\n").unwrap();
    assert_eq!(whole(&csv, &TextOptions::default(), &target).unwrap().0, ["x"]);
    for (lines, told) in [
        ("3 qid:7 1:1\n0 qid:b 2:1\n", "qid: and an integer"),
        ("3 qid:7 1:1\n0 qid:9007199254740993 2:1\n", "qid: and an integer of at most 53 bits"),
        ("3 qid:7 1:1\n0 qid:7 2:1 qid:8\n", "one qid per row"),
    ] {
        let wrong = text(folder.path(), lines);
        let found = whole(&wrong, &TextOptions::default(), &sparse).unwrap_err().to_string();
        assert!(found.contains(told) && found.contains("row 1"), "{found}");
    }
    // if a row lacks its group, the table has no group column, and a note reports it
    let lacking = text(folder.path(), "3 qid:7 1:1\n0 2:1\n");
    let table = Table::open(&[&lacking]).unwrap();
    assert!(table.schema().position("qid").is_none());
    assert!(table.note().unwrap().contains("row 1 has none"));
}

/// Extracts the entries of block rows, independently of the library.
fn entries(x: &[f64], numbers: usize) -> Vec<Vec<(f64, f64)>> {
    let half = numbers / 2;
    let of = |row: &[f64]| (0..half).filter(|i| row[*i] >= 0.0).map(|i| (row[i], row[half + i])).collect();
    x.chunks(numbers).map(of).collect()
}

#[test]
fn rows_stay_sparse_where_that_is_asked_for_and_where_they_are_wide() {
    let folder = folder();
    let content = format!("{USUAL}\n5 2:0 3:4\n");
    let path = text(folder.path(), &content);
    let target = Selection { targets: names(&["y"]), sparse: true, ..Selection::default() };
    let sparse = TextOptions::default().sparse();
    let table = Table::open_with(&[&path], &sparse).unwrap();
    assert_eq!(table.schema().columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    let shape = table.select(&target).unwrap().sparse_shape().unwrap();
    assert_eq!((shape.column_count, shape.max_row_entries), (3, 3));
    let (_, rows) = whole(&path, &sparse, &target).unwrap();
    assert_eq!(rows.y, [1.0, -1.0, 1.0, 0.0, 5.0]);
    let found = entries(&rows.x, 6);
    assert_eq!(found[..2], [vec![(0.0, 0.5), (2.0, 2.0)], vec![(1.0, 1e-3)]]);
    // a zero in the file is not an entry
    assert_eq!(found[2..], [vec![], vec![(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], vec![(2.0, 4.0)]]);
    // a few rows, selected by a condition
    let some = Selection { filter: Some(Condition::parse("y > 0").unwrap()), ..target.clone() };
    let (_, rows) = whole(&path, &sparse, &some).unwrap();
    assert_eq!(entries(&rows.x, 6), [found[0].clone(), found[2].clone(), found[4].clone()]);
    // all files of a table have room for the longest row of any file
    let other = folder.path().join("u.svm");
    std::fs::write(&other, "1 4000000000:7\n").unwrap();
    let both = Table::open_with(&[&path, &other], &sparse).unwrap().select(&target).unwrap();
    assert_eq!(both.sparse_shape().map(|shape| (shape.column_count, shape.max_row_entries)), Some((4_000_000_000, 3)));
    let wide = Table::open(&[&other]).unwrap().select(&target).unwrap();
    assert_eq!(wide.sparse_shape().map(|shape| (shape.column_count, shape.max_row_entries)), Some((4_000_000_000, 1)));
    let error = wide.rows::<f32>(ReadSettings::default()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("use `precision` f64"), "{error}");
    let (_, rows) = whole(&other, &TextOptions::default(), &target).unwrap();
    assert_eq!(entries(&rows.x, 2), [vec![(3_999_999_999.0, 7.0)]]);
}

#[test]
fn sparse_rows_that_cannot_be_used_are_refused_with_what_to_do() {
    let folder = folder();
    let sparse = TextOptions::default().sparse();
    let target = Selection { targets: names(&["y"]), sparse: true, ..Selection::default() };
    for (bad, selection, part) in [
        ("2 2:nan", target.clone(), "row 4 (counted from 0), line 8, column \"x\" is NaN"),
        ("2 2:-inf", target.clone(), "row 4 (counted from 0), line 8, column \"x\" is infinite"),
        ("2 2:one", target.clone(), "line 8: expected a number, found \"one\""),
        ("2 1:1 1:2", target.clone(), "line 8: expected ascending indices, found 1 after 1"),
        ("2 1:1", Selection { sparse: false, ..target.clone() }, "holds sparse rows, but only fit, tune, plan"),
        (
            "2 1:1",
            Selection { targets: Vec::new(), features: names(&["x", "y"]), ..target.clone() },
            "exclude \"y\" (`features`)",
        ),
        ("2 1:1", Selection { targets: names(&["x"]), ..target.clone() }, "\"x\""),
    ] {
        let path = text(folder.path(), format!("{USUAL}\n\n{bad}\n"));
        let error = whole(&path, &sparse, &selection).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}\nexpected: {part}");
    }
}

#[test]
fn cursors_start_anywhere() {
    let folder = folder();
    let rows = 20_000u64;
    let content: String = (0..rows).map(|i| format!("{i} {}:{i} 9:1 # {i}\n\n", 1 + i % 8)).collect();
    let table = Table::open(&[text(folder.path(), &content)]).unwrap();
    assert_eq!((table.stored_rows(), table.bytes_read()), (rows, content.len() as u64));
    let selection = Selection { targets: names(&["y"]), ..Selection::default() };
    let source = table.select(&selection).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
    for start in [0, 1, 4095, 4096, 8193, rows - 1] {
        let end = (start + 3000).min(rows);
        let mut buf = RowBuf::new(3000);
        assert!(source.open(start..end).unwrap().next(&mut buf).unwrap());
        assert_eq!(buf.y, (start..end).map(|i| i as f64).collect::<Vec<_>>());
        let expected = |i: u64, j: u64| if j == 8 { 1.0 } else { f64::from(u8::from(j == i % 8)) * i as f64 };
        assert!(buf.x.iter().zip((start..end).flat_map(|i| (0..9).map(move |j| expected(i, j)))).all(|(a, b)| *a == b));
    }
}

#[test]
fn what_does_not_fit_is_told_with_its_line_and_a_remedy() {
    let folder = folder();
    let target = Selection { targets: names(&["y"]), ..Selection::default() };
    for (bad, options, part) in [
        (
            "2 0:1",
            TextOptions::default(),
            "t.svm: row 4 (counted from 0), line 8: expected indices from 1 on, found 0; if indices start at 0, set `zero_based`",
        ),
        ("2 3:1 2:1", TextOptions::default(), "line 8: expected ascending indices, found 2 after 3; sort"),
        ("2 x", TextOptions::default(), "expected index:value, found \"x\""),
        ("2 +1:1", TextOptions::default(), "expected index:value, found \"+1:1\""),
        ("2 1:", TextOptions::default(), "expected index:value, found \"1:\""),
        ("2 :1", TextOptions::default(), "expected index:value, found \":1\""),
        ("2 99999999999999999999:1", TextOptions::default(), "expected index:value"),
        ("2 1:one", TextOptions::default(), "line 8: expected a number, found \"one\""),
        ("two 1:1", TextOptions::default(), "expected a number, found \"two\""),
        ("1,2 1:1", TextOptions::default(), "expected a number, found \"1,2\""),
        (
            "1 4:1",
            TextOptions::default().width(3),
            "expected at most 3 features, found feature 4 of the row; raise `width`",
        ),
        ("1 5000000000:1", TextOptions::default(), "expected at most 4294967295 features, found feature 5000000000"),
        ("1 18446744073709551615:1", TextOptions::default(), "found feature 18446744073709551615"),
        ("1 2:nan", TextOptions::default(), "row 4 (counted from 0), line 8, column \"x1\" is NaN"),
    ] {
        let path = text(folder.path(), format!("{USUAL}\n\n{bad}\n"));
        let error = whole(&path, &options, &target).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}\nexpected: {part}");
    }
    let error =
        whole(&text(folder.path(), "# nothing\n"), &TextOptions::default().width(2), &target).unwrap_err().to_string();
    assert!(error.contains("it has no rows"), "{error}");
    let path = text(folder.path(), USUAL);
    assert!(
        Table::open_with(&[path], &TextOptions::default().width(1 << 40)).unwrap_err().to_string().contains("`width`")
    );
}
