//! Distances as sums of terms of opposite signs, which cancel if the points are close.
//!
//! ```text
//! ‖x − z‖²  =  ‖x‖² + ‖z‖² − 2 Σ x z                 ‖x − z‖₁  =  2 Σ max(x, z) − Σ x − Σ z
//! ```
//!
//! The [panels](super::panel) compute the sum over pairs of features cheaply; the contribution of a
//! single point is its *offset*. The error is a few roundings of the points' *sizes*, however small
//! the distance. So points are centred first, and a pair whose distance is not well above that
//! error is recomputed from differences.

use super::panel::{Finish, Own, Owns};
use super::points::{fold_panels, fold_row};
use super::{entries::FromEntries, terms::Term};
use crate::{Real, vectorised};
use std::fmt::Debug;

/// A distance in two forms: as a sum with an offset for each point, and by differences.
pub(super) trait Split: Debug + Send + Sync + 'static {
    /// Term of the sum for points with few features; this sum is the distance itself.
    type Few: Term;
    /// Term of the sum over pairs for points with many features.
    type Many: Term;
    /// Returns the distance of sparse points as an argument, in units of `length`.
    fn by_entries(length: f64) -> FromEntries;
    /// Unit of the distance that is computed from offsets, as a multiple of the length scale.
    const UNIT: f64;
    /// Factor of a row of x in the sums over pairs.
    const ROW: f64;
    /// Factor that turns a sum of [`offset`](Self::offset) into a point's offset.
    const OFFSET: f64;
    /// Factor that turns a sum of [`size`](Self::size) into a point's size; `None` if the size
    /// equals the offset.
    const SIZE: Option<f64>;
    /// Returns the sum plus a feature's contribution to the offset. Must be marked
    /// `#[inline(always)]`, like every function here that takes the values of features.
    fn offset(sum: f64, value: f64) -> f64;
    /// Returns the sum plus a feature's contribution to the size.
    fn size(sum: f64, value: f64) -> f64 {
        Self::offset(sum, value)
    }
    /// Computes the offsets and sizes of packed rows of z with `d` features.
    fn rows<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>);
    /// Returns the distance by differences: without cancellation, and exactly 0 for equal points.
    fn again<T: Real>(x: &[T], z: &[T], scale: &[T]) -> T;
    /// Returns a sum of slopes of [`Few`](Self::Few) times their factor; `scale` is one over the
    /// length scale.
    fn in_units<T: Real>(scale: T, sum: T) -> T;
}

/// k(x, z) = `profile(offset(x) + offset(z) + sum)`.
pub(crate) struct Cancelling<T, S, F> {
    scale: Vec<T>,
    /// Fraction of the points' sizes below which a distance is computed from differences.
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

    /// Compares with the largest size among the others, at one operation per pair; the size of each
    /// pair would cost three. If sizes overflow, so does the bound, and the values are suspect.
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
        // `far` is false if sizes overflowed
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
