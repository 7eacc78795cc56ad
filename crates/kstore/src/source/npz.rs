//! SciPy's `.npz` of a matrix in compressed sparse row format, as `scipy.sparse.save_npz` writes
//! it: sparse rows, in one column `x`.
//!
//! The archive contains four arrays: `data` (the values), `indices` (the columns of the values),
//! `indptr` (the position of the first entry of each row), and `shape`. An array `y` with a number
//! for each row, which `numpy.savez` can add, becomes column `y`. Uncompressed arrays are read in
//! place. Compressed (deflated) arrays can only be read from their beginning. When the file is
//! opened, they are therefore unpacked into unnamed files in the folder for temporary files
//! (`TMPDIR`), in which a cursor can start anywhere.
//!
//! Format: `scipy.sparse.save_npz` in the reference of SciPy; PKWARE, "APPNOTE.TXT, .ZIP File
//! Format Specification".

use super::npy::Header;
use super::npy::header::{MAX_NPY_HEADER_BYTES, parse_header, split_header};
use super::shared_file::{SharedFile, copy_to_temporary};
use super::{BoxedCursor, ColumnView, FileCursor, FileMetadata, Format, RowIndices, TARGET_COLUMN, TableFile, Values};
use crate::arrow::buffer::MutableBuffer;
use crate::schema::{Column, Kind, Schema};
use crate::sparse::{ENTRY_BYTES, MAX_COLUMNS, SparseColumn, SparseShape};
use crate::writer::npy::MAGIC;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zip::{CompressionMethod, ZipArchive, result::ZipError};

pub(super) const FORMAT: Format = Format::new(&["npz"], |path, file, _| Ok(Arc::new(NpzFile::from_file(path, file)?)));

const NAME: &str = "SciPy .npz";

/// Maximum number of rows of a chunk, and also the maximum number of entries of a chunk with
/// several rows.
const NPZ_CHUNK_ROWS: u64 = 4096;
const NPZ_CHUNK_ENTRIES: usize = 32 << 10;
const NUMBER_BYTES: usize = 8;

struct Archive {
    file: SharedFile,
    members: ZipArchive<BufReader<File>>,
    unpacked_bytes: u64,
}

impl Archive {
    fn open(file: SharedFile, zip: File) -> Result<Self> {
        let members = ZipArchive::new(BufReader::new(zip)).map_err(|error| zip_error(&file, error))?;
        Ok(Self { file, members, unpacked_bytes: 0 })
    }

    /// Returns the first bytes of an array, enough for an array of a few values with its header.
    fn read_member(&mut self, name: &str) -> Result<Vec<u8>> {
        let (file, mut bytes) = (&self.file, Vec::new());
        let member = self.members.by_name(&format!("{name}.npy")).map_err(|error| match error {
            ZipError::FileNotFound => {
                file.malformed_error(format!("it has no array \"{name}\", so it is not a sparse matrix; {SAVE_HINT}"))
            }
            error => zip_error(file, error),
        })?;
        let result = member.take(MAX_NPY_HEADER_BYTES as u64).read_to_end(&mut bytes);
        result.map_err(|error| zip_error(file, ZipError::Io(error)))?;
        Ok(bytes)
    }

    /// Rejects a matrix that is not in compressed sparse row format.
    fn check_format(&mut self) -> Result<()> {
        let bytes = self.read_member("format")?;
        let start = if bytes.starts_with(MAGIC) { split_header(&bytes).map(|(_, start)| start) } else { Ok(0) };
        let start = start.map_err(|detail| self.file.malformed_error(format!("array \"format\": {detail}")))?;
        // a character of a NumPy text has four bytes, most of them 0, and a character of NumPy
        // bytes has one
        let format_name: Vec<u8> =
            bytes[start..].iter().copied().filter(|byte| *byte != 0).take(NUMBER_BYTES).collect();
        match &format_name[..] {
            b"csr" => Ok(()),
            name => {
                let stored_format = String::from_utf8_lossy(name).into_owned();
                Err(self
                    .file
                    .malformed_error(format!("its matrix is in {stored_format:?} format instead of csr; {SAVE_HINT}")))
            }
        }
    }

    /// Returns the number of rows and the number of columns.
    fn shape(&mut self) -> Result<[u64; 2]> {
        let bytes = self.read_member("shape")?;
        let shape_error =
            || self.file.malformed_error(format!("its array \"shape\" is not a pair of integers; {SAVE_HINT}"));
        let Header { element, row_count: rows, column_count: 1, data_offset: data, .. } =
            parse_header(&bytes).map_err(|_| shape_error())?
        else {
            return Err(shape_error());
        };
        let number_bytes = bytes
            .get(data..)
            .filter(|bytes| rows == 2 && bytes.len() >= 2 * element.bytes_per_value())
            .ok_or_else(shape_error)?;
        let view = ColumnView { values: Values::from_bytes(number_bytes, element), nulls: None };
        let number_at =
            |index: usize| view.integer(index).and_then(|number| u64::try_from(number).ok()).ok_or_else(shape_error);
        let [rows, width] = [number_at(0)?, number_at(1)?];
        if width > MAX_COLUMNS as u64 || rows > i64::MAX as u64 {
            let detail = format!("a matrix of {rows} x {width}; at most {MAX_COLUMNS} columns are supported");
            return Err(self.file.malformed_error(detail));
        }
        Ok([rows, width])
    }

    /// Returns an array of `length` numbers, or of any length if `length` is `None`. Returns `None`
    /// if the archive has no such array.
    fn array(&mut self, name: &str, length: Option<u64>) -> Result<Option<Member>> {
        let archive_file = &self.file;
        let Some(index) = self.members.index_for_name(&format!("{name}.npy")) else { return Ok(None) };
        let member = self.members.by_index(index).map_err(|error| zip_error(archive_file, error))?;
        let (file, start, bytes) = match (member.compression(), member.data_start()) {
            (CompressionMethod::Stored, Some(start)) => (archive_file.clone(), start, member.size()),
            _ => {
                let unpacked = copy_to_temporary(archive_file.path(), Some(NAME), member)?;
                let unpacked = SharedFile::local(archive_file.path(), NAME, unpacked)
                    .map_err(|error| archive_file.read_error(error))?;
                let length = unpacked.length();
                self.unpacked_bytes += length;
                (unpacked, 0, length)
            }
        };
        let array_error = |detail: String| file.malformed_error(format!("array \"{name}\": {detail}"));
        let max_header_bytes = usize::try_from(bytes).unwrap_or(MAX_NPY_HEADER_BYTES).min(MAX_NPY_HEADER_BYTES);
        let header_bytes = file.read_vec(max_header_bytes, start).map_err(|error| file.read_error(error))?;
        let header = parse_header(&header_bytes).map_err(array_error)?;
        let needed_bytes = header.data_offset as u64 + header.row_count * header.stride() as u64;
        let end = start.checked_add(needed_bytes).filter(|end| needed_bytes <= bytes && *end <= file.length());
        if end.is_none() || header.column_count != 1 {
            return Err(array_error(format!(
                "a shape of {} x {} is not one column, or does not fit into {bytes} bytes",
                header.row_count, header.column_count
            )));
        }
        if let Some(length) = length.filter(|length| *length != header.row_count) {
            return Err(array_error(format!("it has {} numbers instead of {length}; {SAVE_HINT}", header.row_count)));
        }
        Ok(Some(Member { file, data_offset: start + header.data_offset as u64, header }))
    }

    fn required_array(&mut self, name: &str, length: Option<u64>) -> Result<Member> {
        let member = self.array(name, length)?;
        member.ok_or_else(|| self.file.malformed_error(format!("it has no array \"{name}\"; {SAVE_HINT}")))
    }
}

const SAVE_HINT: &str = "write it with scipy.sparse.save_npz(file, X.tocsr()), or dense rows with numpy.save";

fn zip_error(file: &SharedFile, error: ZipError) -> Error {
    match error {
        ZipError::Io(error) if error.raw_os_error().is_some() => file.read_error(error),
        other => file.malformed_error(other.to_string()),
    }
}

/// An array of one column; it is in the archive, or in an unpacked file.
#[derive(Clone, Debug)]
struct Member {
    file: SharedFile,
    data_offset: u64,
    header: Header,
}

impl Member {
    fn with_counter(&self, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { file: self.file.with_counter(bytes_read), ..self.clone() }
    }

    fn read<'b>(&self, rows: Range<u64>, buffer: &'b mut MutableBuffer) -> Result<ColumnView<'b>> {
        let (element, element_bytes) = (self.header.element, self.header.element.bytes_per_value());
        buffer.resize((rows.end - rows.start) as usize * element_bytes, 0);
        let bytes: &mut [u8] = buffer;
        let read_len = self.file.read_at(bytes, self.data_offset + rows.start * element_bytes as u64);
        if read_len.map_err(|error| self.file.read_error(error))? < bytes.len() {
            return Err(self.file.malformed_error("it was cut short while being read"));
        }
        Ok(ColumnView { values: Values::from_bytes(bytes, element), nulls: None })
    }
}

#[derive(Debug)]
struct NpzFile {
    file: SharedFile,
    /// Bytes that were unpacked on opening, plus bytes that were read to find the longest row.
    scanned_bytes: u64,
    data: Member,
    indices: Member,
    indptr: Member,
    y: Option<Member>,
    shape: SparseShape,
    row_count: u64,
    schema: Schema,
}

impl NpzFile {
    /// Reads the directory of the archive, the headers of the arrays, and the row positions, which
    /// give the longest row.
    fn from_file(path: &Path, file: File) -> Result<Self> {
        let shared_file = file.try_clone().and_then(|file| SharedFile::local(path, NAME, file));
        let shared_file = shared_file.map_err(Error::io("read", path))?;
        shared_file.catch_panic(|| Self::parse(shared_file.clone(), file))?
    }

    fn parse(file: SharedFile, zip: File) -> Result<Self> {
        let mut archive = Archive::open(file, zip)?;
        archive.check_format()?;
        let [row_count, width] = archive.shape()?;
        let data = archive.required_array("data", None)?;
        let indices = archive.required_array("indices", Some(data.header.row_count))?;
        let indptr = archive.required_array("indptr", Some(row_count + 1))?;
        let y = archive.array(TARGET_COLUMN, Some(row_count))?;
        let column = |name: &str, kind: Kind| Column { name: name.to_string(), kind };
        let target = y.iter().map(|_| column(TARGET_COLUMN, Kind::Float { bits: 64 }));
        let width = width as usize;
        let columns: Vec<Column> =
            std::iter::once(column("x", Kind::Sparse(SparseShape { column_count: width, max_row_entries: 0 })))
                .chain(target)
                .collect();
        let label = y.is_some().then(|| columns.len() - 1);
        let mut npz = Self {
            file: archive.file,
            scanned_bytes: archive.unpacked_bytes,
            data,
            indices,
            indptr,
            y,
            shape: SparseShape { column_count: width, max_row_entries: 0 },
            row_count,
            schema: Schema { columns, label_column: label, ..Schema::default() },
        };
        let bytes_read = Arc::default();
        npz.shape.max_row_entries = npz.longest_row(&bytes_read)?;
        npz.schema.columns[0].kind = Kind::Sparse(npz.shape);
        npz.scanned_bytes += bytes_read.load(Ordering::Relaxed);
        Ok(npz)
    }

    /// Returns the maximum number of entries of a row.
    fn longest_row(&self, bytes_read: &Arc<AtomicU64>) -> Result<usize> {
        let (indptr, mut buffer, mut longest) = (self.indptr.with_counter(bytes_read), MutableBuffer::default(), 0);
        for start in (0..self.row_count).step_by(NPZ_CHUNK_ROWS as usize) {
            let starts = self.row_starts(&indptr, start..self.row_count.min(start + NPZ_CHUNK_ROWS), &mut buffer)?;
            longest = starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).fold(longest, usize::max);
            if longest > self.shape.column_count {
                let detail = format!(
                    "a row of {longest} entries in {} columns; merge duplicate entries with X.sum_duplicates()",
                    self.shape.column_count
                );
                return Err(self.file.malformed_error(detail));
            }
        }
        Ok(longest)
    }

    /// Returns the position of the first entry of each of `rows`, then the end of the last row.
    fn row_starts(&self, indptr: &Member, rows: Range<u64>, buffer: &mut MutableBuffer) -> Result<Vec<u64>> {
        let count = (rows.end - rows.start + 1) as usize;
        let view = indptr.read(rows.start..rows.end + 1, buffer)?;
        let start_at = |index: usize| view.integer(index).and_then(|start| u64::try_from(start).ok());
        let starts: Option<Vec<u64>> = (0..count).map(start_at).collect();
        let is_valid = |starts: &Vec<u64>| {
            starts.windows(2).all(|pair| pair[0] <= pair[1]) && starts[count - 1] <= self.data.header.row_count
        };
        starts.filter(is_valid).ok_or_else(|| {
            let (first, entries) = (rows.start, self.data.header.row_count);
            let expected = format!("expected ascending positions up to {entries} from row {first} (counted from 0) on");
            self.file.malformed_error(format!("array \"indptr\": {expected}; {SAVE_HINT}"))
        })
    }
}

impl TableFile for NpzFile {
    fn metadata(&self) -> FileMetadata<'_> {
        let (row_count, file_bytes, scanned_bytes) = (self.row_count, self.file.length(), self.scanned_bytes);
        FileMetadata { format: NAME, schema: &self.schema, row_count, file_bytes, bytes_scanned: scanned_bytes }
    }

    /// Bytes of the row positions and labels, both as stored and as numbers, and of the entries: as
    /// stored, as numbers, and in the growing chunk.
    fn cursor_bytes(&self, _columns: &[usize]) -> usize {
        let entries = NPZ_CHUNK_ENTRIES.max(self.shape.max_row_entries);
        4 * NUMBER_BYTES * NPZ_CHUNK_ROWS as usize + entries.saturating_mul(3 * NUMBER_BYTES + 2 * ENTRY_BYTES)
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let y = self.y.as_ref().filter(|_| columns.contains(&1)).map(|y| y.with_counter(bytes_read));
        Ok(Box::new(NpzCursor {
            npz: self,
            members: [&self.indptr, &self.indices, &self.data].map(|member| member.with_counter(bytes_read)),
            y,
            columns: columns.to_vec(),
            remaining_rows: rows,
            sparse_rows: SparseColumn::new(self.shape),
            values: Vec::new(),
            labels: Vec::new(),
            buffers: Default::default(),
        }))
    }
}

struct NpzCursor<'a> {
    npz: &'a NpzFile,
    /// The arrays `indptr`, `indices` and `data`.
    members: [Member; 3],
    y: Option<Member>,
    columns: Vec<usize>,
    remaining_rows: Range<u64>,
    sparse_rows: SparseColumn,
    values: Vec<f64>,
    labels: Vec<f64>,
    buffers: [MutableBuffer; 2],
}

impl NpzCursor<'_> {
    fn load_rows(&mut self, row_starts: &[u64]) -> Result<()> {
        let ([_, indices, data], [index_buffer, value_buffer]) = (&self.members, &mut self.buffers);
        let entries = row_starts[0]..row_starts[row_starts.len() - 1];
        let indices = indices.read(entries.clone(), index_buffer)?;
        self.values.resize((entries.end - entries.start) as usize, 0.0);
        data.read(entries.clone(), value_buffer)?.load(RowIndices::StartingAt(0), &mut self.values);
        for (row, bounds) in (self.remaining_rows.start..).zip(row_starts.windows(2)) {
            let [start, end] = [bounds[0], bounds[1]].map(|entry| (entry - entries.start) as usize);
            self.sparse_rows
                .push_row(|entry| indices.non_null_integer(entry), &self.values[start..end], start, false)
                .map_err(|value| Error::BadValue {
                    path: self.npz.file.path().to_path_buf(),
                    row,
                    line: None,
                    column: "x".to_string(),
                    value,
                    remedy: "sort and merge its entries with X.sum_duplicates(), and save it again",
                })?;
        }
        Ok(())
    }
}

impl FileCursor for NpzCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        self.sparse_rows.clear();
        if self.remaining_rows.is_empty() {
            return Ok(0);
        }
        let rows = self.remaining_rows.start..self.remaining_rows.end.min(self.remaining_rows.start + NPZ_CHUNK_ROWS);
        let mut starts = self.npz.row_starts(&self.members[0], rows, &mut self.buffers[0])?;
        let fitting_start_count = starts.partition_point(|start| start - starts[0] <= NPZ_CHUNK_ENTRIES as u64);
        starts.truncate(fitting_start_count.max(2));
        if self.columns.contains(&0) {
            self.load_rows(&starts)?;
        }
        let end = self.remaining_rows.start + starts.len() as u64 - 1;
        if let Some(y) = &self.y {
            self.labels.resize(starts.len() - 1, 0.0);
            let view = y.read(self.remaining_rows.start..end, &mut self.buffers[0])?;
            view.load(RowIndices::StartingAt(0), &mut self.labels);
        }
        self.remaining_rows.start = end;
        Ok(starts.len() - 1)
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let values = if self.columns[index] == 0 {
            Values::Sparse(self.sparse_rows.rows())
        } else {
            Values::from_slice(&self.labels)
        };
        Ok(ColumnView { values, nulls: None })
    }
}
