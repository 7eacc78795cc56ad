//! The selected rows of a table as a source for passes.

use crate::rows::{RowBuf, RowCursor, RowSource, TableShape, resized_slice};
use crate::statistics::{LABEL_BYTES, MAX_CLASS_LABELS, MAX_GROUP_LABELS};
use crate::table_rows::{OpenFile, TableRows};
use crate::text_limit::{TILE_TEXT_BYTES, text_bytes};
use crate::view::{ColumnView, RowIndices};
use crate::{
    Error, Float, Footprint, Result, chunk::Chunk, convert::CONVERT_TILE_ROWS, labels::LabelEncoder, missing::Missing,
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
        let range = &self.selected.row_range;
        let remaining_rows = segment.start.max(range.start)..segment.end.min(range.end);
        let label_encoder =
            |column: Option<usize>, dictionary, max_labels| column.map(|_| LabelEncoder::new(dictionary, max_labels));
        Ok(Box::new(TableCursor {
            source: self,
            remaining_rows,
            open_file: None,
            selected_rows: None,
            rows_returned: 0,
            tile_text_bytes: 0,
            class_encoder: label_encoder(self.selected.class, self.settings.class_labels.as_ref(), MAX_CLASS_LABELS),
            group_encoder: label_encoder(self.selected.group, self.settings.group_labels.as_ref(), MAX_GROUP_LABELS),
        }))
    }

    /// Returns the memory of the largest decoder of any file, of the group labels and, for each row
    /// of a tile, of one [`RowBuf`].
    fn footprint(&self) -> Footprint {
        let decoder_bytes = self.selected.table.parts().iter().map(|part| part.file.cursor_bytes(&self.columns));
        let shape = self.selected.shape();
        let row_bytes = RowBuf::<T>::bytes_per_row(&shape) + self.selected.kept_bytes_per_row();
        let group_label_bytes = self.selected.group.map_or(0, |_| MAX_GROUP_LABELS * LABEL_BYTES);
        Footprint { fixed: decoder_bytes.max().unwrap_or(0) + group_label_bytes, per_row: row_bytes }
    }

    fn metadata_bytes(&self) -> usize {
        let candidate_count: usize = self.candidate_ranges.iter().map(Vec::capacity).sum();
        let encoding_bytes = self.selected.encoding().map_or(0, |encoding| encoding.bytes());
        self.selected.table.metadata_bytes() + candidate_count * size_of::<Range<u64>>() + encoding_bytes
    }

    fn bytes_read(&self) -> u64 {
        self.selected.table.bytes_read.load(Ordering::Relaxed)
    }
}

struct TableCursor<'a, T: Float> {
    source: &'a TableRows<T>,
    remaining_rows: Range<u64>,
    open_file: Option<OpenFile<'a>>,
    selected_rows: Option<Vec<u32>>,
    /// Number of selected rows of the chunk that were returned.
    rows_returned: usize,
    tile_text_bytes: usize,
    class_encoder: Option<LabelEncoder>,
    group_encoder: Option<LabelEncoder>,
}

impl<T: Float> RowCursor<T> for TableCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear_except_x();
        self.tile_text_bytes = 0;
        while buf.row_numbers.len() < buf.capacity {
            let available_rows = self.selected_chunk_rows() - self.rows_returned;
            if available_rows > 0 {
                let count = self.fit_rows_to_text_limit(
                    available_rows.min(buf.capacity - buf.row_numbers.len()),
                    buf.row_numbers.is_empty(),
                )?;
                if count == 0 {
                    break;
                }
                self.append_chunk_rows(buf, count)?;
                self.rows_returned += count;
            } else {
                let has_more = self.read_directly(buf)? || self.advance()?;
                if !has_more {
                    break;
                }
            }
        }
        buf.x.truncate(buf.row_numbers.len() * self.source.shape().input_count);
        buf.class_labels = self.class_encoder.as_ref().map(LabelEncoder::labels);
        buf.group_labels = self.group_encoder.as_ref().map(LabelEncoder::labels);
        Ok(!buf.row_numbers.is_empty())
    }
}

/// Returns the positions in the chunk of the next `count` selected rows: from index `start` of
/// `selected_rows` on. If `selected_rows` is `None`, all rows are selected.
fn next_row_indices(selected_rows: Option<&[u32]>, start: usize, count: usize) -> RowIndices<'_> {
    selected_rows.map_or(RowIndices::StartingAt(start), |list| RowIndices::List(&list[start..start + count]))
}

impl<T: Float> TableCursor<'_, T> {
    fn selected_chunk_rows(&self) -> usize {
        match (&self.open_file, &self.selected_rows) {
            (None, _) => 0,
            // no chunk of this file was read yet, so `selected_rows` still belongs to the previous
            // file
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
            open_file.chunk_rows = open_file.cursor.advance().map_err(|error| open_file.part.or_file_changed(error))?;
            if open_file.chunk_rows > 0 {
                self.select_rows()?;
                return Ok(true);
            }
            // the rows are valid only if the file has not changed since it was opened
            open_file.part.check_unchanged()?;
            // a reader that stops too early would otherwise skip rows without an error
            if open_file.chunk_start != open_file.end {
                let detail = format!("it ends at row {} of {}", open_file.chunk_start, open_file.end);
                return Err(Error::Damaged { path: open_file.part.path.clone(), detail });
            }
            self.open_file = None;
        }
        self.open_next_file()
    }

    /// Opens the file that contains the next row; returns false if no row remains.
    fn open_next_file(&mut self) -> Result<bool> {
        let source = self.source;
        let parts = source.selected.table.parts();
        let (part, rows) = loop {
            if self.remaining_rows.is_empty() {
                return Ok(false);
            }
            let part_index = parts.partition_point(|part| part.end() <= self.remaining_rows.start);
            let Some(part) = parts.get(part_index) else { return Ok(false) };
            let rows =
                self.remaining_rows.start - part.first_row..self.remaining_rows.end.min(part.end()) - part.first_row;
            let rows = source.next_candidate_range(part_index, rows);
            self.remaining_rows.start = part.first_row + rows.end;
            if !rows.is_empty() {
                break (part, rows);
            }
        };
        part.check_unchanged()?;
        let cursor = part.file.open(&source.columns, rows.clone(), &source.selected.table.bytes_read);
        let cursor = cursor.map_err(|error| part.or_file_changed(error))?;
        self.open_file = Some(OpenFile { cursor, part, chunk_start: rows.start, chunk_rows: 0, end: rows.end });
        Ok(true)
    }

    /// Determines which rows of the chunk are selected: rows that pass the filter and whose weight
    /// is not 0. Depending on the selection, rows without a target and incomplete rows are dropped
    /// too.
    fn select_rows(&mut self) -> Result<()> {
        let selected = &self.source.selected;
        let Some(open_file) = &self.open_file else { return Ok(()) };
        let mut selected_rows = self.selected_rows.take().unwrap_or_default();
        selected_rows.clear();
        if let Some((_, condition)) = &selected.filter {
            let slot = self.source.columns.len() - 1 - usize::from(selected.part_column().is_some());
            let view = open_file.cursor.view(slot)?;
            condition.select_rows(&view, open_file.chunk_rows, &mut selected_rows);
        }
        if let Some(part) = &selected.part {
            if selected.filter.is_none() {
                selected_rows.extend(0..open_file.chunk_rows as u32);
            }
            let last_slot = self.source.columns.len().saturating_sub(1);
            let view = selected.part_column().map(|_| open_file.cursor.view(last_slot)).transpose()?;
            let first_stored_row = open_file.part.first_row + open_file.chunk_start;
            part.retain(view.as_ref(), first_stored_row, open_file.chunk_rows, &mut selected_rows);
        }
        let is_filtered = selected.is_filtered();
        let filtered_rows = is_filtered.then_some(&*selected_rows);
        match self.source.rows_with_target(open_file, filtered_rows, open_file.chunk_rows)? {
            Some(target_rows) => selected_rows = target_rows,
            None if is_filtered => {}
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
    /// their kept texts. If `is_tile_empty`, returns at least one.
    fn fit_rows_to_text_limit(&mut self, count: usize, is_tile_empty: bool) -> Result<usize> {
        let Some(open_file) = &self.open_file else { return Ok(count) };
        let source = self.source;
        let text_slots: Vec<usize> = source.kept_text_slots().collect();
        if text_slots.is_empty() {
            return Ok(count);
        }
        let views: Vec<ColumnView<'_>> =
            text_slots.iter().map(|slot| open_file.cursor.view(*slot)).collect::<Result<_>>()?;
        let row_indices = next_row_indices(self.selected_rows.as_deref(), self.rows_returned, count);
        let (text_limit, mut total_bytes) = (source.settings.text_limit, self.tile_text_bytes);
        for i in 0..count {
            let text_lengths = views.iter().map(|view| text_bytes(view, row_indices.get(i)));
            let row_bytes: usize = text_lengths.clone().sum();
            if row_bytes > text_limit.max_row_bytes {
                let longest_slot =
                    text_slots.iter().zip(text_lengths).max_by_key(|(_, bytes)| *bytes).map_or(0, |(slot, _)| *slot);
                let row = open_file.chunk_start + row_indices.get(i) as u64;
                return Err(text_limit.large_row_error(
                    &open_file.part.path,
                    row,
                    &source.column_name(longest_slot),
                    row_bytes,
                ));
            }
            if total_bytes + row_bytes > TILE_TEXT_BYTES && !(is_tile_empty && i == 0) {
                self.tile_text_bytes = total_bytes;
                return Ok(i);
            }
            total_bytes += row_bytes;
        }
        self.tile_text_bytes = total_bytes;
        Ok(count)
    }

    fn append_chunk_rows(&mut self, buf: &mut RowBuf<T>, count: usize) -> Result<()> {
        let source = self.source;
        let Some(open_file) = &self.open_file else { return Ok(()) };
        let row_indices = next_row_indices(self.selected_rows.as_deref(), self.rows_returned, count);
        let first_stored_row = open_file.part.first_row + open_file.chunk_start;
        match row_indices {
            RowIndices::StartingAt(start) => {
                buf.row_numbers.extend(first_stored_row + start as u64..first_stored_row + (start + count) as u64)
            }
            RowIndices::List(list) => buf.row_numbers.extend(list.iter().map(|row| first_stored_row + u64::from(*row))),
        }
        let chunk = Chunk { source, open_file, views: source.views(open_file)? };
        let d = source.shape().input_count;
        let rows_before = buf.row_numbers.len() - count;
        for tile_start in (0..count).step_by(CONVERT_TILE_ROWS) {
            let (row_indices, tile_rows) = (row_indices.skip(tile_start), CONVERT_TILE_ROWS.min(count - tile_start));
            let (x, first_weight) =
                (resized_slice(&mut buf.x, (rows_before + tile_start) * d, tile_rows * d), buf.weights.len());
            chunk.append_numbers(row_indices, tile_rows, x, &mut buf.y, &mut buf.weights)?;
            if let Some(unit) = source.settings.weight_unit {
                buf.weights[first_weight..].iter_mut().for_each(|weight| *weight /= unit);
            }
            let encoders = [(&mut self.class_encoder, &mut buf.classes), (&mut self.group_encoder, &mut buf.groups)];
            chunk.append_labels(source.selected.class_slot(), encoders, row_indices, tile_rows)?;
            if let Some(digests) = &source.selected.table.digests {
                digests.add(
                    &chunk.views,
                    &source.digest_keys,
                    row_indices,
                    &buf.row_numbers[rows_before + tile_start..rows_before + tile_start + tile_rows],
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
        let rows_before = buf.row_numbers.len();
        let x = resized_slice(&mut buf.x, rows_before * d, (buf.capacity - rows_before) * d);
        let rows_read = open_file.cursor.advance_into(T::ELEMENT, d, T::as_bytes_mut(x));
        let rows_read = rows_read.map_err(|error| open_file.part.or_file_changed(error))?.unwrap_or(0);
        if rows_read == 0 {
            return Ok(false);
        }
        open_file.chunk_start += open_file.chunk_rows as u64;
        (open_file.chunk_rows, self.rows_returned) = (rows_read, rows_read);
        let first_stored_row = open_file.part.first_row + open_file.chunk_start;
        let x = &mut buf.x[rows_before * d..(rows_before + rows_read) * d];
        let all_finite = T::all_finite(x);
        // a copy of the original values: finding errors and replacing missing values needs them
        let original_bytes = if all_finite { Vec::new() } else { T::as_bytes(x).to_vec() };
        let views = source.views_of_row_major(&original_bytes, &*open_file.cursor)?;
        let target_rows = source.rows_with_target(open_file, None, rows_read)?;
        let (row_indices, row_count) = match &target_rows {
            None => (RowIndices::StartingAt(0), rows_read),
            Some(list) => (RowIndices::List(list), list.len()),
        };
        for (new_row, old_row) in target_rows.iter().flatten().map(|row| *row as usize).enumerate() {
            x.copy_within(old_row * d..(old_row + 1) * d, new_row * d);
        }
        buf.row_numbers.extend((0..row_count).map(|i| first_stored_row + row_indices.get(i) as u64));
        let chunk = Chunk { source, open_file, views };
        for (tile_start, x) in (0..row_count).step_by(CONVERT_TILE_ROWS).zip(x.chunks_mut(CONVERT_TILE_ROWS * d)) {
            let (row_indices, tile_rows) =
                (row_indices.skip(tile_start), CONVERT_TILE_ROWS.min(row_count - tile_start));
            chunk.append_targets_and_weights(
                all_finite || T::all_finite(x),
                row_indices,
                tile_rows,
                x,
                &mut buf.y,
                &mut buf.weights,
            )?;
            let encoders = [(&mut self.class_encoder, &mut buf.classes), (&mut self.group_encoder, &mut buf.groups)];
            chunk.append_labels(source.selected.class_slot(), encoders, row_indices, tile_rows)?;
        }
        chunk.append_kept(row_indices, row_count, &mut buf.kept_columns)?;
        Ok(true)
    }
}
