//! Standard output: results as text, or as one JSON object.

use crate::{Error, Result, colour};
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::{AtomicFile, KeptColumn, Strings, shown};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(crate) fn text(text: impl Display) -> Result<()> {
    raw(colour::painted(&shown::lines(&text.to_string()), &std::io::stdout()).as_bytes())
}

pub(crate) fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(closed)
}

/// Returns the error for a failed write to standard output; a closed pipe becomes
/// [`Error::BrokenPipe`].
pub(crate) fn closed(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => Error::BrokenPipe,
        _ => kstore::Error::io("write to", "standard output")(error).into(),
    }
}

/// Writes `value` as one JSON object. Numbers that are not finite become null.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let object = serde_json::to_string(value)?;
    text(format_args!("{}\n", shown::object(&object)))
}

pub(crate) fn report<R: Serialize + Display>(value: &R, as_json: bool) -> Result<()> {
    if as_json { json(value) } else { text(value) }
}

pub(crate) fn inputs(table: &kstore::Table) -> impl Iterator<Item = &Path> {
    table.files().chain(table.target_file())
}

/// Rejects outputs that would replace an input or another output. Every subcommand that reads files
/// calls it for all of its outputs.
pub(crate) fn spare<'o, 'i>(
    outputs: impl IntoIterator<Item = &'o PathBuf>,
    inputs: impl IntoIterator<Item = &'i Path>,
) -> Result<()> {
    let inputs: Vec<PathBuf> = inputs.into_iter().filter_map(|input| input.canonicalize().ok()).collect();
    let mut earlier: Vec<&PathBuf> = Vec::new();
    for path in outputs {
        let why = match path.canonicalize() {
            Ok(output) if inputs.contains(&output) => "this is also an input, which would be lost",
            _ if earlier.iter().any(|earlier| is_same(earlier, path)) => "another output goes there",
            _ => {
                earlier.push(path);
                continue;
            }
        };
        let (path, why) = (path.clone(), why.to_string());
        return Err(kstore::Error::Output { path, why, remedy: "give the output another name" }.into());
    }
    Ok(())
}

/// The kinds of report files, determined by file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Page,
    /// A picture: SVG or PNG.
    Picture,
    Json,
    Table,
    Model,
}

impl Kind {
    /// Returns the first of some kinds that matches the extension of a file name.
    pub(crate) fn of(path: &Path, kinds: &[Self], why: &'static str, remedy: &str) -> Result<Self> {
        let extension = extension(path);
        let fits = |kind: &&Self| match (kind, extension.as_deref()) {
            (Self::Page, Some("html" | "htm")) | (Self::Picture, Some("svg" | "png")) | (Self::Json, Some("json")) => {
                true
            }
            (Self::Table, _) => is_table(path),
            (Self::Model, _) => is_model(path),
            _ => false,
        };
        kinds.iter().find(fits).copied().ok_or_else(|| Error::option("-o", path.display(), why, remedy))
    }
}

#[derive(Debug)]
pub(crate) struct Outputs(pub(crate) Vec<(PathBuf, Kind)>);

impl Outputs {
    /// Checks before the work that every file can be written after it. Fails with the errors of
    /// [`check`] and [`Kind::of`], and with [`Error::Option`] for a file that is named twice.
    pub(crate) fn new(paths: &[PathBuf], kinds: &[Kind], why: &'static str, remedy: &str) -> Result<Self> {
        let each = |(i, path): (usize, &PathBuf)| {
            check(path)?;
            if paths[..i].iter().any(|earlier| is_same(earlier, path)) {
                return Err(Error::option("-o", path.display(), "it was named twice", "leave one out"));
            }
            Ok((path.clone(), Kind::of(path, kinds, why, remedy)?))
        };
        Ok(Self(paths.iter().enumerate().map(each).collect::<Result<_>>()?))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(path, _)| path.as_path())
    }

    pub(crate) fn model(&self) -> Option<&Path> {
        self.0.iter().find(|(_, kind)| *kind == Kind::Model).map(|(path, _)| path.as_path())
    }
}

/// The function that reads the value of a column from a row, by type of the value.
pub(crate) enum Column<R> {
    Text(fn(&R) -> Option<&str>),
    Whole(fn(&R) -> u64),
    Number(fn(&R) -> Option<f64>),
}

pub(crate) fn table<R>(path: &Path, columns: &[(&str, Column<R>)], rows: &[R]) -> Result<()> {
    enum Values {
        Text(Strings),
        Whole(Vec<i64>),
        Number(KeptColumn),
    }
    let values = |(_, column): &(&str, Column<R>)| match column {
        Column::Text(of) => Values::Text(rows.iter().map(|row| of(row).unwrap_or_default()).collect()),
        Column::Whole(of) => Values::Whole(rows.iter().map(|row| of(row).try_into().unwrap_or(i64::MAX)).collect()),
        Column::Number(of) => Values::Number(KeptColumn::optional(&rows.iter().map(of).collect::<Vec<_>>())),
    };
    let kind = |(name, column): &(&str, Column<R>)| match column {
        Column::Text(_) => OutputColumn::new(*name, OutputKind::Text),
        Column::Whole(_) => OutputColumn::new(*name, OutputKind::I64),
        Column::Number(_) => OutputColumn::new(*name, OutputKind::F64).nullable(),
    };
    let values: Vec<Values> = columns.iter().map(values).collect();
    let outputs = values.iter().map(|values| match values {
        Values::Text(values) => Output::Text(values),
        Values::Whole(values) => Output::I64(values),
        Values::Number(values) => Output::Kept(values),
    });
    let mut sink = sink::create(path, &columns.iter().map(kind).collect::<Vec<_>>())?;
    sink.write(&outputs.collect::<Vec<_>>())?;
    Ok(sink.finish()?)
}

pub(crate) fn json_file(path: &Path, value: &impl Serialize) -> Result<()> {
    file(path, format!("{}\n", serde_json::to_string(value)?).as_bytes())
}

/// Writes a file atomically.
pub(crate) fn file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(kstore::Error::io("write", path))?;
    Ok(file.commit()?)
}

/// Checks before the work that a page can be written to `path` after it.
pub(crate) fn check_page(path: &Path) -> Result<()> {
    if !matches!(extension(path).as_deref(), Some("html" | "htm")) {
        let remedy = "give a name that ends with .html";
        return Err(Error::option("--report", path.display(), "a report is a page", remedy));
    }
    check(path)
}

pub(crate) fn check(path: &Path) -> Result<()> {
    Ok(AtomicFile::destination(path).map(drop)?)
}

/// Checks before the work that a model can be written to `path` after it. The name must end with
/// .safetensors, or have no extension.
pub(crate) fn check_model(path: &Path) -> Result<()> {
    if is_model(path) {
        return check(path);
    }
    let remedy = "end it with .safetensors, or leave the extension out";
    Err(Error::option("-o", path.display(), "a model is a safetensors file", remedy))
}

pub(crate) fn is_model(path: &Path) -> bool {
    extension(path).is_none_or(|extension| extension == "safetensors")
}

/// Returns true if the extension of a file name is that of a table that supports text.
pub(crate) fn is_table(path: &Path) -> bool {
    let text = OutputColumn::new("text", OutputKind::Text);
    path.extension().is_some() && sink::holds(path, &text).unwrap_or(false)
}

/// Returns the extensions of tables of numbers, or of text and numbers, for help and messages:
/// `.parquet, .csv or .tsv`.
pub(crate) fn extensions(kind: OutputKind) -> String {
    sink::extensions(&OutputColumn::new("", kind), "or")
}

/// Returns the help of an output that is a table of numbers.
pub(crate) fn help(contents: &str) -> String {
    format!("Output file of the {contents}: {}", extensions(OutputKind::F64))
}

/// Returns the extension without its dot, in lower case.
pub(crate) fn extension(path: &Path) -> Option<String> {
    path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase())
}

/// Returns true if both names refer to one file, which need not exist yet.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    match (AtomicFile::destination(one), AtomicFile::destination(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
