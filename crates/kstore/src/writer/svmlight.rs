//! Writes svmlight: `label index:value index:value …`, one row per line, with indices from 1.
//!
//! The last column called `y` is the label. Without such a column every label is 0, which is also
//! the label for rows with an unknown label. A column called `qid` is the group of the row. All
//! other columns are features, in order. Zeros of dense columns are omitted; sparse rows are
//! written with their stored entries. A number has the fewest digits from which a reader gets the
//! same float64, and a missing number is `NaN`.

use super::rows::{RowFormat, RowSink, write_formatted};
use super::{OutputColumn, OutputKind, OutputValues, Sink};
use crate::Result;
use crate::schema::{QUERY_COLUMN, TARGET_COLUMN};
use std::path::Path;

struct SvmlightRows {
    label_column: Option<usize>,
    query_column: Option<usize>,
}

pub(crate) fn supports(column: &OutputColumn) -> bool {
    column.time_type.is_none() && !matches!(column.kind, OutputKind::Text | OutputKind::Binary)
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let position_of = |name: &str| {
        columns.iter().rposition(|column| column.name == name && !matches!(column.kind, OutputKind::Sparse(_)))
    };
    RowSink::create(
        path,
        columns,
        SvmlightRows { label_column: position_of(TARGET_COLUMN), query_column: position_of(QUERY_COLUMN) },
    )
}

impl RowFormat for SvmlightRows {
    fn header(&self, _: &[OutputColumn], _: u64) -> Vec<u8> {
        Vec::new()
    }

    fn write_row(
        &self,
        columns: &[OutputColumn],
        batch: &[OutputValues<'_>],
        row: usize,
        _: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self.label_column {
            None => out.push(b'0'),
            Some(label) => _ = write_number(&batch[label], row, out),
        }
        if let Some(query) = self.query_column {
            out.extend_from_slice(b" qid:");
            write_number(&batch[query], row, out);
        }
        let mut next_index = 1;
        let is_label_or_query = |index: usize| [self.label_column, self.query_column].contains(&Some(index));
        for (index, column) in batch.iter().enumerate().filter(|(index, _)| !is_label_or_query(*index)) {
            match columns[index].kind {
                OutputKind::Sparse(shape) => {
                    write_entries(column, row, next_index, out);
                    next_index += shape.column_count;
                }
                _ => {
                    let start = out.len();
                    write_formatted(format_args!(" {next_index}:"), out);
                    if !write_number(column, row, out) {
                        out.truncate(start);
                    }
                    next_index += 1;
                }
            }
        }
        out.push(b'\n');
        Ok(())
    }

    /// A row may have an entry in each column.
    fn max_row_bytes(&self, columns: &[OutputColumn]) -> usize {
        /// Characters of a 32-bit index and of a float64, with separators.
        const MAX_ENTRY_BYTES: usize = 40;
        let max_entries = |column: &OutputColumn| match column.kind {
            OutputKind::Sparse(shape) => shape.max_row_entries,
            _ => 1,
        };
        MAX_ENTRY_BYTES * columns.iter().map(max_entries).sum::<usize>()
    }
}

/// Writes the entries of a sparse row whose first column has the index `first_index`.
fn write_entries(column: &OutputValues<'_>, row: usize, first_index: usize, out: &mut Vec<u8>) {
    match column {
        OutputValues::Sparse(rows) => {
            let (indices, values) = rows.rows().row(row);
            for (index, value) in indices.iter().zip(values) {
                write_formatted(format_args!(" {}:", first_index + *index as usize), out);
                write_float(*value, out);
            }
        }
        OutputValues::Kept(column) => write_entries(&column.values().as_output(), row, first_index, out),
        _ => {}
    }
}

/// Writes a number; returns false if it is 0.
fn write_number(column: &OutputValues<'_>, row: usize, out: &mut Vec<u8>) -> bool {
    match column {
        OutputValues::F32(v) => write_float(v[row].into(), out),
        OutputValues::F64(v) => write_float(v[row], out),
        OutputValues::I64(v) => {
            write_formatted(format_args!("{}", v[row]), out);
            v[row] != 0
        }
        OutputValues::U64(v) => {
            write_formatted(format_args!("{}", v[row]), out);
            v[row] != 0
        }
        OutputValues::Bool(v) => {
            out.push(b'0' + u8::from(v[row]));
            v[row]
        }
        OutputValues::Kept(column) if column.is_null(row) => write_float(f64::NAN, out),
        OutputValues::Kept(column) => write_number(&column.values().as_output(), row, out),
        // the registry of formats rejects columns of text and bytes
        OutputValues::Text(_) | OutputValues::Binary(_) | OutputValues::Sparse(_) => false,
    }
}

/// Writes the fewest digits that give the same float when read; an integer has no decimal point.
/// Returns false if the number is 0.
fn write_float(value: f64, out: &mut Vec<u8>) -> bool {
    write_formatted(format_args!("{value:?}"), out);
    if out.ends_with(b".0") {
        out.truncate(out.len() - 2);
    }
    value != 0.0
}
