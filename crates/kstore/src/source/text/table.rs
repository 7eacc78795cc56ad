//! A table in a text file of any format: the positions of its rows, and a cursor over them.

use super::records::{MAX_ROW_BYTES, RecordError};
use super::{Record, Records, RowStart, RowStarts, Scanner, TextReadOptions};
use crate::schema::{Column, Kind, Schema};
use crate::source::shared_file::{BLOCK_BYTES, SharedFile};
use crate::source::{BoxedCursor, ColumnView, FileCursor, FileMetadata, TableFile, unsupported};
use crate::{BadLine, Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{collections::HashSet, fmt::Debug, ops::Range};

/// Maximum number of rows of a chunk. Chosen: a numeric column of a chunk takes 32 KiB.
pub(crate) const TEXT_CHUNK_ROWS: usize = 4096;
/// A chunk ends after this many bytes of text, so that a chunk of long rows has few rows.
pub(crate) const TEXT_CHUNK_BYTES: usize = 1 << 20;

/// A text format: how to find the rows of a file, and how to read their values.
pub(crate) trait TextFormat: Debug + Send + Sync {
    const NAME: &'static str;
    /// What to do about a row that is too long or does not end; part of an error message.
    const ROW_REMEDY: &'static str;
    type Scanner: Scanner;
    type Chunk<'a>: TextChunk
    where
        Self: 'a;

    fn scanner(&self) -> Self::Scanner;
    /// Returns a remark on how values are read.
    fn note(&self, _columns: &[Column]) -> Option<String> {
        None
    }
    fn reading(&self) -> TextReadOptions {
        TextReadOptions::default()
    }
    /// Returns an empty chunk of some distinct columns.
    fn chunk<'a>(&'a self, columns: &'a [Column], requested: &[usize]) -> Self::Chunk<'a>;
    /// Returns the bytes of a chunk of `columns`. The longest row of the file has
    /// `longest_row` bytes.
    fn chunk_bytes(&self, columns: &[&Column], longest_row: usize) -> usize;
}

/// The values of the rows that a cursor returns at once.
pub(crate) trait TextChunk: Send {
    /// Removes the rows of the previous chunk. Returns the maximum number of rows of the next
    /// chunk.
    fn begin_chunk(&mut self, max_rows: usize) -> usize;
    /// Appends the values of row `row`, which has this text.
    fn push_row(&mut self, row: u64, text: &[u8]) -> Result<(), RowError>;
    /// Called after the last row of a chunk.
    fn end_chunk(&mut self) {}
    /// Returns a column of the file; `None` if it was not requested.
    fn view(&self, column: usize) -> Option<ColumnView<'_>>;
}

/// A row that cannot be read: what was expected, what was found, and what to do.
#[derive(Debug, Default)]
pub(crate) struct RowError {
    pub(crate) column: Option<String>,
    pub(crate) expected: String,
    pub(crate) found: String,
    pub(crate) remedy: String,
}

impl RowError {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { column: None, expected: expected.into(), found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn in_column(self, column: &str) -> Self {
        Self { column: Some(column.to_string()), ..self }
    }

    fn into_error(self, path: &Path, row: u64, line: u64) -> Error {
        let Self { column, expected, found, remedy } = self;
        Error::BadLine(Box::new(BadLine { path: path.to_path_buf(), row, line, column, expected, found, remedy }))
    }
}

/// A reason why the rows of a file cannot be found: an invalid row, or a description of the file.
#[derive(Debug)]
pub(crate) enum IndexError {
    Row(RowError),
    File(String),
}

impl From<RowError> for IndexError {
    fn from(error: RowError) -> Self {
        Self::Row(error)
    }
}

#[derive(Debug)]
pub(crate) struct TextTable<F> {
    pub(crate) file: SharedFile,
    pub(crate) format: F,
    schema: Schema,
    all_missing: Vec<bool>,
    row_starts: RowStarts,
}

impl<F: TextFormat> TextTable<F> {
    /// Returns an open file whose content is not known yet; the path is for messages.
    pub(crate) fn new(path: &Path, file: std::fs::File, format: F) -> Result<Self> {
        let file = SharedFile::local(path, F::NAME, file).map_err(Error::io("read", path))?;
        Ok(Self { file, format, schema: Schema::default(), all_missing: Vec::new(), row_starts: RowStarts::new() })
    }

    /// Returns the first bytes of the file, and the position at which the text begins: after a byte
    /// order mark, if there is one.
    pub(crate) fn first_block(&self) -> Result<(Vec<u8>, RowStart)> {
        let length = usize::try_from(self.file.length()).unwrap_or(usize::MAX);
        let first_bytes =
            self.file.read_vec(BLOCK_BYTES.min(length), 0).map_err(|error| self.file.read_error(error))?;
        if let Some(detail) = unsupported::why_not_text(self.file.path(), &first_bytes) {
            return Err(self.file.malformed_error(detail));
        }
        let bom_bytes = if first_bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Ok((first_bytes, RowStart { offset: bom_bytes, line: 1 }))
    }

    /// Finds the rows from `start` on in one pass. `is_row(n, text)` is called with the text of
    /// each record and the number n that the record has if it is a row; it returns true for a row.
    pub(crate) fn index_rows(
        &mut self,
        start: RowStart,
        mut is_row: impl FnMut(u64, &[u8]) -> Result<bool, IndexError>,
    ) -> Result<()> {
        let mut records = Records::new(self.file.clone(), self.format.scanner(), start);
        loop {
            let row = self.row_starts.row_count();
            let record = records.next().map_err(|fault| self.record_error(fault, row))?;
            let Some(record) = record else { return Ok(()) };
            match is_row(row, record.bytes) {
                Ok(true) => self.row_starts.add_row(&record),
                Ok(false) => {}
                Err(IndexError::Row(error)) => return Err(error.into_error(self.file.path(), row, record.start.line)),
                Err(IndexError::File(detail)) => return Err(self.file.malformed_error(detail)),
            }
        }
    }

    pub(crate) fn with_columns(mut self, columns: impl Iterator<Item = (String, Kind)>) -> Self {
        self.schema.columns = columns.map(|(name, kind)| Column { name, kind }).collect();
        self
    }

    pub(crate) fn with_all_missing(self, all_missing: Vec<bool>) -> Self {
        Self { all_missing, ..self }
    }

    #[cfg(feature = "svmlight")]
    pub(crate) fn with_label(mut self) -> Self {
        self.schema.label_column = self.schema.columns.len().checked_sub(1);
        self
    }

    fn record_error(&self, fault: RecordError, row: u64) -> Error {
        let row_error = |row_start: RowStart, expected: &str, found: &str| {
            RowError::new(expected, found, F::ROW_REMEDY).into_error(self.file.path(), row, row_start.line)
        };
        match fault {
            RecordError::Io(error) => self.file.read_error(error),
            RecordError::Truncated { expected, found } => self.file.truncated_error(expected, found),
            RecordError::TooLong(row_start) => {
                row_error(row_start, &format!("a row of at most {MAX_ROW_BYTES} bytes"), "a longer one")
            }
            RecordError::Unterminated(row_start) => row_error(row_start, "a closing quote", "the end of the file"),
        }
    }
}

impl<F: TextFormat> TableFile for TextTable<F> {
    fn metadata(&self) -> FileMetadata<'_> {
        let length = self.file.length();
        FileMetadata {
            format: F::NAME,
            schema: &self.schema,
            row_count: self.row_starts.row_count(),
            file_bytes: length,
            bytes_scanned: length,
        }
    }

    fn note(&self) -> Option<String> {
        self.format.note(&self.schema.columns)
    }

    fn is_all_missing(&self, column: usize) -> bool {
        self.all_missing.get(column).is_some_and(|blank| *blank)
    }

    fn reading(&self) -> TextReadOptions {
        self.format.reading()
    }

    fn line_of_row(&self, row: u64) -> Option<u64> {
        self.row_starts.line_of_row(&self.file, self.format.scanner(), row)
    }

    /// Bytes of a block of text and of the chunk. For each column of the file, also the bytes of
    /// its index in the chunk and of its index in a row.
    fn cursor_bytes(&self, columns: &[usize]) -> usize {
        let requested: Vec<&Column> = columns.iter().map(|column| &self.schema.columns[*column]).collect();
        let chunk_bytes = self.format.chunk_bytes(&requested, self.row_starts.longest_row_bytes());
        self.row_starts.reader_bytes() + chunk_bytes + self.schema.columns.len() * 3 * size_of::<usize>()
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let records =
            self.row_starts.records_from(self.file.with_counter(bytes_read), self.format.scanner(), rows.start);
        let records = records.map_err(|fault| self.record_error(fault, rows.start))?;
        let mut distinct_columns = HashSet::new();
        let requested: Vec<usize> = columns.iter().copied().filter(|column| distinct_columns.insert(*column)).collect();
        let chunk = self.format.chunk(&self.schema.columns, &requested);
        Ok(Box::new(TextCursor { table: self, records, chunk, columns: columns.to_vec(), remaining_rows: rows }))
    }
}

struct TextCursor<'a, F: TextFormat> {
    table: &'a TextTable<F>,
    records: Records<F::Scanner>,
    chunk: F::Chunk<'a>,
    columns: Vec<usize>,
    remaining_rows: Range<u64>,
}

impl<F: TextFormat> FileCursor for TextCursor<'_, F> {
    fn advance(&mut self) -> Result<usize> {
        let (table, first_row) = (self.table, self.remaining_rows.start);
        let remaining_rows = usize::try_from(self.remaining_rows.end - first_row).unwrap_or(usize::MAX);
        let max_rows = self.chunk.begin_chunk(remaining_rows.min(TEXT_CHUNK_ROWS)) as u64;
        let mut text_bytes = 0;
        while self.remaining_rows.start - first_row < max_rows && text_bytes < TEXT_CHUNK_BYTES {
            let row = self.remaining_rows.start;
            let record = self.records.next().map_err(|fault| table.record_error(fault, row))?;
            let Some(Record { bytes: text, start: row_start }) = record else {
                let rows = table.row_starts.row_count();
                return Err(table
                    .file
                    .malformed_error(format!("it changed while being read: it had {rows} rows, now {row}")));
            };
            self.chunk.push_row(row, text).map_err(|error| error.into_error(table.file.path(), row, row_start.line))?;
            text_bytes += text.len();
            self.remaining_rows.start += 1;
        }
        self.chunk.end_chunk();
        Ok((self.remaining_rows.start - first_row) as usize)
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        self.chunk.view(self.columns[index]).ok_or_else(|| self.table.file.malformed_error("a column is missing"))
    }
}
