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

/// A kind of files that is not supported.
struct UnsupportedFormat {
    description: &'static str,
    extensions: &'static [&'static str],
    /// First bytes of every file; empty if they are not known.
    magic: &'static [u8],
    remedy: &'static str,
}

const UNSUPPORTED: &[UnsupportedFormat] = &[
    UnsupportedFormat {
        description: "compressed with bzip2",
        extensions: &["bz2"],
        magic: b"BZh",
        remedy: "decompress it into a pipe: bzip2 -dc FILE | kmill … -",
    },
    UnsupportedFormat {
        description: "compressed with xz",
        extensions: &["xz", "lzma"],
        magic: b"\xfd7zXZ\0",
        remedy: "decompress it into a pipe: xz -dc FILE | kmill … -",
    },
    UnsupportedFormat {
        description: "compressed with lz4",
        extensions: &["lz4"],
        magic: b"\x04\x22\x4d\x18",
        remedy: "decompress it into a pipe: lz4 -dc FILE | kmill … -",
    },
    UnsupportedFormat {
        description: "compressed with brotli",
        extensions: &["br"],
        magic: b"",
        remedy: "decompress it into a pipe: brotli -dc FILE | kmill … -",
    },
    UnsupportedFormat {
        description: "compressed with compress",
        extensions: &["z"],
        magic: b"\x1f\x9d",
        remedy: "decompress it into a pipe: gzip -dc FILE | kmill … -",
    },
    UnsupportedFormat {
        description: "a spreadsheet",
        extensions: &["xlsx", "xls", "ods"],
        magic: b"\xd0\xcf\x11\xe0",
        remedy: "save its sheet as .csv",
    },
    UnsupportedFormat {
        description: "a zip archive",
        extensions: &["zip"],
        magic: b"PK\x03\x04",
        remedy: "extract it into a pipe: unzip -p FILE | kmill … -",
    },
    UnsupportedFormat {
        description: "Feather version 1",
        extensions: &[],
        magic: b"FEA1",
        remedy: "write it with pyarrow.feather.write_feather(…, version=2)",
    },
    UnsupportedFormat {
        description: "an Arrow IPC stream",
        extensions: &["arrows"],
        magic: b"\xff\xff\xff\xff",
        remedy: "write it as a file, with pyarrow.ipc.new_file",
    },
    UnsupportedFormat {
        description: "a database",
        extensions: &["db", "sqlite", "duckdb"],
        magic: b"SQLite format 3\0",
        remedy: "export its table to .parquet, for example with COPY in duckdb",
    },
    UnsupportedFormat {
        description: "a file of an unsupported format",
        extensions: &["h5", "hdf5", "orc", "avro", "pkl", "dta", "sav", "sas7bdat", "mat", "rds", "rdata", "xml"],
        magic: b"\x89HDF",
        remedy: "read it with pandas or the program that wrote it, and save it as .parquet",
    },
];

/// Returns a sentence that says what an unsupported file is, and what to do.
pub(super) fn describe_unsupported(path: &Path, start: &[u8]) -> Option<String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    // extensions are compared first, because a spreadsheet has the magic bytes of a zip archive
    let by_extension = UNSUPPORTED.iter().find(|format| format.extensions.contains(&&*extension));
    let unsupported = by_extension
        .or_else(|| UNSUPPORTED.iter().find(|format| !format.magic.is_empty() && start.starts_with(format.magic)));
    unsupported.map(|format| format!("it is {}; {}", format.description, format.remedy))
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

/// A lakehouse, whose tables are folders with a log.
struct Lakehouse {
    name: &'static str,
    /// Folder of the log.
    log_folder: &'static str,
    /// Suffix of the names of the log's files.
    log_suffix: &'static str,
    /// Command that writes the table to one file.
    export_command: &'static str,
}

const LAKEHOUSES: [Lakehouse; 3] = [
    Lakehouse {
        name: "Delta Lake",
        log_folder: "_delta_log",
        log_suffix: "",
        export_command: "duckdb -c \"COPY (FROM delta_scan('TABLE')) TO 'rows.parquet'\"",
    },
    Lakehouse {
        name: "Apache Iceberg",
        log_folder: "metadata",
        log_suffix: ".metadata.json",
        export_command: "duckdb -c \"COPY (FROM iceberg_scan('TABLE')) TO 'rows.parquet'\"",
    },
    Lakehouse {
        name: "Apache Hudi",
        log_folder: ".hoodie",
        log_suffix: "",
        export_command: "in Spark, spark.read.format('hudi').load('TABLE').write.parquet('rows')",
    },
];

/// Returns an error if one of `paths` belongs to the log of a lakehouse. The paths are the files of
/// a folder or pattern, `table_path`.
///
/// # Errors
/// [`Error::Malformed`].
pub fn reject_lakehouse_paths<'a>(table_path: &Path, mut paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let lakehouse_of = |path: &'a str| {
        let (folders, file) = path.rsplit_once('/')?;
        let has_log_file = |lakehouse: &&Lakehouse| {
            file.ends_with(lakehouse.log_suffix) && folders.split('/').any(|folder| folder == lakehouse.log_folder)
        };
        LAKEHOUSES.iter().find(has_log_file)
    };
    let Some(Lakehouse { name, export_command, .. }) = paths.find_map(lakehouse_of) else { return Ok(()) };
    let detail = format!(
        "it belongs to a table of {name}, whose log states which of its files are current and which are stale; write its \
         rows to a separate file ({export_command}), or name the files one by one"
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
            let logs = LAKEHOUSES.iter().map(|lakehouse| lakehouse.log_folder);
            let logs = logs.filter(|log| folder.join(log).is_dir()).flat_map(|log| {
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
