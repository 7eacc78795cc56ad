//! Writes `.npy`: all columns as one row-major matrix.

use super::rows::{RowSink, Rows};
use super::{Output, OutputColumn, OutputKind, Sink};
use crate::source::Element;
use crate::source::npy::header::{MAGIC, TYPES};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Length of the header including padding: a multiple of 64 as the format requires, with room for
/// every row count.
const HEADER_BYTES: usize = 128;

/// The largest integer up to which float64 represents all integers.
const LARGEST_WHOLE: u64 = 1 << 53;

struct NpyRows {
    /// float32, int64 or uint64 if all columns have this type, otherwise float64.
    element: Element,
    path: PathBuf,
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let all = |kind| columns.iter().all(|column| column.kind == kind);
    let element = match () {
        () if all(OutputKind::F32) => Element::F32,
        () if all(OutputKind::I64) => Element::I64,
        () if all(OutputKind::U64) => Element::U64,
        () => Element::F64,
    };
    RowSink::create(path, columns, NpyRows { element, path: path.to_path_buf() })
}

impl Rows for NpyRows {
    fn head(&self, columns: &[OutputColumn], rows: u64) -> Vec<u8> {
        header(self.element, rows, columns.len())
    }

    fn row(
        &self,
        columns: &[OutputColumn],
        batch: &[Output<'_>],
        row: usize,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (values, column) in batch.iter().zip(columns) {
            push(self.element, values, row, out).map_err(|value| self.refused(column, number, &value))?;
        }
        Ok(())
    }

    fn longest(&self, columns: &[OutputColumn]) -> usize {
        columns.len() * size_of::<f64>()
    }
}

impl NpyRows {
    #[cold]
    fn refused(&self, column: &OutputColumn, row: u64, value: &str) -> Error {
        let expected = "a .npy matrix of a single type cannot store it; write .parquet or .csv, or exclude the column";
        Error::wrong_type(&self.path, &column.name, format!("{value} in row {row} (counted from 0)"), expected)
    }
}

/// Appends a value exactly; returns the value as text if the type cannot hold it.
fn push(element: Element, column: &Output<'_>, row: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
    let number = match column {
        Output::Kept(column) if !column.is_null(row) => {
            return push(element, &column.values().as_output(), row, bytes);
        }
        Output::Kept(column) if matches!(column.kind(), OutputKind::F32 | OutputKind::F64) => f64::NAN,
        Output::Kept(_) => return Err("a missing value".to_string()),
        Output::F32(v) => v[row].into(),
        Output::F64(v) => v[row],
        Output::I64(v) if element == Element::I64 => {
            bytes.extend(v[row].to_le_bytes());
            return Ok(());
        }
        Output::U64(v) if element == Element::U64 => {
            bytes.extend(v[row].to_le_bytes());
            return Ok(());
        }
        Output::U64(v) if v[row] <= LARGEST_WHOLE => v[row] as f64,
        Output::U64(v) => return Err(format!("the integer {} beyond 2^53", v[row])),
        Output::I64(v) if v[row].unsigned_abs() <= LARGEST_WHOLE => v[row] as f64,
        Output::I64(v) => return Err(format!("the integer {} beyond 2^53", v[row])),
        Output::Bool(v) => f64::from(u8::from(v[row])),
        Output::Text(_) | Output::Binary(_) | Output::Sparse(_) => return Err("text".to_string()),
    };
    match element {
        // exact, because all columns are float32
        Element::F32 => bytes.extend((number as f32).to_le_bytes()),
        _ => bytes.extend(number.to_le_bytes()),
    }
    Ok(())
}

/// Returns the header of an array of `rows` by `columns`, always [`HEADER_BYTES`] long.
fn header(element: Element, rows: u64, columns: usize) -> Vec<u8> {
    let name = TYPES.iter().find(|(_, known)| *known == element).map_or("", |(name, _)| name);
    let shape = if columns == 1 { format!("({rows},)") } else { format!("({rows}, {columns})") };
    let text = format!("{{'descr': '<{name}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(((HEADER_BYTES - 10) as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.resize(HEADER_BYTES - 1, b' ');
    bytes.push(b'\n');
    bytes
}
