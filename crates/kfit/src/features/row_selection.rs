//! Rows selected from the features: the rows of some classes, a random sample, or the rows at given
//! positions.

use super::tile::{Tile, TileVisitor};
use super::{PhiSource, SegmentStart, StoredFeatures};
use super::{reduction::RowValues, stored::StopOnlyObserver, tier::exchange_row_count};
use crate::Result;
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;

/// Number of rows of a tile of selected rows, chosen.
const SELECTED_TILE_ROWS: usize = 2048;

/// Returns the bytes of the buffers of a visit to selected rows that are not copied.
pub(crate) fn selection_bytes(p: usize, element_bytes: usize) -> usize {
    SELECTED_TILE_ROWS * p * element_bytes
}

impl<'a, T: Real> StoredFeatures<'a, T> {
    /// Returns the rows for whose class code `accepts` returns true, with their classes, targets,
    /// folds and weights.
    ///
    /// If the memory plan has room, one pass copies the rows. Otherwise every visit extracts them
    /// again. In both cases a tile contains only selected rows, and the tiles do not depend on the
    /// place where the features are stored.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub(crate) fn select_classes<'k>(
        &'k self,
        accepts: impl Fn(u32) -> bool,
        observer: &dyn Observer,
    ) -> Result<StoredFeatures<'k, T>> {
        let positions: Vec<usize> =
            (0..self.n).filter(|i| self.class_codes.get(*i).is_some_and(|code| accepts(*code))).collect();
        let t = self.y.len() / self.n.max(1);
        let phi = match positions.len() * self.p * size_of::<T>() <= self.context.spare_bytes {
            true => PhiSource::Copied(self.copy_rows(&positions, observer)?),
            false => PhiSource::Positions(self, positions.clone()),
        };
        Ok(StoredFeatures {
            class_codes: positions.iter().map(|i| self.class_codes[*i]).collect(),
            y: positions.iter().flat_map(|i| &self.y[i * t..(i + 1) * t]).copied().collect(),
            row_folds: positions.iter().filter_map(|i| self.row_folds.get(*i)).copied().collect(),
            weights: self.weights.select(&positions),
            ..self.with_selected_rows(positions.len(), phi)
        })
    }

    /// Draws `m` ≤ n rows into memory in one pass, and returns them with their positions. The n
    /// rows are divided into m strata of n/m consecutive rows, and each stratum contributes one
    /// random row.
    ///
    /// Targets, classes, folds and weights are not copied: the caller finds them by the positions.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub(crate) fn sample(&self, m: usize, observer: &dyn Observer) -> Result<(Self, Vec<usize>)> {
        let stream = Stream::new(self.context.seed, Purpose::Candidates, 1);
        let (n, m) = (self.n as u128, m.min(self.n));
        let stratum_start = |i: usize| (i as u128 * n / m as u128) as usize;
        let draw_position = |i: usize| {
            let (start, end) = (stratum_start(i), stratum_start(i + 1));
            start + stream.uniform_below(i as u64, (end - start) as u64) as usize
        };
        let positions: Vec<usize> = (0..m).map(draw_position).collect();
        Ok((self.with_selected_rows(m, PhiSource::Copied(self.copy_rows(&positions, observer)?)), positions))
    }

    /// Copies the features of the rows at these ascending positions, in one pass.
    pub(crate) fn copy_rows(&self, positions: &[usize], observer: &dyn Observer) -> Result<Vec<T>> {
        let mut phi = Vec::with_capacity(positions.len() * self.p);
        self.visit_selected(positions, observer, |tile| {
            phi.extend_from_slice(tile.phi);
            Ok(())
        })?;
        Ok(phi)
    }

    /// Returns n selected rows. The result has no classes, targets, folds or weights, and numbers
    /// its segments by position.
    fn with_selected_rows<'k>(&self, n: usize, phi: PhiSource<'k, T>) -> StoredFeatures<'k, T>
    where
        'a: 'k,
    {
        let segment_rows =
            (self.context.pass_shape.segment_rows as usize).div_ceil(SELECTED_TILE_ROWS).max(1) * SELECTED_TILE_ROWS;
        StoredFeatures {
            tile_starts: (0..n).step_by(SELECTED_TILE_ROWS).chain([n]).collect(),
            segments: (0..n)
                .step_by(segment_rows)
                .zip(0..)
                .map(|(position, number)| SegmentStart { position, number })
                .collect(),
            ..StoredFeatures::without_targets(self.context, phi, (n, self.p), 0..n as u64, false)
        }
    }

    /// Calls `visitor` with tiles of the rows at these ascending positions. `Tile::first_row`
    /// counts only these rows. If processes share the run, they exchange features, so that only one
    /// process computes the features of each row.
    pub(crate) fn visit_selected(
        &self,
        positions: &[usize],
        observer: &dyn Observer,
        mut visitor: impl FnMut(&Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<()> {
        if !self.shares_passes() {
            return self.visit_selected_locally(positions, observer, &mut visitor);
        }
        let chunk_rows = exchange_row_count(self.p, size_of::<T>());
        for (chunk_index, chunk) in positions.chunks(chunk_rows).enumerate() {
            let RowValues(phi) =
                self.reduce("some rows", &StopOnlyObserver(observer), &RowValues::<T>::default, |values, tile| {
                    let lower_bound = |position: usize| chunk.partition_point(|row| *row < position);
                    let tile_positions =
                        &chunk[lower_bound(tile.first_row)..lower_bound(tile.first_row + tile.row_count())];
                    tile_positions.iter().for_each(|row| values.0.extend_from_slice(tile.row(row - tile.first_row)));
                    Ok(())
                })?;
            visitor(&Tile { first_row: chunk_index * chunk_rows, phi: &phi, p: self.p })?;
        }
        observer.advance(self.n as u64);
        Ok(())
    }

    /// Visits selected rows without an exchange between processes. If only another process has
    /// features of a row, this process computes them again.
    pub(super) fn visit_selected_locally(
        &self,
        positions: &[usize],
        observer: &dyn Observer,
        visitor: TileVisitor<'_, T>,
    ) -> Result<()> {
        let p = self.p;
        let (mut phi, mut visited_row_count): (Vec<T>, usize) =
            (Vec::with_capacity(SELECTED_TILE_ROWS.min(positions.len()) * p), 0);
        let mut select_rows = |tile: &Tile<'_, T>| {
            let end = tile.first_row + tile.row_count();
            while let Some(row) = positions.get(visited_row_count + phi.len() / p).filter(|row| **row < end) {
                phi.extend_from_slice(tile.row(row - tile.first_row));
                if phi.len() == SELECTED_TILE_ROWS * p {
                    visitor(&Tile { first_row: visited_row_count, phi: &phi, p })?;
                    visited_row_count += SELECTED_TILE_ROWS;
                    phi.clear();
                }
            }
            Ok(())
        };
        self.visit_unit(None, observer, &mut select_rows)?;
        if !phi.is_empty() {
            visitor(&Tile { first_row: visited_row_count, phi: &phi, p })?;
        }
        Ok(())
    }
}
