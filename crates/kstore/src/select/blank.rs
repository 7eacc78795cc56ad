//! Columns that have no value in any row.

use super::SelectedTable;
use crate::view::{ColumnView, Values};
use crate::{Result, table::Table};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Number of rows of all columns that are read first. Most columns have a value in these rows.
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
        let blank = self.table.blank_columns_among(&self.rows, columns.clone())?;
        Ok(self.names(&columns.into_iter().filter(|column| blank.contains(column)).collect::<Vec<_>>()))
    }
}

impl Table {
    /// Returns the columns that have no value in a range of stored rows.
    pub(crate) fn blank_columns_among(&self, rows: &Range<u64>, mut columns: Vec<usize>) -> Result<HashSet<usize>> {
        for part in self.parts() {
            let (mut from, end) = (rows.start.max(part.start), rows.end.min(part.end()));
            let mut max_rows = FIRST_ROWS;
            while from < end && !columns.is_empty() {
                let to = end.min(from.saturating_add(max_rows));
                let rows = from - part.start..to - part.start;
                let mut cursor = part.file.open(&columns, rows, &Arc::default())?;
                let mut with_values = HashSet::new();
                while from < to && with_values.len() < columns.len() {
                    let rows = cursor.advance()?;
                    if rows == 0 {
                        break;
                    }
                    for (index, column) in columns.iter().enumerate() {
                        if !with_values.contains(column) && has_value(&cursor.view(index)?, rows) {
                            with_values.insert(*column);
                        }
                    }
                    from += rows as u64;
                }
                drop(cursor);
                columns.retain(|column| !with_values.contains(column));
                (from, max_rows) = (to, u64::MAX);
            }
        }
        Ok(columns.into_iter().collect())
    }
}

fn has_value(view: &ColumnView<'_>, rows: usize) -> bool {
    let numbers = matches!(view.values, Values::Strided(_));
    !(0..rows).all(|row| view.is_null(row) || numbers && view.number(row).is_nan())
}
