//! The kept rows of some classes, for problems that need only these.

use super::{Kept, Phi, Tile, Work};
use crate::Result;
use kapprox::Real;
use kstore::pass::Observer;

/// Rows of a tile.
const TILE: usize = 2048;

/// Some of the rows of other kept features.
pub(super) struct Only<'a, T: Real> {
    of: &'a Kept<'a, T>,
    /// Positions of the rows among all kept rows, ascending.
    at: Vec<usize>,
}

impl<T: Real> Kept<'_, T> {
    /// The rows that `takes` chooses by their class, with their classes, targets and folds.
    ///
    /// They are copied, in one pass, where the plan leaves room; otherwise every visit picks them out again. Both give
    /// tiles of these rows alone, the same ones wherever the features are.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn only<'k>(&'k self, takes: impl Fn(u32) -> bool, observer: &dyn Observer) -> Result<Kept<'k, T>> {
        let at: Vec<usize> = (0..self.n).filter(|i| self.codes.get(*i).is_some_and(|code| takes(*code))).collect();
        let (n, t) = (at.len(), self.y.len() / self.n.max(1));
        let mut some = Kept {
            ways: self.ways,
            n,
            p: self.p,
            codes: at.iter().map(|i| self.codes[*i]).collect(),
            y: at.iter().flat_map(|i| &self.y[i * t..(i + 1) * t]).copied().collect(),
            folds: at.iter().filter_map(|i| self.folds.get(*i)).copied().collect(),
            starts: (0..n).step_by(TILE).chain([n]).collect(),
            segments: segments(n, self.ways.cut.segment),
            range: 0..n as u64,
            own: false,
            phi: Phi::Only(Only { of: self, at }),
        };
        if n * self.p * size_of::<T>() <= self.ways.spare {
            let mut copied = Vec::with_capacity(n * self.p);
            some.visit(observer, |tile| {
                copied.extend_from_slice(tile.phi);
                Ok(())
            })?;
            some.phi = Phi::Memory(copied);
        }
        Ok(some)
    }
}

impl<T: Real> Only<'_, T> {
    /// Calls `work` with tiles of these rows alone.
    pub(super) fn visit(&self, observer: &dyn Observer, work: Work<'_, T>) -> Result<()> {
        let (p, at) = (self.of.p, &self.at);
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
        self.of.visit_lot(None, observer, &mut pick)?;
        if !phi.is_empty() {
            work(&Tile { first: done, phi: &phi, p })?;
        }
        Ok(())
    }
}

/// Segments of rows that were picked out, which are numbered by their positions.
pub(super) fn segments(n: usize, segment: u64) -> Vec<(usize, u64)> {
    let step = (segment as usize).div_ceil(TILE).max(1) * TILE;
    (0..n).step_by(step).enumerate().map(|(number, first)| (first, number as u64)).collect()
}

/// Bytes of buffers of a visit.
pub(crate) fn bytes(p: usize, element: usize) -> usize {
    TILE * p * element
}
