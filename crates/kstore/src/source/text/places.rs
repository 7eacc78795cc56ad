//! Where the rows of a text file lie.

use super::records::{BLOCK_BYTES, Fault, Place, Record, Records, Scanner};
use crate::source::positioned::Positioned;

/// Rows between two remembered places, to begin with: a cursor passes over half as many on average before its first
/// row, a thirtieth of a segment.
const EVERY: u64 = 4096;

/// Most places remembered: 1 MiB. Of a file with more rows every second place is forgotten.
const PLACE_LIMIT: usize = 1 << 16;

/// The places of every so-many-th row, found by one pass over the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    places: Vec<Place>,
    every: u64,
    rows: u64,
    longest: usize,
}

impl Places {
    /// The places of a file without rows yet.
    pub(crate) fn new() -> Self {
        Self::every(EVERY)
    }

    fn every(every: u64) -> Self {
        Self { every, ..Self::default() }
    }

    /// Adds the next row.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        if self.rows.is_multiple_of(self.every) {
            if self.places.len() == PLACE_LIMIT {
                let mut kept = false;
                self.places.retain(|_| {
                    kept = !kept;
                    kept
                });
                self.every *= 2;
            }
            // the limit is even, so this row is one of those that are remembered at twice the distance too
            self.places.push(record.place);
        }
        self.rows += 1;
        self.longest = self.longest.max(record.bytes.len());
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the longest row.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes that a [`Records`] over this file holds: a block and the row that straddles it, in a vector that grows by
    /// doubling.
    pub(crate) fn footprint(&self) -> usize {
        2 * (BLOCK_BYTES + self.longest)
    }

    /// A reader of the rows from `row` on.
    pub(crate) fn records<S: Scanner>(&self, file: Positioned, scanner: S, row: u64) -> Result<Records<S>, Fault> {
        let Some(place) = self.places.get((row / self.every) as usize) else {
            let end = Place { offset: file.length(), line: 0 };
            return Ok(Records::new(file, scanner, end));
        };
        let mut records = Records::new(file, scanner, *place);
        for _ in 0..row % self.every {
            // a file that lost rows is reported where they are missed
            if records.next()?.is_none() {
                break;
            }
        }
        Ok(records)
    }

    /// The line that a row begins on; `None` where the file no longer tells.
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
        let mut places = Places::every(3);
        for row in 0..rows {
            places.add(&Record { bytes: b"", place: Place { offset: 10 * row, line: row + 1 } });
        }
        assert_eq!((places.rows(), places.every), (rows, 4 * 3));
        assert!(places.places.len() <= PLACE_LIMIT);
        for (i, place) in places.places.iter().enumerate() {
            assert_eq!(place.offset, 10 * i as u64 * places.every);
        }
        assert_eq!(places.places.len() as u64, rows.div_ceil(places.every));
    }
}
