//! The selected rows of a table as a source for passes.

use crate::rows::{RowBuf, RowCursor, RowSource, TableShape, resized_slice};
use crate::statistics::{LABEL_BYTES, MAX_CLASS_LABELS, MAX_GROUP_LABELS};
use crate::table_rows::{OpenFile, TableRows};
use crate::text_limit::{TILE_TEXT_BYTES, text_bytes};
use crate::view::{ColumnView, RowIndices};
use crate::{
    Error, Float, Footprint, Result, chunk::Chunk, convert::TILE_ROWS, labels::LabelEncoder, missing::Missing,
};
use std::{ops::Range, sync::atomic::Ordering};

impl<T: Float> RowSource<T> for TableRows<T> {
    fn shape(&self) -> TableShape {
        self.selected.shape()
    }

    fn range(&self) -> Range<u64> {
        self.selected.range()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let range = &self.selected.rows;
        let remaining = segment.start.max(range.start)..segment.end.min(range.end);
        let coder = |column: Option<usize>, dictionary, limit| column.map(|_| LabelEncoder::new(dictionary, limit));
        Ok(Box::new(TableCursor {
            source: self,
            remaining,
            open_file: None,
            selected_rows: None,
            rows_returned: 0,
            tile_text_bytes: 0,
            classes: coder(self.selected.class, self.reading.classes.as_ref(), MAX_CLASS_LABELS),
            groups: coder(self.selected.group, self.reading.groups.as_ref(), MAX_GROUP_LABELS),
        }))
    }

    /// Memory of the largest decoder of any file, of the group labels and, for each row of a tile,
    /// of one [`RowBuf`].
    fn footprint(&self) -> Footprint {
        let files = self.selected.table.parts().iter().map(|part| part.file.footprint(&self.columns));
        let shape = self.selected.shape();
        let per_row = RowBuf::<T>::bytes_per_row(&shape) + self.selected.kept_bytes_per_row();
        let groups = self.selected.group.map_or(0, |_| MAX_GROUP_LABELS * LABEL_BYTES);
        Footprint { fixed: files.max().unwrap_or(0) + groups, per_row }
    }

    fn metadata_bytes(&self) -> usize {
        let candidates: usize = self.candidates.iter().map(Vec::capacity).sum();
        let codes = self.selected.encoding().map_or(0, |encoding| encoding.bytes());
        self.selected.table.metadata_bytes() + candidates * size_of::<Range<u64>>() + codes
    }

    fn bytes_read(&self) -> u64 {
        self.selected.table.bytes_read.load(Ordering::Relaxed)
    }
}

struct TableCursor<'a, T: Float> {
    source: &'a TableRows<T>,
    remaining: Range<u64>,
    open_file: Option<OpenFile<'a>>,
    selected_rows: Option<Vec<u32>>,
    /// Number of selected rows of the chunk that were returned.
    rows_returned: usize,
    tile_text_bytes: usize,
    classes: Option<LabelEncoder>,
    groups: Option<LabelEncoder>,
}

impl<T: Float> RowCursor<T> for TableCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear_except_x();
        self.tile_text_bytes = 0;
        while buf.rows.len() < buf.capacity {
            let ready = self.chunk_rows() - self.rows_returned;
            if ready > 0 {
                let count =
                    self.rows_within_text_limit(ready.min(buf.capacity - buf.rows.len()), buf.rows.is_empty())?;
                if count == 0 {
                    break;
                }
                self.fill(buf, count)?;
                self.rows_returned += count;
            } else {
                let more = self.read_directly(buf)? || self.advance()?;
                if !more {
                    break;
                }
            }
        }
        buf.x.truncate(buf.rows.len() * self.source.shape().inputs);
        buf.class_labels = self.classes.as_ref().map(LabelEncoder::labels);
        buf.group_labels = self.groups.as_ref().map(LabelEncoder::labels);
        Ok(!buf.rows.is_empty())
    }
}

/// Returns the positions in the chunk of the next `count` selected rows: from index `start` of
/// `selected_rows` on. If `selected_rows` is `None`, all rows are selected.
fn positions(selected_rows: Option<&[u32]>, start: usize, count: usize) -> RowIndices<'_> {
    selected_rows.map_or(RowIndices::From(start), |picked| RowIndices::At(&picked[start..start + count]))
}

impl<T: Float> TableCursor<'_, T> {
    fn chunk_rows(&self) -> usize {
        match (&self.open_file, &self.selected_rows) {
            (None, _) => 0,
            // no chunk of this file was read yet, so that `selected_rows` still belongs to the
            // previous file
            (Some(open_file), _) if open_file.chunk_rows == 0 => 0,
            (Some(_), Some(selected_rows)) => selected_rows.len(),
            (Some(open_file), None) => open_file.chunk_rows,
        }
    }

    /// Reads the next chunk, from the next file if necessary; returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.rows_returned = 0;
        if let Some(open_file) = &mut self.open_file {
            open_file.chunk_start += open_file.chunk_rows as u64;
            open_file.chunk_rows = open_file.cursor.advance().map_err(|error| open_file.part.changed_or(error))?;
            if open_file.chunk_rows > 0 {
                self.select_rows()?;
                return Ok(true);
            }
            // the rows are valid only if the file has not changed since it was opened
            open_file.part.check()?;
            // a reader that stops too early would otherwise skip rows without an error
            if open_file.chunk_start != open_file.end {
                let detail = format!("it ends at row {} of {}", open_file.chunk_start, open_file.end);
                return Err(Error::Damaged { path: open_file.part.path.clone(), detail });
            }
            self.open_file = None;
        }
        self.open_next()
    }

    /// Opens the file that contains the next row; returns false if no row remains.
    fn open_next(&mut self) -> Result<bool> {
        let source = self.source;
        let parts = source.selected.table.parts();
        let (part, rows) = loop {
            if self.remaining.is_empty() {
                return Ok(false);
            }
            let index = parts.partition_point(|part| part.end() <= self.remaining.start);
            let Some(part) = parts.get(index) else { return Ok(false) };
            let rows = self.remaining.start - part.start..self.remaining.end.min(part.end()) - part.start;
            let rows = source.next_candidate_range(index, rows);
            self.remaining.start = part.start + rows.end;
            if !rows.is_empty() {
                break (part, rows);
            }
        };
        part.check()?;
        let cursor = part.file.open(&source.columns, rows.clone(), &source.selected.table.bytes_read);
        let cursor = cursor.map_err(|error| part.changed_or(error))?;
        self.open_file = Some(OpenFile { cursor, part, chunk_start: rows.start, chunk_rows: 0, end: rows.end });
        Ok(true)
    }

    fn select_rows(&mut self) -> Result<()> {
        let selected = &self.source.selected;
        let Some(open_file) = &self.open_file else { return Ok(()) };
        let mut selected_rows = self.selected_rows.take().unwrap_or_default();
        selected_rows.clear();
        if let Some((_, bound)) = &selected.filter {
            let view = open_file.cursor.view(self.source.columns.len() - 1)?;
            bound.select_rows(&view, open_file.chunk_rows, &mut selected_rows);
        }
        let filtered = selected.filter.is_some().then_some(&*selected_rows);
        match self.source.rows_with_target(open_file, filtered, open_file.chunk_rows)? {
            Some(with_target) => selected_rows = with_target,
            None if selected.filter.is_some() => {}
            None if !selected.selects_all_rows() => selected_rows.extend(0..open_file.chunk_rows as u32),
            None => return Ok(()),
        }
        if selected.is_weighted() {
            let weights = open_file.cursor.view(selected.weight_slot())?;
            selected_rows.retain(|row| weights.is_null(*row as usize) || weights.number(*row as usize) != 0.0);
        }
        if selected.missing == Missing::Drop {
            self.source.drop_missing(&self.source.required_views(open_file)?, &mut selected_rows);
        }
        self.selected_rows = Some(selected_rows);
        Ok(())
    }

    /// Returns how many of the next `count` selected rows fit into the tile, given the bytes of
    /// their kept texts. If the tile is `empty`, returns at least one.
    fn rows_within_text_limit(&mut self, count: usize, empty: bool) -> Result<usize> {
        let Some(open_file) = &self.open_file else { return Ok(count) };
        let source = self.source;
        let slots: Vec<usize> = source.kept_text_slots().collect();
        if slots.is_empty() {
            return Ok(count);
        }
        let views: Vec<ColumnView<'_>> =
            slots.iter().map(|slot| open_file.cursor.view(*slot)).collect::<Result<_>>()?;
        let row_indices = positions(self.selected_rows.as_deref(), self.rows_returned, count);
        let (limit, mut total_bytes) = (source.reading.texts, self.tile_text_bytes);
        for i in 0..count {
            let lengths = views.iter().map(|view| text_bytes(view, row_indices.get(i)));
            let bytes: usize = lengths.clone().sum();
            if bytes > limit.max_row_bytes {
                let longest = slots.iter().zip(lengths).max_by_key(|(_, bytes)| *bytes).map_or(0, |(slot, _)| *slot);
                let row = open_file.chunk_start + row_indices.get(i) as u64;
                return Err(limit.large_row_error(&open_file.part.path, row, &source.column_name(longest), bytes));
            }
            if total_bytes + bytes > TILE_TEXT_BYTES && !(empty && i == 0) {
                self.tile_text_bytes = total_bytes;
                return Ok(i);
            }
            total_bytes += bytes;
        }
        self.tile_text_bytes = total_bytes;
        Ok(count)
    }

    fn fill(&mut self, buf: &mut RowBuf<T>, count: usize) -> Result<()> {
        let source = self.source;
        let Some(open_file) = &self.open_file else { return Ok(()) };
        let row_indices = positions(self.selected_rows.as_deref(), self.rows_returned, count);
        let base = open_file.part.start + open_file.chunk_start;
        match row_indices {
            RowIndices::From(start) => buf.rows.extend(base + start as u64..base + (start + count) as u64),
            RowIndices::At(list) => buf.rows.extend(list.iter().map(|row| base + u64::from(*row))),
        }
        let chunk = Chunk { source, open_file, views: source.views(open_file)? };
        let d = source.shape().inputs;
        let rows_before = buf.rows.len() - count;
        for done in (0..count).step_by(TILE_ROWS) {
            let (row_indices, rows) = (row_indices.skip(done), TILE_ROWS.min(count - done));
            let (x, weighed) = (resized_slice(&mut buf.x, (rows_before + done) * d, rows * d), buf.weight.len());
            chunk.append_numbers(row_indices, rows, x, (&mut buf.y, &mut buf.weight))?;
            if let Some(unit) = source.reading.weight_unit {
                buf.weight[weighed..].iter_mut().for_each(|weight| *weight /= unit);
            }
            let coders = [(&mut self.classes, &mut buf.classes), (&mut self.groups, &mut buf.groups)];
            chunk.append_labels(source.selected.class_slot(), coders, row_indices, rows)?;
            if let Some(digests) = &source.selected.table.digests {
                digests.add(
                    &chunk.views,
                    &source.digest_keys,
                    row_indices,
                    &buf.rows[rows_before + done..rows_before + done + rows],
                );
            }
        }
        chunk.append_kept(row_indices, count, &mut buf.kept_columns)
    }

    /// Reads rows of the open file directly into the buffer. Returns false if the file or the
    /// selection does not support this, and also at the end of the file.
    fn read_directly(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        let source = self.source;
        let Some(open_file) = self.open_file.as_mut().filter(|_| source.can_read_directly) else { return Ok(false) };
        let d = source.selected.features.len();
        let rows_before = buf.rows.len();
        let x = resized_slice(&mut buf.x, rows_before * d, (buf.capacity - rows_before) * d);
        let read = open_file.cursor.advance_into(T::ELEMENT, d, T::as_bytes_mut(x));
        let read = read.map_err(|error| open_file.part.changed_or(error))?.unwrap_or(0);
        if read == 0 {
            return Ok(false);
        }
        open_file.chunk_start += open_file.chunk_rows as u64;
        (open_file.chunk_rows, self.rows_returned) = (read, read);
        let base = open_file.part.start + open_file.chunk_start;
        let x = &mut buf.x[rows_before * d..(rows_before + read) * d];
        let all_finite = T::all_finite(x);
        // a copy of the original values: finding errors and replacing missing values needs them
        let copy = if all_finite { Vec::new() } else { T::as_bytes(x).to_vec() };
        let views = source.views_of_row_major(&copy, &*open_file.cursor)?;
        let with_target = source.rows_with_target(open_file, None, read)?;
        let (kept_positions, read) = match &with_target {
            None => (RowIndices::From(0), read),
            Some(list) => (RowIndices::At(list), list.len()),
        };
        for (to, from) in with_target.iter().flatten().map(|row| *row as usize).enumerate() {
            x.copy_within(from * d..(from + 1) * d, to * d);
        }
        buf.rows.extend((0..read).map(|i| base + kept_positions.get(i) as u64));
        let chunk = Chunk { source, open_file, views };
        for (done, x) in (0..read).step_by(TILE_ROWS).zip(x.chunks_mut(TILE_ROWS * d)) {
            let (row_indices, rows) = (kept_positions.skip(done), TILE_ROWS.min(read - done));
            chunk.append_targets_and_weights(
                all_finite || T::all_finite(x),
                row_indices,
                rows,
                x,
                (&mut buf.y, &mut buf.weight),
            )?;
            let coders = [(&mut self.classes, &mut buf.classes), (&mut self.groups, &mut buf.groups)];
            chunk.append_labels(source.selected.class_slot(), coders, row_indices, rows)?;
        }
        chunk.append_kept(kept_positions, read, &mut buf.kept_columns)?;
        Ok(true)
    }
}
