//! Tables of a lakehouse: Delta Lake, Apache Iceberg and Apache Hudi.
//!
//! Their folders hold the files of older versions next to those of the newest one, and only a log
//! says which files hold the rows of the table. Whoever reads all files takes rows that were
//! deleted, or the same rows twice.
//!
//! Logs: "Delta Transaction Log Protocol" (`_delta_log`); "Iceberg Table Spec"
//! (`metadata/*.metadata.json`); "Apache Hudi Technical Specification" (`.hoodie`).

use crate::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The lakehouse that writes such a log, and a command that makes one file of its table.
fn writer(folder: &str, file: &str) -> Option<(&'static str, &'static str)> {
    match folder {
        "_delta_log" => Some(("Delta Lake", "duckdb -c \"COPY (FROM delta_scan('TABLE')) TO 'rows.parquet'\"")),
        "metadata" if file.ends_with(".metadata.json") => {
            Some(("Apache Iceberg", "duckdb -c \"COPY (FROM iceberg_scan('TABLE')) TO 'rows.parquet'\""))
        }
        ".hoodie" => Some(("Apache Hudi", "in Spark, spark.read.format('hudi').load('TABLE').write.parquet('rows')")),
        _ => None,
    }
}

/// Refuses a folder or pattern that stands for files of a lakehouse, if one of these paths belongs
/// to a log.
///
/// # Errors
/// [`Error::Malformed`].
pub fn refuse_logs<'a>(named: &Path, mut paths: impl Iterator<Item = &'a str>) -> Result<()> {
    let of_log = |path: &'a str| {
        let (folders, file) = path.rsplit_once('/')?;
        folders.split('/').find_map(|folder| writer(folder, file))
    };
    let Some((writer, command)) = paths.find_map(of_log) else { return Ok(()) };
    let detail = format!(
        "it belongs to a table of {writer}, whose log says which of its files hold rows and which are stale; write its rows \
         to a file of their own ({command}), or name the files one by one"
    );
    Err(Error::malformed(named, "one table", detail.replace("TABLE", &named.display().to_string())))
}

/// Refuses a folder or pattern if a folder of its files, or a folder above, has the log of a
/// lakehouse.
pub(crate) fn refuse(named: &Path, files: &[PathBuf]) -> Result<()> {
    let folders: HashSet<&Path> = files.iter().filter_map(|file| file.parent()).chain([named]).collect();
    let mut seen = HashSet::new();
    for folder in folders {
        // the folders above a relative path are those above the working directory
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(folder) = folder.canonicalize() else { continue };
        for folder in folder.ancestors().take_while(|folder| seen.insert(folder.to_path_buf())) {
            let logs = ["_delta_log", ".hoodie"].into_iter().filter(|log| folder.join(log).is_dir());
            let metadata = std::fs::read_dir(folder.join("metadata")).into_iter().flatten().flatten();
            let metadata = metadata.map(|entry| format!("metadata/{}", entry.file_name().to_string_lossy()));
            let paths: Vec<String> = logs.map(|log| format!("{log}/")).chain(metadata).collect();
            refuse_logs(named, paths.iter().map(String::as_str))?;
        }
    }
    Ok(())
}

/// True for the name of a file or folder that is not part of a table: other programs put logs,
/// marks and unfinished files there.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}
