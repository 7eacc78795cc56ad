//! Distances as sums of terms of opposite signs, which cancel where points are close.
//!
//! ```text
//! ‖x − z‖²  =  ‖x‖² + ‖z‖² − 2 Σ x z                 ‖x − z‖₁  =  2 Σ max(x, z) − Σ x − Σ z
//! ```
//!
//! The sum over pairs of features is the cheap one of the [panels](super::panel); what belongs to a point alone is its
//! *offset*. The error is a few roundings of the points' *sizes*, however small the distance. So points are centred first, and
//! pairs whose distance is not well above that error are computed again from differences.

use super::panel::{Finish, Own, Packed};
use super::points::{fold_panels, fold_row, row};
use super::terms::Term;
use crate::{Real, vectorised};
use faer::MatRef;
use std::fmt::Debug;

/// A distance in two forms: as a sum of parts of each point, and by differences.
pub(super) trait Split: Debug + Send + Sync + 'static {
    /// The term of the sum over pairs of few features, whose sum is the distance itself.
    type Few: Term;
    /// The term of the sum over pairs of many features.
    type Many: Term;
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
    fn columns<T: Real>(z: &[T], d: usize, offsets: &mut Vec<T>, sizes: &mut Vec<T>);
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
    x_offsets: Vec<T>,
    x_sizes: Vec<T>,
    x_largest: T,
    z_offsets: Vec<T>,
    z_sizes: Vec<T>,
    z_largest: T,
    split: std::marker::PhantomData<S>,
}

impl<T: Real, S: Split, F: Fn(T) -> T + Copy> Cancelling<T, S, F> {
    pub(crate) fn new(scale: &[T], near: T, profile: F) -> Self {
        let (x_offsets, x_sizes, z_offsets, z_sizes) = (vec![], vec![], vec![], vec![]);
        let (x_largest, z_largest, split) = (T::ZERO, T::ZERO, std::marker::PhantomData);
        let scale = scale.to_vec();
        Self { scale, near, profile, x_offsets, x_sizes, x_largest, z_offsets, z_sizes, z_largest, split }
    }
}

impl<T: Real, S: Split, F: Fn(T) -> T + Copy> Finish<T> for Cancelling<T, S, F> {
    fn rows(&mut self, packed: &mut Packed<T>) {
        let (d, height) = (self.scale.len(), packed.height);
        fold_panels(&packed.x, height, d, (S::offset, S::OFFSET), &mut self.x_offsets);
        match S::SIZE {
            Some(factor) => fold_panels(&packed.x, height, d, (S::size, factor), &mut self.x_sizes),
            None => self.x_sizes.clone_from(&self.x_offsets),
        }
        multiply(&mut packed.x, S::ROW);
        self.x_largest = largest(&self.x_sizes);
    }

    fn columns(&mut self, packed: &Packed<T>) {
        S::columns(&packed.z, self.scale.len(), &mut self.z_offsets, &mut self.z_sizes);
        self.z_largest = largest(&self.z_sizes);
    }

    /// A bound for the largest size of the tile costs one operation for each pair, where each pair's own would cost
    /// three. Where sizes overflowed, so does the bound, and the column is suspect.
    #[inline(always)]
    fn column(&self, i: usize, j: usize, sums: &[T], values: &mut [T]) -> bool {
        let (z_offset, bound) = (self.z_offsets[j], self.near * (self.x_largest + self.z_sizes[j]));
        let (mut far, x_offsets) = (true, &self.x_offsets[i..][..sums.len()]);
        for ((value, &sum), &x_offset) in values.iter_mut().zip(sums).zip(x_offsets) {
            let distance = x_offset + z_offset + sum;
            far &= distance > bound;
            *value = (self.profile)(distance);
        }
        !far
    }

    fn repair(&self, i: usize, j: usize, sums: &[T], x: MatRef<'_, T>, z: &[T], values: &mut [T]) {
        let (z_offset, z_size, mut spare) = (self.z_offsets[j], self.z_sizes[j], Vec::new());
        for (r, (value, &sum)) in values.iter_mut().zip(sums).enumerate() {
            let distance = self.x_offsets[i + r] + z_offset + sum;
            let far = distance > self.near * (self.x_sizes[i + r] + z_size);
            // not so where sizes overflowed
            if !far {
                let x = row(x, r, &mut spare);
                *value = vectorised!((self.profile)(S::again(x, z, &self.scale)));
            }
        }
    }

    const OWN: usize = 2;

    fn own(&self, x: &mut [T]) -> Own<T> {
        let offset = fold_row(x, (S::offset, S::OFFSET));
        let size = S::SIZE.map_or(offset, |factor| fold_row(x, (S::size, factor)));
        multiply(x, S::ROW);
        Own { offset, size }
    }

    fn row(&self, own: Own<T>, x: &[T], z: MatRef<'_, T>, values: &mut [T]) {
        let (bound, mut far) = (self.near * (own.size + self.z_largest), true);
        vectorised!({
            for (value, &z_offset) in values.iter_mut().zip(&self.z_offsets) {
                *value = own.offset + z_offset + *value;
                far &= *value > bound;
            }
        });
        if !far {
            self.repair_row(own, x, z, values);
        }
        vectorised!({
            for value in values {
                *value = (self.profile)(*value);
            }
        });
    }
}

impl<T: Real, S: Split, F> Cancelling<T, S, F> {
    /// Computes anew those of a row's `distances` that are not well above their error.
    #[cold]
    fn repair_row(&self, own: Own<T>, x: &[T], z: MatRef<'_, T>, distances: &mut [T]) {
        let mut spare = Vec::new();
        for (j, (distance, &z_size)) in distances.iter_mut().zip(&self.z_sizes).enumerate() {
            let far = *distance > self.near * (own.size + z_size);
            if !far {
                let z = row(z, j, &mut spare);
                *distance = vectorised!(S::again(x, z, &self.scale));
            }
        }
    }
}

fn multiply<T: Real>(x: &mut [T], factor: f64) {
    let factor = T::from_f64(factor);
    x.iter_mut().for_each(|value| *value *= factor);
}

/// The largest of numbers ≥ 0.
fn largest<T: Real>(sizes: &[T]) -> T {
    sizes.iter().fold(T::ZERO, |largest, &size| size.larger(largest))
}
