//! A file format: how to recognise it, open it as a [`TableFile`], and read its rows.

use super::remote::RemoteFile;
use super::view::{ColumnView, Element};
use super::{TextOptions, TextReading};
use crate::registry::RegistryEntry;
use crate::sink::{CreateFn, FormatWriter, OutputColumn};
use crate::{Result, condition::BoundCondition, schema::Schema};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fmt::Debug, fs::File, ops::Range, path::Path};

/// Bytes of an open file: its path twice, its identity, its reader.
pub(super) const OPEN_FILE_BYTES: usize = 2 << 10;

/// Bytes of a column: its name and kind, the decoder's field, its index.
pub(super) const OPEN_COLUMN_BYTES: usize = 512;

/// Metadata of a file that holds a table.
#[derive(Clone, Copy, Debug)]
pub struct FileMetadata<'a> {
    /// Display name of the format.
    pub format: &'static str,
    /// Columns, in the order of the file.
    pub schema: &'a Schema,
    /// Number of stored rows.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes read to find the rows on opening; 0 if the file states their positions.
    pub bytes_scanned: u64,
}

/// An open file that holds a table.
pub trait TableFile: Debug + Send + Sync {
    /// Returns the metadata, as far as they are known without reading rows.
    fn metadata(&self) -> FileMetadata<'_>;
    /// Returns a remark on how its values are read.
    fn note(&self) -> Option<String> {
        None
    }
    /// Returns how the columns of a text file are read, if not by default.
    fn reading(&self) -> TextReading {
        TextReading::default()
    }
    /// Returns false for an array, whose columns have no names and contain only numbers.
    fn has_column_names(&self) -> bool {
        true
    }
    /// Returns whether a column has no values, so that its kind is a guess. Other files of the
    /// table then determine its kind.
    fn is_all_missing(&self, _column: usize) -> bool {
        false
    }
    /// Returns the line on which a row begins, counted from 1, in a text file.
    fn line(&self, _row: u64) -> Option<u64> {
        None
    }
    /// Returns the bytes of memory while no cursor is open: metadata about the columns and, in some
    /// formats, about the rows.
    fn resident_bytes(&self) -> usize {
        OPEN_FILE_BYTES + self.metadata().schema.columns.len() * OPEN_COLUMN_BYTES
    }
    /// Returns the bytes of memory of one open cursor over these columns.
    fn footprint(&self, columns: &[usize]) -> usize;
    /// Returns ascending, disjoint ranges of rows that contain every row whose value in `column`
    /// satisfies a condition; all rows if the file has no statistics that exclude any.
    fn candidate_rows(&self, _column: usize, _condition: &BoundCondition) -> Vec<Range<u64>> {
        std::iter::once(0..self.metadata().rows).collect()
    }
    /// Opens a cursor over some columns and a range of rows. It adds the number of bytes read from
    /// disk to `bytes_read`.
    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>>;
}

/// A cursor over the rows of a file. It returns chunks of rows, whose length the format chooses.
pub trait FileCursor: Send {
    /// Reads the next chunk and returns its number of rows; 0 at the end.
    fn advance(&mut self) -> Result<usize>;
    /// Reads as many of the next rows as fit into `x`, and returns their number, 0 at the end. `x`
    /// receives the first `columns` requested columns, row-major; the other columns are read as by
    /// [`FileCursor::advance`]. Returns `None` without reading if the file does not store these
    /// columns next to each other as numbers of this type: call `advance` then.
    fn advance_into(&mut self, _element: Element, _columns: usize, _x: &mut [u8]) -> Result<Option<usize>> {
        Ok(None)
    }
    /// Returns column `index` of the chunk, in the order of the requested columns.
    fn view(&self, index: usize) -> Result<ColumnView<'_>>;
}

/// A cursor over the rows of an open file.
#[doc(hidden)]
pub type BoxedCursor<'a> = Box<dyn FileCursor + 'a>;

/// Opens a file of a recognised format; the path is for messages only and need not lead to the
/// file.
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
    /// Reads parts of a remote object; other formats are copied first.
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

    /// Marks this format as text: its files may be compressed as a whole.
    pub const fn text(self) -> Self {
        Self { is_text: true, ..self }
    }

    /// Marks this format as one matrix of one type, without names: targets are in a separate file.
    pub const fn matrix(self) -> Self {
        Self { is_matrix: true, ..self }
    }

    /// Marks this format as labelled: each row begins with a label, in addition to the features.
    pub const fn labelled(self) -> Self {
        Self { is_labelled: true, ..self }
    }

    /// Returns whether each row begins with a label, for which the writer uses the target
    /// [`super::TARGET`].
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

    /// Makes this format writable: `supports` returns whether a file can hold a column, `create`
    /// starts a file.
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
