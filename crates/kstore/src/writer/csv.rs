//! Writes CSV.
//!
//! A number has the fewest digits from which a correctly rounding reader gets the same float64; a
//! float32 is written as the float64 that it equals. Floats always have a decimal point or an
//! exponent, so that they are read as floats. Dates and times are written in ISO 8601. A missing
//! value is an empty field. An empty text is quoted, and a text with a delimiter, a quotation mark
//! or a line end.

use super::rows::{RowFormat, RowSink, write_formatted};
use super::{OutputColumn, OutputValues, Sink};
use crate::arrow::datatypes::DataType;
use crate::{Result, dates};
use std::path::Path;

struct CsvRows {
    delimiter: u8,
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let is_tsv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
    RowSink::create(path, columns, CsvRows { delimiter: if is_tsv { b'\t' } else { b',' } })
}

impl CsvRows {
    fn write_separator(&self, index: usize, out: &mut Vec<u8>) {
        if index > 0 {
            out.push(self.delimiter);
        }
    }
}

impl RowFormat for CsvRows {
    fn header(&self, columns: &[OutputColumn], _rows: u64) -> Vec<u8> {
        let mut line = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            self.write_separator(index, &mut line);
            write_text(&column.name, self.delimiter, &mut line);
        }
        line.push(b'\n');
        line
    }

    fn write_row(
        &self,
        columns: &[OutputColumn],
        batch: &[OutputValues<'_>],
        row: usize,
        _: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        for (index, column) in batch.iter().enumerate() {
            self.write_separator(index, out);
            write_field(column, row, columns[index].time_type.as_ref(), self.delimiter, out);
        }
        if out.len() == start {
            // a row must not be written as an empty line, which readers skip
            out.extend(b"\"\"");
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Writes a value; integers that represent a `time_type` are written in ISO 8601.
fn write_field(column: &OutputValues<'_>, row: usize, time_type: Option<&DataType>, delimiter: u8, out: &mut Vec<u8>) {
    match column {
        OutputValues::F32(v) => write_float(v[row].into(), out),
        OutputValues::F64(v) => write_float(v[row], out),
        OutputValues::I64(v) => match time_type {
            Some(time_type) => out.extend(dates::format_stored(v[row], time_type).bytes()),
            None => write_formatted(format_args!("{}", v[row]), out),
        },
        OutputValues::U64(v) => write_formatted(format_args!("{}", v[row]), out),
        OutputValues::Bool(v) => write_formatted(format_args!("{}", v[row]), out),
        OutputValues::Text(v) => write_text(v.text(row), delimiter, out),
        // the registry of formats rejects these columns
        OutputValues::Binary(_) | OutputValues::Sparse(_) => {}
        OutputValues::Kept(column) if column.is_null(row) => {}
        OutputValues::Kept(column) => write_field(&column.values().as_output(), row, time_type, delimiter, out),
    }
}

/// Writes a float in Rust's debug format: with the fewest digits that give the same float when
/// read, and with an exponent if it is very large or very small.
fn write_float(value: f64, out: &mut Vec<u8>) {
    write_formatted(format_args!("{value:?}"), out);
}

fn write_text(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let needs_quotes = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.bytes().any(needs_quotes) {
        return out.extend(text.bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
