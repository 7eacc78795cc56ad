//! Files and folders that are not supported, and how to convert them to a table.
//!
//! A lakehouse is a folder with files and a log. Files of older versions of the table are next to
//! files of the newest version, and only the log states which files hold the rows of the table. All
//! files together contain deleted rows, or the same rows twice. (References: "Delta Transaction Log
//! Protocol"; "Iceberg Table Spec"; "Apache Hudi Technical Specification".)

use super::registry::format_by_magic;
use crate::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Unsupported files: description, extensions, magic bytes (none if empty), and remedy.
const UNSUPPORTED: &[(&str, &[&str], &[u8], &str)] = &[
    ("compressed with bzip2", &["bz2"], b"BZh", "decompress it into a pipe: bzip2 -dc FILE | kmill … -"),
    ("compressed with xz", &["xz", "lzma"], b"\xfd7zXZ\0", "decompress it into a pipe: xz -dc FILE | kmill … -"),
    ("compressed with lz4", &["lz4"], b"\x04\x22\x4d\x18", "decompress it into a pipe: lz4 -dc FILE | kmill … -"),
    ("compressed with brotli", &["br"], b"", "decompress it into a pipe: brotli -dc FILE | kmill … -"),
    ("compressed with compress", &["z"], b"\x1f\x9d", "decompress it into a pipe: gzip -dc FILE | kmill … -"),
    ("a spreadsheet", &["xlsx", "xls", "ods"], b"\xd0\xcf\x11\xe0", "save its sheet as .csv"),
    ("a zip archive", &["zip"], b"PK\x03\x04", "extract it into a pipe: unzip -p FILE | kmill … -"),
    ("Feather version 1", &[], b"FEA1", "write it with pyarrow.feather.write_feather(…, version=2)"),
    ("an Arrow IPC stream", &["arrows"], b"\xff\xff\xff\xff", "write it as a file, with pyarrow.ipc.new_file"),
    (
        "a database",
        &["db", "sqlite", "duckdb"],
        b"SQLite format 3\0",
        "export its table to .parquet, for example with COPY in duckdb",
    ),
    (
        "a file of an unsupported format",
        &["h5", "hdf5", "orc", "avro", "pkl", "dta", "sav", "sas7bdat", "mat", "rds", "rdata", "xml"],
        b"\x89HDF",
        "read it with pandas or the program that wrote it, and save it as .parquet",
    ),
];

/// Returns a sentence that says what an unsupported file is, and what to do.
pub(super) fn describe_unsupported(path: &Path, start: &[u8]) -> Option<String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    // extensions are compared first, because a spreadsheet has the magic bytes of a zip archive
    let by_extension = UNSUPPORTED.iter().find(|(_, extensions, ..)| extensions.contains(&&*extension));
    let unsupported = by_extension
        .or_else(|| UNSUPPORTED.iter().find(|(.., magic, _)| !magic.is_empty() && start.starts_with(magic)));
    unsupported.map(|(name, _, _, remedy)| format!("it is {name}; {remedy}"))
}

/// Returns a sentence that says why the bytes at the start of a file are not text, and what to do.
/// Returns `None` for text.
pub(super) fn why_not_text(path: &Path, start: &[u8]) -> Option<String> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some("it is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW".to_string());
    }
    // control characters that do not occur in text
    if !start.iter().any(|byte| matches!(byte, 0..=8 | 14..=26)) {
        return None;
    }
    if let Some(format) = format_by_magic(start) {
        return Some(format!("it starts like a .{} file; give it this extension", format.extensions[0]));
    }
    let utf16 =
        "it contains zero bytes, so it is not UTF-8 text; if it is UTF-16: iconv -f UTF-16LE -t UTF-8 FILE > NEW";
    describe_unsupported(path, start).or_else(|| start.contains(&0).then(|| utf16.to_string()))
}

/// Lakehouses: the folder of the log, the suffix of the log's files, the name of the lakehouse, and
/// a command that writes the table to one file.
const LAKEHOUSES: [(&str, &str, &str, &str); 3] = [
    ("_delta_log", "", "Delta Lake", "duckdb -c \"COPY (FROM delta_scan('TABLE')) TO 'rows.parquet'\""),
    (
        "metadata",
        ".metadata.json",
        "Apache Iceberg",
        "duckdb -c \"COPY (FROM iceberg_scan('TABLE')) TO 'rows.parquet'\"",
    ),
    (".hoodie", "", "Apache Hudi", "in Spark, spark.read.format('hudi').load('TABLE').write.parquet('rows')"),
];

/// Returns an error if one of `paths` belongs to the log of a lakehouse. The paths are the files of
/// a folder or pattern, `table_path`.
///
/// # Errors
/// [`Error::Malformed`].
pub fn reject_lakehouse_paths<'a>(table_path: &Path, mut paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let lakehouse_of = |path: &'a str| {
        let (folders, file) = path.rsplit_once('/')?;
        let is_log_file =
            |log: &str, suffix: &str| file.ends_with(suffix) && folders.split('/').any(|folder| folder == log);
        LAKEHOUSES.iter().find(|(log, end, ..)| is_log_file(log, end))
    };
    let Some((.., writer, command)) = paths.find_map(lakehouse_of) else { return Ok(()) };
    let detail = format!(
        "it belongs to a table of {writer}, whose log states which of its files are current and which are stale; write its \
         rows to a separate file ({command}), or name the files one by one"
    );
    Err(Error::malformed(table_path, "one table", detail.replace("TABLE", &table_path.display().to_string())))
}

/// Returns an error if a folder that contains one of `files`, or one of its parent folders, has the
/// log of a lakehouse. `table_path` is the folder or pattern that names the files.
pub(crate) fn reject_lakehouse(table_path: &Path, files: &[PathBuf]) -> Result<()> {
    let mut checked_folders = HashSet::new();
    for folder in files.iter().filter_map(|file| file.parent()).chain([table_path]) {
        // the path is made absolute, because a relative path may be in a lakehouse that lies above
        // the working directory
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(folder) = folder.canonicalize() else { continue };
        for folder in folder.ancestors().take_while(|folder| checked_folders.insert(folder.to_path_buf())) {
            let logs = LAKEHOUSES.iter().filter(|(log, ..)| folder.join(log).is_dir()).flat_map(|(log, ..)| {
                let files = std::fs::read_dir(folder.join(log)).into_iter().flatten().flatten();
                let names = files.map(|file| file.file_name().to_string_lossy().into_owned()).chain([String::new()]);
                names.map(move |name| format!("{log}/{name}"))
            });
            reject_lakehouse_paths(table_path, logs.collect::<Vec<_>>().iter().map(String::as_str))?;
        }
    }
    Ok(())
}

/// Returns whether a file or folder of this name is not part of a table. Examples are logs and
/// unfinished files of other programs.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}
