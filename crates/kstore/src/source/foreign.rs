//! Files that are not read, and what makes a table of each.

use super::registry::by_magic;
use std::path::Path;

/// What files are: the words, extensions, first bytes (none if empty), and what to do.
const FOREIGN: &[(&str, &[&str], &[u8], &str)] = &[
    ("packed by bzip2", &["bz2"], b"BZh", "unpack it into a pipe: bzip2 -dc FILE | kmill … -"),
    ("packed by xz", &["xz", "lzma"], b"\xfd7zXZ\0", "unpack it into a pipe: xz -dc FILE | kmill … -"),
    ("packed by lz4", &["lz4"], b"\x04\x22\x4d\x18", "unpack it into a pipe: lz4 -dc FILE | kmill … -"),
    ("packed by brotli", &["br"], b"", "unpack it into a pipe: brotli -dc FILE | kmill … -"),
    ("packed by compress", &["z"], b"\x1f\x9d", "unpack it into a pipe: gzip -dc FILE | kmill … -"),
    ("a spreadsheet", &["xlsx", "xls", "ods"], b"\xd0\xcf\x11\xe0", "save its sheet as .csv"),
    ("a zip archive", &["zip"], b"PK\x03\x04", "unpack it into a pipe: unzip -p FILE | kmill … -"),
    ("an Arrow IPC stream", &["arrows"], b"\xff\xff\xff\xff", "write it as a file, with pyarrow.ipc.new_file"),
    (
        "a database",
        &["db", "sqlite", "duckdb"],
        b"SQLite format 3\0",
        "write its table as .parquet, as COPY of duckdb does",
    ),
    (
        "a table of another program",
        &["h5", "hdf5", "orc", "avro", "pkl", "dta", "sav", "sas7bdat", "mat", "rds", "rdata", "xml"],
        b"\x89HDF",
        "read it there, or with pandas, and write .parquet",
    ),
];

/// What a file is that no format reads, and what to do, in a sentence.
pub(super) fn known(path: &Path, start: &[u8]) -> Option<String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    // a spreadsheet is a zip archive too
    let named = FOREIGN.iter().find(|(_, extensions, ..)| extensions.contains(&&*extension));
    let found = named.or_else(|| FOREIGN.iter().find(|(.., magic, _)| !magic.is_empty() && start.starts_with(magic)));
    found.map(|(name, _, _, remedy)| format!("it is {name}; {remedy}"))
}

/// Why the bytes at the start of a file are not text, and what to do, in a sentence; `None` for
/// text.
pub(super) fn no_text(path: &Path, start: &[u8]) -> Option<String> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some("it is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW".to_string());
    }
    // control characters that no text has
    if !start.iter().any(|byte| matches!(byte, 0..=8 | 14..=26)) {
        return None;
    }
    if let Some(format) = by_magic(start) {
        return Some(format!("its first bytes are those of .{}; give it a name that ends so", format.extensions[0]));
    }
    let utf16 =
        "it holds zero bytes, so it is not text of UTF-8; if it is UTF-16: iconv -f UTF-16LE -t UTF-8 FILE > NEW";
    known(path, start).or_else(|| start.contains(&0).then(|| utf16.to_string()))
}
