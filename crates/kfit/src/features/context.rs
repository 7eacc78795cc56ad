//! The context of a pass over the features: the pass shape, the resources, and buffers for the
//! features of one block of rows.

use crate::linalg::strips::for_each_strip;
use crate::request::{PassShape, Resources};
use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::pass::{Engine, Observer};
use kstore::{Pass, RowBlock, Workers};

/// Number of rows that one thread transposes at a time.
const TRANSPOSED_ROWS: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct VisitContext<'a> {
    pub(super) pass_shape: PassShape,
    pub(super) resources: &'a Resources<'a>,
    pub(super) seed: u64,
    /// Bytes of memory available for copies that are not needed but save time.
    pub(super) spare_bytes: usize,
}

impl<'a> VisitContext<'a> {
    /// Returns the engine that connects the processes of a shared run; `None` if the run has one
    /// process.
    pub(super) fn engine(&self) -> Option<&'a dyn Engine> {
        self.resources.journal.and_then(|journal| journal.engine())
    }

    /// Returns a pass that visits the tiles (blocks of consecutive rows) one by one in row order.
    /// All threads work on the same tile, because a solver that visits tiles has no states that
    /// could be merged.
    pub(super) fn pass<'p>(&self, observer: &'p dyn Observer) -> Pass<'p>
    where
        'a: 'p,
    {
        Pass { journal: None, ..self.pass_shape.pass(1, self.resources, observer) }
    }
}

/// The features of a tile in two layouts: column-major as the map computes them, and row-major as
/// they are stored.
#[derive(Default)]
pub(super) struct FeatureBuffers<T> {
    pub(super) columns: Vec<T>,
    pub(super) rows: Vec<T>,
    pub(super) diag: Vec<f64>,
    pub(super) partial: Vec<f64>,
}

impl<T: Real> FeatureBuffers<T> {
    pub(super) fn fill(&mut self, map: &dyn FeatureMap<T>, block: &RowBlock<'_, T>, workers: &Workers) {
        let size = block.len() * map.dims().1;
        let mut rows = std::mem::take(&mut self.rows);
        rows.resize(size, T::ZERO);
        self.fill_into(&mut rows, map, block, workers);
        self.rows = rows;
    }

    /// Computes the features of a block of b rows, column-major in `columns` and row-major in
    /// `rows` (b x p).
    pub(super) fn fill_into(
        &mut self,
        rows: &mut [T],
        map: &dyn FeatureMap<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) {
        let (b, p) = (block.len(), map.dims().1);
        self.columns.resize(b * p, T::ZERO);
        let x = MatRef::from_row_major_slice(block.x, b, block.d);
        map.apply(x, MatMut::from_column_major_slice_mut(&mut self.columns, b, p), workers);
        let columns = &self.columns;
        for_each_strip(workers, rows, TRANSPOSED_ROWS * p, |strip, rows| {
            let first = strip * TRANSPOSED_ROWS;
            for j in 0..p {
                let column = &columns[j * b + first..][..rows.len() / p];
                column.iter().enumerate().for_each(|(i, value)| rows[i * p + j] = *value);
            }
        });
    }
}
