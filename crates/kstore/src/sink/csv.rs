//! Writes CSV.
//!
//! Numbers have the fewest digits that a correctly rounding reader reads back as the same float64;
//! a float32 is written as the float64 it equals. Floats keep a decimal point or an exponent, so
//! that they are read as floats. Dates and times are written in ISO 8601. Missing values are empty
//! fields. Text is quoted if necessary, and if it is empty.

use super::rows::{RowSink, Rows, formatted};
use super::{Output, OutputColumn, Sink};
use crate::arrow::datatypes::DataType;
use crate::{Result, dates};
use std::path::Path;

struct CsvRows {
    delimiter: u8,
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let tabs = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
    RowSink::create(path, columns, CsvRows { delimiter: if tabs { b'\t' } else { b',' } })
}

impl CsvRows {
    fn separate(&self, place: usize, out: &mut Vec<u8>) {
        if place > 0 {
            out.push(self.delimiter);
        }
    }
}

impl Rows for CsvRows {
    fn head(&self, columns: &[OutputColumn], _rows: u64) -> Vec<u8> {
        let mut line = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            self.separate(place, &mut line);
            text(&column.name, self.delimiter, &mut line);
        }
        line.push(b'\n');
        line
    }

    fn row(&self, columns: &[OutputColumn], batch: &[Output<'_>], row: usize, _: u64, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        for (place, column) in batch.iter().enumerate() {
            self.separate(place, out);
            field(column, row, columns[place].time.as_ref(), self.delimiter, out);
        }
        if out.len() == start {
            // an empty line is not a row
            out.extend(b"\"\"");
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Writes a value; integers that represent a `time` are written in ISO 8601.
fn field(column: &Output<'_>, row: usize, time: Option<&DataType>, delimiter: u8, out: &mut Vec<u8>) {
    match column {
        Output::F32(v) => float(v[row].into(), out),
        Output::F64(v) => float(v[row], out),
        Output::I64(v) => match time {
            Some(time) => out.extend(dates::text(v[row], time).bytes()),
            None => formatted(format_args!("{}", v[row]), out),
        },
        Output::U64(v) => formatted(format_args!("{}", v[row]), out),
        Output::Bool(v) => formatted(format_args!("{}", v[row]), out),
        Output::Text(v) => text(v.text(row), delimiter, out),
        // the registry of formats rejects these columns
        Output::Binary(_) | Output::Sparse(_) => {}
        Output::Kept(column) if column.is_null(row) => {}
        Output::Kept(column) => field(&column.values().as_output(), row, time, delimiter, out),
    }
}

/// Writes Rust's debug format: the fewest digits that read back, with an exponent for very large or
/// small numbers.
fn float(value: f64, out: &mut Vec<u8>) {
    formatted(format_args!("{value:?}"), out);
}

fn text(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let special = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.bytes().any(special) {
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
