//! File formats: the interface that each implements, and the registry that finds the right one.
//!
//! To add a format: write one file that implements [`TableFile`] and [`FileCursor`] and has a [`Format`], and add one
//! line to `FORMATS`, behind a feature of its own. A format of another crate: [`register`]. Formats that store columns hand out Arrow buffers, formats that store rows
//! hand out [`Strided`] views of the bytes they read; everything above this interface treats both the same.

mod batches;
mod chained;
mod column;
#[cfg(feature = "csv")]
mod csv;
mod data_type;
mod entries;
mod extended;
mod guard;
mod identity;
#[cfg(feature = "ipc")]
pub mod ipc;
#[cfg(feature = "jsonl")]
mod json_lines;
pub mod memory;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "parquet")]
pub mod parquet;
pub(crate) mod partitioned;
mod plain;
pub(crate) mod positioned;
pub mod remote;
mod spool;
#[cfg(feature = "svmlight")]
mod svmlight;
mod text;
pub(crate) mod view;

pub(crate) use batches::BatchTable;
pub use chained::Chained;
#[cfg(any(feature = "parquet", feature = "ipc"))]
pub(crate) use entries::SPARSE;
pub use extended::TARGET;
pub(crate) use extended::{Absent, Added, Extended};
pub use guard::is_decoding;
pub(crate) use identity::scheme;
pub use identity::{Identity, STDIN};
pub(crate) use spool::standard_input;
pub(crate) use svmlight::QUERY;
pub use text::TextOptions;
pub(crate) use text::{COLUMN_LIMIT, Sparse};
pub use view::{Element, Positions, Strided, Values, View};

use crate::named::{Named, Registry};
use crate::sink::OutputColumn;
use crate::sink::{Create, Written};
use crate::{Error, Result, condition::Bound, schema::Schema};
use remote::Distant;
use std::io::{Read, Seek};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fmt::Debug, fs::File, ops::Range, path::Path};

/// Bytes of an open file: its path twice, its identity, its reader.
const HELD: usize = 2 << 10;

/// Bytes of a column: its name and kind, the decoder's field, its place.
const HELD_BY_COLUMN: usize = 512;

/// An open file that holds a table.
pub trait TableFile: Debug + Send + Sync {
    /// Name of the format, as a person calls it.
    fn format(&self) -> &'static str;
    /// Columns, in the order of the file.
    fn schema(&self) -> &Schema;
    /// Rows stored.
    fn rows(&self) -> u64;
    /// What is to be said of the way in which its values are read.
    fn note(&self) -> Option<String> {
        None
    }
    /// False for an array, whose columns are known by their places: they hold numbers and nothing else.
    fn is_named(&self) -> bool {
        true
    }
    /// Bytes on disk.
    fn bytes(&self) -> u64;
    /// Bytes that opening has read to find the rows, where the file does not say where they are; 0 where it does.
    fn scanned(&self) -> u64 {
        0
    }
    /// The line that a row begins on, counted from 1, in a file of lines.
    fn line(&self, _row: u64) -> Option<u64> {
        None
    }
    /// Bytes held while no cursor is open: metadata about the columns and, in some formats, about the rows.
    fn held(&self) -> usize {
        HELD + self.schema().columns.len() * HELD_BY_COLUMN
    }
    /// Bytes that one open cursor over these columns holds.
    fn footprint(&self, columns: &[usize]) -> usize;
    /// Ranges of rows, ascending and apart, that hold every row whose value in `column` fulfils a condition: all rows
    /// where the file holds no statistics that tell more.
    fn candidates(&self, _column: usize, _condition: &Bound) -> Vec<Range<u64>> {
        std::iter::once(0..self.rows()).collect()
    }
    /// A cursor over some columns and a range of rows. The number of bytes read from disk is added to `read`.
    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>>;
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

/// Opens a file that was found to be of a format; the path is for messages, and need not lead to it.
pub type Open = fn(&Path, File, &TextOptions) -> Result<Arc<dyn TableFile>>;

type OpenDistant = fn(&Path, Arc<Distant>) -> Result<Arc<dyn TableFile>>;

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
    magic: &'static [u8],
    is_text: bool,
    is_matrix: bool,
    is_labelled: bool,
    open: Open,
    /// Reads parts of an object at a distance; other formats are copied first.
    distant: Option<OpenDistant>,
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

    /// This format, which is text and may be compressed as a whole.
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

    /// Whether each row begins with a label, for which the target [`TARGET`] is taken where the format is written.
    pub fn is_labelled(&self) -> bool {
        self.is_labelled
    }

    /// Whether a file holds one matrix of one type, without names.
    pub fn is_matrix(&self) -> bool {
        self.is_matrix
    }

    /// This format, which is written too: `holds` tells whether it can hold a column, `create` starts a file.
    pub const fn written(self, holds: fn(&OutputColumn) -> bool, create: Create) -> Self {
        Self { written: Some(Written { holds, create }), ..self }
    }
}

/// The formats of this crate: each is one of its features.
static FORMATS: Registry<Format> = Registry::new(&[
    #[cfg(feature = "parquet")]
    parquet::FORMAT,
    #[cfg(feature = "ipc")]
    ipc::FORMAT,
    #[cfg(feature = "npy")]
    npy::FORMAT,
    #[cfg(feature = "npz")]
    npz::FORMAT,
    #[cfg(feature = "csv")]
    csv::FORMAT,
    #[cfg(feature = "svmlight")]
    svmlight::FORMAT,
    #[cfg(feature = "jsonl")]
    json_lines::FORMAT,
    #[cfg(feature = "compressed")]
    spool::FORMAT,
]);

impl Named for Format {
    const WHAT: &'static str = "format";
    fn name(&self) -> &'static str {
        self.extensions[0]
    }
}

/// The formats: those of this crate, then those that were registered.
pub fn formats() -> Vec<&'static Format> {
    FORMATS.all()
}

/// Makes a format of another crate known by its first extension, in this process and from now on.
///
/// # Errors
/// [`Error::Register`] for an extension that is taken or is no word.
pub fn register(format: &'static Format) -> Result<()> {
    FORMATS.register(format)
}

/// The extensions in [`formats`], for messages: `.npy, .csv and .tsv`, with `last` before the last.
pub(crate) fn known(last: &str) -> String {
    listed(FORMATS.all().into_iter().map(|format| format.extensions), last)
}

/// Extensions for messages; where formats are left out of this build, it says so.
pub(crate) fn listed(formats: impl Iterator<Item = &'static [&'static str]>, last: &str) -> String {
    let names: Vec<String> = formats.flatten().map(|extension| format!(".{extension}")).collect();
    let text = match names.split_last() {
        None => "no file at all".to_string(),
        Some((only, [])) => only.clone(),
        Some((end, names)) => format!("{} {last} {end}", names.join(", ")),
    };
    if cfg!(feature = "formats") {
        text
    } else {
        text + " (other formats are features of kstore that this build leaves out)"
    }
}

/// The format a path's extension names.
pub fn by_extension(path: &Path) -> Option<&'static Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.all().into_iter().find(|format| format.extensions.contains(&extension.as_str()))
}

/// Opens a file as the format its extension names or, failing that, its first bytes.
pub fn open(path: &Path, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    // opening a pipe without a writer would wait for ever
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Error::NotAFile { path: path.to_path_buf() });
    }
    let failed = |error| Error::io("read", path)(error);
    let mut file = File::open(path).map_err(failed)?;
    let format = match by_extension(path) {
        Some(format) => format,
        None => {
            let mut start = Vec::new();
            (&mut file).take(8).read_to_end(&mut start).map_err(failed)?;
            file.rewind().map_err(failed)?;
            let unknown = || Error::UnknownFormat { path: path.to_path_buf(), known: known("and") };
            by_magic(&start).ok_or_else(unknown)?
        }
    };
    (format.open)(path, file, options)
}

fn by_magic(start: &[u8]) -> Option<&'static Format> {
    FORMATS.all().into_iter().find(|format| !format.magic.is_empty() && start.starts_with(format.magic))
}
