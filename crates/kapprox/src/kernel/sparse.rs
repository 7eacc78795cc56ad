//! Kernels of sparse points, in the layout of [`kstore::sparse`]: profiles of an inner product, a distance, or a sum over features to which
//! zeros add nothing.
//!
//! ```text
//! ‖x − z‖²  =  ‖x‖² + ‖z‖² − Σ 2 x z                 ‖x − z‖₁  =  ‖x‖₁ + ‖z‖₁ − Σ (|x| + |z| − |x − z|)
//! ```
//!
//! The sums need the entries that both points have alone. The points of one side, the fewer ones, are an inverted index: for each feature
//! the points that have it. A point of the other side adds to the sums of these, feature after feature, in f64, so that a value depends on
//! its pair alone, and nothing is spent on zeros. Where a distance is small beside the norms, which cancel, or a sum overflows, the pair is
//! computed again from its entries side by side.

use super::fixed::KernelColumns;
use super::points::row;
use super::profiled::{Argument, Profile, Profiled};
use super::{AnyKernel, Kernel, check_shapes};
use crate::{Real, vectorised};
use faer::{MatMut, MatRef};
use kstore::sparse::entries;
use std::fmt;
use std::sync::Arc;

/// The number of two points that a profile is taken of, where sums over common entries tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FromEntries {
    /// x·z.
    Product,
    /// (‖x − z‖ / length)².
    SquaredDistance { length: f64 },
    /// ‖x − z‖₁ / length.
    Distance { length: f64 },
    /// Σ (x − z)² / (x + z), of numbers from 0 on.
    ChiSquare,
    /// Σ min(x, z), of numbers from 0 on.
    Minimum,
    /// Σ 2 x z / (x + z), of numbers from 0 on.
    HarmonicMean,
}

/// The share of the norms below which a distance is computed again: 2^-10 leaves 43 bits of it, and is rare.
const NEAR: f64 = 1.0 / 1024.0;

impl FromEntries {
    /// What a common entry adds to the sum: of a distance, what it takes from the norms.
    #[inline(always)]
    fn common(self, x: f64, z: f64) -> f64 {
        match self {
            Self::Product => x * z,
            Self::SquaredDistance { .. } => 2.0 * x * z,
            Self::Distance { .. } => x.abs() + z.abs() - (x - z).abs(),
            Self::ChiSquare => 4.0 * x * (z / (x + z)),
            Self::Minimum => x.min(z),
            Self::HarmonicMean => 2.0 * x * (z / (x + z)),
        }
    }

    /// The part of a distance that a point brings alone, ‖x‖² or ‖x‖₁; of a sum that with itself.
    fn norm<T: Real>(self, values: &[T]) -> f64 {
        let values = values.iter().map(|value| value.to_f64());
        match self {
            Self::Product | Self::SquaredDistance { .. } => values.map(|value| value * value).sum(),
            _ => values.map(f64::abs).sum(),
        }
    }

    /// Makes arguments of the sums of a point, which has this norm, with others. `again` has the entries of a pair side by side.
    fn arguments(
        self,
        sums: &mut [f64],
        norm: f64,
        others: &[f64],
        mut again: impl FnMut(usize) -> (Vec<f64>, Vec<f64>),
    ) {
        for (j, (sum, other)) in sums.iter_mut().zip(others).enumerate() {
            let sizes = norm + other;
            let distance = sizes - *sum;
            let far = distance > NEAR * sizes && distance.is_finite();
            *sum = match self {
                Self::Product if sum.is_finite() => *sum,
                Self::Product => scaled_product(again(j)),
                Self::SquaredDistance { length } => {
                    let (distance, unit) = (if far { distance } else { squares(again(j)) }, length.recip());
                    (distance * unit * unit).min(f64::MAX)
                }
                Self::Distance { length } => {
                    let distance = if far { distance } else { magnitudes(again(j)) };
                    (distance * length.recip()).min(f64::MAX)
                }
                Self::ChiSquare => if far { distance } else { chi_squares(again(j)) }.min(f64::MAX),
                Self::Minimum | Self::HarmonicMean => sum.min(f64::MAX),
            };
        }
    }

    /// The argument of a point with itself.
    fn own<T: Real>(self, values: &[T]) -> f64 {
        match self {
            Self::Product | Self::Minimum | Self::HarmonicMean => self.norm(values),
            Self::SquaredDistance { .. } | Self::Distance { .. } | Self::ChiSquare => 0.0,
        }
    }
}

/// Σ |x − z|.
fn magnitudes((x, z): (Vec<f64>, Vec<f64>)) -> f64 {
    x.iter().zip(&z).map(|(x, z)| (x - z).abs()).sum()
}

/// Σ (x − z)² / (x + z), where a feature of neither is none.
fn chi_squares((x, z): (Vec<f64>, Vec<f64>)) -> f64 {
    x.iter().zip(&z).map(|(x, z)| (x - z) * ((x - z) / (x + z))).sum()
}

/// Σ (x − z)².
fn squares((x, z): (Vec<f64>, Vec<f64>)) -> f64 {
    x.iter().zip(&z).map(|(x, z)| (x - z) * (x - z)).sum()
}

/// x·z from points scaled to at most 1: only the last product can overflow.
fn scaled_product((x, z): (Vec<f64>, Vec<f64>)) -> f64 {
    let largest = |v: &[f64]| v.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
    let (of_x, of_z) = (largest(&x), largest(&z));
    let sum: f64 = x.iter().zip(&z).map(|(x, z)| x / of_x * (z / of_z)).sum();
    // in an order that does not depend on which is which
    (sum * of_x.max(of_z) * of_x.min(of_z)).clamp(-f64::MAX, f64::MAX)
}

/// The values of two points for each feature that one of them has.
pub(super) fn side_by_side<T: Real>(x: &[T], z: &[T]) -> (Vec<f64>, Vec<f64>) {
    let ((x_places, x_values), (z_places, z_values)) = (entries(x), entries(z));
    let (mut i, mut j, mut both) = (0, 0, (Vec::new(), Vec::new()));
    while i < x_places.len() || j < z_places.len() {
        let (of_x, of_z) = (x_places.get(i), z_places.get(j));
        let has_x = of_x.is_some_and(|place| of_z.is_none_or(|other| place <= other));
        let has_z = of_z.is_some_and(|place| of_x.is_none_or(|other| place <= other));
        both.0.push(if has_x { x_values[i].to_f64() } else { 0.0 });
        both.1.push(if has_z { z_values[j].to_f64() } else { 0.0 });
        (i, j) = (i + usize::from(has_x), j + usize::from(has_z));
    }
    both
}

/// Points by their features.
struct Index {
    /// For each slot of a hash table the place of its feature and the number of the feature; [`EMPTY`] where there is none.
    slots: Vec<(u32, u32)>,
    /// For each feature its first entry, and behind the last feature the number of all.
    starts: Vec<u32>,
    /// Points that have a feature, and their values of it.
    entries: Vec<(u32, f64)>,
    argument: FromEntries,
    norms: Vec<f64>,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    fn new<T: Real>(points: MatRef<'_, T>, argument: FromEntries) -> Self {
        let (mut all, mut spare) = (Vec::new(), Vec::new());
        let mut norms = Vec::with_capacity(points.nrows());
        for j in 0..points.nrows() {
            let (places, values) = entries(row(points, j, &mut spare));
            all.extend(
                places.iter().zip(values).map(|(place, value)| (place.to_f64() as u32, j as u32, value.to_f64())),
            );
            norms.push(argument.norm(values));
        }
        all.sort_unstable_by_key(|(place, j, _)| u64::from(*place) << 32 | u64::from(*j));
        let mut index = Self { slots: Vec::new(), starts: Vec::new(), entries: Vec::new(), argument, norms };
        let features = || all.chunk_by(|a, b| a.0 == b.0);
        index.slots = vec![(0, EMPTY); (2 * features().count()).next_power_of_two().max(2)];
        for (number, feature) in (0..).zip(features()) {
            let mut slot = index.slot(feature[0].0);
            while index.slots[slot].1 != EMPTY {
                slot = (slot + 1) % index.slots.len();
            }
            index.slots[slot] = (feature[0].0, number);
            index.starts.push(index.entries.len() as u32);
            index.entries.extend(feature.iter().map(|(_, j, value)| (*j, *value)));
        }
        index.starts.push(index.entries.len() as u32);
        index
    }

    /// The first slot to look for a feature: by multiplication with 2^64 over the golden ratio (Knuth, section 6.4).
    fn slot(&self, place: u32) -> usize {
        (u64::from(place).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.slots.len() - 1)
    }

    /// The points that have a feature, and their values of it.
    fn feature(&self, place: u32) -> &[(u32, f64)] {
        let mut slot = self.slot(place);
        loop {
            match self.slots[slot] {
                (_, EMPTY) => return &[],
                (found, number) if found == place => {
                    let number = number as usize;
                    return &self.entries[self.starts[number] as usize..self.starts[number + 1] as usize];
                }
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    /// Writes the sums of a point with all points; returns its norm.
    fn sums<T: Real>(&self, point: &[T], sums: &mut [f64]) -> f64 {
        let (places, values) = entries(point);
        sums.fill(0.0);
        for (place, value) in places.iter().zip(values) {
            let value = value.to_f64();
            let points = self.feature(place.to_f64() as u32);
            // the kind of term is asked for once for all of them
            match self.argument {
                FromEntries::Product | FromEntries::SquaredDistance { .. } => {
                    let value = self.argument.common(value, 1.0);
                    points.iter().for_each(|(j, other)| sums[*j as usize] += value * other);
                }
                argument => points.iter().for_each(|(j, other)| sums[*j as usize] += argument.common(value, *other)),
            }
        }
        self.argument.norm(values)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.entries) + 4 * self.starts.len() + 8 * self.norms.len()
    }
}

/// A kernel on sparse points.
pub(super) struct Sparse<A, P> {
    kernel: Arc<Profiled<A, P>>,
    argument: FromEntries,
}

/// The kernel on sparse points; `None` where products do not tell its argument.
pub(super) fn on_sparse<A: Argument, P: Profile>(kernel: Arc<Profiled<A, P>>) -> Option<Arc<dyn AnyKernel>> {
    Some(Arc::new(Sparse { argument: kernel.argument.by_entries()?, kernel }))
}

impl<A, P> Clone for Sparse<A, P> {
    fn clone(&self) -> Self {
        Self { kernel: self.kernel.clone(), argument: self.argument }
    }
}

impl<A, P> fmt::Debug for Sparse<A, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sparse").field("kernel", &self.kernel.text).field("argument", &self.argument).finish()
    }
}

impl<A: Argument, P: Profile> Sparse<A, P> {
    /// Makes `sums` the values of the kernel of a point with the points of an index.
    fn values<T: Real>(&self, point: &[T], (index, points): (&Index, MatRef<'_, T>), sums: &mut [f64]) {
        let norm = index.sums(point, sums);
        let mut spare = Vec::new();
        let again = |j: usize| side_by_side(point, row(points, j, &mut spare));
        self.argument.arguments(sums, norm, &index.norms, again);
        let profile = self.kernel.profile.function::<f64>();
        vectorised!(sums.iter_mut().for_each(|sum| *sum = profile(*sum)));
    }
}

impl<T: Real, A: Argument, P: Profile> Kernel<T> for Sparse<A, P> {
    fn spec(&self) -> String {
        self.kernel.text.clone()
    }

    fn positive_definite(&self) -> bool {
        P::POSITIVE_DEFINITE
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        let few_z = z.nrows() <= x.nrows();
        let (few, many) = if few_z { (z, x) } else { (x, z) };
        let (index, mut sums, mut spare) = (Index::new(few, self.argument), vec![0.0; few.nrows()], Vec::new());
        for i in 0..many.nrows() {
            self.values(row(many, i, &mut spare), (&index, few), &mut sums);
            for (j, value) in sums.iter().enumerate() {
                let at = if few_z { (i, j) } else { (j, i) };
                out[at] = T::from_f64(*value).saturate();
            }
        }
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        Some(Box::new(SparseColumns { kernel: self.clone(), index: Index::new(z, self.argument) }))
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let (profile, mut spare) = (self.kernel.profile.function::<f64>(), Vec::new());
        for (i, out) in out.iter_mut().enumerate() {
            *out = profile(self.argument.own(entries(row(x, i, &mut spare)).1)).saturate();
        }
    }
}

struct SparseColumns<A, P> {
    kernel: Sparse<A, P>,
    index: Index,
}

impl<A, P> fmt::Debug for SparseColumns<A, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SparseColumns").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl<T: Real, A: Argument, P: Profile> KernelColumns<T> for SparseColumns<A, P> {
    fn scratch(&self) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        self.index.bytes()
    }

    fn rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], _scratch: &mut [T]) {
        let (mut sums, mut spare) = (vec![0.0; z.nrows()], Vec::new());
        for (i, out) in out.chunks_exact_mut(z.nrows().max(1)).enumerate() {
            self.kernel.values(row(x, i, &mut spare), (&self.index, z), &mut sums);
            out.iter_mut().zip(&sums).for_each(|(out, value)| *out = T::from_f64(*value).saturate());
        }
    }
}
