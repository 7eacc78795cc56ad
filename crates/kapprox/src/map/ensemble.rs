//! Ensemble Nyström: the mean of several small approximations, K̂ = (1/e) Σ K̂_j.
//!
//! Reference: Kumar, Mohri, Talwalkar, "Sampling methods for the Nyström method", JMLR 13, 2012, with equal weights.

use super::{FeatureMap, Nystrom};
use crate::{Error, Real, Result};
use faer::prelude::*;
use faer::{MatMut, MatRef};
use kstore::{Footprint, Workers};

/// The features of e maps side by side, each divided by √e: phi(x)·phi(z) is the mean of their kernels.
///
/// K̂ ≼ K, as for each part: the certificate holds. Costs what its parts cost; p/e landmarks in each save the factor
/// e² of a triangular solve.
#[derive(Debug)]
pub struct Ensemble<T: Real> {
    parts: Vec<Nystrom<T>>,
}

impl<T: Real> Ensemble<T> {
    /// The mean of some maps of one kernel.
    ///
    /// # Errors
    /// [`Error::NoLandmarks`] without maps.
    ///
    /// # Panics
    /// If the maps take different numbers of features.
    pub fn new(parts: Vec<Nystrom<T>>) -> Result<Self> {
        let Some(first) = parts.first() else {
            return Err(Error::NoLandmarks { why: "an ensemble has one map at least".to_string() });
        };
        let d = first.dims().0;
        assert!(parts.iter().all(|part| part.dims().0 == d), "the maps of an ensemble take the same features");
        Ok(Self { parts })
    }
}

impl<T: Real> FeatureMap<T> for Ensemble<T> {
    fn dims(&self) -> (usize, usize) {
        let p = self.parts.iter().map(Nystrom::rank).sum();
        (self.parts.first().map_or(0, |part| part.dims().0), p)
    }

    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, workers: &Workers) {
        let share = <T as kstore::Real>::from_f64((self.parts.len() as f64).sqrt().recip());
        let mut first = 0;
        for part in &self.parts {
            let mut own = out.rb_mut().subcols_mut(first, part.rank());
            part.apply(x, own.rb_mut(), workers);
            for column in own.col_iter_mut() {
                column.iter_mut().for_each(|value| *value *= share);
            }
            first += part.rank();
        }
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.parts.first()?.kernel_diag(x, out)
    }

    fn footprint(&self) -> Footprint {
        self.parts.iter().fold(Footprint::default(), |sum, part| sum + part.footprint())
    }
}
