//! Tables written back whole, in batches of columns.
//!
//! A format is written by a [`Sink`], which its [`Format`] names.

#[cfg(any(feature = "parquet", feature = "ipc"))]
mod arrow;
#[cfg(feature = "csv")]
pub(crate) mod csv;
#[cfg(feature = "ipc")]
pub(crate) mod ipc;
#[cfg(feature = "npy")]
pub(crate) mod npy;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(any(feature = "csv", feature = "npy", feature = "svmlight"))]
mod rows;
#[cfg(feature = "svmlight")]
pub(crate) mod svmlight;

pub use crate::kept_column::Output;

use crate::source::{self, Format};
use crate::{Error, Result, arrow::datatypes::DataType, sparse::SparseShape};
use std::{io, path::Path};

/// The type of the values of a written column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the types")]
#[non_exhaustive]
pub enum OutputKind {
    F32,
    F64,
    I64,
    Bool,
    Text,
    Binary,
    Sparse(SparseShape),
}

/// A column to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Name of the column.
    pub name: String,
    /// The type of its values.
    pub kind: OutputKind,
    /// Whether values may be missing.
    pub nullable: bool,
    /// The Arrow type of dates or times, where the values are whole numbers that stand for them.
    pub time: Option<DataType>,
}

impl OutputKind {
    /// True for values whose bytes are not known beforehand: text, bytes and sparse rows.
    pub fn is_long(self) -> bool {
        matches!(self, Self::Text | Self::Binary | Self::Sparse(_))
    }
}

impl OutputColumn {
    /// A column called `name` without missing values.
    pub fn new(name: impl Into<String>, kind: OutputKind) -> Self {
        Self { name: name.into(), kind, nullable: false, time: None }
    }

    /// The type of its values, in words.
    pub fn holds(&self) -> String {
        match (&self.time, self.kind) {
            (Some(time), _) => crate::Kind::Time(time.clone()).to_string(),
            (None, OutputKind::F32) => "float32".to_string(),
            (None, OutputKind::F64) => "float64".to_string(),
            (None, OutputKind::I64) => "int64".to_string(),
            (None, OutputKind::Bool) => "bool".to_string(),
            (None, OutputKind::Text) => "text".to_string(),
            (None, OutputKind::Binary) => "binary".to_string(),
            (None, OutputKind::Sparse(shape)) => crate::Kind::Sparse(shape).to_string(),
        }
    }

    /// This column, with values that may be missing.
    pub fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

/// A table being written. It takes its place on the disk at [`Sink::finish`]; dropped before, it leaves nothing.
pub trait Sink: Send {
    /// Appends rows: one [`Output`] per column, in the order of the columns, all of the same length.
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()>;
    /// Writes what is left to the disk and leaves [`Sink::finish`] only the renaming: before any of several files that
    /// belong together takes its place, each is known to fit. Nothing can be appended after it.
    fn settle(&mut self) -> Result<()>;
    /// Writes what is left and puts the file in its place.
    fn finish(self: Box<Self>) -> Result<()>;
    /// Bytes held between batches.
    fn footprint(&self) -> usize;
}

/// Starts a file with these columns.
pub type Create = fn(&Path, &[OutputColumn]) -> Result<Box<dyn Sink>>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) holds: fn(&OutputColumn) -> bool,
    pub(crate) create: Create,
}

/// Name that stands for standard output, to which CSV is written.
pub const STDOUT: &str = "-";

/// The format that a path's extension names, and how it is written.
fn by_extension(path: &Path) -> Result<(&'static Format, Written)> {
    let named = if path == Path::new(STDOUT) { Path::new("out.csv") } else { path };
    let format = source::by_extension(named).and_then(|format| Some((format, format.written?)));
    format.ok_or_else(|| {
        let written = source::formats().into_iter().filter(|format| format.written.is_some());
        let known = source::listed(written.map(|format| format.extensions), "and");
        Error::UnknownFormat { path: path.to_path_buf(), known: format!("and writes {known}") }
    })
}

/// Whether a file of this name can hold a column.
///
/// # Errors
/// An extension that is not known.
pub fn holds(path: &Path, column: &OutputColumn) -> Result<bool> {
    Ok((by_extension(path)?.1.holds)(column))
}

/// The extensions of the formats that can hold a column, for help and messages: `.npy, .csv or .tsv` with `last` "or".
pub fn extensions(column: &OutputColumn, last: &str) -> String {
    let can = |format: &&Format| format.written.is_some_and(|written| (written.holds)(column));
    source::listed(source::formats().into_iter().filter(can).map(|format| format.extensions), last)
}

/// Starts a table in the format that the path's extension names; `-` is standard output, to which CSV is written.
///
/// ```
/// use kstore::sink::{self, Output, OutputColumn, OutputKind};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("out.parquet");
/// let mut out = sink::create(&path, &[OutputColumn::new("prediction", OutputKind::F64)])?;
/// out.write(&[Output::F64(&[1.0, 2.0])])?;
/// assert!(!path.exists());
/// out.finish()?;
/// assert_eq!(kstore::Table::open(&[path])?.stored_rows(), 2);
/// # Ok::<(), kstore::Error>(())
/// ```
pub fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let (format, written) = by_extension(path)?;
    match columns.iter().find(|column| !(written.holds)(column)) {
        None => (written.create)(path, columns),
        Some(column) => Err(Error::WrongType {
            path: path.to_path_buf(),
            column: column.name.clone(),
            got: column.holds(),
            expected: format!(".{} cannot; write .parquet instead, or leave the column out", format.extensions[0]),
        }),
    }
}

/// Number of rows of a batch that fits its columns.
///
/// # Panics
/// If the batch does not fit the columns: the caller has made both.
fn batch_rows(columns: &[OutputColumn], batch: &[Output<'_>]) -> usize {
    let kinds = columns.iter().map(|column| column.kind);
    assert!(kinds.eq(batch.iter().map(Output::kind)), "a batch has the columns of its sink");
    let rows = batch.first().map_or(0, Output::len);
    assert!(batch.iter().all(|column| column.len() == rows), "the columns of a batch have the same length");
    rows
}

/// The error of writing: that of the operating system where there is one in it, so that a full disk is reported as such.
#[cfg(any(feature = "parquet", feature = "ipc"))]
fn failed(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let mut within: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = within {
        if let Some(system) = error.downcast_ref::<io::Error>() {
            let own = |number: i32| io::Error::from_raw_os_error(number);
            let other = || io::Error::new(system.kind(), system.to_string());
            return Error::io("write", path)(system.raw_os_error().map_or_else(other, own));
        }
        within = error.source();
    }
    Error::io("write", path)(io::Error::other(error))
}
