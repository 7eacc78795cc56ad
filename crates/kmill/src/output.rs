//! Standard output: results for people, or one JSON object for programs.

use crate::{Error, Result, colour};
use kstore::sink::{self, OutputColumn, OutputKind};
use kstore::{AtomicFile, shown};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes `text` to standard output.
///
/// # Errors
/// [`Error::BrokenPipe`] when the reader has gone, which ends the run quietly.
pub fn text(text: impl Display) -> Result<()> {
    let text = text.to_string();
    let mut out = std::io::stdout().lock();
    write!(out, "{}", colour::painted(&shown::lines(&text), &std::io::stdout()))
        .and_then(|()| out.flush())
        .map_err(closed)
}

/// Writes bytes to standard output as they are.
///
/// # Errors
/// The errors of [`text()`].
pub(crate) fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(closed)
}

/// The error for a failed write to standard output; a closed pipe becomes [`Error::BrokenPipe`].
pub(crate) fn closed(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => Error::BrokenPipe,
        _ => kstore::Error::io("write to", "standard output")(error).into(),
    }
}

/// Writes `value` as one JSON object. Numbers that are not finite become null.
///
/// # Errors
/// The errors of [`text()`].
pub fn json(value: &impl Serialize) -> Result<()> {
    let object = serde_json::to_string(value)?;
    text(format_args!("{}\n", shown::object(&object)))
}

/// Writes `value` as JSON when `as_json`, else as its table.
///
/// # Errors
/// The errors of [`text()`].
pub fn report<R: Serialize + Display>(value: &R, as_json: bool) -> Result<()> {
    if as_json { json(value) } else { text(value) }
}

/// The files that a table is read from.
pub fn inputs(table: &kstore::Table) -> impl Iterator<Item = &Path> {
    table.files().chain(table.target_file())
}

/// Refuses an output that is also an input, which it would replace.
///
/// # Errors
/// [`Error::Option`].
pub fn spare<'p>(path: &Path, inputs: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    let Ok(output) = path.canonicalize() else { return Ok(()) };
    let same = |input: &Path| input.canonicalize().is_ok_and(|input| input == output);
    if inputs.into_iter().any(same) {
        let why = "this is also an input, which would be lost";
        return Err(Error::option("-o", path.display(), why, "give the output another name"));
    }
    Ok(())
}

/// Checks before the work that every file can be written after it, and returns each path with its kind.
///
/// # Errors
/// The errors of [`check`]; [`Error::Option`] for a file that is named twice; the errors of `kind`.
pub fn kinds<K>(paths: &[PathBuf], kind: impl Fn(&Path) -> Result<K>) -> Result<Vec<(PathBuf, K)>> {
    let each = |(i, path): (usize, &PathBuf)| {
        check(path)?;
        if paths[..i].iter().any(|earlier| is_same(earlier, path)) {
            return Err(Error::option("-o", path.display(), "it was named twice", "leave one out"));
        }
        Ok((path.clone(), kind(path)?))
    };
    paths.iter().enumerate().map(each).collect()
}

/// Writes `value` as one JSON object to a file.
///
/// # Errors
/// Errors of the file system.
pub fn json_file(path: &Path, value: &impl Serialize) -> Result<()> {
    file(path, format!("{}\n", serde_json::to_string(value)?).as_bytes())
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(kstore::Error::io("write", path))?;
    Ok(file.commit()?)
}

/// Checks before the work that a page can be put at `path` after it, and that it is not `other`.
///
/// # Errors
/// The errors of [`check`], and [`Error::Option`] for another extension.
pub fn check_page(path: &Path, other: &Path) -> Result<()> {
    if is_same(path, other) || !matches!(extension(path).as_deref(), Some("html" | "htm")) {
        let remedy = "give a name that ends with .html";
        return Err(Error::option("--report", path.display(), "a report is a page", remedy));
    }
    check(path)
}

/// Checks before the work that a file can be put at `path` after it.
///
/// # Errors
/// The errors of [`AtomicFile::destination`].
pub fn check(path: &Path) -> Result<()> {
    AtomicFile::destination(path)?;
    Ok(())
}

/// Checks before the work that a model can be put at `path` after it. The name must end with .safetensors, or have no
/// extension.
///
/// # Errors
/// The errors of [`check`], and [`Error::Option`] for another extension.
pub fn check_model(path: &Path) -> Result<()> {
    if is_model(path) {
        return check(path);
    }
    let remedy = "end it with .safetensors, or leave the extension out";
    Err(Error::option("-o", path.display(), "a model is a safetensors file", remedy))
}

/// True where the name of a file is right for a model.
pub(crate) fn is_model(path: &Path) -> bool {
    extension(path).is_none_or(|extension| extension == "safetensors")
}

/// True where the name of a file is right for a table with text in it.
pub(crate) fn is_table(path: &Path) -> bool {
    let text = OutputColumn::new("text", OutputKind::Text);
    path.extension().is_some() && sink::holds(path, &text).unwrap_or(false)
}

/// The extension without its dot, in lower case.
pub(crate) fn extension(path: &Path) -> Option<String> {
    path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase())
}

/// True where both names lead to one file, which need not be there yet.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    match (AtomicFile::destination(one), AtomicFile::destination(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
