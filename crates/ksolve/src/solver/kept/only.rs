//! The kept rows of some classes, for problems that need only these.

use super::pick::TILE;
use super::{Kept, Phi, Work};
use crate::Result;
use kapprox::Real;
use kstore::pass::Observer;

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
        let copies = n * self.p * size_of::<T>() <= self.ways.spare;
        let phi = match copies {
            true => {
                let mut copied = Vec::with_capacity(n * self.p);
                self.pick(&at, observer, |tile| {
                    copied.extend_from_slice(tile.phi);
                    Ok(())
                })?;
                Phi::Picked(copied)
            }
            false => Phi::Only(Only { of: self, at: at.clone() }),
        };
        Ok(Kept {
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
            phi,
        })
    }
}

impl<T: Real> Only<'_, T> {
    /// Calls `work` with tiles of these rows alone.
    pub(super) fn visit(&self, observer: &dyn Observer, work: Work<'_, T>) -> Result<()> {
        self.of.pick_here(&self.at, observer, work)
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
