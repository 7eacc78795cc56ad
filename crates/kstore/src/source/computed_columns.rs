//! Computed columns of a table, in an unnamed temporary file. The operating system removes the file
//! when the table is dropped or the process ends. *Bytes on disk*: 8 for each value.

use super::shared_file::SharedFile;
use crate::{Error, Result};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const NAME: &str = "computed columns";

/// Columns of numbers of all rows of a table, stored column by column.
#[derive(Clone, Debug)]
pub(crate) struct ComputedColumns {
    file: SharedFile,
    /// Handle for writing, with its own position: reading does not use the position.
    output: Arc<File>,
    row_count: u64,
}

impl ComputedColumns {
    /// Creates an empty file in the folder for temporary files (`TMPDIR`).
    pub(crate) fn create(row_count: u64) -> Result<Self> {
        let folder = std::env::temp_dir();
        let path = folder.join("a temporary file");
        let output = tempfile::tempfile_in(&folder).map_err(Error::io("write", &folder))?;
        let file = output.try_clone().and_then(|file| SharedFile::local(&path, NAME, file));
        Ok(Self { file: file.map_err(Error::io("read", &path))?, output: Arc::new(output), row_count })
    }

    /// Returns a handle of the same file that adds the bytes it reads to a counter.
    pub(super) fn with_counter(&self, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { file: self.file.with_counter(bytes_read), ..self.clone() }
    }

    fn offset(&self, column: usize, row: u64) -> u64 {
        (column as u64 * self.row_count + row) * size_of::<f64>() as u64
    }

    /// Writes the values of consecutive rows of a column, from row `first_row` on.
    pub(crate) fn write(&self, column: usize, first_row: u64, values: &[f64]) -> Result<()> {
        let mut output = &*self.output;
        let write = output
            .seek(SeekFrom::Start(self.offset(column, first_row)))
            .and_then(|_| output.write_all(bytemuck::cast_slice(values)));
        write.map_err(Error::io("write", self.file.path()))
    }

    /// Reads the values of consecutive rows of a column, from row `first_row` on.
    pub(super) fn read(&self, column: usize, first_row: u64, values: &mut [f64]) -> Result<()> {
        let offset = self.offset(column, first_row);
        self.file.read_exact_at(bytemuck::cast_slice_mut(values), offset).map_err(|error| self.file.read_error(error))
    }
}
