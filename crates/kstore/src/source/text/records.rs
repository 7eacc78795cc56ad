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

/// The position of a row: the offset of its first byte, and its line, counted from 1.
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

/// A reason why the next row cannot be read.
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
    buffer_offset: u64,
    /// The range of the buffered bytes that were not returned yet: its start, then its end.
    unread_start: usize,
    unread_end: usize,
}

impl<S: Scanner> Records<S> {
    /// Returns a reader of the rows from `start` on. `start` must be between two rows, or at the
    /// first byte of a row.
    pub(crate) fn new(file: SharedFile, scanner: S, start: RowStart) -> Self {
        Self {
            file,
            scanner,
            line: start.line,
            buffer: Vec::new(),
            buffer_offset: start.offset,
            unread_start: 0,
            unread_end: 0,
        }
    }

    /// Returns the next row; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, RecordError> {
        loop {
            match self.scanner.find_start(&self.buffer[self.unread_start..self.unread_end], &mut self.line) {
                Some(skip) => {
                    self.unread_start += skip;
                    break;
                }
                None => {
                    self.unread_start = self.unread_end;
                    if !self.read_more(BLOCK_BYTES)? {
                        return Ok(None);
                    }
                }
            }
        }
        let row_start = RowStart { offset: self.buffer_offset + self.unread_start as u64, line: self.line };
        let length = self.read_row(row_start)?;
        let start = self.unread_start;
        self.unread_start += length;
        Ok(Some(Record { bytes: &self.buffer[start..start + length], start: row_start }))
    }

    /// Reads all of the row at `row_start` into the buffer, and returns its number of bytes.
    fn read_row(&mut self, row_start: RowStart) -> Result<usize, RecordError> {
        let mut scanned_bytes = 0;
        loop {
            let unscanned = &self.buffer[self.unread_start + scanned_bytes..self.unread_end];
            if let Some(remaining_bytes) = self.scanner.find_end(unscanned, &mut self.line) {
                return Ok(scanned_bytes + remaining_bytes);
            }
            scanned_bytes += unscanned.len();
            if scanned_bytes >= MAX_BUFFERED_BYTES {
                let length = self.find_row_length(row_start, scanned_bytes)?;
                self.read_more(length - scanned_bytes)?;
                return Ok(length);
            }
            if !self.read_more(BLOCK_BYTES)? {
                return if self.scanner.may_end_with_file() {
                    Ok(scanned_bytes)
                } else {
                    Err(RecordError::Unterminated(row_start))
                };
            }
        }
    }

    /// Returns the number of bytes of the row at `row_start`. The first `scanned_bytes` bytes of
    /// the row were already scanned. Holds only one block at a time.
    fn find_row_length(&mut self, row_start: RowStart, mut scanned_bytes: usize) -> Result<usize, RecordError> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let read_len =
                self.file.read_at(&mut block, row_start.offset + scanned_bytes as u64).map_err(RecordError::Io)?;
            let end = self.scanner.find_end(&block[..read_len], &mut self.line);
            scanned_bytes += end.unwrap_or(read_len);
            if scanned_bytes > MAX_ROW_BYTES {
                return Err(RecordError::TooLong(row_start));
            }
            if end.is_some() {
                return Ok(scanned_bytes);
            }
            if read_len == 0 {
                return if self.scanner.may_end_with_file() {
                    Ok(scanned_bytes)
                } else {
                    Err(RecordError::Unterminated(row_start))
                };
            }
        }
    }

    /// Moves the buffered bytes to the front and reads up to `bytes` more bytes; returns false at
    /// the end of the file.
    fn read_more(&mut self, bytes: usize) -> Result<bool, RecordError> {
        self.buffer.copy_within(self.unread_start..self.unread_end, 0);
        self.buffer_offset += self.unread_start as u64;
        (self.unread_start, self.unread_end) = (0, self.unread_end - self.unread_start);
        let offset = self.buffer_offset + self.unread_end as u64;
        let requested_bytes = bytes.min(usize::try_from(self.file.length() - offset).unwrap_or(usize::MAX));
        if self.buffer.len() < self.unread_end + requested_bytes {
            self.buffer.reserve_exact(self.unread_end + requested_bytes - self.buffer.len());
            self.buffer.resize(self.unread_end + requested_bytes, 0);
        }
        let read_len = self
            .file
            .read_at(&mut self.buffer[self.unread_end..self.unread_end + requested_bytes], offset)
            .map_err(RecordError::Io)?;
        if read_len < requested_bytes {
            return Err(RecordError::Truncated { expected: self.file.length(), found: offset + read_len as u64 });
        }
        self.unread_end += read_len;
        Ok(requested_bytes > 0)
    }
}
