//! Uniform landmarks: m rows, every row equally likely, without replacement.
//!
//! Reference: Williams, Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2000.

use super::{LandmarkRule, LandmarkSet, Scheme, SelectionCost, TableScan, uniform_sample};
use crate::{Real, Result, kernel::AnyKernel};
use kpass::key::Purpose;
use std::sync::Arc;

/// Uniform sampling without replacement, in random order, so that every prefix is a uniform sample
/// too.
///
/// Makes one pass, evaluates no kernel, and stores m·d numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uniform;

pub(super) const SCHEME: Scheme = Scheme {
    is_nested: true,
    cost: SelectionCost::Draw,
    ..Scheme::new("uniform", "rows drawn uniformly at random, without replacement", &Uniform)
};

impl<T: Real> LandmarkRule<T> for Uniform {
    fn select(&self, scan: &TableScan<'_, T>, _: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>> {
        Ok(LandmarkSet { passes: 1, ..uniform_sample(scan, m, Purpose::Landmarks, seed)?.into() })
    }
}
