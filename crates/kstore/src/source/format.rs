//! What a format is: a file that holds a table, a cursor over its rows, and how both are come by.

use super::remote::Distant;
use super::view::{Element, View};
use super::{TextOptions, TextReading};
use crate::named::Named;
use crate::sink::{Create, OutputColumn, Written};
use crate::{Result, condition::Bound, schema::Schema};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fmt::Debug, fs::File, ops::Range, path::Path};

/// Bytes of an open file: its path twice, its identity, its reader.
pub(super) const HELD: usize = 2 << 10;

/// Bytes of a column: its name and kind, the decoder's field, its place.
pub(super) const HELD_BY_COLUMN: usize = 512;

/// What a file that holds a table is.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Name of the format, as a person calls it.
    pub format: &'static str,
    /// Columns, in the order of the file.
    pub schema: &'a Schema,
    /// Rows stored.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes that opening has read to find the rows, where the file does not say where they are; 0 where it does.
    pub scanned: u64,
}

/// An open file that holds a table.
pub trait TableFile: Debug + Send + Sync {
    /// What it is, as far as that is known without reading rows.
    fn facts(&self) -> Facts<'_>;
    /// What is to be said of the way in which its values are read.
    fn note(&self) -> Option<String> {
        None
    }
    /// How the columns of a text file are read, as far as that is not the default.
    fn reading(&self) -> TextReading {
        TextReading::default()
    }
    /// False for an array, whose columns are known by their places: they hold numbers and nothing else.
    fn is_named(&self) -> bool {
        true
    }
    /// True if no value of a column is known, so that its kind is a guess: the other files of a table decide what it holds.
    fn is_blank(&self, _column: usize) -> bool {
        false
    }
    /// The line that a row begins on, counted from 1, in a file of lines.
    fn line(&self, _row: u64) -> Option<u64> {
        None
    }
    /// Bytes held while no cursor is open: metadata about the columns and, in some formats, about the rows.
    fn held(&self) -> usize {
        HELD + self.facts().schema.columns.len() * HELD_BY_COLUMN
    }
    /// Bytes that one open cursor over these columns holds.
    fn footprint(&self, columns: &[usize]) -> usize;
    /// Ranges of rows, ascending and apart, that hold every row whose value in `column` fulfils a condition: all rows
    /// where the file holds no statistics that tell more.
    fn candidates(&self, _column: usize, _condition: &Bound) -> Vec<Range<u64>> {
        std::iter::once(0..self.facts().rows).collect()
    }
    /// A cursor over some columns and a range of rows. The number of bytes read from disk is added to `read`.
    fn open(&self, columns: &[usize], rows: Range<u64>, read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>>;
}

/// A cursor over the rows of a file: hands out chunks of rows of whatever length suits the format.
pub trait FileCursor: Send {
    /// Reads the next chunk and returns its number of rows; 0 at the end.
    fn advance(&mut self) -> Result<usize>;
    /// Reads the next rows of the first `columns` columns asked for straight into `x`, row after row, as many as fit,
    /// and the other columns as [`FileCursor::advance`] does; returns how many rows, 0 at the end. Returns `None`, with
    /// nothing read, where the file does not hold these columns side by side as numbers of this type: use `advance`
    /// then.
    fn advance_into(&mut self, _element: Element, _columns: usize, _x: &mut [u8]) -> Result<Option<usize>> {
        Ok(None)
    }
    /// Column `index` of the chunk, counted as the columns were asked for.
    fn view(&self, index: usize) -> Result<View<'_>>;
}

/// A cursor over the rows of an open file.
pub type BoxedCursor<'a> = Box<dyn FileCursor + 'a>;

/// Opens a file that was found to be of a format; the path is for messages, and need not lead to it.
pub type Open = fn(&Path, File, &TextOptions) -> Result<Arc<dyn TableFile>>;

pub(super) type OpenDistant = fn(&Path, Arc<Distant>) -> Result<Arc<dyn TableFile>>;

/// A kind of file: how to recognise it, how it is read and how it is written.
///
/// ```
/// use kstore::source::{Format, formats};
/// static ROWS: Format = Format::new(&["rows"], |path, _, _| Err(kstore::Error::NotAFile { path: path.into() }));
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
    pub(super) open: Open,
    /// Reads parts of an object at a distance; other formats are copied first.
    pub(super) distant: Option<OpenDistant>,
    pub(crate) written: Option<Written>,
}

impl Format {
    /// A format that is known by its extensions, and read.
    pub const fn new(extensions: &'static [&'static str], open: Open) -> Self {
        Self {
            extensions,
            magic: b"",
            is_text: false,
            is_matrix: false,
            is_labelled: false,
            open,
            distant: None,
            written: None,
        }
    }

    /// This format, each file of which begins with these bytes.
    pub const fn magic(self, magic: &'static [u8]) -> Self {
        Self { magic, ..self }
    }

    /// This format, whose files may be compressed as a whole: text.
    pub const fn text(self) -> Self {
        Self { is_text: true, ..self }
    }

    /// This format, whose files hold one matrix of one type, without names: targets stand in a file of their own.
    pub const fn matrix(self) -> Self {
        Self { is_matrix: true, ..self }
    }

    /// This format, each of whose rows begins with a label: one number beside the features.
    pub const fn labelled(self) -> Self {
        Self { is_labelled: true, ..self }
    }

    /// Whether each row begins with a label, for which the target [`super::TARGET`] is taken where the format is written.
    pub fn is_labelled(&self) -> bool {
        self.is_labelled
    }

    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Whether a file holds one matrix of one type, without names.
    pub fn is_matrix(&self) -> bool {
        self.is_matrix
    }

    /// This format, which reads parts of an object at a distance.
    pub(super) const fn distant(self, open: OpenDistant) -> Self {
        Self { distant: Some(open), ..self }
    }

    /// This format, which is written too: `holds` tells whether it can hold a column, `create` starts a file.
    pub const fn written(self, holds: fn(&OutputColumn) -> bool, create: Create) -> Self {
        Self { written: Some(Written { holds, create }), ..self }
    }
}

impl Named for Format {
    const WHAT: &'static str = "format";
    fn name(&self) -> &'static str {
        self.extensions[0]
    }
}
