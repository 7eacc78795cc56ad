//! Segments of which a process has only some of the rows.
//!
//! Floating-point sums depend on their order, so the state of a segment is computed from all of its
//! rows, tile by tile from the first. A process that has only a part of a segment cannot fold the
//! segment. It stores the rows of this part as the reduction would see them, and the process with
//! the other part does the same. The process that merges the states then reduces all rows of the
//! segment, which gives the same bits as reading the whole segment. A process stores less than one
//! segment at each end of its range of rows, and has at most one tile of stored rows in memory.

use super::{Pass, Reduction, executor::run_pass};
use crate::checkpoint::{Number, PartialRows, RowsKey};
use crate::{
    Error, Float, Footprint, Result, RowBlock, RowBuf, RowCursor, RowSource, TableShape, Workers, rows::Label,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ops::Range, path::PathBuf};

/// Stores the rows of the range `stored`, which lies in one segment. Also reduces them, so that a
/// row that the reduction rejects is an error here.
pub(super) fn store_rows<T: Float, F: Reduction<T>>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    reduction: &F,
    rows: &dyn PartialRows,
    stored: Range<u64>,
) -> Result<(), F::Error> {
    let storing_fold = StoringReduction { reduction, rows, end: AtomicU64::new(stored.start) };
    let end = stored.end;
    run_pass(&Pass { lanes: 1, ..*pass }, &ClippedSource { source, stored }, &storing_fold, 0..u64::MAX, |_| Ok(()))?;
    let stored_end = storing_fold.end.into_inner();
    if stored_end < end {
        rows.store(RowsKey { stored: stored_end..end, rows: 0 }, &[])?;
    }
    Ok(())
}

#[derive(Debug)]
struct ClippedSource<'a, T> {
    source: &'a dyn RowSource<T>,
    stored: Range<u64>,
}

impl<T: Float> RowSource<T> for ClippedSource<'_, T> {
    fn shape(&self) -> TableShape {
        self.source.shape()
    }
    fn range(&self) -> Range<u64> {
        self.stored.clone()
    }
    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        self.source.open(segment)
    }
    fn footprint(&self) -> Footprint {
        self.source.footprint()
    }
}

/// A fold that also stores its rows.
struct StoringReduction<'a, F> {
    reduction: &'a F,
    rows: &'a dyn PartialRows,
    /// Stored row after the last one that was written.
    end: AtomicU64,
}

impl<T: Float, F: Reduction<T>> Reduction<T> for StoringReduction<'_, F> {
    type State = F::State;
    type Scratch = F::Scratch;
    type Error = F::Error;

    fn init(&self) -> F::State {
        self.reduction.init()
    }
    fn scratch(&self) -> F::Scratch {
        self.reduction.scratch()
    }
    fn step(
        &self,
        state: &mut F::State,
        scratch: &mut F::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<(), F::Error> {
        let Some(last) = block.rows.last() else { return Ok(()) };
        let start = self.end.swap(last + 1, Ordering::Relaxed);
        self.rows.store(RowsKey { stored: start..last + 1, rows: block.len() as u64 }, &block_bytes(block))?;
        self.reduction.step(state, scratch, block, workers)
    }
    fn flush(&self, state: &mut F::State, scratch: &mut F::Scratch, workers: &Workers) -> Result<(), F::Error> {
        self.reduction.flush(state, scratch, workers)
    }
}

/// Returns the bytes of the arrays of a block, one after the other: row numbers, inputs, targets,
/// weights, codes of classes and folds.
fn block_bytes<T: Float>(block: &RowBlock<'_, T>) -> Vec<u8> {
    let codes = [&block.classes, &block.groups].map(|coded| coded.map_or(&[][..], |coded| coded.codes));
    let parts: [&[u8]; 6] = [
        bytemuck::cast_slice(block.rows),
        T::as_bytes(block.x),
        bytemuck::cast_slice(block.y),
        bytemuck::cast_slice(block.weight.unwrap_or_default()),
        bytemuck::cast_slice(codes[0]),
        bytemuck::cast_slice(codes[1]),
    ];
    parts.concat()
}

/// The stored rows of a segment, as a source.
pub(super) struct StoredRows<'a, T> {
    store: &'a dyn PartialRows,
    tiles: Vec<(usize, RowsKey)>,
    /// Empty buffer of the source, with its dictionaries of classes and folds.
    empty: RowBuf<T>,
    shape: TableShape,
}

impl<T> std::fmt::Debug for StoredRows<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tiles.fmt(f)
    }
}

impl<'a, T: Float> StoredRows<'a, T> {
    /// Returns the stored rows of `tiles`, with the shape and the dictionaries of `source`.
    pub(super) fn new(
        source: &dyn RowSource<T>,
        store: &'a dyn PartialRows,
        tiles: Vec<(usize, RowsKey)>,
    ) -> Result<Self> {
        let mut empty = RowBuf::new(0);
        source.open(0..0)?.next(&mut empty)?;
        Ok(Self { store, tiles, empty, shape: source.shape() })
    }
}

impl<T: Float> RowSource<T> for StoredRows<'_, T> {
    fn shape(&self) -> TableShape {
        self.shape
    }
    fn range(&self) -> Range<u64> {
        let tiles = &self.tiles;
        tiles.first().map_or(0, |(_, key)| key.stored.start)..tiles.last().map_or(0, |(_, key)| key.stored.end)
    }
    fn open(&self, _: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let code_width = |labels: &Option<Arc<Vec<Label>>>| labels.as_ref().map_or(0, |_| size_of::<u32>());
        let (shape, empty) = (&self.shape, &self.empty);
        let (x, y) = (shape.inputs * size_of::<T>(), shape.targets * size_of::<f64>());
        let weight = if shape.has_weights { size_of::<f64>() } else { 0 };
        let widths = [size_of::<u64>(), x, y, weight, code_width(&empty.class_labels), code_width(&empty.group_labels)];
        Ok(Box::new(StoredRowsCursor { source: self, widths, next_tile: 0, tile: Vec::new(), position: 0, rows: 0 }))
    }
    fn footprint(&self) -> Footprint {
        Footprint { fixed: 0, per_row: RowBuf::<T>::bytes_per_row(&self.shape) }
    }
}

struct StoredRowsCursor<'a, T> {
    source: &'a StoredRows<'a, T>,
    /// Bytes of a row in each of the arrays.
    widths: [usize; 6],
    next_tile: usize,
    /// Arrays of the current tile, one after the other.
    tile: Vec<u8>,
    /// Position in the tile of the next row to return, and the number of rows of the tile.
    position: usize,
    rows: usize,
}

impl<T: Float> RowCursor<T> for StoredRowsCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear();
        let empty = &self.source.empty;
        (buf.class_labels, buf.group_labels) = (empty.class_labels.clone(), empty.group_labels.clone());
        while buf.rows.len() < buf.capacity && (self.position < self.rows || self.load_tile()?) {
            let range = self.position..self.rows.min(self.position + buf.capacity - buf.rows.len());
            append(&mut buf.rows, self.array_bytes(0, &range));
            append(&mut buf.x, self.array_bytes(1, &range));
            append(&mut buf.y, self.array_bytes(2, &range));
            append(&mut buf.weight, self.array_bytes(3, &range));
            append(&mut buf.classes, self.array_bytes(4, &range));
            append(&mut buf.groups, self.array_bytes(5, &range));
            self.position = range.end;
        }
        Ok(!buf.rows.is_empty())
    }
}

impl<T: Float> StoredRowsCursor<'_, T> {
    /// Reads the next tile with rows; returns false if there are no more.
    fn load_tile(&mut self) -> Result<bool> {
        let StoredRows { store: keeper, tiles, .. } = self.source;
        let remaining_tiles = tiles.iter().enumerate().skip(self.next_tile);
        let Some((tile_index, (stored_index, key))) = remaining_tiles.into_iter().find(|(_, (_, key))| key.rows > 0)
        else {
            return Ok(false);
        };
        // frees the old tile first: only one is in memory
        self.tile = Vec::new();
        self.tile = keeper.load(*stored_index)?;
        let (rows, width) = (key.rows as usize, self.widths.iter().sum::<usize>());
        if Some(self.tile.len()) != rows.checked_mul(width) {
            let (stored, bytes) = (&key.stored, self.tile.len());
            let detail =
                format!("rows {}..{} have {bytes} bytes instead of {rows} times {width}", stored.start, stored.end);
            return Err(Error::Damaged { path: PathBuf::from("kept rows"), detail });
        }
        (self.next_tile, self.position, self.rows) = (tile_index + 1, 0, rows);
        Ok(true)
    }

    fn array_bytes(&self, array: usize, range: &Range<usize>) -> &[u8] {
        let (first, width) = (self.rows * self.widths[..array].iter().sum::<usize>(), self.widths[array]);
        &self.tile[first + range.start * width..first + range.end * width]
    }
}

fn append<V: Number>(values: &mut Vec<V>, bytes: &[u8]) {
    let old_len = values.len();
    values.resize(old_len + bytes.len() / size_of::<V>(), V::zeroed());
    bytemuck::cast_slice_mut(&mut values[old_len..]).copy_from_slice(bytes);
}
