//! The metadata of a prepared job, from which any machine can rebuild the fit and the selection of
//! the job.

use crate::{FoldSpec, Result, job::Fit, train::target_names};
use kstore::schema::{Column, Kind, Schema};
use kstore::{SelectedTable, Selection, Table, TextOptions, TextReadOptions, encoding::ColumnEncoding};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A fit, its columns and its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JobMetadata {
    pub(super) version: String,
    /// Instruction set of the machine that prepared the job. States that are computed with another
    /// instruction set would not be bit-identical.
    pub(super) instruction_set: String,
    pub(super) fit: Fit,
    /// Rows, targets, and the encoding of columns as features.
    selection: Selection,
    columns: Vec<Column>,
    /// Options for reading text files with rows of the job.
    #[serde(default, skip_serializing_if = "TextReadOptions::is_default")]
    pub(super) reading: TextReadOptions,
    /// Number of stored rows of the table that the job was prepared on.
    pub(super) stored: u64,
    /// Reason why no rows can be appended; `None` if rows can be appended.
    pub(super) closed: Option<String>,
}

impl JobMetadata {
    pub(super) fn new(fit: &Fit, selection: &Selection, selected: &SelectedTable, folds: &FoldSpec) -> Self {
        let is_time_column = |name: &str| {
            let mut columns = selected.encoding().into_iter().flat_map(|encoding| encoding.columns());
            columns.any(|column| column.name == name && matches!(column.encoding, ColumnEncoding::Time(_)))
        };
        let stored_column = |column: &Column| match column.kind {
            // an encoded time column is stored as text: `solve` uses a table without rows, whose
            // column needs a type from which times can be parsed
            Kind::Time(_) if is_time_column(&column.name) => Column { kind: Kind::Text, name: column.name.clone() },
            // times are read as the integers that store them
            Kind::Time(_) => Column { kind: Kind::Int { bits: 64, signed: true }, name: column.name.clone() },
            _ => column.clone(),
        };
        Self {
            version: env!("CARGO_PKG_VERSION").to_string(),
            instruction_set: kapprox::instruction_set(),
            fit: fit.clone(),
            selection: Selection {
                targets: target_names(selected),
                rows: Some(selected.range()),
                filter: selection.filter.clone(),
                missing: selection.missing,
                missing_target: selection.missing_target,
                encoding: Some(selected.same_features().encoding.unwrap_or_default()),
                ..Selection::default()
            },
            reading: selected.text_read_options(),
            columns: selected.table().schema().columns.iter().map(stored_column).collect(),
            stored: selected.table().stored_rows(),
            closed: closed_reason(selected, folds),
        }
    }

    /// Selects the rows and columns of the fit in a table that has at least the prepared rows.
    pub(super) fn select(&self, table: &Table) -> Result<SelectedTable> {
        let Range { start, end } = self.selection.rows.clone().unwrap_or(0..self.stored);
        let rows = Some(start..if self.closed.is_none() { table.stored_rows() } else { end });
        Ok(table.select(&self.fit.complete_selection(Selection { rows, ..self.selection.clone() })?)?)
    }

    pub(super) fn text_options(&self, options: TextOptions) -> TextOptions {
        let options = if self.is_sparse() { options.sparse() } else { options };
        options.with_reading(self.reading.clone().with_encoding(self.selection.encoding.as_deref()))
    }

    /// Returns true if the table itself has sparse columns. Text columns whose encoding has sparse
    /// features are not sparse columns of the table.
    fn is_sparse(&self) -> bool {
        self.schema().has_sparse()
    }

    /// Returns the schema of the columns, for a table without rows.
    pub(super) fn schema(&self) -> Schema {
        Schema { columns: self.columns.clone(), ..Schema::default() }
    }
}

/// Returns the reason why no rows can be appended to the rows of a selection; `None` if rows can be
/// appended.
fn closed_reason(selected: &SelectedTable, folds: &FoldSpec) -> Option<String> {
    let Range { start, end } = selected.range();
    match folds {
        _ if end < selected.table().stored_rows() => {
            Some(format!("it selects rows {start}..{end} of its table; prepare it with `rows` {start}.."))
        }
        FoldSpec::Blocks(_) => {
            let why = "its folds are blocks of the prepared rows, and more rows would move their boundaries";
            Some(format!("{why}; prepare it with `folds` by number or by a column"))
        }
        _ => None,
    }
}
