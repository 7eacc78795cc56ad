//! A random sample of the kept rows.

use super::only::segments;
use super::pick::TILE;
use super::{Kept, Phi};
use crate::Result;
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;

impl<'a, T: Real> Kept<'a, T> {
    /// Draws `m` ≤ n rows into memory, one at random of every n/m, and returns them with their positions: one pass.
    ///
    /// Targets, classes and folds are not copied: they are found by the positions.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn sample(&self, m: usize, observer: &dyn Observer) -> Result<(Self, Vec<usize>)> {
        let keys = Stream::new(self.ways.seed, Purpose::Candidates, 1);
        let (n, m) = (self.n as u128, m.min(self.n));
        let stratum = |i: usize| (i as u128 * n / m as u128) as usize;
        let draw = |i: usize| {
            let (first, end) = (stratum(i), stratum(i + 1));
            first + keys.below(i as u64, (end - first) as u64) as usize
        };
        let at: Vec<usize> = (0..m).map(draw).collect();
        let mut phi = Vec::with_capacity(m * self.p);
        self.pick(&at, observer, |tile| {
            phi.extend_from_slice(tile.phi);
            Ok(())
        })?;
        let starts = (0..m).step_by(TILE).chain([m]).collect();
        let (codes, y, folds) = (Vec::new(), Vec::new(), Vec::new());
        let (ways, segments) = (self.ways, segments(m, self.ways.cut.segment));
        let range = 0..m as u64;
        Ok((
            Self { ways, phi: Phi::Picked(phi), n: m, p: self.p, codes, y, folds, starts, segments, range, own: false },
            at,
        ))
    }
}
