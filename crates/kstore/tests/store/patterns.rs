//! Glob patterns that select the files of a table.

use kstore::{Error, Table};
use std::path::{Path, PathBuf};

fn files(pattern: &Path) -> kstore::Result<Vec<PathBuf>> {
    Ok(Table::open(&[pattern])?.files().map(Path::to_path_buf).collect())
}
#[test]
fn patterns_match_names_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ["a/b", "_log", ".a"].iter().for_each(|folder| std::fs::create_dir_all(at.join(folder)).unwrap());
    for name in [
        "_one.csv",
        "_log/one.csv",
        ".a/one.csv",
        ".one.csv",
        "one.csv",
        "two.csv",
        "a/one.csv",
        "a/b/1.csv",
        "a/b/x[1].csv",
    ] {
        std::fs::write(at.join(name), "a\n1\n").unwrap();
    }
    for (pattern, expected) in [
        ("*.csv", vec!["one.csv", "two.csv"]),
        ("?ne.csv", vec!["one.csv"]),
        ("**/*.csv", vec!["a/b/1.csv", "a/b/x[1].csv", "a/one.csv", "one.csv", "two.csv"]),
        ("a/**/[0-9].csv", vec!["a/b/1.csv"]),
        ("*/b/x[[]1].csv", vec!["a/b/x[1].csv"]),
        ("a/../t*.csv", vec!["a/../two.csv"]),
        ("_*.csv", vec!["_one.csv"]),
        ("_log/*.csv", vec!["_log/one.csv"]),
        (".*/*.csv", vec![".a/one.csv"]),
    ] {
        let mut found = files(&at.join(pattern)).unwrap();
        found.sort();
        let expected: Vec<_> = expected.into_iter().map(|name| at.join(name)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
    let none = files(&at.join("nowhere/*.csv")).unwrap_err();
    assert!(matches!(none, Error::NotFound { .. }), "{none}");
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_not_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"part-\xff.csv");
    std::fs::write(folder.path().join(name), "a\n1\n").unwrap();
    std::fs::write(folder.path().join("part-0.csv"), "a\n1\n").unwrap();
    assert_eq!(files(&folder.path().join("part-*.csv")).unwrap().len(), 2);
    assert_eq!(files(&folder.path().join("part-?.csv")).unwrap().len(), 2);
}

#[test]
fn wrong_patterns_say_what_is_right() {
    for wrong in ["[", "a[", "a**b", "***"] {
        let error = files(Path::new(wrong)).unwrap_err().to_string();
        assert!(error.contains("write * for any characters"), "{error}");
    }
}
