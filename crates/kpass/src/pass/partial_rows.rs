//! Segments whose rows are only partly in this process.
//!
//! Floating-point sums depend on their order, so the state of a segment is computed from all of its
//! rows, tile by tile from the first. A process that has only a part of a segment cannot reduce the
//! segment. It stores the rows of this part as the reduction would see them, and the process with
//! the other part does the same. The process that merges the states then reduces all rows of the
//! segment, which gives the same bits as reading the whole segment. A process stores less than one
//! segment at each end of its range of rows, and has at most one tile of stored rows in memory.

use super::{Pass, Reduction, executor::run_pass};
use crate::checkpoint::{Number, PartialRows, Persist, RowsKey};
use crate::{
    Error, Float, Footprint, Result, RowBlock, RowBuf, RowCursor, RowSource, TableShape, Workers, rows::Label,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ops::Range, path::PathBuf};

/// Stores the rows of `stored_range`, which lies in one segment. Also reduces them, so that a
/// row that the reduction rejects is an error here.
pub(super) fn store_rows<T: Float, F: Reduction<T, State: Persist>>(
    pass: &Pass<'_>,
    source: &dyn RowSource<T>,
    reduction: &F,
    store: &dyn PartialRows,
    stored_range: Range<u64>,
) -> Result<(), F::Error> {
    let storing_reduction = StoringReduction { reduction, store, stored_end: AtomicU64::new(stored_range.start) };
    let end = stored_range.end;
    run_pass(
        &Pass { lane_count: 1, ..*pass },
        &ClippedSource { source, stored_range: stored_range.clone() },
        &storing_reduction,
        0..u64::MAX,
        |delivery| {
            store.inspect(&stored_range, &delivery.state);
            Ok(())
        },
    )?;
    let stored_end = storing_reduction.stored_end.into_inner();
    if stored_end < end {
        store.store(RowsKey { stored_range: stored_end..end, row_count: 0 }, &[])?;
    }
    Ok(())
}

#[derive(Debug)]
struct ClippedSource<'a, T> {
    source: &'a dyn RowSource<T>,
    stored_range: Range<u64>,
}

impl<T: Float> RowSource<T> for ClippedSource<'_, T> {
    fn shape(&self) -> TableShape {
        self.source.shape()
    }
    fn range(&self) -> Range<u64> {
        self.stored_range.clone()
    }
    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        self.source.open(segment)
    }
    fn footprint(&self) -> Footprint {
        self.source.footprint()
    }
}

/// A reduction that also stores its rows.
struct StoringReduction<'a, F> {
    reduction: &'a F,
    store: &'a dyn PartialRows,
    /// Stored row after the last row that was written.
    stored_end: AtomicU64,
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
        let Some(last_row) = block.row_numbers.last() else { return Ok(()) };
        let start = self.stored_end.swap(last_row + 1, Ordering::Relaxed);
        self.store.store(
            RowsKey { stored_range: start..last_row + 1, row_count: block.len() as u64 },
            &encode_block(block),
        )?;
        self.reduction.step(state, scratch, block, workers)
    }
    fn flush(&self, state: &mut F::State, scratch: &mut F::Scratch, workers: &Workers) -> Result<(), F::Error> {
        self.reduction.flush(state, scratch, workers)
    }
}

/// Returns the bytes of the arrays of a block, one after the other: row numbers, inputs, targets,
/// weights, codes of classes and groups.
fn encode_block<T: Float>(block: &RowBlock<'_, T>) -> Vec<u8> {
    let codes = [&block.classes, &block.groups].map(|coded| coded.map_or(&[][..], |coded| coded.codes));
    let arrays: [&[u8]; 6] = [
        bytemuck::cast_slice(block.row_numbers),
        T::as_bytes(block.x),
        bytemuck::cast_slice(block.y),
        bytemuck::cast_slice(block.weights.unwrap_or_default()),
        bytemuck::cast_slice(codes[0]),
        bytemuck::cast_slice(codes[1]),
    ];
    arrays.concat()
}

/// The stored rows of a segment, as a source.
pub(super) struct StoredRows<'a, T> {
    store: &'a dyn PartialRows,
    tiles: Vec<(usize, RowsKey)>,
    /// Empty buffer of the source, with its dictionaries of classes and groups.
    empty_buffer: RowBuf<T>,
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
        let mut empty_buffer = RowBuf::new(0);
        source.open(0..0)?.next(&mut empty_buffer)?;
        Ok(Self { store, tiles, empty_buffer, shape: source.shape() })
    }
}

impl<T: Float> RowSource<T> for StoredRows<'_, T> {
    fn shape(&self) -> TableShape {
        self.shape
    }
    fn range(&self) -> Range<u64> {
        let tiles = &self.tiles;
        tiles.first().map_or(0, |(_, key)| key.stored_range.start)
            ..tiles.last().map_or(0, |(_, key)| key.stored_range.end)
    }
    fn open(&self, _: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let code_bytes = |labels: &Option<Arc<Vec<Label>>>| labels.as_ref().map_or(0, |_| size_of::<u32>());
        let (shape, empty_buffer) = (&self.shape, &self.empty_buffer);
        let (x_bytes, y_bytes) = (shape.input_count * size_of::<T>(), shape.target_count * size_of::<f64>());
        let weight_bytes = if shape.has_weights { size_of::<f64>() } else { 0 };
        let array_row_bytes = [
            size_of::<u64>(),
            x_bytes,
            y_bytes,
            weight_bytes,
            code_bytes(&empty_buffer.class_labels),
            code_bytes(&empty_buffer.group_labels),
        ];
        Ok(Box::new(StoredRowsCursor {
            source: self,
            array_row_bytes,
            next_tile: 0,
            tile_bytes: Vec::new(),
            position: 0,
            tile_rows: 0,
        }))
    }
    fn footprint(&self) -> Footprint {
        Footprint { fixed: 0, per_row: RowBuf::<T>::bytes_per_row(&self.shape) }
    }
}

struct StoredRowsCursor<'a, T> {
    source: &'a StoredRows<'a, T>,
    /// Bytes of a row in each of the arrays.
    array_row_bytes: [usize; 6],
    next_tile: usize,
    /// Arrays of the current tile, one after the other.
    tile_bytes: Vec<u8>,
    /// Position in the tile of the next row to return, and the number of rows of the tile.
    position: usize,
    tile_rows: usize,
}

impl<T: Float> RowCursor<T> for StoredRowsCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear();
        let empty_buffer = &self.source.empty_buffer;
        (buf.class_labels, buf.group_labels) = (empty_buffer.class_labels.clone(), empty_buffer.group_labels.clone());
        while buf.row_numbers.len() < buf.capacity && (self.position < self.tile_rows || self.load_tile()?) {
            let range = self.position..self.tile_rows.min(self.position + buf.capacity - buf.row_numbers.len());
            append(&mut buf.row_numbers, self.array_bytes(0, &range));
            append(&mut buf.x, self.array_bytes(1, &range));
            append(&mut buf.y, self.array_bytes(2, &range));
            append(&mut buf.weights, self.array_bytes(3, &range));
            append(&mut buf.classes, self.array_bytes(4, &range));
            append(&mut buf.groups, self.array_bytes(5, &range));
            self.position = range.end;
        }
        Ok(!buf.row_numbers.is_empty())
    }
}

impl<T: Float> StoredRowsCursor<'_, T> {
    /// Reads the next tile with rows; returns false if there are no more.
    fn load_tile(&mut self) -> Result<bool> {
        let StoredRows { store, tiles, .. } = self.source;
        let remaining_tiles = tiles.iter().enumerate().skip(self.next_tile);
        let Some((tile_index, (store_position, key))) =
            remaining_tiles.into_iter().find(|(_, (_, key))| key.row_count > 0)
        else {
            return Ok(false);
        };
        // frees the old tile first: only one is in memory
        self.tile_bytes = Vec::new();
        self.tile_bytes = store.load(*store_position)?;
        let (row_count, row_bytes) = (key.row_count as usize, self.array_row_bytes.iter().sum::<usize>());
        if Some(self.tile_bytes.len()) != row_count.checked_mul(row_bytes) {
            let (stored_range, bytes) = (&key.stored_range, self.tile_bytes.len());
            let detail = format!(
                "rows {}..{} have {bytes} bytes instead of {row_count} times {row_bytes}",
                stored_range.start, stored_range.end
            );
            return Err(Error::Damaged { path: PathBuf::from("kept rows"), detail });
        }
        (self.next_tile, self.position, self.tile_rows) = (tile_index + 1, 0, row_count);
        Ok(true)
    }

    fn array_bytes(&self, array_index: usize, range: &Range<usize>) -> &[u8] {
        let (array_start, row_bytes) = (
            self.tile_rows * self.array_row_bytes[..array_index].iter().sum::<usize>(),
            self.array_row_bytes[array_index],
        );
        &self.tile_bytes[array_start + range.start * row_bytes..array_start + range.end * row_bytes]
    }
}

fn append<V: Number>(values: &mut Vec<V>, bytes: &[u8]) {
    let old_len = values.len();
    values.resize(old_len + bytes.len() / size_of::<V>(), V::zeroed());
    bytemuck::cast_slice_mut(&mut values[old_len..]).copy_from_slice(bytes);
}
