//! Tables written back whole, in batches of columns.
//!
//! To add a format: write one file that implements [`Sink`], and add one [`SinkFormat`] to [`FORMATS`].

#[cfg(any(feature = "parquet", feature = "ipc"))]
mod arrow;
#[cfg(feature = "csv")]
mod csv;
#[cfg(feature = "ipc")]
mod ipc;
#[cfg(feature = "csv")]
mod iso;
#[cfg(feature = "npy")]
mod npy;
#[cfg(feature = "parquet")]
mod parquet;

use crate::arrow::datatypes::DataType;
use crate::{Error, KeptColumn, Result, Strings};
use std::path::Path;

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

impl OutputColumn {
    /// A column called `name` without missing values.
    pub fn new(name: impl Into<String>, kind: OutputKind) -> Self {
        Self { name: name.into(), kind, nullable: false, time: None }
    }

    /// The column as which a kept column of this kind is written: integers of every size become int64.
    pub fn of(name: &str, kind: &crate::Kind) -> Self {
        crate::keep::output_column(name, kind)
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
        }
    }

    /// This column, with values that may be missing.
    pub fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

/// Values of a column in a batch.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Output<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I64(&'a [i64]),
    Bool(&'a [bool]),
    Text(&'a Strings),
    Binary(&'a Strings),
    /// Values some of which may be missing.
    Kept(&'a KeptColumn),
}

impl Output<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Text(v) | Self::Binary(v) => v.len(),
            Self::Kept(column) => column.len(),
        }
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the values.
    pub fn kind(&self) -> OutputKind {
        match self {
            Self::F32(_) => OutputKind::F32,
            Self::F64(_) => OutputKind::F64,
            Self::I64(_) => OutputKind::I64,
            Self::Bool(_) => OutputKind::Bool,
            Self::Text(_) => OutputKind::Text,
            Self::Binary(_) => OutputKind::Binary,
            Self::Kept(column) => column.kind(),
        }
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

/// A kind of file that can be written.
#[derive(Clone, Copy, Debug)]
pub struct SinkFormat {
    /// Extensions without the dot, in lower case.
    pub extensions: &'static [&'static str],
    /// Whether the format can hold a column.
    pub holds: fn(&OutputColumn) -> bool,
    /// Function that starts a file.
    pub create: Create,
}

/// The formats that can be written: each is a feature of this crate.
pub const FORMATS: &[SinkFormat] = &[
    #[cfg(feature = "parquet")]
    SinkFormat {
        extensions: &["parquet", "pq"],
        holds: |_| true,
        create: |path, columns| Ok(Box::new(parquet::ParquetSink::create(path, columns)?)),
    },
    #[cfg(feature = "ipc")]
    SinkFormat {
        extensions: &["arrow", "ipc", "feather"],
        holds: |_| true,
        create: |path, columns| Ok(Box::new(ipc::IpcSink::create(path, columns)?)),
    },
    #[cfg(feature = "npy")]
    SinkFormat {
        extensions: &["npy"],
        holds: |column| column.time.is_none() && !matches!(column.kind, OutputKind::Text | OutputKind::Binary),
        create: |path, columns| Ok(Box::new(npy::NpySink::create(path, columns)?)),
    },
    #[cfg(feature = "csv")]
    SinkFormat {
        extensions: &["csv", "tsv"],
        holds: |column| column.kind != OutputKind::Binary,
        create: |path, columns| Ok(Box::new(csv::CsvSink::create(path, columns)?)),
    },
];

/// Name that stands for standard output, to which CSV is written.
pub const STDOUT: &str = "-";

/// The format that a path's extension names.
fn by_extension(path: &Path) -> Result<&'static SinkFormat> {
    let named = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let extension = if path == Path::new(STDOUT) { "csv".to_string() } else { named };
    let format = FORMATS.iter().find(|format| format.extensions.contains(&extension.as_str()));
    format.ok_or_else(|| {
        let known = crate::source::listed(FORMATS.iter().map(|format| format.extensions), "and");
        Error::UnknownFormat { path: path.to_path_buf(), known: format!("and writes {known}") }
    })
}

/// Whether a file of this name can hold a column.
///
/// # Errors
/// An extension that is not known.
pub fn holds(path: &Path, column: &OutputColumn) -> Result<bool> {
    Ok((by_extension(path)?.holds)(column))
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
    let format = by_extension(path)?;
    match columns.iter().find(|column| !(format.holds)(column)) {
        None => (format.create)(path, columns),
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
