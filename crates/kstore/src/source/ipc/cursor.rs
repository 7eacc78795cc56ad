//! A cursor over the rows of an Arrow IPC file.

use super::{CHUNK_TEXT_BYTES, IpcFile, NAME, message::Batch, reader::ColumnReader};
use crate::Result;
use crate::source::shared_file::SharedFile;
use crate::source::{ColumnView, Element, FileCursor};
use crate::source::{column::LoadedColumns, data_type::column_kind, load_error::LoadError};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(super) struct IpcCursor<'a> {
    ipc: &'a IpcFile,
    file: SharedFile,
    columns: Vec<ColumnReader<'a>>,
    chunk: LoadedColumns,
    /// Maximum number of rows of a chunk.
    chunk_rows: usize,
    remaining_rows: Range<u64>,
    /// The rows of the current batch, by their numbers in the file; empty before the first batch.
    batch_rows: Range<u64>,
}

impl<'a> IpcCursor<'a> {
    pub(super) fn new(ipc: &'a IpcFile, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Self {
        let chunk = LoadedColumns::new(&ipc.layout, columns);
        let reader = |root: &usize| ColumnReader::new(&ipc.roots[*root], ipc.layout.list_widths[*root]);
        Self {
            ipc,
            file: ipc.file.with_counter(bytes_read),
            columns: chunk.roots.iter().map(reader).collect(),
            chunk_rows: ipc.chunk_rows(&chunk.roots),
            chunk,
            remaining_rows: rows,
            batch_rows: 0..0,
        }
    }

    /// Reads the metadata of the batch that contains the next row, and prepares the buffers of its
    /// columns.
    fn enter_batch(&mut self) -> Result<(), LoadError> {
        let index =
            self.ipc.batch_starts.partition_point(|start| *start <= self.remaining_rows.start).saturating_sub(1);
        let Some(block) = self.ipc.batches.get(index) else {
            return Err(format!("it has no row {}", self.remaining_rows.start).into());
        };
        let batch = Batch::read(&self.file, block)?;
        self.batch_rows = self.ipc.batch_starts[index]..self.ipc.batch_starts[index + 1];
        if batch.row_count != self.batch_rows.end - self.batch_rows.start {
            return Err("it was changed while being read".to_string().into());
        }
        for column in &mut self.columns {
            // the unpacked bytes of the previous batch are freed first
            column.buffers.clear();
        }
        for column in &mut self.columns {
            column.enter_batch(&self.file, &batch)?;
        }
        Ok(())
    }

    fn load_chunk(&mut self, max_rows: usize) -> Result<usize> {
        self.ensure_batch()?;
        let rows = self.limit_text_bytes(self.next_rows(max_rows))?;
        self.load_columns(rows.clone(), None)?;
        Ok(self.consume(rows))
    }

    /// Reads the next rows. Column `direct_column` is read into `x`, and all other columns into the
    /// chunk.
    fn load_into(&mut self, direct_column: usize, x: &mut [u8], stride: usize) -> Result<Option<usize>> {
        self.ensure_batch()?;
        let rows = self.limit_text_bytes(self.next_rows(x.len() / stride))?;
        let column = &self.columns[direct_column];
        // if lists may be missing or contain missing numbers, they must be checked one by one
        let Some(values) = column.buffers.last().filter(|_| column.null_counts.iter().all(|nulls| *nulls == 0)) else {
            return Ok(None);
        };
        let x = &mut x[..(rows.end - rows.start) as usize * stride];
        let result = values.copy_to(rows.start * stride as u64, x);
        result.map_err(|error| error.into_error(self.file.path(), NAME))?;
        self.load_columns(rows.clone(), Some(direct_column))?;
        Ok(Some(self.consume(rows)))
    }

    fn ensure_batch(&mut self) -> Result<()> {
        if self.batch_rows.contains(&self.remaining_rows.start) {
            return Ok(());
        }
        self.enter_batch().map_err(|error| error.into_error(self.file.path(), NAME))
    }

    /// Returns the next rows of the current batch, by their positions in the batch.
    fn next_rows(&self, max_rows: usize) -> Range<u64> {
        let first = self.remaining_rows.start;
        let end = self.remaining_rows.end.min(self.batch_rows.end).min(first + max_rows as u64);
        first - self.batch_rows.start..end - self.batch_rows.start
    }

    /// Shortens the range until no column has more than [`CHUNK_TEXT_BYTES`] bytes of text in it. A
    /// single row may have more.
    fn limit_text_bytes(&self, rows: Range<u64>) -> Result<Range<u64>> {
        let mut end = rows.end;
        for column in &self.columns {
            let fitting_rows = column.rows_that_fit(rows.start..end, CHUNK_TEXT_BYTES);
            end = rows.start + fitting_rows.map_err(|error| error.into_error(self.file.path(), NAME))?;
        }
        Ok(rows.start..end)
    }

    /// Marks rows of the current batch as returned, and returns their number.
    fn consume(&mut self, rows: Range<u64>) -> usize {
        self.remaining_rows.start = self.batch_rows.start + rows.end;
        (rows.end - rows.start) as usize
    }

    fn load_columns(&mut self, rows: Range<u64>, skipped_column: Option<usize>) -> Result<()> {
        let first_row = self.batch_rows.start + rows.start;
        for (index, column) in self.columns.iter_mut().enumerate().filter(|(index, _)| Some(*index) != skipped_column) {
            let (root, previous) = (self.chunk.roots[index], self.chunk.columns[index].take());
            let loaded = column.load_rows(self.ipc, root, rows.clone(), previous);
            let loaded = loaded
                .map_err(|error| error.into_column_error(self.file.path(), NAME, first_row, &column.root.name))?;
            self.chunk.columns[index] = Some(loaded);
        }
        Ok(())
    }

    /// Returns the column that holds the first `count` requested columns in order, as the positions
    /// of its lists or as a single number per row.
    fn row_major_column(&self, element: Element, count: usize) -> Option<usize> {
        let locations = self.chunk.locations.get(..count)?;
        let root = locations.first()?.root;
        let has_same_layout = self.columns[root].root.contiguous_numbers() == Some((element, count));
        let is_ordered =
            locations.iter().enumerate().all(|(item, location)| location.root == root && location.item == item);
        // if a column is requested a second time, it must also be loaded for `view`
        let is_requested_once = self.chunk.locations[count..].iter().all(|location| location.root != root);
        (has_same_layout && is_ordered && is_requested_once).then_some(root)
    }
}

impl FileCursor for IpcCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        if self.remaining_rows.is_empty() {
            return Ok(0);
        }
        self.ipc.file.catch_panic(|| self.load_chunk(self.chunk_rows))?
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let Some(direct_column) = self.row_major_column(element, columns) else { return Ok(None) };
        if self.remaining_rows.is_empty() {
            return Ok(Some(0));
        }
        let stride = columns * element.bytes_per_value();
        self.ipc.file.catch_panic(|| self.load_into(direct_column, x, stride))?
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let column = &self.columns[self.chunk.locations[index].root];
        let unsupported = || {
            self.file.malformed_error(format!("a column of {} is not supported", column_kind(&column.root.data_type)))
        };
        self.chunk.view(index).ok_or_else(unsupported)
    }
}
