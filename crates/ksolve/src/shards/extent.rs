//! The rows of a shard: complete segments, parts of segments, and the rows that statistics cover.

use super::growth::ShardGrowth;
use crate::{Error, Result};
use kstore::checkpoint::{Cut, StateFile, StateKey};
use kstore::pass::{Node, PassKey};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The metadata of a file of statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StatisticsMetadata {
    pub(super) job_mark: String,
    pub(super) extent: Extent,
    /// The pieces of the prepared rows that the shard has only in part, each with the digest of the
    /// part that the shard has ([`kstore::RowDigests`]).
    pub(super) edges: Vec<(u64, u64)>,
    /// Sum of the leave-one-out residuals of the landmarks; `None` if the map is not a projection.
    pub(super) landmark_residuals: Option<f64>,
    /// Prepared and new rows of each shard.
    pub(super) growth: Vec<ShardGrowth>,
}

impl StatisticsMetadata {
    pub(super) fn from_file(file: &StateFile) -> Result<Self> {
        Self::deserialize(file.metadata()).map_err(|error| {
            let why = format!("it is not a file of shard statistics: {error}");
            Error::Statistics { path: file.path().to_path_buf(), why }
        })
    }
}

/// The rows of a job, and their division into segments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Extent {
    /// Key of the pass that reduces the shards, with its cut at the end of the prepared rows.
    pub(super) pass: PassKey,
    /// True if rows can be appended after the prepared rows.
    pub(super) grows: bool,
}

/// Key of the statistics of the columns of a shard, distinct from every pass of a fit.
const COLUMN_PASS: PassKey = PassKey {
    number: 0,
    name: String::new(),
    // segments of one row
    cut: Cut { tile_rows: 1, segment_rows: 1, start_row: 0, end_row: u64::MAX },
};

/// Returns the key of the column statistics of some stored rows; `used_rows` is the number of
/// rows that are used.
pub(super) fn column_key(row_range: &Range<u64>, used_rows: u64) -> StateKey {
    StateKey { pass: COLUMN_PASS, node: Node { segments: row_range.clone(), row_count: used_rows } }
}

/// Returns true for a state of rows, false for a state of columns.
pub(super) fn is_row_state(state: &StateKey) -> bool {
    state.pass.number != COLUMN_PASS.number
}

/// The location of some rows in a file of statistics.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowLocation {
    /// Index of the state that includes the rows.
    State(usize),
    /// Index among the rows that are stored without a state.
    Rows(usize),
}

impl Extent {
    /// Returns the cut, including all rows that may be appended.
    fn cut(&self) -> Cut {
        let cut = self.pass.cut;
        if self.grows { Cut { end_row: u64::MAX, ..cut } } else { cut }
    }

    /// Returns the segments that lie completely in `rows`, and the remaining pieces of `rows`. Each
    /// piece lies within one segment.
    pub(super) fn split(&self, rows: &Range<u64>) -> (Range<u64>, Vec<Range<u64>>) {
        let (cut, segment_rows) = (self.cut(), self.pass.cut.segment_rows.max(1));
        let (start, end) = (rows.start.clamp(cut.start_row, cut.end_row), rows.end.clamp(cut.start_row, cut.end_row));
        let first_segment = if start == cut.start_row { start / segment_rows } else { start.div_ceil(segment_rows) };
        let end_segment = if end == cut.end_row { end.div_ceil(segment_rows) } else { end / segment_rows };
        let complete = first_segment..end_segment.max(first_segment);
        let complete_rows = cut.rows(&complete);
        let edges = [start..complete_rows.start.min(end), complete_rows.end.max(start)..end];
        let edges =
            if complete_rows.start >= end || complete_rows.end <= start { [start..end, end..end] } else { edges };
        (complete, edges.into_iter().filter(|rows| !rows.is_empty()).collect())
    }

    /// Returns the rows of a file, in order, with their locations.
    pub(super) fn locate_rows(&self, file: &StateFile) -> Vec<(Range<u64>, RowLocation)> {
        let states = file.state_keys().iter().enumerate().filter(|(_, state)| is_row_state(state));
        let states = states.map(|(i, state)| (self.cut().rows(&state.node.segments), RowLocation::State(i)));
        let rows = file.row_keys().iter().enumerate().map(|(i, key)| (key.stored_range.clone(), RowLocation::Rows(i)));
        let mut located_rows: Vec<_> = states.chain(rows).collect();
        located_rows.sort_by_key(|(rows, _)| rows.start);
        located_rows
    }

    pub(super) fn end_row(&self, file: &StateFile) -> u64 {
        self.locate_rows(file).last().map_or(0, |(rows, _)| rows.end).max(self.pass.cut.end_row)
    }

    /// Returns the stored rows that are missing in a file, up to its last row or the last prepared
    /// row.
    pub(super) fn missing_rows(&self, file: &StateFile) -> Vec<Range<u64>> {
        let (mut missing, mut next_row) = (Vec::new(), self.pass.cut.start_row);
        let end = self.end_row(file);
        for rows in self.locate_rows(file).into_iter().map(|(rows, _)| rows).chain(std::iter::once(end..end)) {
            if rows.start > next_row {
                missing.push(next_row..rows.start);
            }
            next_row = next_row.max(rows.end);
        }
        missing
    }
}

pub(super) fn format_ranges(rows: &[Range<u64>]) -> String {
    rows.iter().map(|rows| format!("{}..{}", rows.start, rows.end)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    fn extent(rows: Range<u64>, grows: bool) -> Extent {
        let cut = Cut { tile_rows: 5, segment_rows: 10, start_row: rows.start, end_row: rows.end };
        Extent { pass: PassKey { number: 1, name: String::new(), cut }, grows }
    }

    #[test]
    fn rows_are_whole_segments_and_pieces_of_others() {
        let growing = extent(0..35, true);
        for (rows, complete, partial) in [
            (0..35, 0..3, vec![30..35]),
            (0..10, 0..1, vec![]),
            (3..27, 1..2, vec![3..10, 20..27]),
            (3..7, 1..1, vec![3..7]),
            (3..12, 1..1, vec![3..10, 10..12]),
            (3..10, 1..1, vec![3..10]),
            (10..13, 1..1, vec![10..13]),
            (35..61, 4..6, vec![35..40, 60..61]),
        ] {
            assert_eq!(growing.split(&rows), (complete, partial), "{rows:?}");
        }
        // the first segment starts at the first selected row; if the table does not grow, the last
        // segment ends with the table
        let closed = extent(4..35, false);
        assert_eq!(closed.split(&(0..40)), (0..4, vec![]));
        assert_eq!(closed.split(&(4..9)).1, [4..9]);
        assert_eq!(closed.split(&(31..35)).1, [31..35]);
        assert_eq!(closed.split(&(30..35)), (3..4, vec![]));
    }
}
