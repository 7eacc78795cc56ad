//! The positions of the rows of a text file.

use super::records::{MAX_BUFFERED_BYTES, Record, RecordError, Records, RowStart, Scanner};
use crate::source::shared_file::{BLOCK_BYTES, SharedFile};

/// Initial number of rows from one stored position to the next. On average, a cursor skips half of
/// these rows, or about a thirtieth of a segment, before its first row.
const INITIAL_INTERVAL: u64 = 4096;

/// Maximum number of stored positions; they take 1 MiB. If a file has more rows, every second
/// position is dropped and the interval doubles.
const MAX_STARTS: usize = 1 << 16;

/// The positions of every n-th row, where n is `interval`. One pass over the file finds them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowStarts {
    stored_starts: Vec<RowStart>,
    interval: u64,
    row_count: u64,
    longest_row_bytes: usize,
}

impl RowStarts {
    pub(crate) fn new() -> Self {
        Self::with_interval(INITIAL_INTERVAL)
    }

    fn with_interval(interval: u64) -> Self {
        Self { interval, ..Self::default() }
    }

    pub(crate) fn add_row(&mut self, record: &Record<'_>) {
        if self.row_count.is_multiple_of(self.interval) {
            if self.stored_starts.len() == MAX_STARTS {
                let mut is_kept = false;
                self.stored_starts.retain(|_| {
                    is_kept = !is_kept;
                    is_kept
                });
                self.interval *= 2;
            }
            // `MAX_STARTS` is even, so this row's number is also a multiple of the doubled interval
            self.stored_starts.push(record.start);
        }
        self.row_count += 1;
        self.longest_row_bytes = self.longest_row_bytes.max(record.bytes.len());
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.row_count
    }

    pub(crate) fn longest_row_bytes(&self) -> usize {
        self.longest_row_bytes
    }

    /// Returns the bytes of [`Records`] over this file: of a row, of the blocks before and after
    /// it, and of the part of a long row that is buffered until its end is found.
    pub(crate) fn reader_bytes(&self) -> usize {
        2 * BLOCK_BYTES + self.longest_row_bytes.max(MAX_BUFFERED_BYTES.min(2 * self.longest_row_bytes))
    }

    pub(crate) fn records_from<S: Scanner>(
        &self,
        file: SharedFile,
        scanner: S,
        row: u64,
    ) -> Result<Records<S>, RecordError> {
        let Some(start) = self.stored_starts.get((row / self.interval) as usize) else {
            let end = RowStart { offset: file.length(), line: 0 };
            return Ok(Records::new(file, scanner, end));
        };
        let mut records = Records::new(file, scanner, *start);
        for _ in 0..row % self.interval {
            // if the file has lost rows, reading the rows reports it
            if records.next()?.is_none() {
                break;
            }
        }
        Ok(records)
    }

    /// Returns the line on which a row begins; `None` if the file can no longer be read.
    pub(crate) fn line_of_row<S: Scanner>(&self, file: &SharedFile, scanner: S, row: u64) -> Option<u64> {
        let mut records = self.records_from(file.clone(), scanner, row).ok()?;
        records.next().ok()?.map(|record| record.start.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rows_keep_few_starts_and_all_are_right() {
        let rows = 3 * MAX_STARTS as u64 * 5 / 2;
        let mut starts = RowStarts::with_interval(3);
        for row in 0..rows {
            starts.add_row(&Record { bytes: b"", start: RowStart { offset: 10 * row, line: row + 1 } });
        }
        assert_eq!((starts.row_count(), starts.interval), (rows, 4 * 3));
        assert!(starts.stored_starts.len() <= MAX_STARTS);
        for (i, start) in starts.stored_starts.iter().enumerate() {
            assert_eq!(start.offset, 10 * i as u64 * starts.interval);
        }
        assert_eq!(starts.stored_starts.len() as u64, rows.div_ceil(starts.interval));
    }
}
