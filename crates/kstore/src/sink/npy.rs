//! Writing `.npy`: all columns as one row-major matrix.

use super::{Output, OutputColumn, OutputKind, Sink};
use crate::atomic::AtomicFile;
use crate::source::npy::MAGIC;
use crate::{Error, Result};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Length of the header, padding included: a multiple of 64 as the format demands, with room for every row count.
const HEADER_BYTES: usize = 128;

/// A `.npy` file being written: float32 where all columns are, else float64.
pub(super) struct NpySink {
    file: AtomicFile,
    path: PathBuf,
    columns: Vec<OutputColumn>,
    single: bool,
    rows: u64,
    bytes: Vec<u8>,
}

impl NpySink {
    pub(super) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Self> {
        if let Some(text) = columns.iter().find(|column| column.kind == OutputKind::Text) {
            return Err(Error::WrongType {
                path: path.to_path_buf(),
                column: text.name.clone(),
                got: "text".to_string(),
                expected: ".npy holds one matrix of numbers; write .parquet instead".to_string(),
            });
        }
        let single = columns.iter().all(|column| column.kind == OutputKind::F32);
        let mut file = AtomicFile::create(path)?;
        file.write_all(&header(single, 0, columns.len())).map_err(Error::io("write", path))?;
        Ok(Self { file, path: path.to_path_buf(), columns: columns.to_vec(), single, rows: 0, bytes: Vec::new() })
    }
}

impl Sink for NpySink {
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()> {
        let rows = super::batch_rows(&self.columns, batch);
        self.bytes.clear();
        for row in 0..rows {
            for column in batch {
                match (self.single, column) {
                    (true, Output::F32(values)) => self.bytes.extend(values[row].to_le_bytes()),
                    (_, column) => self.bytes.extend(number(column, row).to_le_bytes()),
                }
            }
        }
        self.rows += rows as u64;
        self.file.write_all(&self.bytes).map_err(Error::io("write", &self.path))
    }

    fn settle(&mut self) -> Result<()> {
        let header = header(self.single, self.rows, self.columns.len());
        self.file.seek(SeekFrom::Start(0)).map_err(Error::io("write", &self.path))?;
        self.file.write_all(&header).map_err(Error::io("write", &self.path))?;
        self.file.settle()
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        self.file.commit()
    }

    fn footprint(&self) -> usize {
        self.bytes.capacity()
    }
}

fn number(column: &Output<'_>, row: usize) -> f64 {
    match column {
        Output::F32(v) => v[row].into(),
        Output::F64(v) => v[row],
        Output::I64(v) => v[row] as f64,
        Output::Bool(v) => f64::from(u8::from(v[row])),
        Output::Text(_) => f64::NAN,
    }
}

/// The header of an array of `rows` by `columns`, always [`HEADER_BYTES`] long.
fn header(single: bool, rows: u64, columns: usize) -> Vec<u8> {
    let descr = if single { "<f4" } else { "<f8" };
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
