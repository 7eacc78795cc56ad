//! svmlight: dense rows, indices, and what is wrong with a line.

use crate::make::*;
use kstore::{Label, Reading, RowBuf, RowSource, Selection, Table, TextOptions};
use std::path::{Path, PathBuf};

fn text(folder: &Path, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join("t.svm");
    std::fs::write(&path, content).unwrap();
    path
}

fn whole(path: &Path, options: &TextOptions, selection: &Selection) -> kstore::Result<(Vec<String>, Whole)> {
    let selected = Table::open_with(&[path], options)?.select(selection)?;
    let rows = selected.rows::<f64>(Reading::default())?;
    Ok((selected.feature_names(), read(&rows, RowSource::range(&rows), 2)?))
}

const USUAL: &str = "# a comment\n+1 1:0.5 3:2 # more\n\n-1 qid:3 2:1e-3\r\n+1\n0 1:1 2:2 3:3";

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
fn cursors_start_anywhere() {
    let folder = folder();
    let rows = 20_000u64;
    let content: String = (0..rows).map(|i| format!("{i} {}:{i} 9:1 # {i}\n\n", 1 + i % 8)).collect();
    let table = Table::open(&[text(folder.path(), &content)]).unwrap();
    assert_eq!((table.stored_rows(), table.bytes_read()), (rows, content.len() as u64));
    let selection = Selection { targets: names(&["y"]), ..Selection::default() };
    let source = table.select(&selection).unwrap().rows::<f64>(Reading::default()).unwrap();
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
            "t.svm: row 4 (counted from 0), line 8: expected indices from 1 on, found 0; if indices start at 0, say `zero_based`",
        ),
        ("2 3:1 2:1", TextOptions::default(), "line 8: expected ascending indices, found 2 after 3; sort"),
        ("2 x", TextOptions::default(), "expected index:value, found \"x\""),
        ("2 1:one", TextOptions::default(), "line 8: expected a number, found \"one\""),
        ("two 1:1", TextOptions::default(), "expected a number, found \"two\""),
        ("1,2 1:1", TextOptions::default(), "expected a number, found \"1,2\""),
        (
            "1 4:1",
            TextOptions::default().width(3),
            "expected at most 3 features, found feature 4 of the row; raise `width`",
        ),
        ("1 4000000000:1", TextOptions::default(), "expected at most 100000 features, found feature 4000000000"),
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
