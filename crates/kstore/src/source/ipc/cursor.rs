//! A cursor over the rows of an Arrow IPC file.

use super::{IpcFile, NAME, TEXT_CHUNK, message::Batch, reader::ColumnReader};
use crate::Result;
use crate::source::positioned::Positioned;
use crate::source::{Element, FileCursor, View};
use crate::source::{column::LoadedColumns, data_type::kind, load_error::LoadError};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(super) struct IpcCursor<'a> {
    ipc: &'a IpcFile,
    file: Positioned,
    columns: Vec<ColumnReader<'a>>,
    chunk: LoadedColumns,
    chunk_rows: usize,
    left: Range<u64>,
    /// Rows of the current batch, numbered in the file; empty before the first batch.
    batch: Range<u64>,
}

impl<'a> IpcCursor<'a> {
    pub(super) fn new(ipc: &'a IpcFile, columns: &[usize], rows: Range<u64>, read: &Arc<AtomicU64>) -> Self {
        let chunk = LoadedColumns::new(&ipc.layout, columns);
        let reader = |root: &usize| ColumnReader::new(&ipc.roots[*root], ipc.layout.widths[*root]);
        Self {
            ipc,
            file: ipc.file.counting(read),
            columns: chunk.roots.iter().map(reader).collect(),
            chunk_rows: ipc.chunk_rows(&chunk.roots),
            chunk,
            left: rows,
            batch: 0..0,
        }
    }

    fn enter(&mut self) -> Result<(), LoadError> {
        let index = self.ipc.starts.partition_point(|start| *start <= self.left.start).saturating_sub(1);
        let Some(block) = self.ipc.batches.get(index) else {
            return Err(format!("it has no row {}", self.left.start).into());
        };
        let batch = Batch::read(&self.file, block)?;
        self.batch = self.ipc.starts[index]..self.ipc.starts[index + 1];
        if batch.rows != self.batch.end - self.batch.start {
            return Err("it was changed while being read".to_string().into());
        }
        for column in &mut self.columns {
            // frees the unpacked bytes of the last batch first
            column.stored.clear();
        }
        for column in &mut self.columns {
            column.enter(&self.file, &batch)?;
        }
        Ok(())
    }

    fn load(&mut self, most: usize) -> Result<usize> {
        self.reach()?;
        let rows = self.by_text(self.next_rows(most))?;
        self.load_columns(rows.clone(), None)?;
        Ok(self.pass(rows))
    }

    /// Reads the next rows of column `block` into `x`, and all other columns into the
    /// chunk.
    fn load_block(&mut self, block: usize, x: &mut [u8], stride: usize) -> Result<Option<usize>> {
        self.reach()?;
        let rows = self.by_text(self.next_rows(x.len() / stride))?;
        let column = &self.columns[block];
        // lists that may be missing or contain missing numbers must be checked one by one
        let Some(values) = column.stored.last().filter(|_| column.nulls.iter().all(|nulls| *nulls == 0)) else {
            return Ok(None);
        };
        let x = &mut x[..(rows.end - rows.start) as usize * stride];
        let copied = values.copy(rows.start * stride as u64, x);
        copied.map_err(|error| error.of(self.file.path(), NAME))?;
        self.load_columns(rows.clone(), Some(block))?;
        Ok(Some(self.pass(rows)))
    }

    fn reach(&mut self) -> Result<()> {
        if self.batch.contains(&self.left.start) {
            return Ok(());
        }
        self.enter().map_err(|error| error.of(self.file.path(), NAME))
    }

    fn next_rows(&self, most: usize) -> Range<u64> {
        let first = self.left.start;
        let end = self.left.end.min(self.batch.end).min(first + most as u64);
        first - self.batch.start..end - self.batch.start
    }

    /// Shortens the range so that no column has more than [`TEXT_CHUNK`] bytes of text, apart from
    /// a single longer row.
    fn by_text(&self, rows: Range<u64>) -> Result<Range<u64>> {
        let mut end = rows.end;
        for column in &self.columns {
            let fits = column.rows_of_text(rows.start..end, TEXT_CHUNK);
            end = rows.start + fits.map_err(|error| error.of(self.file.path(), NAME))?;
        }
        Ok(rows.start..end)
    }

    fn pass(&mut self, rows: Range<u64>) -> usize {
        self.left.start = self.batch.start + rows.end;
        (rows.end - rows.start) as usize
    }

    fn load_columns(&mut self, rows: Range<u64>, but: Option<usize>) -> Result<()> {
        let first = self.batch.start + rows.start;
        for (index, column) in self.columns.iter_mut().enumerate().filter(|(index, _)| Some(*index) != but) {
            let (root, before) = (self.chunk.roots[index], self.chunk.loaded[index].take());
            let loaded = column.load(self.ipc, root, rows.clone(), before);
            let loaded = loaded.map_err(|error| error.of_column(self.file.path(), NAME, first, &column.root.name))?;
            self.chunk.loaded[index] = Some(loaded);
        }
        Ok(())
    }

    /// Returns the column whose lists, or single numbers, are the first `count` requested columns,
    /// in order.
    fn block(&self, element: Element, count: usize) -> Option<usize> {
        let places = self.chunk.places.get(..count)?;
        let root = places.first()?.root;
        let fits = self.columns[root].root.numbers() == Some((element, count));
        let ordered = places.iter().enumerate().all(|(item, place)| place.root == root && place.item == item);
        // a column that is requested again must be loaded for `view`
        let once = self.chunk.places[count..].iter().all(|place| place.root != root);
        (fits && ordered && once).then_some(root)
    }
}

impl FileCursor for IpcCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        if self.left.is_empty() {
            return Ok(0);
        }
        self.ipc.file.decoded(|| self.load(self.chunk_rows))?
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let Some(block) = self.block(element, columns) else { return Ok(None) };
        if self.left.is_empty() {
            return Ok(Some(0));
        }
        let stride = columns * element.size();
        self.ipc.file.decoded(|| self.load_block(block, x, stride))?
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let column = &self.columns[self.chunk.places[index].root];
        let unread = || self.file.malformed(format!("a column of {} is not supported", kind(&column.root.data_type)));
        self.chunk.view(index).ok_or_else(unread)
    }
}
