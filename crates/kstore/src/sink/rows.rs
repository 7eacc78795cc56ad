//! Files that are written row by row, as text or as one matrix.

use super::{Output, OutputColumn, STDOUT, Sink};
use crate::atomic::AtomicFile;
use crate::{Error, Result};
use std::io::{Seek, SeekFrom, Stdout, Write};
use std::path::{Path, PathBuf};

const GATHERED_BYTES: usize = 64 << 10;

pub(super) trait Rows: Send {
    /// Returns the head of a file of `rows` rows; its length must not depend on `rows`.
    fn head(&self, columns: &[OutputColumn], rows: u64) -> Vec<u8>;
    /// Appends row `row` of a batch, which is row `row_number` of the file.
    fn row(
        &self,
        columns: &[OutputColumn],
        batch: &[Output<'_>],
        row: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()>;
    /// Returns the maximum bytes of a row if it may exceed `BUFFER_BYTES`, otherwise 0.
    fn longest(&self, _columns: &[OutputColumn]) -> usize {
        0
    }
}

pub(super) struct RowSink<R> {
    place: Destination,
    path: PathBuf,
    columns: Vec<OutputColumn>,
    format: R,
    rows: u64,
    bytes: Vec<u8>,
}

enum Destination {
    File(AtomicFile),
    /// Written rows may have been read already and cannot be replaced.
    Stdout(Stdout),
}

impl<R: Rows + 'static> RowSink<R> {
    pub(super) fn create(path: &Path, columns: &[OutputColumn], format: R) -> Result<Box<dyn Sink>> {
        let place = match path == Path::new(STDOUT) {
            true => Destination::Stdout(std::io::stdout()),
            false => Destination::File(AtomicFile::create(path)?),
        };
        let (bytes, path, columns) = (format.head(columns, 0), path.to_path_buf(), columns.to_vec());
        Ok(Box::new(Self { place, path, columns, format, rows: 0, bytes }))
    }

    fn hand_on(&mut self) -> Result<()> {
        let written = match &mut self.place {
            Destination::File(file) => file.write_all(&self.bytes),
            Destination::Stdout(out) => out.write_all(&self.bytes).and_then(|()| out.flush()),
        };
        self.bytes.clear();
        written.map_err(Error::io("write", &self.path))
    }
}

impl<R: Rows + 'static> Sink for RowSink<R> {
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()> {
        for row in 0..super::written::batch_rows(&self.columns, batch) {
            self.format.row(&self.columns, batch, row, self.rows, &mut self.bytes)?;
            self.rows += 1;
            if self.bytes.len() >= GATHERED_BYTES {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.hand_on()?;
        let Destination::File(file) = &mut self.place else { return Ok(()) };
        let head = self.format.head(&self.columns, self.rows);
        if head != self.format.head(&self.columns, 0) {
            let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&head));
            written.map_err(Error::io("write", &self.path))?;
        }
        file.settle()
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        match self.place {
            Destination::File(file) => file.commit(),
            Destination::Stdout(_) => Ok(()),
        }
    }

    /// Bytes of the gathered rows; the last row may be long.
    fn footprint(&self) -> usize {
        2 * (GATHERED_BYTES + self.format.longest(&self.columns))
    }
}

pub(super) fn formatted(text: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    // writing to a vector cannot fail
    let _ = out.write_fmt(text);
}
