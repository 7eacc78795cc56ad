//! The positions of the rows of a text file.

use super::records::{Record, RecordError, Records, RowStart, Scanner, UNSEEN};
use crate::source::positioned::{BLOCK_BYTES, Positioned};

/// Initial number of rows between two stored positions. A cursor skips half of this on average
/// before its first row, which is a thirtieth of a segment.
const EVERY: u64 = 4096;

/// Maximum number of stored positions: 1 MiB. For a file with more rows every second position is
/// dropped.
const PLACE_LIMIT: usize = 1 << 16;

/// The positions of every n-th row, found by one pass over the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowStarts {
    kept: Vec<RowStart>,
    every: u64,
    rows: u64,
    longest: usize,
}

impl RowStarts {
    pub(crate) fn new() -> Self {
        Self::every(EVERY)
    }

    fn every(every: u64) -> Self {
        Self { every, ..Self::default() }
    }

    pub(crate) fn add(&mut self, record: &Record<'_>) {
        if self.rows.is_multiple_of(self.every) {
            if self.kept.len() == PLACE_LIMIT {
                let mut even = false;
                self.kept.retain(|_| {
                    even = !even;
                    even
                });
                self.every *= 2;
            }
            // the limit is even, so this row's position is also kept at twice the distance
            self.kept.push(record.place);
        }
        self.rows += 1;
        self.longest = self.longest.max(record.bytes.len());
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn longest_row(&self) -> usize {
        self.longest
    }

    /// Returns the bytes of a [`Records`] over this file: a row, the blocks before and after it,
    /// and the bytes of a long row that are kept until its end is found.
    pub(crate) fn footprint(&self) -> usize {
        2 * BLOCK_BYTES + self.longest.max(UNSEEN.min(2 * self.longest))
    }

    pub(crate) fn records<S: Scanner>(
        &self,
        file: Positioned,
        scanner: S,
        row: u64,
    ) -> Result<Records<S>, RecordError> {
        let Some(place) = self.kept.get((row / self.every) as usize) else {
            let end = RowStart { offset: file.length(), line: 0 };
            return Ok(Records::new(file, scanner, end));
        };
        let mut records = Records::new(file, scanner, *place);
        for _ in 0..row % self.every {
            // a file that lost rows is reported when the rows are read
            if records.next()?.is_none() {
                break;
            }
        }
        Ok(records)
    }

    /// Returns the line on which a row begins; `None` if the file can no longer be read.
    pub(crate) fn line<S: Scanner>(&self, file: &Positioned, scanner: S, row: u64) -> Option<u64> {
        let mut records = self.records(file.clone(), scanner, row).ok()?;
        records.next().ok()?.map(|record| record.place.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_few_places_are_kept_and_all_are_right() {
        let rows = 3 * PLACE_LIMIT as u64 * 5 / 2;
        let mut starts = RowStarts::every(3);
        for row in 0..rows {
            starts.add(&Record { bytes: b"", place: RowStart { offset: 10 * row, line: row + 1 } });
        }
        assert_eq!((starts.rows(), starts.every), (rows, 4 * 3));
        assert!(starts.kept.len() <= PLACE_LIMIT);
        for (i, place) in starts.kept.iter().enumerate() {
            assert_eq!(place.offset, 10 * i as u64 * starts.every);
        }
        assert_eq!(starts.kept.len() as u64, rows.div_ceil(starts.every));
    }
}
