//! How many bytes of texts, strings of bytes and sparse rows a tile may carry along.

use crate::Error;
use crate::source::view::{Values, View};
use crate::sparse::ENTRY;
use std::path::Path;

/// Most bytes of the kept columns' texts in a tile of several rows: a tile ends before the row that would be too much. It
/// is far more than most tables have in a tile, and little beside any budget.
pub const TILE_TEXT: usize = 1 << 20;

/// Limits on the bytes of the texts of kept columns, whatever the number of rows in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLimit {
    /// Most bytes of the texts of a row; a row with more is an error.
    pub row: usize,
    /// Number of copies of a row's texts that are held at the same time, for which the budget must have room.
    pub copies: usize,
    /// The budget in bytes, for the advice in an error.
    pub budget: usize,
}

impl Default for TextLimit {
    fn default() -> Self {
        Self { row: usize::MAX, copies: 1, budget: usize::MAX }
    }
}

impl TextLimit {
    /// The limit for a budget of which `spare` bytes are left after `copies` tiles of [`TILE_TEXT`] were counted.
    pub fn new(budget: usize, spare: usize, copies: usize) -> Self {
        Self { row: TILE_TEXT.saturating_add(spare / copies.max(1)), copies, budget }
    }

    /// The error for a row whose texts have `bytes` bytes; `column` is the one with the longest.
    #[cold]
    pub(crate) fn refused(&self, path: &Path, row: u64, column: &str, bytes: usize) -> Error {
        let more = bytes.saturating_sub(self.row).saturating_mul(self.copies);
        let needed = self.budget.saturating_add(more);
        Error::LargeRow { path: path.to_path_buf(), row, column: column.to_string(), bytes, room: self.row, needed }
    }
}

/// Bytes of the text in a row, or of its entries; 0 for a missing one, and in a column of numbers.
pub(crate) fn text_bytes(view: &View<'_>, row: usize) -> usize {
    if let Values::Sparse(rows) = &view.values {
        return ENTRY * rows.row(row).0.len();
    }
    if view.is_null(row) { 0 } else { view.bytes(row).map_or(0, <[u8]>::len) }
}
