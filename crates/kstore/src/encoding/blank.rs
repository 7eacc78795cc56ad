//! Columns that have no value in any row, and from which nothing can be learned.

use super::ColumnNote;
use super::request::{Coding, EncodingRequest, Role};
use crate::Result;
use crate::missing::Missing;
use crate::select::SelectedTable;
use crate::source::{ColumnView, Values};
use crate::table::Table;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Number of rows of all columns that are read first. Most columns have a value in these rows.
const FIRST_ROWS: u64 = 1024;

impl SelectedTable {
    /// Returns the selection without the features that have no value in any selected row, and a
    /// note about these features. A feature that was selected by name is kept.
    ///
    /// *Cost*: reads the first rows of all columns and, of the columns without a value in these
    /// rows, all rows.
    pub(super) fn without_blank_columns(&self) -> (Self, Option<ColumnNote>) {
        let (Coding::Numeric(Some(request)) | Coding::Pending(request)) = &self.coding else {
            return (self.clone(), None);
        };
        // a text or time column without a value produces no feature, even if it is named, and every
        // row would be dropped
        let nothing = |index: usize| self.missing == Missing::Drop && request.roles[index] != Role::Number;
        let unnamed = |index: &usize| !request.named[*index] || nothing(*index);
        let columns: Vec<usize> = (0..self.features.len()).filter(unnamed).map(|index| self.features[index]).collect();
        // an error of this inspection is ignored: the next pass reports it
        let blank = self.table.blank_columns_among(&self.rows, columns).unwrap_or_default();
        let remaining: Vec<usize> =
            (0..self.features.len()).filter(|index| !blank.contains(&self.features[*index])).collect();
        if blank.is_empty() || remaining.is_empty() {
            return (self.clone(), None);
        }
        let role_and_named = |index: &usize| (request.roles[*index], request.named[*index]);
        let (roles, named) = remaining.iter().map(role_and_named).unzip();
        let counted = request
            .counted_texts
            .iter()
            .filter_map(|(index, entries)| Some((remaining.iter().position(|other| other == index)?, entries.clone())));
        let request =
            Arc::new(EncodingRequest { roles, named, counted_texts: counted.collect(), ..(**request).clone() });
        let coding = match self.coding {
            Coding::Numeric(_) => Coding::Numeric(Some(request)),
            _ => Coding::Pending(request),
        };
        let blank: Vec<usize> = self.features.iter().copied().filter(|column| blank.contains(column)).collect();
        let note = ColumnNote::Blank { columns: self.names(&blank) };
        let features = remaining.into_iter().map(|index| self.features[index]).collect();
        (Self { features, coding, blank_columns: blank, ..self.clone() }, Some(note))
    }

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
    pub(super) fn blank_columns_among(&self, rows: &Range<u64>, mut columns: Vec<usize>) -> Result<HashSet<usize>> {
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
