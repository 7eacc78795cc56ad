//! Columns that have no value in any row.

use super::SelectedTable;
use crate::view::{ColumnView, Values};
use crate::{Result, source::TableFile, table::Table};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Number of first rows that are read in all columns. Most columns have a value in these rows, so
/// the other rows are read in few columns.
const FIRST_ROWS: u64 = 1024;

impl SelectedTable {
    /// Returns the names of the features and targets that have no value in any of the selected
    /// rows.
    ///
    /// # Errors
    /// The errors of reading.
    #[doc(hidden)]
    pub fn find_blank_columns(&self) -> Result<Vec<String>> {
        let columns: Vec<usize> =
            self.features.iter().chain(&self.targets).chain(&self.weight).chain(&self.class).copied().collect();
        let blank_columns = self.table.blank_columns_among(&self.row_range, columns.clone())?;
        Ok(self.names(&columns.into_iter().filter(|column| blank_columns.contains(column)).collect::<Vec<_>>()))
    }
}

/// Number of rows that an inspection reads at once.
pub(crate) const INSPECTED_TILE_ROWS: usize = 256;

/// Bytes of a column during an inspection: its values in a tile, and what is known about them.
const INSPECTED_COLUMN_BYTES: usize = 8 * INSPECTED_TILE_ROWS + 512;

/// Memory of the columns that are inspected at the same time, in bytes. The columns of a wide table
/// are inspected in groups.
const INSPECTED_BYTES: usize = 8 << 20;

/// Number of columns that are inspected at the same time whatever their memory.
const MIN_GROUP_COLUMNS: usize = 64;

impl Table {
    /// Divides columns into groups that are inspected one after the other: all columns, or halves,
    /// quarters, and so on, until a group takes at most [`INSPECTED_BYTES`] or has few columns.
    pub(crate) fn column_groups<'c>(&self, columns: &'c [usize]) -> Vec<&'c [usize]> {
        if columns.len() <= MIN_GROUP_COLUMNS || self.inspection_bytes(columns) <= INSPECTED_BYTES {
            return vec![columns];
        }
        let (first, second) = columns.split_at(columns.len() / 2);
        [self.column_groups(first), self.column_groups(second)].concat()
    }

    /// Returns the bytes of memory for the inspection of these columns at the same time: the
    /// decoder, for the file where it is largest, the rows, and what is known about each column.
    pub(crate) fn inspection_bytes(&self, columns: &[usize]) -> usize {
        let decoder_bytes = self.parts().iter().map(|part| part.file.cursor_bytes(columns)).max().unwrap_or(0);
        decoder_bytes.saturating_add(columns.len() * INSPECTED_COLUMN_BYTES)
    }

    /// Returns the columns that have no value in a range of stored rows.
    pub(crate) fn blank_columns_among(&self, rows: &Range<u64>, mut columns: Vec<usize>) -> Result<HashSet<usize>> {
        for part in self.parts() {
            let (mut next_row, end) = (rows.start.max(part.first_row), rows.end.min(part.end()));
            let mut max_rows = FIRST_ROWS;
            while next_row < end && !columns.is_empty() {
                let window_end = end.min(next_row.saturating_add(max_rows));
                let file_rows = next_row - part.first_row..window_end - part.first_row;
                let mut columns_with_values = HashSet::new();
                for group in self.column_groups(&columns) {
                    columns_with_values.extend(columns_with_value(&*part.file, group, file_rows.clone())?);
                }
                columns.retain(|column| !columns_with_values.contains(column));
                (next_row, max_rows) = (window_end, u64::MAX);
            }
        }
        Ok(columns.into_iter().collect())
    }
}

/// Returns the columns among `columns` that have a value in a range of the rows of a file.
fn columns_with_value(file: &dyn TableFile, columns: &[usize], rows: Range<u64>) -> Result<HashSet<usize>> {
    let mut cursor = file.open(columns, rows, &Arc::default())?;
    let mut columns_with_values = HashSet::new();
    while columns_with_values.len() < columns.len() {
        let chunk_rows = cursor.advance()?;
        if chunk_rows == 0 {
            break;
        }
        for (index, column) in columns.iter().enumerate() {
            if !columns_with_values.contains(column) && has_value(&cursor.view(index)?, chunk_rows) {
                columns_with_values.insert(*column);
            }
        }
    }
    Ok(columns_with_values)
}

fn has_value(view: &ColumnView<'_>, row_count: usize) -> bool {
    let is_numeric = matches!(view.values, Values::Strided(_));
    !(0..row_count).all(|row| view.is_null(row) || is_numeric && view.number(row).is_nan())
}
