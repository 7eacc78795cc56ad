//! Writes `.npy`: all columns as one row-major matrix.

use super::rows::{RowFormat, RowSink};
use super::{OutputColumn, OutputKind, OutputValues, Sink};
use crate::{Error, Result, view::Element};
use std::path::{Path, PathBuf};

/// The first bytes of every `.npy` file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The types of values, by the names that follow the byte order in a header.
pub(crate) const TYPES: [(&str, Element); 12] = [
    ("f2", Element::F16),
    ("f4", Element::F32),
    ("f8", Element::F64),
    ("i1", Element::I8),
    ("i2", Element::I16),
    ("i4", Element::I32),
    ("i8", Element::I64),
    ("u1", Element::U8),
    ("u2", Element::U16),
    ("u4", Element::U32),
    ("u8", Element::U64),
    ("b1", Element::Bool),
];

/// Length of the header with its padding. It is a multiple of 64, as the format requires, and has
/// room for any number of rows.
const NPY_HEADER_BYTES: usize = 128;

/// The largest integer up to which every integer is exact in float64.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

struct NpyRows {
    /// Type of the matrix: float32, int64 or uint64 if all columns have this type, otherwise
    /// float64.
    element: Element,
    path: PathBuf,
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let all_have_kind = |kind| columns.iter().all(|column| column.kind == kind);
    let element = match () {
        () if all_have_kind(OutputKind::F32) => Element::F32,
        () if all_have_kind(OutputKind::I64) => Element::I64,
        () if all_have_kind(OutputKind::U64) => Element::U64,
        () => Element::F64,
    };
    RowSink::create(path, columns, NpyRows { element, path: path.to_path_buf() })
}

impl RowFormat for NpyRows {
    fn header(&self, columns: &[OutputColumn], row_count: u64) -> Vec<u8> {
        header_bytes(self.element, row_count, columns.len())
    }

    fn write_row(
        &self,
        columns: &[OutputColumn],
        batch: &[OutputValues<'_>],
        row: usize,
        row_number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (values, column) in batch.iter().zip(columns) {
            push_value(self.element, values, row, out).map_err(|value| self.type_error(column, row_number, &value))?;
        }
        Ok(())
    }

    fn max_row_bytes(&self, columns: &[OutputColumn]) -> usize {
        columns.len() * size_of::<f64>()
    }
}

impl NpyRows {
    #[cold]
    fn type_error(&self, column: &OutputColumn, row: u64, value: &str) -> Error {
        let expected = "a .npy matrix of a single type cannot store it; write .parquet or .csv, or exclude the column";
        Error::wrong_type(&self.path, &column.name, format!("{value} in row {row} (counted from 0)"), expected)
    }
}

/// Appends a value exactly. If the type of the matrix cannot hold it, returns the value as text.
fn push_value(element: Element, column: &OutputValues<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let number = match column {
        OutputValues::Kept(column) if !column.is_null(row) => {
            return push_value(element, &column.values().as_output(), row, out);
        }
        OutputValues::Kept(column) if matches!(column.kind(), OutputKind::F32 | OutputKind::F64) => f64::NAN,
        OutputValues::Kept(_) => return Err("a missing value".to_string()),
        OutputValues::F32(v) => v[row].into(),
        OutputValues::F64(v) => v[row],
        OutputValues::I64(v) if element == Element::I64 => {
            out.extend(v[row].to_le_bytes());
            return Ok(());
        }
        OutputValues::U64(v) if element == Element::U64 => {
            out.extend(v[row].to_le_bytes());
            return Ok(());
        }
        OutputValues::U64(v) if v[row] <= MAX_EXACT_INTEGER => v[row] as f64,
        OutputValues::U64(v) => return Err(format!("the integer {} beyond 2^53", v[row])),
        OutputValues::I64(v) if v[row].unsigned_abs() <= MAX_EXACT_INTEGER => v[row] as f64,
        OutputValues::I64(v) => return Err(format!("the integer {} beyond 2^53", v[row])),
        OutputValues::Bool(v) => f64::from(u8::from(v[row])),
        OutputValues::Text(_) | OutputValues::Binary(_) | OutputValues::Sparse(_) => return Err("text".to_string()),
    };
    match element {
        // exact, because all columns are float32
        Element::F32 => out.extend((number as f32).to_le_bytes()),
        _ => out.extend(number.to_le_bytes()),
    }
    Ok(())
}

/// Returns the header of an array of `row_count` by `column_count`, which always has
/// [`NPY_HEADER_BYTES`] bytes.
fn header_bytes(element: Element, row_count: u64, column_count: usize) -> Vec<u8> {
    let name = TYPES.iter().find(|(_, candidate)| *candidate == element).map_or("", |(name, _)| name);
    let shape = if column_count == 1 { format!("({row_count},)") } else { format!("({row_count}, {column_count})") };
    let text = format!("{{'descr': '<{name}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(((NPY_HEADER_BYTES - 10) as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.resize(NPY_HEADER_BYTES - 1, b' ');
    bytes.push(b'\n');
    bytes
}
