//! A file format: how to recognise it, open it as a [`TableFile`], and read its rows.

use super::remote::RemoteFile;
use super::{TextOptions, TextReadOptions};
use crate::registry::RegistryEntry;
use crate::view::{ColumnView, Element};
use crate::writer::{CreateFn, FormatWriter, OutputColumn};
use crate::{Result, condition::BoundCondition, schema::Schema};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fmt::Debug, fs::File, ops::Range, path::Path};

/// Bytes of an open file without its columns: its path twice, its identity, and its reader.
pub(super) const OPEN_FILE_BYTES: usize = 2 << 10;

/// Bytes of a column of an open file: its name and kind, its field in the decoder, and its index.
pub(super) const OPEN_COLUMN_BYTES: usize = 512;

/// Metadata of a file that holds a table.
#[derive(Clone, Copy, Debug)]
pub struct FileMetadata<'a> {
    /// Display name of the format.
    pub format: &'static str,
    /// Columns, in the order of the file.
    pub schema: &'a Schema,
    /// Number of stored rows.
    pub row_count: u64,
    /// Bytes on disk.
    pub file_bytes: u64,
    /// Bytes that were read on opening to find the rows; 0 if the file states the positions of its
    /// rows.
    pub bytes_scanned: u64,
}

/// An open file that holds a table.
pub trait TableFile: Debug + Send + Sync {
    /// Returns the metadata that are known without reading rows.
    fn metadata(&self) -> FileMetadata<'_>;
    /// Returns a remark on how the values of the file are read, if there is one.
    fn note(&self) -> Option<String> {
        None
    }
    /// Returns the non-default options with which the columns of a text file are read.
    fn reading(&self) -> TextReadOptions {
        TextReadOptions::default()
    }
    /// Returns false for an array, whose columns have no names and contain only numbers.
    fn has_column_names(&self) -> bool {
        true
    }
    /// Returns whether a column has no values. The kind of such a column is a guess, and the other
    /// files of the table determine it.
    fn is_all_missing(&self, _column: usize) -> bool {
        false
    }
    /// Returns the line of a text file on which a row begins; lines are counted from 1.
    fn line_of_row(&self, _row: u64) -> Option<u64> {
        None
    }
    /// Returns the bytes of memory that the open file takes without any cursor: metadata about its
    /// columns and, in some formats, about its rows.
    fn resident_bytes(&self) -> usize {
        OPEN_FILE_BYTES + self.metadata().schema.columns.len() * OPEN_COLUMN_BYTES
    }
    /// Returns the bytes of memory of one open cursor over these columns.
    fn cursor_bytes(&self, columns: &[usize]) -> usize;
    /// Returns ascending, disjoint ranges of rows. Every row whose value in `column` satisfies the
    /// condition is in one of the ranges. If the file has no statistics that exclude rows, the
    /// result is all rows.
    fn candidate_rows(&self, _column: usize, _condition: &BoundCondition) -> Vec<Range<u64>> {
        std::iter::once(0..self.metadata().row_count).collect()
    }
    /// Opens a cursor over some columns of a range of rows. The cursor adds the bytes that it reads
    /// from disk to `bytes_read`.
    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>>;
}

/// A cursor over the rows of a file. It returns chunks of rows, whose length the format chooses.
pub trait FileCursor: Send {
    /// Reads the next chunk and returns its number of rows; 0 at the end.
    fn advance(&mut self) -> Result<usize>;
    /// Reads as many of the next rows as fit into `x`, and returns their number, which is 0 at the
    /// end. `x` receives the first `columns` of the requested columns, row-major. The other columns
    /// are read as by [`FileCursor::advance`]. If the file does not store the first columns next to
    /// each other as numbers of this type, returns `None` without reading; the caller must then
    /// call `advance`.
    fn advance_into(&mut self, _element: Element, _columns: usize, _x: &mut [u8]) -> Result<Option<usize>> {
        Ok(None)
    }
    /// Returns column `index` of the chunk, in the order of the requested columns.
    fn view(&self, index: usize) -> Result<ColumnView<'_>>;
}

/// A cursor over the rows of an open file.
#[doc(hidden)]
pub type BoxedCursor<'a> = Box<dyn FileCursor + 'a>;

/// Opens a file whose format was recognised. The path is for messages only, and need not be the
/// path of the file.
pub type OpenFn = fn(&Path, File, &TextOptions) -> Result<Arc<dyn TableFile>>;

pub(super) type OpenRemoteFn = fn(&Path, Arc<RemoteFile>) -> Result<Arc<dyn TableFile>>;

/// A file format: how to recognise, read and write it.
///
/// ```
/// use kstore::source::{Format, formats};
/// static ROWS: Format =
///     Format::new(&["rows"], |path, _, _| Err(kstore::Error::NotAFile { path: path.into() }));
/// kstore::source::register(&ROWS)?;
/// assert!(formats().iter().any(|format| format.extensions == ["rows"]));
/// # Ok::<(), kstore::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Extensions without the dot, in lower case.
    pub extensions: &'static [&'static str],
    pub(super) magic: &'static [u8],
    pub(super) is_text: bool,
    is_matrix: bool,
    is_labelled: bool,
    pub(super) open: OpenFn,
    /// Opens a remote object and reads parts of it. Without this function, an object is copied
    /// before it is opened.
    pub(super) open_remote: Option<OpenRemoteFn>,
    pub(crate) writer: Option<FormatWriter>,
}

impl Format {
    /// Returns a readable format that is recognised by its extensions.
    pub const fn new(extensions: &'static [&'static str], open: OpenFn) -> Self {
        Self {
            extensions,
            magic: b"",
            is_text: false,
            is_matrix: false,
            is_labelled: false,
            open,
            open_remote: None,
            writer: None,
        }
    }

    /// Sets the bytes with which every file of this format begins.
    pub const fn magic(self, magic: &'static [u8]) -> Self {
        Self { magic, ..self }
    }

    /// Marks this format as text. Files of a text format may be compressed as a whole.
    pub const fn text(self) -> Self {
        Self { is_text: true, ..self }
    }

    /// Marks this format as a matrix: a file holds one matrix of a single type, without column
    /// names, and the targets are in a separate file.
    pub const fn matrix(self) -> Self {
        Self { is_matrix: true, ..self }
    }

    /// Marks this format as labelled: in a file, each row begins with a label, followed by the
    /// features.
    pub const fn labelled(self) -> Self {
        Self { is_labelled: true, ..self }
    }

    /// Returns whether each row of a file begins with a label. The writer uses the target
    /// [`super::TARGET`] as the label.
    #[doc(hidden)]
    pub fn is_labelled(&self) -> bool {
        self.is_labelled
    }

    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Returns whether a file holds one matrix of one type, without names.
    #[doc(hidden)]
    pub fn is_matrix(&self) -> bool {
        self.is_matrix
    }

    /// Sets the function that reads parts of a remote object.
    pub(super) const fn remote(self, open: OpenRemoteFn) -> Self {
        Self { open_remote: Some(open), ..self }
    }

    /// Makes this format writable. `supports` returns whether a file can hold a column, and
    /// `create` starts a file.
    pub const fn writable(self, supports: fn(&OutputColumn) -> bool, create: CreateFn) -> Self {
        Self { writer: Some(FormatWriter { supports, create }), ..self }
    }
}

impl RegistryEntry for Format {
    const KIND: &'static str = "format";
    fn name(&self) -> &'static str {
        self.extensions[0]
    }
}
