//! Rows selected from the features: the rows of some classes, a random sample, or the rows at given
//! positions.

use super::tile::{Tile, TileVisitor};
use super::{Phi, StoredFeatures, reduction::RowValues, stored::StopOnly, tier::exchange_rows};
use crate::Result;
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;

const TILE_ROWS: usize = 2048;

/// Returns the bytes of the buffers of a visit to selected rows that are not copied.
pub(crate) fn selection_bytes(p: usize, element: usize) -> usize {
    TILE_ROWS * p * element
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
    pub(crate) fn only_classes<'k>(
        &'k self,
        accepts: impl Fn(u32) -> bool,
        observer: &dyn Observer,
    ) -> Result<StoredFeatures<'k, T>> {
        let positions: Vec<usize> =
            (0..self.n).filter(|i| self.codes.get(*i).is_some_and(|code| accepts(*code))).collect();
        let t = self.y.len() / self.n.max(1);
        let phi = match positions.len() * self.p * size_of::<T>() <= self.context.spare_bytes {
            true => Phi::Copied(self.copy_rows(&positions, observer)?),
            false => Phi::Positions(self, positions.clone()),
        };
        Ok(StoredFeatures {
            codes: positions.iter().map(|i| self.codes[*i]).collect(),
            y: positions.iter().flat_map(|i| &self.y[i * t..(i + 1) * t]).copied().collect(),
            folds: positions.iter().filter_map(|i| self.folds.get(*i)).copied().collect(),
            weights: self.weights.select(&positions),
            ..self.selection(positions.len(), phi)
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
        let keys = Stream::new(self.context.seed, Purpose::Candidates, 1);
        let (n, m) = (self.n as u128, m.min(self.n));
        let stratum = |i: usize| (i as u128 * n / m as u128) as usize;
        let draw = |i: usize| {
            let (first, end) = (stratum(i), stratum(i + 1));
            first + keys.below(i as u64, (end - first) as u64) as usize
        };
        let positions: Vec<usize> = (0..m).map(draw).collect();
        Ok((self.selection(m, Phi::Copied(self.copy_rows(&positions, observer)?)), positions))
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
    fn selection<'k>(&self, n: usize, phi: Phi<'k, T>) -> StoredFeatures<'k, T>
    where
        'a: 'k,
    {
        let step = (self.context.pass_shape.segment as usize).div_ceil(TILE_ROWS).max(1) * TILE_ROWS;
        StoredFeatures {
            starts: (0..n).step_by(TILE_ROWS).chain([n]).collect(),
            segments: (0..n).step_by(step).enumerate().map(|(number, first)| (first, number as u64)).collect(),
            ..StoredFeatures::without_targets(self.context, phi, (n, self.p), 0..n as u64, false)
        }
    }

    /// Calls `visitor` with tiles of the rows at these ascending positions. `Tile::first` counts
    /// only these rows. If processes share the run, they exchange features, so that only one
    /// process computes the features of each row.
    pub(crate) fn visit_selected(
        &self,
        positions: &[usize],
        observer: &dyn Observer,
        mut visitor: impl FnMut(&Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<()> {
        if !self.is_shared() {
            return self.visit_selected_locally(positions, observer, &mut visitor);
        }
        let chunk_rows = exchange_rows(self.p, size_of::<T>());
        for (part, chunk) in positions.chunks(chunk_rows).enumerate() {
            let RowValues(phi) =
                self.reduce("some rows", &StopOnly(observer), &RowValues::<T>::default, |values, tile| {
                    let from = |position: usize| chunk.partition_point(|row| *row < position);
                    let picked = &chunk[from(tile.first)..from(tile.first + tile.rows())];
                    picked.iter().for_each(|row| values.0.extend_from_slice(tile.row(row - tile.first)));
                    Ok(())
                })?;
            visitor(&Tile { first: part * chunk_rows, phi: &phi, p: self.p })?;
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
        let (mut phi, mut visited): (Vec<T>, usize) = (Vec::with_capacity(TILE_ROWS.min(positions.len()) * p), 0);
        let mut pick = |tile: &Tile<'_, T>| {
            let end = tile.first + tile.rows();
            while let Some(row) = positions.get(visited + phi.len() / p).filter(|row| **row < end) {
                phi.extend_from_slice(tile.row(row - tile.first));
                if phi.len() == TILE_ROWS * p {
                    visitor(&Tile { first: visited, phi: &phi, p })?;
                    visited += TILE_ROWS;
                    phi.clear();
                }
            }
            Ok(())
        };
        self.visit_unit(None, observer, &mut pick)?;
        if !phi.is_empty() {
            visitor(&Tile { first: visited, phi: &phi, p })?;
        }
        Ok(())
    }
}
