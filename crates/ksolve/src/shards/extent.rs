//! Which segments a shard holds whole, which it has begun, and which rows some statistics are of.

use crate::{Error, Result};
use kstore::checkpoint::{Cut, StateFile, StateKey};
use kstore::pass::{Node, PassKey};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a file of statistics says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StatisticsCard {
    pub(super) job_mark: String,
    pub(super) extent: Extent,
    /// Pieces of the prepared rows that the shard has a part of, with the digests of that ([`kstore::RowDigests`]).
    pub(super) edges: Vec<(u64, u64)>,
}

impl StatisticsCard {
    pub(super) fn of(file: &StateFile) -> Result<Self> {
        Self::deserialize(file.about()).map_err(|error| {
            let why = format!("it holds no statistics of a shard: {error}");
            Error::Statistics { path: file.path().to_path_buf(), why }
        })
    }
}

/// The rows of a job, and how they are cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Extent {
    /// The pass that shards are folded in, cut at the prepared rows.
    pub(super) pass: PassKey,
    /// True where rows may come behind those that were prepared.
    pub(super) grows: bool,
}

/// The name of the statistics of the columns of a shard, which no pass of a fit has.
const COLUMNS: PassKey = PassKey {
    number: 0,
    name: String::new(),
    // segments of one row
    cut: Cut { tile: 1, segment: 1, start: 0, end: u64::MAX },
};

/// The key of the statistics of the columns of some stored rows, `selected` of which take part.
pub(super) fn of_columns(stored: &Range<u64>, selected: u64) -> StateKey {
    StateKey { pass: COLUMNS, node: Node { segments: stored.clone(), rows: selected } }
}

/// True for a state of rows, and not of columns.
pub(super) fn is_of_rows(state: &StateKey) -> bool {
    state.pass.number != COLUMNS.number
}

/// Where some of the rows of statistics are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In the state at this place of the file.
    State(usize),
    /// Among those that are in no state.
    Rows(usize),
}

impl Extent {
    /// The cut, with all rows that may come.
    fn cut(&self) -> Cut {
        let cut = self.pass.cut;
        if self.grows { Cut { end: u64::MAX, ..cut } } else { cut }
    }

    /// The segments that lie whole in some rows, and the rest of the rows, each piece in a segment of its own.
    pub(super) fn split(&self, rows: &Range<u64>) -> (Range<u64>, Vec<Range<u64>>) {
        let (cut, size) = (self.cut(), self.pass.cut.segment.max(1));
        let (start, end) = (rows.start.clamp(cut.start, cut.end), rows.end.clamp(cut.start, cut.end));
        let first = if start == cut.start { start / size } else { start.div_ceil(size) };
        let last = if end == cut.end { end.div_ceil(size) } else { end / size };
        let whole = first..last.max(first);
        let inner = cut.rows(&whole);
        let edges = [start..inner.start.min(end), inner.end.max(start)..end];
        let edges = if inner.start >= end || inner.end <= start { [start..end, end..end] } else { edges };
        (whole, edges.into_iter().filter(|rows| !rows.is_empty()).collect())
    }

    /// The rows that a file has, in their order, and where.
    pub(super) fn covered(&self, file: &StateFile) -> Vec<(Range<u64>, Place)> {
        let states = file.states().iter().enumerate().filter(|(_, state)| is_of_rows(state));
        let states = states.map(|(i, state)| (self.cut().rows(&state.node.segments), Place::State(i)));
        let rows = file.rows().iter().enumerate().map(|(i, key)| (key.stored.clone(), Place::Rows(i)));
        let mut all: Vec<_> = states.chain(rows).collect();
        all.sort_by_key(|(rows, _)| rows.start);
        all
    }

    pub(super) fn end(&self, file: &StateFile) -> u64 {
        self.covered(file).last().map_or(0, |(rows, _)| rows.end).max(self.pass.cut.end)
    }

    /// Stored rows that a file does not have, up to its last one or the last prepared.
    pub(super) fn holes(&self, file: &StateFile) -> Vec<Range<u64>> {
        let (mut holes, mut at) = (Vec::new(), self.pass.cut.start);
        let end = self.end(file);
        for rows in self.covered(file).into_iter().map(|(rows, _)| rows).chain(std::iter::once(end..end)) {
            if rows.start > at {
                holes.push(at..rows.start);
            }
            at = at.max(rows.end);
        }
        holes
    }
}

pub(super) fn listed(rows: &[Range<u64>]) -> String {
    rows.iter().map(|rows| format!("{}..{}", rows.start, rows.end)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use super::*;

    fn extent(rows: Range<u64>, grows: bool) -> Extent {
        let cut = Cut { tile: 5, segment: 10, start: rows.start, end: rows.end };
        Extent { pass: PassKey { number: 1, name: String::new(), cut }, grows }
    }

    #[test]
    fn rows_are_whole_segments_and_pieces_of_others() {
        let growing = extent(0..35, true);
        for (rows, whole, begun) in [
            (0..35, 0..3, vec![30..35]),
            (0..10, 0..1, vec![]),
            (3..27, 1..2, vec![3..10, 20..27]),
            (3..7, 1..1, vec![3..7]),
            (3..12, 1..1, vec![3..10, 10..12]),
            (3..10, 1..1, vec![3..10]),
            (10..13, 1..1, vec![10..13]),
            (35..61, 4..6, vec![35..40, 60..61]),
        ] {
            assert_eq!(growing.split(&rows), (whole, begun), "{rows:?}");
        }
        // the first segment begins where the selection does, and the last ends with a table that does not grow
        let closed = extent(4..35, false);
        assert_eq!(closed.split(&(0..40)), (0..4, vec![]));
        assert_eq!(closed.split(&(4..9)).1, [4..9]);
        assert_eq!(closed.split(&(31..35)).1, [31..35]);
        assert_eq!(closed.split(&(30..35)), (3..4, vec![]));
    }
}
