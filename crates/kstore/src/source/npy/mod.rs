//! NumPy's `.npy`: one array, row by row or column by column, with columns called `x0`, `x1`, ….
//!
//! A pass reads a few hundred kilobytes at a time into its own buffer. This is as fast as mapping
//! the file, and no mapped pages count as resident memory. If the file shrinks during reading, the
//! result is an error instead of a signal. For the use of a whole array without copying it, see
//! [`NpyFile::map`].

pub(crate) mod header;

pub use header::{Header, parse_header};

use super::shared_file::{BLOCK_BYTES, SharedFile, chunk_bytes};
use super::{BoxedCursor, ColumnView, Element, FileCursor, FileMetadata, Format, StridedColumn, TableFile, Values};
use crate::arrow::buffer::MutableBuffer;
use crate::schema::Kind;
use crate::schema::{Column, Schema};
use crate::writer::npy::MAGIC;
use crate::{Error, Result, mmap::MappedFile};
use header::MAX_NPY_HEADER_BYTES;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const NAME: &str = ".npy";

pub(super) const FORMAT: Format = Format::new(&["npy"], |path, file, _| Ok(Arc::new(NpyFile::from_file(path, file)?)))
    .magic(MAGIC)
    .matrix()
    .writable(|column| column.time_type.is_none() && !column.kind.is_variable_size(), crate::writer::npy::create);

/// An open `.npy` file.
#[derive(Debug)]
pub struct NpyFile {
    file: SharedFile,
    header: Header,
    schema: Schema,
}

impl NpyFile {
    /// Opens a file, reads its header, and compares the size that the header states with the size
    /// of the file.
    ///
    /// # Errors
    /// The file cannot be opened; the errors of [`NpyFile::from_file`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_file(path, std::fs::File::open(path).map_err(Error::io("read", path))?)
    }

    /// Reads the header of an open file, and compares the size that the header states with the size
    /// of the file. The path is for messages.
    ///
    /// # Errors
    /// The file cannot be read; the errors of [`parse_header`]; the file is shorter than its header
    /// states.
    pub fn from_file(path: &Path, file: std::fs::File) -> Result<Self> {
        let file = SharedFile::local(path, NAME, file).map_err(Error::io("read", path))?;
        let mut start =
            vec![0; MAX_NPY_HEADER_BYTES.min(usize::try_from(file.length()).unwrap_or(MAX_NPY_HEADER_BYTES))];
        let read_len = file.read_at(&mut start, 0).map_err(|error| file.read_error(error))?;
        let header = parse_header(&start[..read_len]).map_err(|detail| file.malformed_error(detail))?;
        let (needed, file_bytes) =
            (header.data_offset as u64 + header.row_count * header.stride() as u64, file.length());
        if file_bytes < needed {
            let shape = format!("{} x {}", header.row_count, header.column_count);
            return Err(
                file.malformed_error(format!("an array of {shape} needs {needed} bytes, the file has {file_bytes}"))
            );
        }
        let kind = Kind::from(header.element);
        let columns = (0..header.column_count).map(|i| Column { name: format!("x{i}"), kind: kind.clone() });
        let schema = Schema { columns: columns.collect(), ..Schema::default() };
        Ok(Self { file, header, schema })
    }

    /// Returns the header of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Maps the file into memory. The values start at [`Header::data_offset`].
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub fn map(&self) -> Result<MappedFile> {
        MappedFile::open(self.file.path())
    }
}

impl TableFile for NpyFile {
    fn metadata(&self) -> FileMetadata<'_> {
        let (schema, row_count) = (&self.schema, self.header.row_count);
        FileMetadata { format: NAME, schema, row_count, file_bytes: self.file.length(), bytes_scanned: 0 }
    }

    fn cursor_bytes(&self, columns: &[usize]) -> usize {
        self.chunk_rows(columns.len()) * self.chunk_stride(columns.len())
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let columns = columns.to_vec();
        Ok(Box::new(NpyCursor {
            file: self.file.with_counter(bytes_read),
            npy: self,
            columns,
            remaining_rows: rows,
            loaded_rows: 0,
            buffer: MutableBuffer::default(),
        }))
    }
}

impl NpyFile {
    fn chunk_rows(&self, column_count: usize) -> usize {
        let chunk_bytes = if self.header.is_column_major { chunk_bytes(column_count) } else { BLOCK_BYTES };
        (chunk_bytes / self.chunk_stride(column_count).max(1)).max(1)
    }

    /// Returns the bytes of a row in a chunk. The chunk has whole rows, or only the requested
    /// columns.
    fn chunk_stride(&self, column_count: usize) -> usize {
        if self.header.is_column_major {
            column_count * self.header.element.bytes_per_value()
        } else {
            self.header.stride()
        }
    }
}

struct NpyCursor<'a> {
    npy: &'a NpyFile,
    file: SharedFile,
    columns: Vec<usize>,
    remaining_rows: Range<u64>,
    loaded_rows: usize,
    buffer: MutableBuffer,
}

impl NpyCursor<'_> {
    fn read_rows(npy: &NpyFile, file: &SharedFile, remaining_rows: &mut Range<u64>, bytes: &mut [u8]) -> Result<usize> {
        let stride = npy.header.stride();
        Self::read_exact(file, npy.header.data_offset as u64 + remaining_rows.start * stride as u64, bytes)?;
        let rows = bytes.len() / stride.max(1);
        remaining_rows.start += rows as u64;
        Ok(rows)
    }

    fn read_exact(file: &SharedFile, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match file.read_at(bytes, offset).map_err(|error| file.read_error(error))? {
            read_len if read_len < bytes.len() => {
                Err(file.truncated_error(offset + bytes.len() as u64, offset + read_len as u64))
            }
            _ => Ok(()),
        }
    }

    /// Reads the next rows of an array that is stored column by column. The requested columns are
    /// read one after the other.
    fn read_columns(&mut self) -> Result<usize> {
        let (header, element_bytes) = (&self.npy.header, self.npy.header.element.bytes_per_value());
        let rows = (self.remaining_rows.end - self.remaining_rows.start)
            .min(self.npy.chunk_rows(self.columns.len()) as u64) as usize;
        self.buffer.resize(self.columns.len() * rows * element_bytes, 0);
        for (column, bytes) in self.columns.iter().zip(self.buffer.chunks_exact_mut((rows * element_bytes).max(1))) {
            let first_value = *column as u64 * header.row_count + self.remaining_rows.start;
            Self::read_exact(&self.file, header.data_offset as u64 + first_value * element_bytes as u64, bytes)?;
        }
        self.remaining_rows.start += rows as u64;
        self.loaded_rows = rows;
        Ok(rows)
    }

    fn next_bytes(&self, max_rows: usize) -> usize {
        (self.remaining_rows.end - self.remaining_rows.start).min(max_rows as u64) as usize * self.npy.header.stride()
    }
}

impl FileCursor for NpyCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        if self.npy.header.is_column_major {
            return self.read_columns();
        }
        let bytes = self.next_bytes(self.npy.chunk_rows(self.columns.len()));
        self.buffer.resize(bytes, 0);
        Self::read_rows(self.npy, &self.file, &mut self.remaining_rows, &mut self.buffer)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let header = &self.npy.header;
        // the requested columns must be whole rows in the order of the file
        let selects_all_columns = self.columns.len() == columns && columns == header.column_count;
        // for a single column both orders are the same
        if !selects_all_columns
            || header.is_column_major && columns > 1
            || element != header.element
            || self.columns.iter().enumerate().any(|(i, column)| i != *column)
        {
            return Ok(None);
        }
        let bytes = self.next_bytes(x.len() / header.stride());
        Self::read_rows(self.npy, &self.file, &mut self.remaining_rows, &mut x[..bytes]).map(Some)
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let element = self.npy.header.element;
        let element_bytes = element.bytes_per_value();
        let (offset, stride) = match self.npy.header.is_column_major {
            true => (index * self.loaded_rows * element_bytes, element_bytes),
            false => (self.columns[index] * element_bytes, self.npy.header.stride()),
        };
        Ok(ColumnView {
            values: Values::Strided(StridedColumn { bytes: &self.buffer, element, offset, stride }),
            nulls: None,
        })
    }
}
