//! Files that are written row by row, as text or as one matrix.

use super::{OutputColumn, OutputValues, STDOUT, Sink};
use crate::atomic::AtomicFile;
use crate::{Error, Result};
use std::io::{Seek, SeekFrom, Stdout, Write};
use std::path::{Path, PathBuf};

/// Bytes of buffered rows that are written at once.
const ROW_BUFFER_BYTES: usize = 64 << 10;

/// A format whose files are written row by row.
pub(super) trait RowFormat: Send {
    /// Returns the header of a file with `row_count` rows. Its length must not depend on
    /// `row_count`, because it is written again at the end.
    fn header(&self, columns: &[OutputColumn], row_count: u64) -> Vec<u8>;
    /// Appends row `row` of a batch, which is row `row_number` of the file.
    fn write_row(
        &self,
        columns: &[OutputColumn],
        batch: &[OutputValues<'_>],
        row: usize,
        row_number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()>;
    /// Returns the maximum bytes of a row if it may exceed `ROW_BUFFER_BYTES`, otherwise 0.
    fn max_row_bytes(&self, _columns: &[OutputColumn]) -> usize {
        0
    }
}

/// A sink that buffers rows in the form of the file.
pub(super) struct RowSink<R> {
    destination: Destination,
    path: PathBuf,
    columns: Vec<OutputColumn>,
    format: R,
    row_count: u64,
    buffer: Vec<u8>,
}

enum Destination {
    File(AtomicFile),
    /// Standard output: rows that were written may have been read already, and cannot be replaced.
    Stdout(Stdout),
}

impl<R: RowFormat + 'static> RowSink<R> {
    pub(super) fn create(path: &Path, columns: &[OutputColumn], format: R) -> Result<Box<dyn Sink>> {
        let destination = match path == Path::new(STDOUT) {
            true => Destination::Stdout(std::io::stdout()),
            false => Destination::File(AtomicFile::create(path)?),
        };
        let (buffer, path, columns) = (format.header(columns, 0), path.to_path_buf(), columns.to_vec());
        Ok(Box::new(Self { destination, path, columns, format, row_count: 0, buffer }))
    }

    fn flush(&mut self) -> Result<()> {
        let result = match &mut self.destination {
            Destination::File(file) => file.write_all(&self.buffer),
            Destination::Stdout(out) => out.write_all(&self.buffer).and_then(|()| out.flush()),
        };
        self.buffer.clear();
        result.map_err(Error::io("write", &self.path))
    }
}

impl<R: RowFormat + 'static> Sink for RowSink<R> {
    fn write(&mut self, batch: &[OutputValues<'_>]) -> Result<()> {
        for row in 0..super::interface::batch_row_count(&self.columns, batch) {
            self.format.write_row(&self.columns, batch, row, self.row_count, &mut self.buffer)?;
            self.row_count += 1;
            if self.buffer.len() >= ROW_BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let Destination::File(file) = &mut self.destination else { return Ok(()) };
        let header = self.format.header(&self.columns, self.row_count);
        if header != self.format.header(&self.columns, 0) {
            let result = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&header));
            result.map_err(Error::io("write", &self.path))?;
        }
        file.sync()
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.sync()?;
        match self.destination {
            Destination::File(file) => file.commit(),
            Destination::Stdout(_) => Ok(()),
        }
    }

    /// Bytes of the buffered rows, of which the last may be long. The buffer may have twice the
    /// capacity that it needs.
    fn memory_bytes(&self) -> usize {
        2 * (ROW_BUFFER_BYTES + self.format.max_row_bytes(&self.columns))
    }
}

pub(super) fn write_formatted(text: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    // writing to a vector cannot fail
    let _ = out.write_fmt(text);
}
