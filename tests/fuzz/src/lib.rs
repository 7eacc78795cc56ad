//! Shared by the targets: writes bytes to a file and reads a table to its end.

use kstore::{Categories, Missing, ReadSettings, RowBuf, RowSource, Selection, Table, TextOptions};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Writes the bytes to a file, in `/dev/shm` if it exists; its path is the same for every input.
pub fn file(extension: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        folder.expect("a temporary folder")
    });
    let path = folder.path().join(format!("input.{extension}"));
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// Reads all rows from the start and from a later row, which must agree. Errors are allowed.
pub fn read_all(path: &Path, options: &TextOptions) {
    let Ok(table) = Table::open_with(&[path], options) else { return };
    let keep = table.schema().columns.iter().map(|column| column.name.clone()).collect();
    read(&table, &Selection { keep, missing: Missing::Mean, without_features: true, ..Selection::default() });
    read(&table, &Selection { missing: Missing::Mean, categories: Categories::None, ..Selection::default() });
}

fn read(table: &Table, selection: &Selection) {
    let Ok(selected) = table.select(selection) else { return };
    let Ok(rows) = selected.rows::<f64>(ReadSettings::default()) else { return };
    let stored = table.stored_rows();
    let read = |start: u64| {
        let (mut buf, mut seen, mut cursor) = (RowBuf::new(97), 0u64, rows.open(start..stored).ok()?);
        while cursor.next(&mut buf).ok()? {
            seen += buf.rows.len() as u64;
            assert_eq!(buf.rows.last(), Some(&(start + seen - 1)));
            assert!(buf.kept.iter().all(|column| column.len() == buf.rows.len()));
        }
        assert_eq!(seen, stored - start, "every row that opening promised, or an error");
        Some(())
    };
    let _ = read(0);
    let _ = read(stored / 2);
}
