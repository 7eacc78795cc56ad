//! Output: results on stdout, as text or as one JSON object; and checks of output files before a
//! run.

use crate::{Error, Result, terminal};
pub(crate) use kreport::output::{
    extension, is_html, is_same_file, protect_inputs, table_files, write_file, write_table,
};
use kstore::sink::{self, OutputColumn, OutputKind};
use kstore::{AtomicFile, display};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(crate) fn print_text(text: impl Display) -> Result<()> {
    print_bytes(terminal::colourise(&display::escape_lines(&text.to_string()), &std::io::stdout()).as_bytes())
}

pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(stdout_error)
}

/// Returns the error for a failed write to standard output. A closed pipe becomes
/// [`Error::BrokenPipe`].
pub(crate) fn stdout_error(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => Error::BrokenPipe,
        _ => kstore::Error::io("write to", "standard output")(error).into(),
    }
}

/// Writes `value` as one JSON object. Numbers that are not finite become null.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let object = serde_json::to_string(value)?;
    print_text(format_args!("{}\n", display::escape_json(&object)))
}

pub(crate) fn print_report<R: Serialize + Display>(value: &R, as_json: bool) -> Result<()> {
    if as_json { print_json(value) } else { print_text(value) }
}

/// The kinds of report files, determined by file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Page,
    /// A picture: SVG, PDF or PNG.
    Picture,
    Json,
    Table,
    Model,
}

impl FileKind {
    /// Returns the first of `kinds` that matches the extension of a file name. If none does,
    /// returns an error with `why` and `remedy`.
    pub(crate) fn from_path(path: &Path, kinds: &[Self], why: &'static str, remedy: &str) -> Result<Self> {
        let extension = extension(path);
        let matches = |kind: &&Self| match (kind, extension.as_deref()) {
            (Self::Page, Some("html" | "htm"))
            | (Self::Picture, Some("svg" | "png" | "pdf"))
            | (Self::Json, Some("json")) => true,
            (Self::Table, _) => is_table(path),
            (Self::Model, _) => is_model(path),
            _ => false,
        };
        kinds.iter().find(matches).copied().ok_or_else(|| Error::option("-o", path.display(), why, remedy))
    }
}

#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) files: Vec<(PathBuf, FileKind)>,
}

impl Outputs {
    /// Checks, before the run, that every file can be written at the end of the run. Fails with the
    /// errors of [`check_writable`] and [`FileKind::from_path`], and with [`Error::Option`] for a
    /// file that is named twice.
    pub(crate) fn new(paths: &[PathBuf], kinds: &[FileKind], why: &'static str, remedy: &str) -> Result<Self> {
        let check_one = |(i, path): (usize, &PathBuf)| {
            check_writable(path)?;
            if paths[..i].iter().any(|earlier| is_same_file(earlier, path)) {
                return Err(Error::option("-o", path.display(), "it is named twice", "name it once"));
            }
            Ok((path.clone(), FileKind::from_path(path, kinds, why, remedy)?))
        };
        Ok(Self { files: paths.iter().enumerate().map(check_one).collect::<Result<_>>()? })
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    pub(crate) fn model(&self) -> Option<&Path> {
        self.files.iter().find(|(_, kind)| *kind == FileKind::Model).map(|(path, _)| path.as_path())
    }
}

pub(crate) fn json_file(path: &Path, value: &impl Serialize) -> Result<()> {
    Ok(write_file(path, format!("{}\n", serde_json::to_string(value)?).as_bytes())?)
}

/// Checks, before the run, that a page can be written to `path` at the end of the run.
pub(crate) fn check_page(path: &Path) -> Result<()> {
    if !is_html(path) {
        let remedy = "choose a name that ends with .html";
        return Err(Error::option("--report", path.display(), "a report is an HTML page", remedy));
    }
    check_writable(path)
}

pub(crate) fn check_writable(path: &Path) -> Result<()> {
    Ok(AtomicFile::destination(path).map(drop)?)
}

/// Checks, before the run, that a model can be written to `path` at the end of the run. The name
/// must end with .safetensors, or have no extension.
pub(crate) fn check_model(path: &Path) -> Result<()> {
    if is_model(path) {
        return check_writable(path);
    }
    let remedy = "choose a name that ends with .safetensors or has no extension";
    Err(Error::option("-o", path.display(), "a model is a safetensors file", remedy))
}

pub(crate) fn is_model(path: &Path) -> bool {
    extension(path).is_none_or(|extension| extension == "safetensors")
}

/// Returns true if the file name has the extension of a table format that supports text.
pub(crate) fn is_table(path: &Path) -> bool {
    let text = OutputColumn::new("text", OutputKind::Text);
    path.extension().is_some() && sink::supports(path, &text).unwrap_or(false)
}

/// Returns the extensions of the table formats that can store columns of this kind, for help and
/// messages: `.parquet, .csv or .tsv`.
pub(crate) fn extensions(kind: OutputKind) -> String {
    sink::extensions(&OutputColumn::new("", kind), "or")
}

/// Returns the help of the option for an output table of numbers. `contents` completes "Output file
/// of the".
pub(crate) fn help(contents: &str) -> String {
    format!("Output file of the {contents}: {}", extensions(OutputKind::F64))
}
