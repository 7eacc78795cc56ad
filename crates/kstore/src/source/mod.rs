//! File formats: the interface that each implements, and the registry that finds the right one.
//!
//! To add a format: write one file that implements [`TableFile`] and [`FileCursor`], and add one [`Format`] to
//! `FORMATS`, behind a feature of its own. A format of another crate: [`register`]. Formats that store columns hand out Arrow buffers, formats that store rows
//! hand out [`Strided`] views of the bytes they read; everything above this interface treats both the same.

mod absent;
#[cfg(any(feature = "ipc", feature = "npy"))]
mod aligned;
mod arrays;
mod batches;
mod chained;
mod column;
#[cfg(feature = "csv")]
pub mod csv;
mod guard;
mod identity;
#[cfg(feature = "ipc")]
pub mod ipc;
mod joined;
#[cfg(feature = "jsonl")]
mod json_lines;
pub mod memory;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "parquet")]
pub mod parquet;
pub(crate) mod partitioned;
mod plain;
#[cfg(any(feature = "parquet", feature = "ipc", feature = "npy", feature = "csv", feature = "svmlight"))]
mod positioned;
pub mod remote;
#[cfg_attr(
    not(all(feature = "jsonl", feature = "compressed")),
    allow(dead_code, reason = "what the two formats share")
)]
mod spool;
#[cfg(feature = "svmlight")]
pub mod svmlight;
mod text;
mod type_name;
mod view;

pub(crate) use absent::Absent;
pub(crate) use arrays::ArrayTable;
pub(crate) use batches::BatchTable;
pub use chained::Chained;
pub use guard::is_decoding;
pub use identity::Identity;
pub(crate) use joined::Joined;
pub use joined::TARGET;
pub use spool::STDIN;
pub(crate) use spool::standard_input;
pub use text::TextOptions;
pub use view::{Element, Positions, Strided, Values, View};

use crate::condition::Bound;
use crate::named::{Named, Registry};
use crate::schema::Schema;
use crate::{Error, Result};
use std::fmt::Debug;
use std::fs::File;
use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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

/// A kind of file: how to recognise it and how to open it.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Extensions without the dot, in lower case.
    pub extensions: &'static [&'static str],
    /// First bytes of every such file; empty where there are none.
    pub magic: &'static [u8],
    /// True for a format of text, which may be compressed as a whole.
    pub is_text: bool,
    /// Reads an open file; the path is for messages, and need not lead to it.
    pub open: fn(&Path, File, &TextOptions) -> Result<Arc<dyn TableFile>>,
}

/// The formats of this crate: each is one of its features.
static FORMATS: Registry<Format> = Registry::new(&[
    #[cfg(feature = "parquet")]
    Format {
        extensions: &["parquet", "pq"],
        magic: b"PAR1",
        is_text: false,
        open: |path, file, _| Ok(Arc::new(parquet::ParquetFile::of(path, file)?)),
    },
    #[cfg(feature = "ipc")]
    Format {
        extensions: &["arrow", "ipc", "feather"],
        magic: ipc::MAGIC,
        is_text: false,
        open: |path, file, _| Ok(Arc::new(ipc::IpcFile::of(path, file)?)),
    },
    #[cfg(feature = "npy")]
    Format {
        extensions: &["npy"],
        magic: npy::MAGIC,
        is_text: false,
        open: |path, file, _| Ok(Arc::new(npy::NpyFile::of(path, file)?)),
    },
    #[cfg(feature = "csv")]
    Format {
        extensions: &["csv", "tsv"],
        magic: b"",
        is_text: true,
        open: |path, file, options| Ok(Arc::new(csv::CsvFile::of(path, file, options)?)),
    },
    #[cfg(feature = "svmlight")]
    Format {
        extensions: &["svm", "svmlight", "libsvm"],
        magic: b"",
        is_text: true,
        open: |path, file, options| Ok(Arc::new(svmlight::SvmlightFile::of(path, file, options)?)),
    },
    #[cfg(feature = "jsonl")]
    Format { extensions: &["jsonl", "ndjson"], magic: b"", is_text: true, open: json_lines::open },
    #[cfg(feature = "compressed")]
    Format { extensions: &["gz", "zst"], magic: b"", is_text: false, open: spool::compressed },
]);

impl Named for Format {
    const WHAT: &'static str = "format";
    fn name(&self) -> &'static str {
        self.extensions[0]
    }
}

/// The formats that can be read: those of this crate, then those that were registered.
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
    const WHOLE: bool = cfg!(all(
        feature = "parquet",
        feature = "ipc",
        feature = "npy",
        feature = "csv",
        feature = "svmlight",
        feature = "jsonl",
        feature = "compressed"
    ));
    let names: Vec<String> = formats.flatten().map(|extension| format!(".{extension}")).collect();
    let text = match names.split_last() {
        None => "no file at all".to_string(),
        Some((only, [])) => only.clone(),
        Some((end, names)) => format!("{} {last} {end}", names.join(", ")),
    };
    if WHOLE { text } else { text + " (other formats are features of kstore that this build leaves out)" }
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

/// The format of a file that begins like this.
fn by_magic(start: &[u8]) -> Option<&'static Format> {
    FORMATS.all().into_iter().find(|format| !format.magic.is_empty() && start.starts_with(format.magic))
}
