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
    /// Returns the engine that connects the processes of a shared run, or `None` if the run has one
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

/// The features of a tile in two layouts, and buffers for the sums over its rows.
#[derive(Default)]
pub(super) struct FeatureBuffers<T> {
    /// Features as the map computes them, b x p.
    pub(super) column_major: Vec<T>,
    /// Features as they are stored, b x p.
    pub(super) row_major: Vec<T>,
    /// k(x, x) of each row.
    pub(super) kernel_diag: Vec<f64>,
    /// Scratch of [`CertificateState::update`](crate::certificate::CertificateState::update).
    pub(super) partial_sums: Vec<f64>,
}

impl<T: Real> FeatureBuffers<T> {
    pub(super) fn compute_features(&mut self, map: &dyn FeatureMap<T>, block: &RowBlock<'_, T>, workers: &Workers) {
        let phi_len = block.len() * map.dims().1;
        let mut row_major = std::mem::take(&mut self.row_major);
        row_major.resize(phi_len, T::ZERO);
        self.fill_into(&mut row_major, map, block, workers);
        self.row_major = row_major;
    }

    /// Computes the features of a block of b rows, column-major in `column_major` and row-major in
    /// `row_major` (b x p).
    pub(super) fn fill_into(
        &mut self,
        row_major: &mut [T],
        map: &dyn FeatureMap<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) {
        let (b, p) = (block.len(), map.dims().1);
        self.column_major.resize(b * p, T::ZERO);
        let x = MatRef::from_row_major_slice(block.x, b, block.d);
        map.apply(x, MatMut::from_column_major_slice_mut(&mut self.column_major, b, p), workers);
        let columns = &self.column_major;
        for_each_strip(workers, row_major, TRANSPOSED_ROWS * p, |strip, rows| {
            let (strip_row_count, grouped_columns) = (rows.len() / p, p / 4 * 4);
            let column = |j: usize| &columns[j * b + strip * TRANSPOSED_ROWS..][..strip_row_count];
            for j in (0..grouped_columns).step_by(4) {
                T::interleave_columns([column(j), column(j + 1), column(j + 2), column(j + 3)], p, &mut rows[j..]);
            }
            for j in grouped_columns..p {
                column(j).iter().enumerate().for_each(|(i, value)| rows[i * p + j] = *value);
            }
        });
    }
}
