//! Writing CSV.
//!
//! Numbers are written in as few digits as read back to the same float64, whatever reader rounds correctly; a float32
//! therefore in those of the float64 it equals. Fractions keep a point or an exponent, so that they stay fractions.
//! Dates and times are those of ISO 8601. Missing values are empty fields. Text is quoted where it must be, and where it is empty.

use super::{Output, OutputColumn, STDOUT, Sink};
use crate::arrow::datatypes::DataType;
use crate::atomic::AtomicFile;
use crate::{Error, Result, dates};
use std::io::{Stdout, Write};
use std::path::{Path, PathBuf};

const GATHERED_BYTES: usize = 64 << 10;

/// A CSV file being written, with tabs between the fields where it is called `.tsv`.
pub(crate) struct CsvSink {
    place: Destination,
    path: PathBuf,
    columns: Vec<OutputColumn>,
    delimiter: u8,
    bytes: Vec<u8>,
}

enum Destination {
    File(AtomicFile),
    /// Rows that were written are read already: nothing can be taken back.
    Stdout(Stdout),
}

impl CsvSink {
    pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Self> {
        let tabs = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
        let place = match path == Path::new(STDOUT) {
            true => Destination::Stdout(std::io::stdout()),
            false => Destination::File(AtomicFile::create(path)?),
        };
        let delimiter = if tabs { b'\t' } else { b',' };
        let mut sink =
            Self { place, path: path.to_path_buf(), columns: columns.to_vec(), delimiter, bytes: Vec::new() };
        for (i, column) in columns.iter().enumerate() {
            sink.separate(i);
            text(&column.name, delimiter, &mut sink.bytes);
        }
        sink.bytes.push(b'\n');
        Ok(sink)
    }

    fn separate(&mut self, place: usize) {
        if place > 0 {
            self.bytes.push(self.delimiter);
        }
    }

    fn hand_on(&mut self) -> Result<()> {
        let written = match &mut self.place {
            Destination::File(file) => file.write_all(&self.bytes),
            Destination::Stdout(out) => out.write_all(&self.bytes).and_then(|()| out.flush()),
        };
        written.map_err(Error::io("write", &self.path))?;
        self.bytes.clear();
        Ok(())
    }
}

impl Sink for CsvSink {
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()> {
        for row in 0..super::batch_rows(&self.columns, batch) {
            let start = self.bytes.len();
            for (place, column) in batch.iter().enumerate() {
                self.separate(place);
                match &self.columns[place].time {
                    Some(time) => moment(column, row, time, &mut self.bytes),
                    None => field(column, row, self.delimiter, &mut self.bytes),
                }
            }
            if self.bytes.len() == start {
                // an empty line would be no row
                self.bytes.extend(b"\"\"");
            }
            self.bytes.push(b'\n');
            if self.bytes.len() >= GATHERED_BYTES {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.hand_on()?;
        match &mut self.place {
            Destination::File(file) => file.settle(),
            Destination::Stdout(_) => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        match self.place {
            Destination::File(file) => file.commit(),
            Destination::Stdout(_) => Ok(()),
        }
    }

    fn footprint(&self) -> usize {
        2 * GATHERED_BYTES
    }
}

fn field(column: &Output<'_>, row: usize, delimiter: u8, out: &mut Vec<u8>) {
    match column {
        Output::F32(v) => float(v[row].into(), out),
        Output::F64(v) => float(v[row], out),
        Output::I64(v) => formatted(format_args!("{}", v[row]), out),
        Output::Bool(v) => formatted(format_args!("{}", v[row]), out),
        Output::Text(v) => text(v.text(row), delimiter, out),
        // the registry says that this format holds none
        Output::Binary(_) | Output::Sparse(_) => {}
        Output::Kept(column) if column.is_null(row) => {}
        Output::Kept(column) => field(&column.values().as_output(), row, delimiter, out),
    }
}

/// Writes a date or time as in ISO 8601.
fn moment(column: &Output<'_>, row: usize, time: &DataType, out: &mut Vec<u8>) {
    match column {
        Output::I64(v) => out.extend(dates::text(v[row], time).bytes()),
        Output::Kept(column) if !column.is_null(row) => moment(&column.values().as_output(), row, time, out),
        _ => {}
    }
}

/// Rust's debug format: the fewest digits that read back, with an exponent where they would be many.
fn float(value: f64, out: &mut Vec<u8>) {
    formatted(format_args!("{value:?}"), out);
}

fn formatted(text: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    // writing to a vector cannot fail
    let _ = out.write_fmt(text);
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
