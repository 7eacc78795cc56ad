//! Writing `.npy`: all columns as one row-major matrix.

use super::{Output, OutputColumn, OutputKind, Sink};
use crate::atomic::AtomicFile;
use crate::source::npy::header::MAGIC;
use crate::{Error, Result};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Length of the header, padding included: a multiple of 64 as the format demands, with room for every row count.
const HEADER_BYTES: usize = 128;

const GATHERED_BYTES: usize = 64 << 10;

/// The largest integer up to which float64 holds all of them.
const LARGEST_WHOLE: u64 = 1 << 53;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    F32,
    F64,
    I64,
}

impl Element {
    /// The type for some columns: float32 or int64 where all columns are, else float64.
    fn of(columns: &[OutputColumn]) -> Self {
        let all = |kind| columns.iter().all(|column| column.kind == kind);
        match () {
            () if all(OutputKind::F32) => Self::F32,
            () if all(OutputKind::I64) => Self::I64,
            () => Self::F64,
        }
    }
}

pub(crate) struct NpySink {
    file: AtomicFile,
    path: PathBuf,
    columns: Vec<OutputColumn>,
    element: Element,
    rows: u64,
    bytes: Vec<u8>,
}

impl NpySink {
    pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Self> {
        let element = Element::of(columns);
        let mut file = AtomicFile::create(path)?;
        file.write_all(&header(element, 0, columns.len())).map_err(Error::io("write", path))?;
        Ok(Self { file, path: path.to_path_buf(), columns: columns.to_vec(), element, rows: 0, bytes: Vec::new() })
    }
}

impl Sink for NpySink {
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()> {
        let rows = super::batch_rows(&self.columns, batch);
        for row in 0..rows {
            for (place, column) in batch.iter().enumerate() {
                let pushed = self.element.push(column, row, &mut self.bytes);
                pushed.map_err(|value| self.refused(place, self.rows + row as u64, &value))?;
            }
            if self.bytes.len() >= GATHERED_BYTES {
                self.hand_on()?;
            }
        }
        self.rows += rows as u64;
        self.hand_on()
    }

    fn settle(&mut self) -> Result<()> {
        let header = header(self.element, self.rows, self.columns.len());
        self.file.seek(SeekFrom::Start(0)).map_err(Error::io("write", &self.path))?;
        self.file.write_all(&header).map_err(Error::io("write", &self.path))?;
        self.file.settle()
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        self.file.commit()
    }

    fn footprint(&self) -> usize {
        2 * (GATHERED_BYTES + self.columns.len() * size_of::<f64>())
    }
}

impl NpySink {
    fn hand_on(&mut self) -> Result<()> {
        self.file.write_all(&self.bytes).map_err(Error::io("write", &self.path))?;
        self.bytes.clear();
        Ok(())
    }

    #[cold]
    fn refused(&self, place: usize, row: u64, value: &str) -> Error {
        Error::WrongType {
            path: self.path.clone(),
            column: self.columns[place].name.clone(),
            got: format!("{value} in row {row} (counted from 0)"),
            expected:
                "one .npy matrix of a single type cannot hold that; write .parquet or .csv, or leave the column out"
                    .to_string(),
        }
    }
}

impl Element {
    /// Appends a value exactly as it came; returns the value as text where the type cannot hold it.
    fn push(self, column: &Output<'_>, row: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
        let number = match column {
            Output::Kept(column) if !column.is_null(row) => return self.push(&column.values().as_output(), row, bytes),
            Output::Kept(column) if matches!(column.kind(), OutputKind::F32 | OutputKind::F64) => f64::NAN,
            Output::Kept(_) => return Err("a missing value".to_string()),
            Output::F32(v) => v[row].into(),
            Output::F64(v) => v[row],
            Output::I64(v) if self == Self::I64 => {
                bytes.extend(v[row].to_le_bytes());
                return Ok(());
            }
            Output::I64(v) if v[row].unsigned_abs() <= LARGEST_WHOLE => v[row] as f64,
            Output::I64(v) => return Err(format!("the integer {} beyond 2^53", v[row])),
            Output::Bool(v) => f64::from(u8::from(v[row])),
            Output::Text(_) | Output::Binary(_) | Output::Sparse(_) => return Err("text".to_string()),
        };
        match self {
            // only where all columns are float32: exact
            Self::F32 => bytes.extend((number as f32).to_le_bytes()),
            _ => bytes.extend(number.to_le_bytes()),
        }
        Ok(())
    }
}

/// The header of an array of `rows` by `columns`, always [`HEADER_BYTES`] long.
fn header(element: Element, rows: u64, columns: usize) -> Vec<u8> {
    let descr = match element {
        Element::F32 => "<f4",
        Element::F64 => "<f8",
        Element::I64 => "<i8",
    };
    let shape = if columns == 1 { format!("({rows},)") } else { format!("({rows}, {columns})") };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(((HEADER_BYTES - 10) as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.resize(HEADER_BYTES - 1, b' ');
    bytes.push(b'\n');
    bytes
}
