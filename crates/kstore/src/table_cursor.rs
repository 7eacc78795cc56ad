//! The selected rows of a table as a source for passes.

use crate::rows::{RowBuf, RowCursor, RowSource, TableShape, room};
use crate::source::{Positions, View};
use crate::statistics::{GROUP_LIMIT, LABEL_BYTES, LABEL_LIMIT};
use crate::table_rows::{OpenFile, TableRows};
use crate::text_limit::{TILE_TEXT, text_bytes};
use crate::{Error, Footprint, Real, Result, chunk::Chunk, convert::TILE, labels::Coder, missing::Missing};
use std::{ops::Range, sync::atomic::Ordering};

impl<T: Real> RowSource<T> for TableRows<T> {
    fn shape(&self) -> TableShape {
        self.selected.shape()
    }

    fn range(&self) -> Range<u64> {
        self.selected.range()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let range = &self.selected.rows;
        let left = segment.start.max(range.start)..segment.end.min(range.end);
        let coder = |column: Option<usize>, dictionary, limit| column.map(|_| Coder::new(dictionary, limit));
        Ok(Box::new(TableCursor {
            source: self,
            left,
            open: None,
            picked: None,
            place: 0,
            texts: 0,
            classes: coder(self.selected.class, self.reading.classes.as_ref(), LABEL_LIMIT),
            groups: coder(self.selected.group, self.reading.groups.as_ref(), GROUP_LIMIT),
        }))
    }

    /// Memory of the largest decoder of the files, of the group labels and, per row, of one
    /// [`RowBuf`].
    fn footprint(&self) -> Footprint {
        let files = self.selected.table.parts().iter().map(|part| part.file.footprint(&self.columns));
        let shape = self.selected.shape();
        let per_row = RowBuf::<T>::bytes_per_row(&shape) + self.selected.kept_bytes_per_row();
        let groups = self.selected.group.map_or(0, |_| GROUP_LIMIT * LABEL_BYTES);
        Footprint { fixed: files.max().unwrap_or(0) + groups, per_row }
    }

    fn held(&self) -> usize {
        let candidates: usize = self.candidates.iter().map(Vec::capacity).sum();
        let codes = self.selected.encoding().map_or(0, |encoding| encoding.bytes());
        self.selected.table.held() + candidates * size_of::<Range<u64>>() + codes
    }

    fn bytes_read(&self) -> u64 {
        self.selected.table.read.load(Ordering::Relaxed)
    }
}

struct TableCursor<'a, T: Real> {
    source: &'a TableRows<T>,
    left: Range<u64>,
    open: Option<OpenFile<'a>>,
    picked: Option<Vec<u32>>,
    /// Number of selected rows of the chunk that were returned.
    place: usize,
    texts: usize,
    classes: Option<Coder>,
    groups: Option<Coder>,
}

impl<T: Real> RowCursor<T> for TableCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear_but_x();
        self.texts = 0;
        while buf.rows.len() < buf.capacity {
            let ready = self.chunk_rows() - self.place;
            if ready > 0 {
                let take = self.room_for_texts(ready.min(buf.capacity - buf.rows.len()), buf.rows.is_empty())?;
                if take == 0 {
                    break;
                }
                self.fill(buf, take)?;
                self.place += take;
            } else {
                let more = self.read_directly(buf)? || self.advance()?;
                if !more {
                    break;
                }
            }
        }
        buf.x.truncate(buf.rows.len() * self.source.shape().features);
        buf.class_labels = self.classes.as_ref().map(Coder::labels);
        buf.group_labels = self.groups.as_ref().map(Coder::labels);
        Ok(!buf.rows.is_empty())
    }
}

/// Returns the positions of the next `count` selected rows of a chunk, from index `start` of
/// `selected_rows` on; without `selected_rows`, all rows are selected.
fn positions(picked: Option<&[u32]>, place: usize, take: usize) -> Positions<'_> {
    picked.map_or(Positions::From(place), |picked| Positions::At(&picked[place..place + take]))
}

impl<T: Real> TableCursor<'_, T> {
    fn chunk_rows(&self) -> usize {
        match (&self.open, &self.picked) {
            (None, _) => 0,
            // no chunk was read yet: `selected_rows` still belongs to the previous file
            (Some(open), _) if open.rows == 0 => 0,
            (Some(_), Some(picked)) => picked.len(),
            (Some(open), None) => open.rows,
        }
    }

    /// Reads the next chunk, from the next file if necessary; returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.place = 0;
        if let Some(open) = &mut self.open {
            open.first += open.rows as u64;
            open.rows = open.cursor.advance().map_err(|error| open.part.blame(error))?;
            if open.rows > 0 {
                self.pick()?;
                return Ok(true);
            }
            // the rows are valid only if the file has not changed since it was opened
            open.part.check()?;
            // a reader that stops early would silently skip rows
            if open.first != open.end {
                let detail = format!("it ends at row {} of {}", open.first, open.end);
                return Err(Error::Damaged { path: open.part.path.clone(), detail });
            }
            self.open = None;
        }
        self.open_next()
    }

    /// Opens the file that contains the next row; returns false if no row remains.
    fn open_next(&mut self) -> Result<bool> {
        let source = self.source;
        let parts = source.selected.table.parts();
        let (part, rows) = loop {
            if self.left.is_empty() {
                return Ok(false);
            }
            let index = parts.partition_point(|part| part.end() <= self.left.start);
            let Some(part) = parts.get(index) else { return Ok(false) };
            let rows = self.left.start - part.start..self.left.end.min(part.end()) - part.start;
            let rows = source.may_fulfil(index, rows);
            self.left.start = part.start + rows.end;
            if !rows.is_empty() {
                break (part, rows);
            }
        };
        part.check()?;
        let cursor = part.file.open(&source.columns, rows.clone(), &source.selected.table.read);
        let cursor = cursor.map_err(|error| part.blame(error))?;
        self.open = Some(OpenFile { cursor, part, first: rows.start, rows: 0, end: rows.end });
        Ok(true)
    }

    fn pick(&mut self) -> Result<()> {
        let selected = &self.source.selected;
        let Some(open) = &self.open else { return Ok(()) };
        let mut picked = self.picked.take().unwrap_or_default();
        picked.clear();
        if let Some((_, bound)) = &selected.filter {
            let view = open.cursor.view(self.source.columns.len() - 1)?;
            bound.select(&view, open.rows, &mut picked);
        }
        let fulfil = selected.filter.is_some().then_some(&*picked);
        match self.source.with_target(open, fulfil, open.rows)? {
            Some(with_target) => picked = with_target,
            None if selected.filter.is_some() => {}
            None if !selected.picks_all() => picked.extend(0..open.rows as u32),
            None => return Ok(()),
        }
        if selected.is_weighted() {
            let weights = open.cursor.view(selected.weight_slot())?;
            picked.retain(|row| weights.is_null(*row as usize) || weights.number(*row as usize) != 0.0);
        }
        if selected.missing == Missing::Drop {
            self.source.drop_missing(&self.source.views_needed(open)?, &mut picked);
        }
        self.picked = Some(picked);
        Ok(())
    }

    /// Returns how many of the next `count` selected rows fit into the tile by the bytes of their
    /// kept texts; at least one if the tile is `empty`.
    fn room_for_texts(&mut self, take: usize, empty: bool) -> Result<usize> {
        let Some(open) = &self.open else { return Ok(take) };
        let source = self.source;
        let slots: Vec<usize> = source.kept_texts().collect();
        if slots.is_empty() {
            return Ok(take);
        }
        let views: Vec<View<'_>> = slots.iter().map(|slot| open.cursor.view(*slot)).collect::<Result<_>>()?;
        let at = positions(self.picked.as_deref(), self.place, take);
        let (limit, mut held) = (source.reading.texts, self.texts);
        for i in 0..take {
            let lengths = views.iter().map(|view| text_bytes(view, at.get(i)));
            let bytes: usize = lengths.clone().sum();
            if bytes > limit.row {
                let longest = slots.iter().zip(lengths).max_by_key(|(_, bytes)| *bytes).map_or(0, |(slot, _)| *slot);
                let row = open.first + at.get(i) as u64;
                return Err(limit.refused(&open.part.path, row, &source.name(longest), bytes));
            }
            if held + bytes > TILE_TEXT && !(empty && i == 0) {
                self.texts = held;
                return Ok(i);
            }
            held += bytes;
        }
        self.texts = held;
        Ok(take)
    }

    fn fill(&mut self, buf: &mut RowBuf<T>, take: usize) -> Result<()> {
        let source = self.source;
        let Some(open) = &self.open else { return Ok(()) };
        let at = positions(self.picked.as_deref(), self.place, take);
        let base = open.part.start + open.first;
        match at {
            Positions::From(start) => buf.rows.extend(base + start as u64..base + (start + take) as u64),
            Positions::At(list) => buf.rows.extend(list.iter().map(|row| base + u64::from(*row))),
        }
        let chunk = Chunk { source, open, views: source.views(open)? };
        let d = source.shape().features;
        let have = buf.rows.len() - take;
        for done in (0..take).step_by(TILE) {
            let (at, rows) = (at.skip(done), TILE.min(take - done));
            let (x, weighed) = (room(&mut buf.x, (have + done) * d, rows * d), buf.weight.len());
            chunk.numbers(at, rows, x, (&mut buf.y, &mut buf.weight))?;
            if let Some(unit) = source.reading.weight_unit {
                buf.weight[weighed..].iter_mut().for_each(|weight| *weight /= unit);
            }
            let coders = [(&mut self.classes, &mut buf.classes), (&mut self.groups, &mut buf.groups)];
            chunk.labels(source.selected.class_slot(), coders, at, rows)?;
            if let Some(digests) = &source.selected.table.digests {
                digests.add(&chunk.views, &source.keys, at, &buf.rows[have + done..have + done + rows]);
            }
        }
        chunk.keep(at, take, &mut buf.kept)
    }

    /// Reads rows of the open file directly into the buffer. Returns false if the file or the
    /// selection does not support it, and at the end of the file.
    fn read_directly(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        let source = self.source;
        let Some(open) = self.open.as_mut().filter(|_| source.direct) else { return Ok(false) };
        let d = source.selected.features.len();
        let have = buf.rows.len();
        let x = room(&mut buf.x, have * d, (buf.capacity - have) * d);
        let read = open.cursor.advance_into(T::ELEMENT, d, T::bytes_mut(x));
        let read = read.map_err(|error| open.part.blame(error))?.unwrap_or(0);
        if read == 0 {
            return Ok(false);
        }
        open.first += open.rows as u64;
        (open.rows, self.place) = (read, read);
        let base = open.part.start + open.first;
        let x = &mut buf.x[have * d..(have + read) * d];
        let fine = T::all_finite(x);
        // the original values are needed to find errors and to replace missing values
        let copy = if fine { Vec::new() } else { T::bytes(x).to_vec() };
        let views = source.views_of_rows(&copy, &*open.cursor)?;
        let with_target = source.with_target(open, None, read)?;
        let (all, read) = match &with_target {
            None => (Positions::From(0), read),
            Some(list) => (Positions::At(list), list.len()),
        };
        for (to, from) in with_target.iter().flatten().map(|row| *row as usize).enumerate() {
            x.copy_within(from * d..(from + 1) * d, to * d);
        }
        buf.rows.extend((0..read).map(|i| base + all.get(i) as u64));
        let chunk = Chunk { source, open, views };
        for (done, x) in (0..read).step_by(TILE).zip(x.chunks_mut(TILE * d)) {
            let (at, rows) = (all.skip(done), TILE.min(read - done));
            chunk.others(fine || T::all_finite(x), at, rows, x, (&mut buf.y, &mut buf.weight))?;
            let coders = [(&mut self.classes, &mut buf.classes), (&mut self.groups, &mut buf.groups)];
            chunk.labels(source.selected.class_slot(), coders, at, rows)?;
        }
        chunk.keep(all, read, &mut buf.kept)?;
        Ok(true)
    }
}
