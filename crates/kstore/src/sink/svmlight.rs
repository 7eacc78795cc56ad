//! Writing svmlight: `label index:value index:value …`, one row a line, indices from 1 on.
//!
//! The last column called `y` is the label, 0 in every row where there is none, as for rows whose label is not known. The others are the
//! features, one after the other. Zeros of dense columns are left out; sparse rows are written with the entries that they have. Numbers have the
//! fewest digits that read back to the same float64, and a missing one is `NaN`.

use super::{Output, OutputColumn, OutputKind, Sink};
use crate::atomic::AtomicFile;
use crate::{Error, Result, source::TARGET};
use std::io::Write;
use std::path::{Path, PathBuf};

const GATHERED_BYTES: usize = 64 << 10;

/// An svmlight file being written.
pub(crate) struct SvmlightSink {
    file: AtomicFile,
    path: PathBuf,
    columns: Vec<OutputColumn>,
    label: Option<usize>,
    bytes: Vec<u8>,
}

/// Whether a column can be a feature or the label.
pub(crate) fn holds(column: &OutputColumn) -> bool {
    column.time.is_none() && !matches!(column.kind, OutputKind::Text | OutputKind::Binary)
}

impl SvmlightSink {
    pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Self> {
        let is_label = |column: &OutputColumn| column.name == TARGET && !matches!(column.kind, OutputKind::Sparse(_));
        let (file, path, columns) = (AtomicFile::create(path)?, path.to_path_buf(), columns.to_vec());
        Ok(Self { file, path, label: columns.iter().rposition(is_label), columns, bytes: Vec::new() })
    }

    fn row(&mut self, batch: &[Output<'_>], row: usize) {
        match self.label {
            None => self.bytes.push(b'0'),
            Some(label) => _ = number(&batch[label], row, &mut self.bytes),
        }
        let mut first = 1;
        for (place, column) in batch.iter().enumerate().filter(|(place, _)| Some(*place) != self.label) {
            match self.columns[place].kind {
                OutputKind::Sparse(shape) => {
                    sparse(column, row, first, &mut self.bytes);
                    first += shape.width;
                }
                _ => {
                    let start = self.bytes.len();
                    append(format_args!(" {first}:"), &mut self.bytes);
                    if !number(column, row, &mut self.bytes) {
                        self.bytes.truncate(start);
                    }
                    first += 1;
                }
            }
        }
        self.bytes.push(b'\n');
    }

    fn hand_on(&mut self) -> Result<()> {
        self.file.write_all(&self.bytes).map_err(Error::io("write", &self.path))?;
        self.bytes.clear();
        Ok(())
    }
}

impl Sink for SvmlightSink {
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()> {
        for row in 0..super::batch_rows(&self.columns, batch) {
            self.row(batch, row);
            if self.bytes.len() >= GATHERED_BYTES {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.hand_on()?;
        self.file.settle()
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        self.file.commit()
    }

    /// Bytes of the lines that are gathered, the last of which may have an entry of each column.
    fn footprint(&self) -> usize {
        /// Digits of an index of 32 bits and of a float64, with the signs between them.
        const LONGEST_ENTRY: usize = 40;
        let entries = |column: &OutputColumn| match column.kind {
            OutputKind::Sparse(shape) => shape.longest,
            _ => 1,
        };
        2 * (GATHERED_BYTES + LONGEST_ENTRY * self.columns.iter().map(entries).sum::<usize>())
    }
}

/// Writes the entries of a sparse row, the first of whose columns has the index `first`.
fn sparse(column: &Output<'_>, row: usize, first: usize, out: &mut Vec<u8>) {
    match column {
        Output::Sparse(rows) => {
            let (places, values) = rows.rows().row(row);
            for (place, value) in places.iter().zip(values) {
                append(format_args!(" {}:", first + *place as usize), out);
                float(*value, out);
            }
        }
        Output::Kept(column) => sparse(&column.values().as_output(), row, first, out),
        _ => {}
    }
}

/// Writes a number; false where it is 0.
fn number(column: &Output<'_>, row: usize, out: &mut Vec<u8>) -> bool {
    match column {
        Output::F32(v) => float(v[row].into(), out),
        Output::F64(v) => float(v[row], out),
        Output::I64(v) => {
            append(format_args!("{}", v[row]), out);
            v[row] != 0
        }
        Output::Bool(v) => {
            out.push(b'0' + u8::from(v[row]));
            v[row]
        }
        Output::Kept(column) if column.is_null(row) => float(f64::NAN, out),
        Output::Kept(column) => number(&column.values().as_output(), row, out),
        // the registry says that this format holds none
        Output::Text(_) | Output::Binary(_) | Output::Sparse(_) => false,
    }
}

/// Writes the fewest digits that read back, without a point where there is nothing behind it; false for 0.
fn float(value: f64, out: &mut Vec<u8>) -> bool {
    append(format_args!("{value:?}"), out);
    if out.ends_with(b".0") {
        out.truncate(out.len() - 2);
    }
    value != 0.0
}

fn append(text: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    // writing to a vector cannot fail
    let _ = out.write_fmt(text);
}
