//! Output tables, written in batches of columns.
//!
//! A [`Sink`] writes the files of one format, and the [`Format`] has the function that creates it.

pub use crate::writer::{CreateFn, OutputColumn, STDOUT, Sink};
pub use kpass::{OutputKind, OutputValues};

use crate::source::{self, Format};
use crate::writer::FormatWriter;
use crate::{Error, Result};
use std::path::Path;

/// Returns the format of a path's extension with its writer; the format of standard output is CSV.
fn writable_format(path: &Path) -> Result<(&'static Format, FormatWriter)> {
    let named_path = if path == Path::new(STDOUT) { Path::new("out.csv") } else { path };
    let format = source::format_by_extension(named_path).and_then(|format| Some((format, format.writer?)));
    format.ok_or_else(|| {
        let writable = source::formats().into_iter().filter(|format| format.writer.is_some());
        let extensions = source::list_extensions(writable.map(|format| format.extensions), "and");
        Error::UnknownFormat { path: path.to_path_buf(), known: format!("and writes {extensions}") }
    })
}

/// Returns whether a file of this name can hold a column.
///
/// # Errors
/// An unknown extension.
pub fn supports(path: &Path, column: &OutputColumn) -> Result<bool> {
    Ok((writable_format(path)?.1.supports)(column))
}

/// Returns the extensions of the formats that can hold a column, for help and messages. With the
/// word "or" as `conjunction`, the result is for example `.npy, .csv or .tsv`.
pub fn extensions(column: &OutputColumn, conjunction: &str) -> String {
    let supports_column = |format: &&Format| format.writer.is_some_and(|writer| (writer.supports)(column));
    source::list_extensions(
        source::formats().into_iter().filter(supports_column).map(|format| format.extensions),
        conjunction,
    )
}

/// Starts a table in the format of the path's extension. For the path `-`, CSV is written to
/// standard output.
///
/// ```
/// use kstore::sink::{self, OutputValues, OutputColumn, OutputKind};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("out.parquet");
/// let mut out = sink::create(&path, &[OutputColumn::new("prediction", OutputKind::F64)])?;
/// out.write(&[OutputValues::F64(&[1.0, 2.0])])?;
/// assert!(!path.exists());
/// out.finish()?;
/// assert_eq!(kstore::Table::open(&[path])?.stored_rows(), 2);
/// # Ok::<(), kstore::Error>(())
/// ```
///
/// # Errors
/// An unknown extension; [`Error::WrongType`] for a column that the format cannot store; a path
/// that cannot be written.
pub fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let (format, writer) = writable_format(path)?;
    match columns.iter().find(|column| !(writer.supports)(column)) {
        None => (writer.create)(path, columns),
        Some(column) => {
            let expected = format!(
                ".{} cannot store that type; write .parquet instead, or exclude the column",
                format.extensions[0]
            );
            Err(Error::wrong_type(path, &column.name, column.type_name(), expected))
        }
    }
}
