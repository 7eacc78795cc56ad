//! Wrappers of files: a file with other columns than it stores, a decompressed file, and a
//! placeholder for rows that this process does not have.

use super::shared_file::BLOCK_BYTES;
use super::union_schema::{columns_by_key, convert_column, is_read_alike};
use super::{
    BoxedCursor, ColumnView, ComputedColumns, Element, FileCursor, FileMetadata, RowIndices, TableFile,
    TextReadOptions, Values, arrow_values,
};
use crate::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray};
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result, condition::BoundCondition};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Maximum number of rows of a chunk that readers return. The memory plan relies on it.
const MAX_READER_CHUNK_ROWS: usize = 256 << 10;

/// A column of the table that the file does not store.
#[derive(Clone, Debug)]
pub(crate) enum AddedColumn {
    /// The same integer or text in every row; `None` for a missing value.
    Integer(Option<i64>),
    Text(Option<String>),
    /// Missing in every row.
    Missing(Kind),
    /// The numbers of a file with one column, from row `first_row` on, converted to f64.
    Numbers {
        file: Arc<dyn TableFile>,
        path: PathBuf,
        first_row: u64,
    },
    /// Column `column` of computed columns, from row `first_row` on.
    Computed {
        columns: ComputedColumns,
        column: usize,
        first_row: u64,
    },
}

impl AddedColumn {
    fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Int { bits: 64, signed: true },
            Self::Text(_) => Kind::Text,
            Self::Missing(kind) => kind.clone(),
            Self::Numbers { .. } | Self::Computed { .. } => Kind::Float { bits: 64 },
        }
    }

    /// Returns the value, repeated for this many rows; `None` if the rows have different values.
    fn repeat(&self, row_count: usize) -> Option<ArrayRef> {
        match self {
            Self::Integer(value) => Some(Arc::new(std::iter::repeat_n(*value, row_count).collect::<Int64Array>())),
            Self::Text(value) => {
                Some(Arc::new(std::iter::repeat_n(value.as_deref(), row_count).collect::<StringViewArray>()))
            }
            Self::Missing(kind) => Some(missing_values(row_count, kind)),
            Self::Numbers { .. } | Self::Computed { .. } => None,
        }
    }

    /// Returns the bytes of an open cursor whose chunks have at most `chunk_rows` rows.
    fn cursor_bytes(&self, chunk_rows: usize) -> usize {
        match self {
            Self::Integer(_) | Self::Text(_) | Self::Missing(_) => 16 * MAX_READER_CHUNK_ROWS,
            Self::Numbers { file, .. } => file.cursor_bytes(&[0]),
            Self::Computed { .. } => chunk_rows * size_of::<f64>(),
        }
    }
}

pub(super) fn missing_values(row_count: usize, kind: &Kind) -> ArrayRef {
    match kind {
        Kind::Float { .. } => Arc::new(Float64Array::new_null(row_count)),
        Kind::Bool | Kind::Int { .. } | Kind::Time(_) => Arc::new(Int64Array::new_null(row_count)),
        _ => Arc::new(StringViewArray::new_null(row_count)),
    }
}

/// The source of the values of a column.
#[derive(Debug)]
enum Origin {
    /// A column of the file. If the table has the column in another kind, the origin is `Converted`
    /// instead.
    Stored(usize),
    Converted(usize),
    Added(AddedColumn),
}

/// A file with other columns than it stores: columns are added, or reordered, or converted to the
/// kind that they have in other files.
#[derive(Debug)]
pub(crate) struct ExtendedFile {
    path: PathBuf,
    file: Arc<dyn TableFile>,
    schema: Arc<Schema>,
    origins: Vec<Origin>,
    /// Bytes on disk of the compressed file, if the file was unpacked.
    compressed_bytes: Option<u64>,
}

impl ExtendedFile {
    /// Adds the columns that the file itself does not have.
    pub(crate) fn new(path: &Path, file: Arc<dyn TableFile>, columns: Vec<(String, AddedColumn)>) -> Self {
        let mut schema = file.metadata().schema.clone();
        let mut origins: Vec<_> = (0..schema.columns.len()).map(Origin::Stored).collect();
        for (name, added_column) in
            columns.into_iter().filter(|(name, _)| file.metadata().schema.position(name).is_none())
        {
            schema.columns.push(Column { name, kind: added_column.kind() });
            origins.push(Origin::Added(added_column));
        }
        Self { path: path.to_path_buf(), file, schema: Arc::new(schema), origins, compressed_bytes: None }
    }

    /// Returns an unpacked file whose compressed size on disk is `bytes`.
    #[cfg(feature = "compressed")]
    pub(super) fn decompressed(path: &Path, file: Arc<dyn TableFile>, bytes: u64) -> Self {
        Self { compressed_bytes: Some(bytes), ..Self::new(path, file, Vec::new()) }
    }

    /// Returns the file with the columns of `schema`, a union that includes the file's own columns.
    /// If the columns are the same, returns the file itself.
    pub(crate) fn with_schema(path: &Path, file: &Arc<dyn TableFile>, schema: &Arc<Schema>) -> Arc<dyn TableFile> {
        let stored_columns = &file.metadata().schema.columns;
        let positions: HashMap<_, usize> =
            columns_by_key(file.metadata().schema).map(|(key, _)| key).zip(0..).collect();
        let origin = |(key, column): (_, &Column)| match positions.get(&key) {
            None => Origin::Added(AddedColumn::Missing(column.kind.clone())),
            Some(index) if is_read_alike(&stored_columns[*index].kind, &column.kind) => Origin::Stored(*index),
            Some(index) => Origin::Converted(*index),
        };
        let origins: Vec<Origin> = columns_by_key(schema).map(origin).collect();
        let is_unchanged_order = origins
            .iter()
            .enumerate()
            .all(|(index, origin)| matches!(origin, Origin::Stored(stored_index) if *stored_index == index));
        if is_unchanged_order && origins.len() == stored_columns.len() {
            return Arc::clone(file);
        }
        let (path, file, schema) = (path.to_path_buf(), Arc::clone(file), Arc::clone(schema));
        Arc::new(Self { path, file, schema, origins, compressed_bytes: None })
    }

    /// Returns the columns of the file that are needed for some columns of the table.
    fn stored_columns(&self, columns: &[usize]) -> Vec<usize> {
        let stored_column = |column: &usize| match self.origins[*column] {
            Origin::Stored(index) | Origin::Converted(index) => Some(index),
            Origin::Added(_) => None,
        };
        columns.iter().filter_map(stored_column).collect()
    }
}

impl TableFile for ExtendedFile {
    fn metadata(&self) -> FileMetadata<'_> {
        let file_metadata = self.file.metadata();
        let (bytes, scanned_bytes) =
            self.compressed_bytes.map_or((file_metadata.file_bytes, file_metadata.bytes_scanned), |compressed_bytes| {
                (compressed_bytes, compressed_bytes + file_metadata.bytes_scanned)
            });
        FileMetadata { schema: &self.schema, file_bytes: bytes, bytes_scanned: scanned_bytes, ..file_metadata }
    }

    fn note(&self) -> Option<String> {
        self.file.note()
    }

    fn has_column_names(&self) -> bool {
        self.file.has_column_names()
    }

    fn is_all_missing(&self, column: usize) -> bool {
        match &self.origins[column] {
            Origin::Stored(index) | Origin::Converted(index) => self.file.is_all_missing(*index),
            Origin::Added(added) => {
                matches!(added, AddedColumn::Integer(None) | AddedColumn::Text(None) | AddedColumn::Missing(_))
            }
        }
    }

    fn reading(&self) -> TextReadOptions {
        self.file.reading()
    }

    fn line_of_row(&self, row: u64) -> Option<u64> {
        self.file.line_of_row(row)
    }

    fn resident_bytes(&self) -> usize {
        self.file.resident_bytes()
    }

    fn cursor_bytes(&self, columns: &[usize]) -> usize {
        // a chunk of one-byte values has as many rows as bytes, and each of its values may become a
        // text
        let chunk_bytes = BLOCK_BYTES.max(columns.len() * (16 << 10)).saturating_mul(3 * size_of::<u128>());
        // each stored value takes a byte or more of the chunk of the file
        let stored_columns = self.stored_columns(columns);
        let stored_count = stored_columns.len().max(1);
        let chunk_rows = BLOCK_BYTES.max(stored_count * (16 << 10)) / stored_count;
        let added_bytes = |column: &usize| match &self.origins[*column] {
            Origin::Stored(_) => 0,
            Origin::Converted(_) => chunk_bytes / columns.len(),
            Origin::Added(added) => added.cursor_bytes(chunk_rows),
        };
        self.file.cursor_bytes(&stored_columns) + columns.iter().map(added_bytes).sum::<usize>()
    }

    /// If all rows share a value, a condition on this value excludes the whole file or nothing.
    fn candidate_rows(&self, column: usize, condition: &BoundCondition) -> Vec<Range<u64>> {
        let all_rows = std::iter::once(0..self.metadata().row_count).collect();
        let added_value = match &self.origins[column] {
            Origin::Stored(index) => return self.file.candidate_rows(*index, condition),
            Origin::Converted(_) => return all_rows,
            Origin::Added(added) => added.repeat(1),
        };
        let mut selected = Vec::new();
        added_value
            .as_deref()
            .and_then(arrow_values::array_view)
            .iter()
            .for_each(|view| condition.select_rows(view, 1, &mut selected));
        if added_value.is_some() && selected.is_empty() { Vec::new() } else { all_rows }
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let mut cursor_index = 0..;
        let mut open_column = |column: &usize| {
            let mut next_index = || cursor_index.next().unwrap_or_default();
            Ok(match &self.origins[*column] {
                Origin::Stored(_) => OpenColumn::Stored(next_index()),
                Origin::Converted(index) => {
                    OpenColumn::Converted { indices: (next_index(), *index), column: *column, array: None }
                }
                Origin::Added(AddedColumn::Numbers { file, path, first_row: start }) => {
                    let cursor = file.open(&[0], rows.start + start..rows.end + start, bytes_read)?;
                    OpenColumn::Numbers { cursor, path, values: Vec::new(), used_rows: 0, chunk_rows: 0 }
                }
                Origin::Added(AddedColumn::Computed { columns, column, first_row }) => OpenColumn::Computed {
                    columns: columns.with_counter(bytes_read),
                    column: *column,
                    file_start: *first_row,
                    values: Vec::new(),
                },
                Origin::Added(added) => OpenColumn::Repeated(added, added.repeat(0)),
            })
        };
        let open_columns = columns.iter().map(&mut open_column).collect::<Result<_>>()?;
        let first_row = rows.start;
        let file = self.file.open(&self.stored_columns(columns), rows, bytes_read)?;
        Ok(Box::new(ExtendedCursor { extended: self, file_cursor: file, columns: open_columns, next_row: first_row }))
    }
}

/// A requested column of an open cursor.
enum OpenColumn<'a> {
    /// A stored column, by its index in the file's cursor.
    Stored(usize),
    /// A converted column. `indices` has its index in the file's cursor and its index in the file.
    /// `array` has the values of the chunk, converted to the kind of the table's column.
    Converted { indices: (usize, usize), column: usize, array: Option<ArrayRef> },
    /// The same value in every row, repeated for as many rows as the longest chunk so far has.
    Repeated(&'a AddedColumn, Option<ArrayRef>),
    /// Numbers of another file. The first `used_rows` of the `chunk_rows` rows of its chunk have
    /// been returned.
    Numbers { cursor: BoxedCursor<'a>, path: &'a Path, values: Vec<f64>, used_rows: usize, chunk_rows: usize },
    /// A computed column. The first row of the file is row `file_start` of the table.
    Computed { columns: ComputedColumns, column: usize, file_start: u64, values: Vec<f64> },
}

impl OpenColumn<'_> {
    /// Reads the values of the next `chunk_rows` rows; the first of them is row `first_row`.
    fn advance(
        &mut self,
        extended: &ExtendedFile,
        file: &BoxedCursor<'_>,
        chunk_rows: usize,
        first_row: u64,
    ) -> Result<()> {
        match self {
            // at the end, the file has no column to view
            Self::Converted { indices: (cursor_index, file_column), column, array: converted } if chunk_rows > 0 => {
                let Column { name, kind } = &extended.schema.columns[*column];
                // if a column has no values, its kind is a guess, and must not convert values that
                // appear later
                let stored_kind = if extended.file.is_all_missing(*file_column) {
                    &Kind::Text
                } else {
                    &extended.file.metadata().schema.columns[*file_column].kind
                };
                *converted = Some(convert_column(&file.view(*cursor_index)?, chunk_rows, stored_kind, kind).map_err(
                    |chunk_row| {
                        let (path, row) = (extended.path.clone(), first_row + chunk_row as u64);
                        let (line, column) = (extended.line_of_row(row), name.clone());
                        let value = format!("a value that does not fit {kind}, the type of the column in other files");
                        let remedy = "write the column with the same type in all files, or exclude it with `features`";
                        Error::BadValue { path, row, line, column, value, remedy }
                    },
                )?);
            }
            Self::Stored(_) | Self::Converted { .. } => {}
            Self::Repeated(added, array) => {
                if array.as_ref().is_none_or(|array| array.len() < chunk_rows) {
                    *array = added.repeat(chunk_rows);
                }
            }
            Self::Computed { columns, column, file_start, values } => {
                values.resize(chunk_rows, 0.0);
                columns.read(*column, *file_start + first_row, values)?;
            }
            Self::Numbers { cursor, path, values, used_rows: used, chunk_rows: rows } => {
                values.clear();
                while values.len() < chunk_rows {
                    if used == rows {
                        (*used, *rows) = (0, cursor.advance()?);
                        if *rows == 0 {
                            let detail = "it has fewer rows than the table it belongs to";
                            return Err(Error::malformed(path, "target file", detail));
                        }
                    }
                    let (value_count, taken_rows) = (values.len(), (chunk_rows - values.len()).min(*rows - *used));
                    values.resize(value_count + taken_rows, 0.0);
                    cursor.view(0)?.load(RowIndices::StartingAt(*used), &mut values[value_count..]);
                    *used += taken_rows;
                }
            }
        }
        Ok(())
    }
}

struct ExtendedCursor<'a> {
    extended: &'a ExtendedFile,
    file_cursor: BoxedCursor<'a>,
    columns: Vec<OpenColumn<'a>>,
    /// The number of the row after the last row of the chunk.
    next_row: u64,
}

impl ExtendedCursor<'_> {
    fn advance_columns(&mut self, rows: usize) -> Result<()> {
        let Self { extended, file_cursor: file, columns, next_row: row } = self;
        columns.iter_mut().try_for_each(|column| column.advance(extended, file, rows, *row))?;
        *row += rows as u64;
        Ok(())
    }
}

impl FileCursor for ExtendedCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let rows = self.file_cursor.advance()?;
        self.advance_columns(rows)?;
        Ok(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        if !self.columns.iter().take(columns).all(|column| matches!(column, OpenColumn::Stored(_))) {
            return Ok(None);
        }
        let rows = self.file_cursor.advance_into(element, columns, x)?;
        rows.map_or(Ok(()), |rows| self.advance_columns(rows))?;
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let array = match &self.columns[index] {
            OpenColumn::Stored(cursor_index) => return self.file_cursor.view(*cursor_index),
            OpenColumn::Numbers { values, .. } | OpenColumn::Computed { values, .. } => {
                return Ok(ColumnView { values: Values::from_slice(values), nulls: None });
            }
            OpenColumn::Converted { array, .. } => array,
            OpenColumn::Repeated(_, array) => array,
        };
        let empty_view = ColumnView { values: Values::from_slice::<f64>(&[]), nulls: None };
        Ok(array.as_deref().and_then(arrow_values::array_view).unwrap_or(empty_view))
    }
}

/// Placeholder for the rows of a table that are not in this shard. It has the columns and row
/// numbers of the table, but no values.
#[derive(Debug)]
pub(crate) struct AbsentRows {
    schema: Schema,
    /// Row numbers in the whole table.
    rows: Range<u64>,
}

impl AbsentRows {
    pub(crate) fn new(schema: Schema, rows: Range<u64>) -> Self {
        Self { schema, rows }
    }
}

impl TableFile for AbsentRows {
    fn metadata(&self) -> FileMetadata<'_> {
        let row_count = self.rows.end - self.rows.start;
        FileMetadata { format: "absent", schema: &self.schema, row_count, file_bytes: 0, bytes_scanned: 0 }
    }

    fn cursor_bytes(&self, _: &[usize]) -> usize {
        0
    }

    fn open(&self, _: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let table_row = |row: u64| self.rows.start + row;
        Err(Error::NotInShard { rows: table_row(rows.start)..table_row(rows.end) })
    }
}
