//! Columns that have no value in any row.

use super::SelectedTable;
use crate::view::{ColumnView, Values};
use crate::{Result, table::Table};
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

impl Table {
    /// Returns the columns that have no value in a range of stored rows.
    pub(crate) fn blank_columns_among(&self, rows: &Range<u64>, mut columns: Vec<usize>) -> Result<HashSet<usize>> {
        for part in self.parts() {
            let (mut next_row, end) = (rows.start.max(part.first_row), rows.end.min(part.end()));
            let mut max_rows = FIRST_ROWS;
            while next_row < end && !columns.is_empty() {
                let window_end = end.min(next_row.saturating_add(max_rows));
                let file_rows = next_row - part.first_row..window_end - part.first_row;
                let mut cursor = part.file.open(&columns, file_rows, &Arc::default())?;
                let mut columns_with_values = HashSet::new();
                while next_row < window_end && columns_with_values.len() < columns.len() {
                    let chunk_rows = cursor.advance()?;
                    if chunk_rows == 0 {
                        break;
                    }
                    for (index, column) in columns.iter().enumerate() {
                        if !columns_with_values.contains(column) && has_value(&cursor.view(index)?, chunk_rows) {
                            columns_with_values.insert(*column);
                        }
                    }
                    next_row += chunk_rows as u64;
                }
                drop(cursor);
                columns.retain(|column| !columns_with_values.contains(column));
                (next_row, max_rows) = (window_end, u64::MAX);
            }
        }
        Ok(columns.into_iter().collect())
    }
}

fn has_value(view: &ColumnView<'_>, row_count: usize) -> bool {
    let is_numeric = matches!(view.values, Values::Strided(_));
    !(0..row_count).all(|row| view.is_null(row) || is_numeric && view.number(row).is_nan())
}
