//! Reads the rows of a text file in order. The current row is in memory as a whole.

use crate::source::shared_file::{BLOCK_BYTES, SharedFile};
use std::io;

/// Maximum bytes of a row. A longer row means that a quote is not closed, or that the file has no
/// line ends. Without this limit, such a row would fill the memory.
pub(crate) const MAX_ROW_BYTES: usize = 16 << 20;

/// Maximum bytes of a row that are buffered before the end of the row is found. If a row is longer,
/// its end is searched without buffering, so that a row above [`MAX_ROW_BYTES`] is rejected in
/// little memory.
pub(crate) const MAX_BUFFERED_BYTES: usize = 4 * BLOCK_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowStart {
    pub(crate) offset: u64,
    pub(crate) line: u64,
}

/// Finds the boundaries of rows in bytes that arrive in pieces. Both functions add to `line` the
/// number of line ends that they pass.
pub(crate) trait Scanner: Send {
    /// Returns the position of the next row's first byte; `None` if no row begins in these bytes.
    fn find_start(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize>;
    /// Returns the position after the last byte of the current row. Returns `None` if all these
    /// bytes belong to the current row.
    fn find_end(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize>;
    /// Returns whether the current row may end at the end of the file.
    fn may_end_with_file(&self) -> bool;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// Text of the row, without the line end.
    pub(crate) bytes: &'a [u8],
    pub(crate) start: RowStart,
}

#[derive(Debug)]
pub(crate) enum RecordError {
    Io(io::Error),
    Truncated {
        expected: u64,
        found: u64,
    },
    /// The row that begins here exceeds the maximum length of a row.
    TooLong(RowStart),
    /// The row that begins here does not end before the file does.
    Unterminated(RowStart),
}

/// A reader at a position of a text file. It holds one block of bytes, and more only for a longer
/// row.
#[derive(Debug)]
pub(crate) struct Records<S> {
    file: SharedFile,
    scanner: S,
    line: u64,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    base: u64,
    /// The range of the buffered bytes that were not returned yet: its start, then its end.
    start: usize,
    end: usize,
}

impl<S: Scanner> Records<S> {
    /// Returns a reader of the rows from `start` on. `start` must be between two rows, or at the
    /// first byte of a row.
    pub(crate) fn new(file: SharedFile, scanner: S, start: RowStart) -> Self {
        Self { file, scanner, line: start.line, buffer: Vec::new(), base: start.offset, start: 0, end: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, RecordError> {
        loop {
            match self.scanner.find_start(&self.buffer[self.start..self.end], &mut self.line) {
                Some(skip) => {
                    self.start += skip;
                    break;
                }
                None => {
                    self.start = self.end;
                    if !self.read(BLOCK_BYTES)? {
                        return Ok(None);
                    }
                }
            }
        }
        let row_start = RowStart { offset: self.base + self.start as u64, line: self.line };
        let length = self.read_row(row_start)?;
        let start = self.start;
        self.start += length;
        Ok(Some(Record { bytes: &self.buffer[start..start + length], start: row_start }))
    }

    /// Reads all of the row at `row_start` into the buffer, and returns its number of bytes.
    fn read_row(&mut self, row_start: RowStart) -> Result<usize, RecordError> {
        let mut scanned = 0;
        loop {
            let rest = &self.buffer[self.start + scanned..self.end];
            if let Some(more) = self.scanner.find_end(rest, &mut self.line) {
                return Ok(scanned + more);
            }
            scanned += rest.len();
            if scanned >= MAX_BUFFERED_BYTES {
                let length = self.find_length(row_start, scanned)?;
                self.read(length - scanned)?;
                return Ok(length);
            }
            if !self.read(BLOCK_BYTES)? {
                return if self.scanner.may_end_with_file() {
                    Ok(scanned)
                } else {
                    Err(RecordError::Unterminated(row_start))
                };
            }
        }
    }

    /// Returns the number of bytes of the row at `row_start`. The first `scanned` bytes of the row
    /// were already scanned. Holds only one block at a time.
    fn find_length(&mut self, row_start: RowStart, mut scanned: usize) -> Result<usize, RecordError> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let got = self.file.read_at(&mut block, row_start.offset + scanned as u64).map_err(RecordError::Io)?;
            let end = self.scanner.find_end(&block[..got], &mut self.line);
            scanned += end.unwrap_or(got);
            if scanned > MAX_ROW_BYTES {
                return Err(RecordError::TooLong(row_start));
            }
            if end.is_some() {
                return Ok(scanned);
            }
            if got == 0 {
                return if self.scanner.may_end_with_file() {
                    Ok(scanned)
                } else {
                    Err(RecordError::Unterminated(row_start))
                };
            }
        }
    }

    /// Moves the buffered bytes to the front and reads up to `bytes` more bytes; returns false at
    /// the end of the file.
    fn read(&mut self, bytes: usize) -> Result<bool, RecordError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        (self.start, self.end) = (0, self.end - self.start);
        let offset = self.base + self.end as u64;
        let want = bytes.min(usize::try_from(self.file.length() - offset).unwrap_or(usize::MAX));
        if self.buffer.len() < self.end + want {
            self.buffer.reserve_exact(self.end + want - self.buffer.len());
            self.buffer.resize(self.end + want, 0);
        }
        let got = self.file.read_at(&mut self.buffer[self.end..self.end + want], offset).map_err(RecordError::Io)?;
        if got < want {
            return Err(RecordError::Truncated { expected: self.file.length(), found: offset + got as u64 });
        }
        self.end += got;
        Ok(want > 0)
    }
}
