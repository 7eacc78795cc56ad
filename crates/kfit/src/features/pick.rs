//! Rows selected by position: the rows of some classes, or a random sample.

use super::tile::{Tile, Work};
use super::{Phi, StoredFeatures, fold::Values, stored::Quiet, tier::exchanged};
use crate::Result;
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;

const TILE: usize = 2048;

/// Bytes of buffers of a visit that extracts the selected rows each time.
pub(crate) fn class_rows_bytes(p: usize, element: usize) -> usize {
    TILE * p * element
}

impl<'a, T: Real> StoredFeatures<'a, T> {
    /// Returns the rows whose class code `accepts` selects, with their classes, targets, folds and
    /// weights.
    ///
    /// If the memory plan has room, one pass copies the rows; otherwise every visit extracts them
    /// again. Either way the tiles contain only these rows, independent of where the features are
    /// stored.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn only<'k>(&'k self, takes: impl Fn(u32) -> bool, observer: &dyn Observer) -> Result<StoredFeatures<'k, T>> {
        let at: Vec<usize> = (0..self.n).filter(|i| self.codes.get(*i).is_some_and(|code| takes(*code))).collect();
        let t = self.y.len() / self.n.max(1);
        let phi = match at.len() * self.p * size_of::<T>() <= self.context.spare {
            true => Phi::Picked(self.copied(&at, observer)?),
            false => Phi::Positions(self, at.clone()),
        };
        Ok(StoredFeatures {
            codes: at.iter().map(|i| self.codes[*i]).collect(),
            y: at.iter().flat_map(|i| &self.y[i * t..(i + 1) * t]).copied().collect(),
            folds: at.iter().filter_map(|i| self.folds.get(*i)).copied().collect(),
            weights: self.weights.at(&at),
            ..self.part(at.len(), phi)
        })
    }

    /// Draws `m` ≤ n rows into memory, one at random from each of m strata of n/m rows, and returns
    /// them with their positions, in one pass.
    ///
    /// Targets, classes, folds and weights are not copied; the positions give access to them.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn sample(&self, m: usize, observer: &dyn Observer) -> Result<(Self, Vec<usize>)> {
        let keys = Stream::new(self.context.seed, Purpose::Candidates, 1);
        let (n, m) = (self.n as u128, m.min(self.n));
        let stratum = |i: usize| (i as u128 * n / m as u128) as usize;
        let draw = |i: usize| {
            let (first, end) = (stratum(i), stratum(i + 1));
            first + keys.below(i as u64, (end - first) as u64) as usize
        };
        let at: Vec<usize> = (0..m).map(draw).collect();
        Ok((self.part(m, Phi::Picked(self.copied(&at, observer)?)), at))
    }

    /// Copies the features of the rows at these ascending positions, in one pass.
    pub(crate) fn copied(&self, at: &[usize], observer: &dyn Observer) -> Result<Vec<T>> {
        let mut phi = Vec::with_capacity(at.len() * self.p);
        self.pick(at, observer, |tile| {
            phi.extend_from_slice(tile.phi);
            Ok(())
        })?;
        Ok(phi)
    }

    /// Returns n selected rows, with segments numbered by position; without classes, targets, folds
    /// and weights.
    fn part<'k>(&self, n: usize, phi: Phi<'k, T>) -> StoredFeatures<'k, T>
    where
        'a: 'k,
    {
        let step = (self.context.cut.segment as usize).div_ceil(TILE).max(1) * TILE;
        StoredFeatures {
            starts: (0..n).step_by(TILE).chain([n]).collect(),
            segments: (0..n).step_by(step).enumerate().map(|(number, first)| (first, number as u64)).collect(),
            ..StoredFeatures::bare(self.context, phi, (n, self.p), 0..n as u64, false)
        }
    }

    /// Calls `visitor` with tiles of the rows at these ascending positions; `Tile::first` counts
    /// only these rows. Processes that share the run exchange features, so that each row is mapped
    /// once.
    pub(crate) fn pick(
        &self,
        at: &[usize],
        observer: &dyn Observer,
        mut work: impl FnMut(&Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<()> {
        if !self.is_shared() {
            return self.pick_here(at, observer, &mut work);
        }
        let rows = exchanged(self.p, size_of::<T>());
        for (part, at) in at.chunks(rows).enumerate() {
            let Values(phi) = self.fold("some rows", &Quiet(observer), &Values::<T>::default, |found, tile| {
                let from = |position: usize| at.partition_point(|row| *row < position);
                let picked = &at[from(tile.first)..from(tile.first + tile.rows())];
                picked.iter().for_each(|row| found.0.extend_from_slice(tile.row(row - tile.first)));
                Ok(())
            })?;
            work(&Tile { first: part * rows, phi: &phi, p: self.p })?;
        }
        observer.advance(self.n as u64);
        Ok(())
    }

    /// Visits selected rows without an exchange between processes: computes features that only
    /// another process has.
    pub(super) fn pick_here(&self, at: &[usize], observer: &dyn Observer, work: Work<'_, T>) -> Result<()> {
        let p = self.p;
        let (mut phi, mut done): (Vec<T>, usize) = (Vec::with_capacity(TILE.min(at.len()) * p), 0);
        let mut pick = |tile: &Tile<'_, T>| {
            let end = tile.first + tile.rows();
            while let Some(row) = at.get(done + phi.len() / p).filter(|row| **row < end) {
                phi.extend_from_slice(tile.row(row - tile.first));
                if phi.len() == TILE * p {
                    work(&Tile { first: done, phi: &phi, p })?;
                    done += TILE;
                    phi.clear();
                }
            }
            Ok(())
        };
        self.visit_lot(None, observer, &mut pick)?;
        if !phi.is_empty() {
            work(&Tile { first: done, phi: &phi, p })?;
        }
        Ok(())
    }
}
