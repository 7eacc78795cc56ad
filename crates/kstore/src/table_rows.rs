//! The selected rows of a table as a source for passes.

use crate::convert::{self, Affine, TILE};
use crate::labels::{Coder, Fault};
use crate::rows::{Label, RowBuf, RowCursor, RowSource, TableShape};
use crate::scaler::Scaler;
use crate::select::{Missing, Selected};
use crate::source::{FileCursor, Positions, Values, View};
use crate::table::Part;
use crate::{Error, Footprint, Real, Result};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How rows are handed out. By default: as they are in the file, with labels numbered as each cursor finds them.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Shift and scale of the features.
    pub scaler: Option<Arc<Scaler>>,
    /// Dictionary of the class column.
    pub classes: Option<Arc<Vec<Label>>>,
    /// Dictionary of the fold column.
    pub groups: Option<Arc<Vec<Label>>>,
}

/// The selected rows of a table.
///
/// A tile holds exactly as many selected rows as the buffer's capacity, except the last of a segment, whatever the
/// batches, row groups and files they come from.
#[derive(Debug)]
pub struct TableRows<T> {
    selected: Selected,
    columns: Vec<usize>,
    affine: Affine,
    reading: Reading,
    element: PhantomData<fn() -> T>,
}

impl<T: Real> TableRows<T> {
    pub(crate) fn new(selected: Selected, reading: Reading) -> Result<Self> {
        let d = selected.features.len();
        if let Some(scaler) =
            reading.scaler.as_ref().filter(|s| [&s.centre, &s.scale, &s.mean].iter().any(|v| v.len() != d))
        {
            let text = format!("of {} features", scaler.features());
            return Err(Error::Syntax { what: "scaler", text, expected: format!("the table gives {d} features") });
        }
        let affine = Affine::new(d, reading.scaler.as_deref());
        Ok(Self { columns: selected.columns(), selected, affine, reading, element: PhantomData })
    }

    /// What was selected.
    pub fn selected(&self) -> &Selected {
        &self.selected
    }

    /// Names of the decoded columns' places: features, targets, class, group.
    fn name(&self, slot: usize) -> String {
        self.selected.table.schema().columns[self.columns[slot]].name.clone()
    }
}

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
        let coder = |column: Option<usize>, dictionary| column.map(|_| Coder::new(dictionary));
        Ok(Box::new(TableCursor {
            source: self,
            left,
            open: None,
            picked: None,
            place: 0,
            classes: coder(self.selected.class, self.reading.classes.as_ref()),
            groups: coder(self.selected.group, self.reading.groups.as_ref()),
            tile: vec![T::default(); TILE * self.selected.features.len()],
            targets: vec![0.0; TILE * self.selected.targets.len()],
        }))
    }

    /// The largest decoder of the files, the transposed block, and, per row, one [`RowBuf`].
    fn footprint(&self) -> Footprint {
        let files = self.selected.table.parts().iter().map(|part| part.file.footprint(&self.columns));
        let shape = self.selected.shape();
        let tile = TILE * (shape.features * size_of::<T>() + shape.targets * size_of::<f64>());
        Footprint { fixed: files.max().unwrap_or(0) + tile, per_row: RowBuf::<T>::bytes_per_row(&shape) }
    }

    fn bytes_read(&self) -> u64 {
        self.selected.table.read.load(Ordering::Relaxed)
    }
}

/// A file being read, and the chunk that is at hand.
struct Open<'a> {
    cursor: Box<dyn FileCursor + 'a>,
    part: &'a Part,
    /// Row within the file of the chunk's first row.
    first: u64,
    rows: usize,
}

struct TableCursor<'a, T: Real> {
    source: &'a TableRows<T>,
    /// Stored rows not opened yet.
    left: Range<u64>,
    open: Option<Open<'a>>,
    /// Selected rows of the chunk; `None` where all are.
    picked: Option<Vec<u32>>,
    /// How many of them were handed out.
    place: usize,
    classes: Option<Coder>,
    groups: Option<Coder>,
    tile: Vec<T>,
    targets: Vec<f64>,
}

impl<T: Real> RowCursor<T> for TableCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear();
        while buf.rows.len() < buf.capacity {
            let ready = self.chunk_rows() - self.place;
            if ready == 0 {
                if !self.advance()? {
                    break;
                }
                continue;
            }
            let take = ready.min(buf.capacity - buf.rows.len());
            self.fill(buf, take)?;
            self.place += take;
        }
        buf.class_labels = self.classes.as_ref().map(Coder::labels);
        buf.group_labels = self.groups.as_ref().map(Coder::labels);
        Ok(!buf.rows.is_empty())
    }
}

impl<T: Real> TableCursor<'_, T> {
    /// Selected rows of the chunk at hand.
    fn chunk_rows(&self) -> usize {
        match (&self.open, &self.picked) {
            (None, _) => 0,
            // just opened: what was picked belongs to the file before
            (Some(open), _) if open.rows == 0 => 0,
            (Some(_), Some(picked)) => picked.len(),
            (Some(open), None) => open.rows,
        }
    }

    /// Gets the next chunk, from the next file if need be; false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.place = 0;
        if let Some(open) = &mut self.open {
            open.first += open.rows as u64;
            open.rows = open.cursor.advance().map_err(|error| open.part.blame(error))?;
            if open.rows > 0 {
                self.pick()?;
                return Ok(true);
            }
            // what was read counts only if it was read from the file that was opened
            open.part.check()?;
            self.open = None;
        }
        self.open_next()
    }

    /// Opens the file that holds the next row; false when no row is left.
    fn open_next(&mut self) -> Result<bool> {
        let source = self.source;
        if self.left.is_empty() {
            return Ok(false);
        }
        let parts = source.selected.table.parts();
        let Some(part) = parts.get(parts.partition_point(|part| part.end() <= self.left.start)) else {
            return Ok(false);
        };
        let rows = self.left.start - part.start..self.left.end.min(part.end()) - part.start;
        self.left.start = part.start + rows.end;
        part.check()?;
        let cursor = part.file.open(&source.columns, rows.clone(), &source.selected.table.read);
        let cursor = cursor.map_err(|error| part.blame(error))?;
        self.open = Some(Open { cursor, part, first: rows.start, rows: 0 });
        Ok(true)
    }

    /// Finds the selected rows of the chunk.
    fn pick(&mut self) -> Result<()> {
        let selected = &self.source.selected;
        let Some(open) = &self.open else { return Ok(()) };
        if selected.filter.is_none() && selected.missing != Missing::Drop {
            return Ok(());
        }
        let mut picked = self.picked.take().unwrap_or_default();
        picked.clear();
        match &selected.filter {
            Some((_, bound)) => {
                let view = open.cursor.view(self.source.columns.len() - 1)?;
                bound.select(&view, open.rows, &mut picked);
            }
            None => picked.extend(0..open.rows as u32),
        }
        if selected.missing == Missing::Drop {
            drop_missing(&self.source.views(open)?, &mut picked);
        }
        self.picked = Some(picked);
        Ok(())
    }

    /// Appends the next `take` selected rows of the chunk.
    fn fill(&mut self, buf: &mut RowBuf<T>, take: usize) -> Result<()> {
        let source = self.source;
        let Some(open) = &self.open else { return Ok(()) };
        let at = match &self.picked {
            Some(picked) => Positions::At(&picked[self.place..self.place + take]),
            None => Positions::From(self.place),
        };
        let base = open.part.start + open.first;
        match at {
            Positions::From(start) => buf.rows.extend(base + start as u64..base + (start + take) as u64),
            Positions::At(list) => buf.rows.extend(list.iter().map(|row| base + u64::from(*row))),
        }
        let chunk = Chunk { source, open, views: source.views(open)? };
        let (d, t) = (source.selected.features.len(), source.selected.targets.len());
        for done in (0..take).step_by(TILE) {
            let (at, rows) = (at.skip(done), TILE.min(take - done));
            let (x, y) = (&mut self.tile[..rows * d], &mut self.targets[..rows * t]);
            chunk.numbers(at, rows, x, y)?;
            buf.x.extend_from_slice(x);
            buf.y.extend_from_slice(y);
            let mut slot = d + t;
            for (coder, codes) in [(&mut self.classes, &mut buf.classes), (&mut self.groups, &mut buf.groups)] {
                if let Some(coder) = coder {
                    chunk.labels(slot, coder, at, rows, codes)?;
                    slot += 1;
                }
            }
        }
        Ok(())
    }
}

impl<T: Real> TableRows<T> {
    /// Features, targets, class and group of a chunk; the filter's column is not among them.
    fn views<'o>(&self, open: &'o Open<'_>) -> Result<Vec<View<'o>>> {
        let count = self.columns.len() - usize::from(self.selected.filter.is_some());
        (0..count).map(|slot| open.cursor.view(slot)).collect()
    }
}

/// Takes out the rows with a value that is not a finite number, or no label.
fn drop_missing(views: &[View<'_>], picked: &mut Vec<u32>) {
    let mut loaded = [0.0; TILE];
    let mut bad = vec![false; picked.len()];
    for view in views {
        for (rows, bad) in picked.chunks(TILE).zip(bad.chunks_mut(TILE)) {
            let loaded = &mut loaded[..rows.len()];
            load_or_one(view, Positions::At(rows), loaded);
            bad.iter_mut().zip(loaded).for_each(|(bad, value)| *bad |= !value.is_finite());
        }
    }
    let mut bad = bad.iter();
    picked.retain(|_| bad.next() == Some(&false));
}

/// Numbers as they are; text as 1, or NaN where it is missing.
fn load_or_one(view: &View<'_>, at: Positions<'_>, out: &mut [f64]) {
    if !matches!(view.values, Values::Text(_) | Values::LargeText(_)) {
        return view.load(at, out);
    }
    for (i, out) in out.iter_mut().enumerate() {
        *out = if view.is_null(at.get(i)) { f64::NAN } else { 1.0 };
    }
}

/// The chunk at hand with its columns.
struct Chunk<'o, 'a, T> {
    source: &'o TableRows<T>,
    open: &'o Open<'a>,
    views: Vec<View<'o>>,
}

impl<T: Real> Chunk<'_, '_, T> {
    /// Features and targets of a tile.
    fn numbers(&self, at: Positions<'_>, rows: usize, x: &mut [T], y: &mut [f64]) -> Result<()> {
        let selected = &self.source.selected;
        let (d, t) = (selected.features.len(), selected.targets.len());
        let (features, others) = self.views.split_at(d);
        let (targets, labels) = others.split_at(t);
        let mut fine = convert::features(features, &self.source.affine, at, rows, x);
        fine &= convert::targets(targets, at, rows, y);
        fine &= labels.iter().all(|view| (0..rows).all(|i| !view.is_null(at.get(i))));
        if fine {
            return Ok(());
        }
        self.repair(at, rows, x)
    }

    /// Fills missing features in where that was asked for; the first bad value in row order is an error.
    #[cold]
    fn repair(&self, at: Positions<'_>, rows: usize, x: &mut [T]) -> Result<()> {
        let d = self.source.selected.features.len();
        for i in 0..rows {
            let row = at.get(i);
            for (slot, view) in self.views.iter().enumerate() {
                let value = single(view, row);
                if slot >= d {
                    if !value.is_finite() {
                        return Err(self.bad_value(slot, row, value));
                    }
                } else if self.source.selected.missing == Missing::Mean && !value.is_finite() {
                    x[i * d + slot] = T::from_f64(self.source.affine.fill[slot]);
                } else if !x[i * d + slot].is_finite() {
                    return Err(self.bad_value(slot, row, value));
                }
            }
        }
        Ok(())
    }

    fn labels(
        &self,
        slot: usize,
        coder: &mut Coder,
        at: Positions<'_>,
        rows: usize,
        codes: &mut Vec<u32>,
    ) -> Result<()> {
        coder.code(&self.views[slot], at, rows, codes).map_err(|(row, fault)| match fault {
            Fault::Fraction(value) if !value.is_finite() => self.bad_value(slot, row, value),
            Fault::Fraction(value) => Error::WrongType {
                path: self.path().to_path_buf(),
                column: self.source.name(slot),
                got: format!("{value} in row {}", self.open.first + row as u64),
                expected: "classes and folds are whole numbers, truth values or text; for a quantity choose \
                           --task regression"
                    .to_string(),
            },
            Fault::TooMany => {
                let limit = crate::statistics::LABEL_LIMIT;
                Error::TooManyLabels { column: self.source.name(slot), limit }
            }
        })
    }

    fn path(&self) -> &Path {
        &self.open.part.path
    }

    #[cold]
    fn bad_value(&self, slot: usize, row: usize, value: f64) -> Error {
        let feature = slot < self.source.selected.features.len();
        let too_large = value.is_finite();
        let remedy = match (too_large, feature) {
            (true, _) => "scale the column down or use --precision f64",
            (false, true) => "clean the data or choose --missing drop or --missing mean",
            (false, false) => "clean the data or choose --missing drop",
        };
        let value = if self.views[slot].is_null(row) {
            "missing".to_string()
        } else if value.is_nan() {
            "NaN".to_string()
        } else if value.is_infinite() {
            "infinite".to_string()
        } else {
            format!("{value:e}, too large for {}", T::NAME)
        };
        let (row, column) = (self.open.first + row as u64, self.source.name(slot));
        Error::BadValue { path: self.path().to_path_buf(), row, column, value, remedy }
    }
}

/// One value; of a text column 1, or NaN where it is missing.
fn single(view: &View<'_>, row: usize) -> f64 {
    let mut value = [0.0];
    load_or_one(view, Positions::From(row), &mut value);
    value[0]
}
