//! Distances as sums of terms of opposite signs, which cancel where points are close.
//!
//! ```text
//! ‖x − z‖²  =  ‖x‖² + ‖z‖² − 2 Σ x z                 ‖x − z‖₁  =  2 Σ max(x, z) − Σ x − Σ z
//! ```
//!
//! The sum over pairs of features is the cheap one of the [panels](super::panel); what belongs to a point alone is its
//! *offset*. The error is a few roundings of the points' *sizes*, however small the distance. So points are centred first, and
//! pairs whose distance is not well above that error are computed again from differences.

use super::panel::{Finish, Own, Owns};
use super::points::{fold_panels, fold_row};
use super::{entries::FromEntries, terms::Term};
use crate::{Real, vectorised};
use std::fmt::Debug;

/// A distance in two forms: as a sum of parts of each point, and by differences.
pub(super) trait Split: Debug + Send + Sync + 'static {
    /// The term of the sum over pairs of few features, whose sum is the distance itself.
    type Few: Term;
    /// The term of the sum over pairs of many features.
    type Many: Term;
    /// How common entries of sparse points tell the distance, in units of this length.
    fn by_entries(length: f64) -> FromEntries;
    /// The unit of the distance by parts, in lengths.
    const UNIT: f64;
    /// The factor of a row of x in the sums over pairs.
    const ROW: f64;
    /// The factor of the sum that is a point's offset.
    const OFFSET: f64;
    /// The factor of the sum that is a point's size; `None` where the size is the offset.
    const SIZE: Option<f64>;
    /// A sum with what a feature adds to the offset. Must be marked `#[inline(always)]`, as all functions of features.
    fn offset(sum: f64, value: f64) -> f64;
    /// A sum with what a feature adds to the size.
    fn size(sum: f64, value: f64) -> f64 {
        Self::offset(sum, value)
    }
    /// Offsets and sizes of packed rows of z, of `d` features.
    fn rows<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>);
    /// The distance by differences: no cancellation, and 0 exactly for equal points.
    fn again<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T;
    /// A sum of slopes of the term of few features times their factor, in units of one over `scale`.
    fn in_units<T: Real>(scale: T, sum: T) -> T;
}

/// k(x, z) = `profile(offset(x) + offset(z) + sum)`.
pub(crate) struct Cancelling<T, S, F> {
    scale: Vec<T>,
    /// Share of the points' sizes below which a distance is computed from differences.
    near: T,
    profile: F,
    split: std::marker::PhantomData<S>,
}

impl<T: Real, S: Split, F: Fn(T) -> T + Copy> Cancelling<T, S, F> {
    pub(crate) fn new(scale: &[T], near: T, profile: F) -> Self {
        Self { scale: scale.to_vec(), near, profile, split: std::marker::PhantomData }
    }
}

impl<T: Real, S: Split, F: Fn(T) -> T + Copy> Finish<T> for Cancelling<T, S, F> {
    const OWN: usize = 2;

    fn panels(&self, panels: &mut [T], height: usize, d: usize, owns: &mut Owns<T>) {
        fold_panels(panels, height, d, (S::offset, S::OFFSET), &mut owns.offsets);
        match S::SIZE {
            Some(factor) => fold_panels(panels, height, d, (S::size, factor), &mut owns.sizes),
            None => owns.sizes.clone_from(&owns.offsets),
        }
        multiply(panels, S::ROW);
        owns.largest = largest(&owns.sizes);
    }

    fn own(&self, x: &mut [T]) -> Own<T> {
        let offset = fold_row(x, (S::offset, S::OFFSET));
        let size = S::SIZE.map_or(offset, |factor| fold_row(x, (S::size, factor)));
        multiply(x, S::ROW);
        Own { offset, size }
    }

    fn rows(&self, rows: &[T], d: usize, owns: &mut Owns<T>) {
        S::rows(rows, d, &mut owns.offsets, &mut owns.sizes);
        owns.largest = largest(&owns.sizes);
    }

    /// A bound for the largest size of the others costs one operation for each pair, where each pair's own would cost
    /// three. Where sizes overflowed, so does the bound, and the values are suspect.
    #[inline(always)]
    fn values(&self, one: Own<T>, others: &[T], largest: T, sums: &[T], values: &mut [T]) -> bool {
        let (bound, mut far) = (self.near * (largest + one.size), true);
        for ((value, &sum), &other) in values.iter_mut().zip(sums).zip(others) {
            let distance = other + one.offset + sum;
            far &= distance > bound;
            *value = (self.profile)(distance);
        }
        !far
    }

    fn again(&self, one: Own<T>, other: Own<T>, sum: T, x: &[T], z: &[T]) -> Option<T> {
        let far = other.offset + one.offset + sum > self.near * (other.size + one.size);
        // not so where sizes overflowed
        (!far).then(|| vectorised!((self.profile)(S::again(x, z, &self.scale))))
    }
}

fn multiply<T: Real>(x: &mut [T], factor: f64) {
    let factor = T::from_f64(factor);
    x.iter_mut().for_each(|value| *value *= factor);
}

fn largest<T: Real>(sizes: &[T]) -> T {
    sizes.iter().fold(T::ZERO, |largest, &size| size.larger(largest))
}
