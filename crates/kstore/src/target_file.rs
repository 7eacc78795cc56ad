//! A table whose targets are in a separate file.

use crate::pattern::require_existing;
use crate::source::{self, AddedColumn, TextOptions};
use crate::table::{self, Table};
use crate::{Error, Result};
use std::path::Path;
use std::sync::Arc;

impl Table {
    /// Adds a column `y` from a file with one numeric column and as many rows as the table.
    ///
    /// # Errors
    /// The errors of [`Table::open`] for the target file; [`Error::Malformed`] if it has several
    /// columns; [`Error::WrongType`] if its column is not numeric; [`Error::RowCount`];
    /// [`Error::SchemaMismatch`] if the table already has a column `y`.
    #[doc(hidden)]
    pub fn with_target_file(self, path: &Path) -> Result<Self> {
        let path = require_existing(path)?;
        let (target_file, identity) = table::open(&path, &TextOptions::default())?;
        let [column] = &target_file.metadata().schema.columns[..] else {
            let detail = format!(
                "a target file has one column, this file has {}; write the target as its only column",
                target_file.metadata().schema.columns.len()
            );
            return Err(Error::Malformed { path, format: "target file", detail });
        };
        if !column.kind.is_numeric() {
            let expected = "a target file must hold numbers";
            return Err(Error::wrong_type(&path, &column.name, column.kind.to_string(), expected));
        }
        if target_file.metadata().row_count != self.stored_rows() {
            let (first_rows, second_rows) = (self.stored_rows(), target_file.metadata().row_count);
            return Err(Error::RowCount { first: self.first_path(), first_rows, second: path, second_rows });
        }
        if self.schema().position(source::TARGET_COLUMN).is_some() {
            let difference = format!(
                "the table already has a column {:?}; rename it, or omit the target file",
                source::TARGET_COLUMN
            );
            return Err(Error::SchemaMismatch { first: self.first_path(), second: path, difference });
        }
        let target_column = |first_row: u64| {
            let column = AddedColumn::Numbers { file: Arc::clone(&target_file), path: path.clone(), first_row };
            vec![(source::TARGET_COLUMN.to_string(), column)]
        };
        let mut table = self.with_number_columns(target_column, Some(&identity));
        table.target_path = Some(path);
        Ok(table)
    }
}
