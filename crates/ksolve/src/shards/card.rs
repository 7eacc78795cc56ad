//! What a prepared job says of itself: enough to make its fit and its selection again, on any machine.

use crate::{FoldSpec, Result, job::Fit, train::target_names};
use kstore::schema::{Column, Kind, Schema};
use kstore::{Selected, Selection, Table, TextOptions, TextReading, encoding::Code};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A fit, its columns and its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JobCard {
    pub(super) version: String,
    /// States of another instruction set would have other bits.
    pub(super) instruction_set: String,
    pub(super) fit: Fit,
    /// The rows, the targets, and how columns become features.
    selection: Selection,
    columns: Vec<Column>,
    /// How text files with its rows are read.
    #[serde(default, skip_serializing_if = "TextReading::is_default")]
    pub(super) reading: TextReading,
    /// Stored rows of the table that it was prepared on.
    pub(super) stored: u64,
    /// Why no row may come behind these; `None` where some may.
    pub(super) closed: Option<String>,
}

impl JobCard {
    pub(super) fn new(fit: &Fit, selection: &Selection, selected: &Selected, folds: &FoldSpec) -> Self {
        let of_times = |name: &str| {
            let mut columns = selected.encoding().into_iter().flat_map(|encoding| encoding.columns());
            columns.any(|column| column.name == name && matches!(column.code, Code::Time(_)))
        };
        let column = |column: &Column| match column.kind {
            // a table without rows has times in any type that may hold them
            Kind::Time(_) if of_times(&column.name) => Column { kind: Kind::Text, name: column.name.clone() },
            // read as the integers that store them
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
            reading: selected.reading(),
            columns: selected.table().schema().columns.iter().map(column).collect(),
            stored: selected.table().stored_rows(),
            closed: closed(selected, folds),
        }
    }

    /// The rows and columns of the fit in a table that has the prepared rows, or more.
    pub(super) fn select(&self, table: &Table) -> Result<Selected> {
        let Range { start, end } = self.selection.rows.clone().unwrap_or(0..self.stored);
        let rows = Some(start..if self.closed.is_none() { table.stored_rows() } else { end });
        Ok(table.select(&self.fit.selection(Selection { rows, ..self.selection.clone() })?)?)
    }

    pub(super) fn text(&self, options: TextOptions) -> TextOptions {
        let options = if self.is_sparse() { options.sparse() } else { options };
        options.like(self.reading.clone().knowing(self.selection.encoding.as_deref()))
    }

    /// True where its rows are sparse ones of a table, and not texts that are counted.
    fn is_sparse(&self) -> bool {
        self.schema().has_sparse()
    }

    /// The columns, for a table without rows.
    pub(super) fn schema(&self) -> Schema {
        Schema { columns: self.columns.clone(), ..Schema::default() }
    }
}

/// Why no row may come behind those of a selection.
fn closed(selected: &Selected, folds: &FoldSpec) -> Option<String> {
    let Range { start, end } = selected.range();
    match folds {
        _ if end < selected.table().stored_rows() => {
            Some(format!("it takes rows {start}..{end} of its table: prepare it with `rows` {start}.."))
        }
        FoldSpec::Blocks(_) => {
            let why = "its folds are blocks of the prepared rows, whose edges more rows would move";
            Some(format!("{why}: prepare it with `folds` by number or by a column"))
        }
        _ => None,
    }
}
