//! Tiles (the features of some rows), products with them, and their conversion to f64 for final
//! results.
//!
//! Solvers iterate in the element type of the features, which is fast but rounds sums to that type.
//! The reported numbers come from one more pass over the same features, which computes products and
//! sums in f64.

use super::{PhiSource, StoredFeatures};
use crate::{Result, linalg::strips::for_each_strip};
use kapprox::{Real, thin};
use kstore::{Workers, pass::Observer};
use std::ops::Range;

/// Number of rows converted to f64 at once, chosen: with 1,000 features they take 8 MB.
pub(super) const CONVERTED_ROWS: usize = 1024;

/// Number of rows that one thread converts at a time.
const CONVERTED_STRIP_ROWS: usize = 128;

/// Number of rows of a product that one thread computes at a time.
const PRODUCT_STRIP_ROWS: usize = 256;

/// Number of rows whose products with features are summed in the element type of the features. The
/// sums of different groups of rows are added in f64.
const SUM_ROWS: usize = 512;

/// Number of features in a panel. One thread computes the rows of Φᵀ·`right` that belong to one
/// panel.
const PANEL_FEATURES: usize = 128;

/// A tile: the features Φ of b consecutive rows, b x p.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a, T> {
    /// Position of the first row among all rows of the fit.
    pub first_row: usize,
    /// Features, b x p row-major.
    pub phi: &'a [T],
    pub(super) p: usize,
}

impl<T: Real> Tile<'_, T> {
    /// Returns the number of rows, b.
    pub fn row_count(&self) -> usize {
        self.phi.len() / self.p
    }

    /// Returns the features of row `i` of the tile.
    pub fn row(&self, i: usize) -> &[T] {
        &self.phi[i * self.p..(i + 1) * self.p]
    }

    /// Computes `out` (b x c row-major) = Φ·`weights` (p x c row-major). Each task computes one
    /// strip of rows. *Cost*: 2pc flops for each row.
    pub fn multiply(&self, weights: &[T], out: &mut [T], workers: &Workers) {
        let c = weights.len() / self.p;
        let workers = workers.for_operations(2 * self.phi.len() * c);
        for_each_strip(&workers, out, PRODUCT_STRIP_ROWS * c, |strip, out| {
            self.multiply_rows(strip * PRODUCT_STRIP_ROWS, weights, out);
        });
    }

    /// Computes rows of Φ·`weights` on the calling thread: as many rows as `out` has, from row
    /// `first_row` on.
    pub(crate) fn multiply_rows(&self, first_row: usize, weights: &[T], out: &mut [T]) {
        let (p, c) = (self.p, weights.len() / self.p);
        thin::multiply(&self.phi[first_row * p..][..out.len() / c * p], weights, p, out);
    }

    /// Computes `sums` (p x c row-major) += Φᵀ·`right` (b x c row-major). Products of a few hundred
    /// rows are summed in the type of the features, these sums in f64. Each task computes one panel
    /// of features. *Cost*: 2pc flops for each row.
    pub fn add_transposed_product(&self, right: &[T], sums: &mut [f64], workers: &Workers) {
        let (p, c) = (self.p, right.len() / self.row_count().max(1));
        let workers = workers.for_operations(2 * self.phi.len() * c);
        for_each_strip(&workers, sums, PANEL_FEATURES * c, |panel, sums| {
            for (phi, right) in self.phi.chunks(SUM_ROWS * p).zip(right.chunks(SUM_ROWS * c)) {
                thin::add_transposed_product(phi, p, panel * PANEL_FEATURES, right, sums);
            }
        });
    }
}

/// Rows of a tile and their factors, by row: a column of a sparse matrix.
pub(crate) type SparseColumn<T> = Vec<(u32, T)>;

impl<T: Real> Tile<'_, T> {
    /// Adds Φᵀ·`right` for c sparse columns (b x c) to `sums`, with the rounding of
    /// [`Tile::add_transposed_product`]. The sums are panel by panel, as [`panel_columns`]
    /// describes. *Cost*: 2p flops per entry.
    pub(crate) fn add_sparse(&self, right: &[SparseColumn<T>], sums: &mut [f64], workers: &Workers) {
        let (p, c) = (self.p, right.len());
        let entry_count: usize = right.iter().map(Vec::len).sum();
        let workers = workers.for_operations(2 * p * entry_count);
        for_each_strip(&workers, sums, PANEL_FEATURES * c, |panel, sums| {
            let (width, mut columns) = (sums.len() / c, right.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for end in (0..self.row_count()).step_by(SUM_ROWS).map(|first| first + SUM_ROWS) {
                for (column, sums) in columns.iter_mut().zip(sums.chunks_exact_mut(width)) {
                    let (group_entries, remaining_entries) =
                        column.split_at(column.partition_point(|(row, _)| (*row as usize) < end));
                    thin::add_rows(self.phi, p, panel * PANEL_FEATURES, group_entries, sums);
                    *column = remaining_entries;
                }
            }
        });
    }
}

/// Copies c columns of p sums, which are stored panel by panel: the sums of a panel of features for
/// the first column, for the second, and so on.
pub(crate) fn panel_columns<'c>(sums: &[f64], p: usize, columns: impl Iterator<Item = &'c mut [f64]>) {
    let c = sums.len() / p;
    for (index, column) in columns.enumerate() {
        for (panel, sums) in column.chunks_mut(PANEL_FEATURES).zip(sums.chunks(PANEL_FEATURES * c)) {
            panel.copy_from_slice(&sums[index * panel.len()..][..panel.len()]);
        }
    }
}

pub(super) type TileVisitor<'w, T> = &'w mut (dyn FnMut(&Tile<'_, T>) -> Result<()> + Send);

/// Features of another type that can be read in the type `T`.
pub(super) trait ConvertedFeatures<T>: Sync {
    /// Calls `visitor` with the tiles of `unit`, a range of consecutive segments, or with all tiles
    /// if it is `None`, in row order.
    fn visit_converted(
        &self,
        unit: Option<&Range<u64>>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()>;
}

impl<N: Real> ConvertedFeatures<f64> for StoredFeatures<'_, N> {
    fn visit_converted(
        &self,
        unit: Option<&Range<u64>>,
        observer: &dyn Observer,
        visitor: TileVisitor<'_, f64>,
    ) -> Result<()> {
        let (p, workers) = (self.p, self.workers());
        let mut phi_f64 = Vec::new();
        self.visit_unit(unit, observer, &mut |tile| {
            for (chunk_index, phi) in tile.phi.chunks(CONVERTED_ROWS * p).enumerate() {
                phi_f64.resize(phi.len(), 0.0);
                for_each_strip(workers, &mut phi_f64, CONVERTED_STRIP_ROWS * p, |strip, strip_f64| {
                    let phi = &phi[strip * CONVERTED_STRIP_ROWS * p..][..strip_f64.len()];
                    strip_f64.iter_mut().zip(phi).for_each(|(wide, value)| *wide = value.to_f64());
                });
                visitor(&Tile { first_row: tile.first_row + chunk_index * CONVERTED_ROWS, phi: &phi_f64, p })?;
            }
            Ok(())
        })
    }
}

impl<T: Real> StoredFeatures<'_, T> {
    /// Returns the features in f64, without targets, classes, folds and weights.
    pub(crate) fn as_f64(&self) -> StoredFeatures<'_, f64> {
        let features = StoredFeatures::without_targets(
            self.context,
            PhiSource::Converted(self),
            (self.n, self.p),
            self.range.clone(),
            self.has_all_rows,
        );
        StoredFeatures { segments: self.segments.clone(), ..features }
    }
}
