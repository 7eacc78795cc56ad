//! The interface of an output table.

use super::column::OutputColumn;
use crate::OutputValues;
use crate::{Error, Result};
use std::{io, path::Path};

/// An output table. [`Sink::finish`] moves the complete file to its path. If a sink is dropped
/// before `finish`, it leaves no file.
pub trait Sink: Send {
    /// Appends rows: one [`OutputValues`] per column, in the order of the columns, all of the same
    /// length.
    fn write(&mut self, batch: &[OutputValues<'_>]) -> Result<()>;
    /// Writes the remaining rows to the disk, so that [`Sink::finish`] only has to rename the file.
    /// If several files belong together, all are synced before the first is renamed. Afterwards
    /// nothing can be appended.
    fn sync(&mut self) -> Result<()>;
    /// Writes the remaining rows and moves the file to its path.
    fn finish(self: Box<Self>) -> Result<()>;
    /// Returns the bytes of memory between batches.
    fn memory_bytes(&self) -> usize;
}

/// Starts a file with these columns.
pub type CreateFn = fn(&Path, &[OutputColumn]) -> Result<Box<dyn Sink>>;

/// The functions that write a format: `supports` returns true if a file can hold a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormatWriter {
    pub(crate) supports: fn(&OutputColumn) -> bool,
    pub(crate) create: CreateFn,
}

/// Name of standard output, to which CSV is written.
pub const STDOUT: &str = "-";

/// Returns the number of rows of a batch.
///
/// # Panics
/// If the batch does not match the columns. The caller made both, so a mismatch is an error in the
/// program.
pub(super) fn batch_row_count(columns: &[OutputColumn], batch: &[OutputValues<'_>]) -> usize {
    let kinds = columns.iter().map(|column| column.kind);
    assert!(kinds.eq(batch.iter().map(OutputValues::kind)), "a batch has the columns of its sink");
    let rows = batch.first().map_or(0, OutputValues::len);
    assert!(batch.iter().all(|column| column.len() == rows), "the columns of a batch have the same length");
    rows
}

/// Returns the error of a failed write. If it contains an error of the operating system, that error
/// is extracted, so that a full disk is reported as a full disk.
#[cfg(any(feature = "parquet", feature = "ipc"))]
pub(super) fn write_error(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(io_error) = error.downcast_ref::<io::Error>() {
            let os_error = |code: i32| io::Error::from_raw_os_error(code);
            let error_of_kind = || io::Error::new(io_error.kind(), io_error.to_string());
            return Error::io("write", path)(io_error.raw_os_error().map_or_else(error_of_kind, os_error));
        }
        cause = error.source();
    }
    Error::io("write", path)(io::Error::other(error))
}
