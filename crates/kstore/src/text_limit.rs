//! Limits on the bytes of texts, byte strings and sparse rows in the kept columns of a tile. A tile
//! has the rows that a pass processes at once.

use crate::Error;
use crate::sparse::ENTRY_BYTES;
use crate::view::{ColumnView, Values};
use std::path::Path;

/// Maximum bytes of kept texts in a tile of several rows: a tile ends before a row that would
/// exceed this limit. Most tables stay far below the limit, and compared with any memory budget it
/// is small.
pub const TILE_TEXT_BYTES: usize = 1 << 20;

/// Limits on the bytes of the texts of kept columns, independent of the number of rows in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLimit {
    /// Maximum bytes of the texts of a row. A row with more bytes is an error.
    pub max_row_bytes: usize,
    /// Number of copies of a row's texts that are in memory at the same time and must all fit in
    /// the budget.
    pub copy_count: usize,
    /// Budget in bytes, for the advice in an error.
    pub budget_bytes: usize,
}

impl Default for TextLimit {
    fn default() -> Self {
        Self { max_row_bytes: usize::MAX, copy_count: 1, budget_bytes: usize::MAX }
    }
}

impl TextLimit {
    /// Returns the limit for a memory budget of `budget_bytes`. `spare_bytes` of the budget are
    /// left after `copy_count` tiles with [`TILE_TEXT_BYTES`] bytes of text each.
    pub fn new(budget_bytes: usize, spare_bytes: usize, copy_count: usize) -> Self {
        Self {
            max_row_bytes: TILE_TEXT_BYTES.saturating_add(spare_bytes / copy_count.max(1)),
            copy_count,
            budget_bytes,
        }
    }

    /// Returns the error for a row with `row_bytes` bytes of text; `column` has the longest text.
    #[cold]
    pub(crate) fn large_row_error(&self, path: &Path, row: u64, column: &str, row_bytes: usize) -> Error {
        let excess_bytes = row_bytes.saturating_sub(self.max_row_bytes).saturating_mul(self.copy_count);
        let needed = self.budget_bytes.saturating_add(excess_bytes);
        Error::LargeRow {
            path: path.to_path_buf(),
            row,
            column: column.to_string(),
            bytes: row_bytes,
            available: self.max_row_bytes,
            needed,
        }
    }
}

/// Returns the bytes of the text or of the sparse entries in a row. Returns 0 if the value is
/// missing or a number.
pub(crate) fn text_bytes(view: &ColumnView<'_>, row: usize) -> usize {
    if let Values::Sparse(rows) = &view.values {
        return ENTRY_BYTES * rows.row(row).0.len();
    }
    if view.is_null(row) { 0 } else { view.bytes(row).map_or(0, <[u8]>::len) }
}
