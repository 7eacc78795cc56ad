//! Some of the rows, picked out by their positions.

use super::stored::Quiet;
use super::{Kept, Tile, Values, Work, values_bytes};
use crate::Result;
use kapprox::Real;
use kstore::pass::Observer;

/// Rows of a tile.
pub(super) const TILE: usize = 2048;

/// Bytes of features that processes which share a run exchange at once.
const EXCHANGED: usize = 16 << 20;

/// Rows whose features are exchanged at once.
fn exchanged(p: usize, element: usize) -> usize {
    (EXCHANGED / (p * element).max(1)).max(256)
}

/// Bytes of the exchange.
pub(super) fn exchange_bytes(p: usize, element: usize) -> usize {
    values_bytes(exchanged(p, element) * p, element)
}

impl<T: Real> Kept<'_, T> {
    /// Calls `work` with tiles of the rows at these positions alone, which ascend; the position of a tile is that among these. Processes that
    /// share the run exchange the features of the rows: none computes those that another has.
    ///
    /// # Errors
    /// As [`Kept::visit`].
    pub(in crate::solver) fn pick(
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

    /// [`Kept::pick`] without an exchange: features that another process has are computed.
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
