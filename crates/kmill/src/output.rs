//! Standard output: results for people, or one JSON object for programs.

use crate::{Error, Result};
use kstore::AtomicFile;
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes `text` to standard output.
///
/// # Errors
/// [`Error::BrokenPipe`] when the reader has gone, which ends the run quietly.
pub fn text(text: impl Display) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Error::BrokenPipe,
        _ => Error::Stdout(error),
    })
}

/// Writes `value` as one JSON object. Numbers that are not finite become null.
///
/// # Errors
/// As [`text()`].
pub fn json(value: &impl Serialize) -> Result<()> {
    let object = serde_json::to_string(value).map_err(|error| Error::Stdout(error.into()))?;
    text(format_args!("{object}\n"))
}

/// Writes `value` as JSON when `as_json`, else as its table.
///
/// # Errors
/// As [`text()`].
pub fn report<R: Serialize + Display>(value: &R, as_json: bool) -> Result<()> {
    if as_json { json(value) } else { text(value) }
}

/// Refuses an output that is one of the inputs: the rows, their target file, or the model. It would be replaced.
///
/// # Errors
/// [`Error::Option`].
pub fn spare(path: &Path, table: &kstore::Table, model: Option<&Path>) -> Result<()> {
    let Ok(output) = path.canonicalize() else { return Ok(()) };
    let same = |input: &Path| input.canonicalize().is_ok_and(|input| input == output);
    if table.files().chain(table.target_file()).chain(model).any(same) {
        let why = "this is also an input, which would be lost";
        return Err(Error::option("-o", path.display(), why, "give the output another name"));
    }
    Ok(())
}

/// Checks before the work that every file can be written after it, and tells each one's kind.
///
/// # Errors
/// As [`check`]; [`Error::Option`] for a file that is named twice, and those of `kind`.
pub fn kinds<K>(paths: &[PathBuf], kind: impl Fn(&Path) -> Result<K>) -> Result<Vec<(PathBuf, K)>> {
    let each = |(i, path): (usize, &PathBuf)| {
        check(path)?;
        if paths[..i].contains(path) {
            return Err(Error::option("-o", path.display(), "it was named twice", "leave one out"));
        }
        Ok((path.clone(), kind(path)?))
    };
    paths.iter().enumerate().map(each).collect()
}

/// Writes `value` as one JSON object to a file.
///
/// # Errors
/// Those of the file system.
pub fn json_file(path: &Path, value: &impl Serialize) -> Result<()> {
    let object = serde_json::to_string(value).map_err(|error| Error::Stdout(error.into()))?;
    let mut file = AtomicFile::create(path)?;
    writeln!(file, "{object}").map_err(kstore::Error::io("write", path))?;
    Ok(file.commit()?)
}

/// Checks before the work that a page can be put at `path` after it, and that it is not `other`.
///
/// # Errors
/// As [`check`], and [`Error::Option`] for another extension.
pub fn check_page(path: &Path, other: &Path) -> Result<()> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    if path == other || !matches!(extension.as_deref(), Some("html" | "htm")) {
        return Err(Error::option(
            "--report",
            path.display(),
            "a report is a page",
            "give a name that ends with .html",
        ));
    }
    check(path)
}

/// Checks before the work that a file can be put at `path` after it.
///
/// # Errors
/// [`kstore::Error::NotFound`] for a folder that does not exist, [`Error::Option`] for a folder as the file.
pub fn check(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::option("-o", path.display(), "this is a folder", "name a file in it"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent {
        Some(parent) if !parent.is_dir() => {
            let why = format!("there is no folder {}", parent.display());
            Err(Error::option("-o", path.display(), why, "create it first"))
        }
        _ => Ok(()),
    }
}
