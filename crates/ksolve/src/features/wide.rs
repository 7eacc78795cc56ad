//! The features in f64, whatever their own type, from which certificates are computed.
//!
//! Solvers iterate in the type of the features, which is fast, and whose sums carry its rounding. What they report of their result,
//! they compute by one more pass over these: the same numbers, widened, whose products and sums are those of f64.

use super::tile::{Tile, WIDENED, Widen, Work};
use super::{Phi, StoredFeatures};
use crate::{Result, row_weights::RowWeights, strips::for_each_strip};
use kapprox::Real;
use kstore::pass::Observer;
use std::ops::Range;

/// Rows that one thread converts.
const STRIP: usize = 128;

impl<N: Real> Widen<f64> for StoredFeatures<'_, N> {
    fn widen(&self, lot: Option<&Range<u64>>, observer: &dyn Observer, work: Work<'_, f64>) -> Result<()> {
        let (p, workers) = (self.p, self.workers());
        let mut wide = Vec::new();
        self.visit_lot(lot, observer, &mut |tile| {
            for (part, phi) in tile.phi.chunks(WIDENED * p).enumerate() {
                wide.resize(phi.len(), 0.0);
                for_each_strip(workers, &mut wide, STRIP * p, |strip, wide| {
                    let phi = &phi[strip * STRIP * p..][..wide.len()];
                    wide.iter_mut().zip(phi).for_each(|(wide, value)| *wide = value.to_f64());
                });
                work(&Tile { first: tile.first + part * WIDENED, phi: &wide, p })?;
            }
            Ok(())
        })
    }
}

impl<T: Real> StoredFeatures<'_, T> {
    /// The features in f64. Targets, classes, folds and weights are not copied.
    pub fn wide(&self) -> StoredFeatures<'_, f64> {
        let (codes, y, folds, starts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (segments, range) = (self.segments.clone(), self.range.clone());
        StoredFeatures {
            context: self.context,
            phi: Phi::Wide(self),
            n: self.n,
            p: self.p,
            codes,
            y,
            groups: Vec::new(),
            folds,
            weights: RowWeights::default(),
            starts,
            segments,
            range,
            own: self.own,
        }
    }
}
