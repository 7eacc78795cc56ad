//! Kernels of sparse points, in the layout of [`kpass::sparse`]. Each kernel is a function (the
//! profile) of one number (the argument): an inner product, a distance, or a sum over the features
//! that are nonzero in both points.
//!
//! ```text
//! ‖x − z‖²  =  ‖x‖² + ‖z‖² − Σ 2 x z
//! ‖x − z‖₁  =  ‖x‖₁ + ‖z‖₁ − Σ (|x| + |z| − |x − z|)
//! ```
//!
//! The sums need only the features that are nonzero in both points. The smaller of the two sets of
//! points becomes an inverted index, which lists for each feature the points that have it. For each
//! point of the larger set, the sums with all points of the index are accumulated feature by
//! feature, in f64. The order of summation therefore depends only on the two points, so the value
//! is bit-identical in every block; zeros cost nothing. If a distance is small compared with the
//! norms, the terms of the formula cancel. Then, or if a sum overflows, the argument is recomputed
//! directly, in a merge of the two rows.

use super::Profile;
use super::fixed_kernel::PreparedPoints;
use super::points::row_slice;
use super::sparse_argument::{SparseArgument, align_entries};
use super::{KernelFunction, assert_shapes};
use crate::{Real, vectorised};
use faer::{MatMut, MatRef};
use kpass::sparse::entries;
use std::sync::Arc;

/// An inverted index from features to points.
struct InvertedIndex {
    /// Hash table from column to feature index, as pairs (column, index in `posting_starts`). The
    /// index of a free slot is [`EMPTY_SLOT`].
    slots: Vec<(u32, u32)>,
    /// Position in `postings` of the first entry of each feature, followed by the number of all
    /// entries.
    posting_starts: Vec<u32>,
    /// For each feature, the points that have it, each with the value of the feature.
    postings: Vec<(u32, f64)>,
    argument: SparseArgument,
    norms: Vec<f64>,
}

/// The index in a slot that holds no feature.
const EMPTY_SLOT: u32 = u32::MAX;

impl InvertedIndex {
    fn new<T: Real>(points: MatRef<'_, T>, argument: SparseArgument) -> Self {
        let (mut triples, mut row_buffer) = (Vec::new(), Vec::new());
        let mut norms = Vec::with_capacity(points.nrows());
        for j in 0..points.nrows() {
            let (columns, values) = entries(row_slice(points, j, &mut row_buffer));
            triples.extend(
                columns.iter().zip(values).map(|(column, value)| (column.to_f64() as u32, j as u32, value.to_f64())),
            );
            norms.push(argument.norm(values));
        }
        triples.sort_unstable_by_key(|(column, j, _)| u64::from(*column) << 32 | u64::from(*j));
        let mut index = Self { slots: Vec::new(), posting_starts: Vec::new(), postings: Vec::new(), argument, norms };
        let features = || triples.chunk_by(|a, b| a.0 == b.0);
        index.slots = vec![(0, EMPTY_SLOT); (2 * features().count()).next_power_of_two().max(2)];
        for (feature_index, feature) in (0..).zip(features()) {
            let mut slot = index.first_slot(feature[0].0);
            while index.slots[slot].1 != EMPTY_SLOT {
                slot = (slot + 1) % index.slots.len();
            }
            index.slots[slot] = (feature[0].0, feature_index);
            index.posting_starts.push(index.postings.len() as u32);
            index.postings.extend(feature.iter().map(|(_, j, value)| (*j, *value)));
        }
        index.posting_starts.push(index.postings.len() as u32);
        index
    }

    /// Returns the first slot to search for a feature: multiplicative hashing with 2^64 over the
    /// golden ratio (Knuth, section 6.4).
    fn first_slot(&self, column: u32) -> usize {
        (u64::from(column).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.slots.len() - 1)
    }

    fn find_postings(&self, column: u32) -> &[(u32, f64)] {
        let mut slot = self.first_slot(column);
        loop {
            match self.slots[slot] {
                (_, EMPTY_SLOT) => return &[],
                (slot_column, feature_index) if slot_column == column => {
                    let number = feature_index as usize;
                    return &self.postings
                        [self.posting_starts[number] as usize..self.posting_starts[number + 1] as usize];
                }
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    /// Writes to `sums[j]` the sum over the features that `point` shares with indexed point j, and
    /// returns the norm of `point`.
    fn accumulate_sums<T: Real>(&self, point: &[T], sums: &mut [f64]) -> f64 {
        let (columns, values) = entries(point);
        sums.fill(0.0);
        for (column, value) in columns.iter().zip(values) {
            let value = value.to_f64();
            let postings = self.find_postings(column.to_f64() as u32);
            // the kind of term is matched once for all points, not once per point
            match self.argument {
                SparseArgument::Product | SparseArgument::SquaredDistance { .. } => {
                    let value = self.argument.common_term(value, 1.0);
                    postings.iter().for_each(|(j, indexed_value)| sums[*j as usize] += value * indexed_value);
                }
                argument => {
                    postings.iter().for_each(|(j, other)| sums[*j as usize] += argument.common_term(value, *other))
                }
            }
        }
        self.argument.norm(values)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.postings) + 4 * self.posting_starts.len() + 8 * self.norms.len()
    }
}

#[derive(Debug)]
pub(super) struct SparseKernel<P> {
    pub(super) text: String,
    pub(super) argument: SparseArgument,
    pub(super) profile: Arc<P>,
}

impl<P: Profile> SparseKernel<P> {
    /// Writes to `values` the kernel values of a point with the points of an index.
    fn compute_values<T: Real>(
        &self,
        point: &[T],
        index: &InvertedIndex,
        indexed_points: MatRef<'_, T>,
        values: &mut [f64],
    ) {
        let norm = index.accumulate_sums(point, values);
        let mut row_buffer = Vec::new();
        let align = |j: usize| align_entries(point, row_slice(indexed_points, j, &mut row_buffer));
        self.argument.arguments(values, norm, &index.norms, align);
        let profile = self.profile.function::<f64>();
        vectorised!(values.iter_mut().for_each(|sum| *sum = profile(*sum)));
    }

    /// Calls `write(i, j, value)` for each row i of `points` and each point j of the index.
    fn for_each_value<T: Real>(
        &self,
        index: &InvertedIndex,
        indexed_points: MatRef<'_, T>,
        points: MatRef<'_, T>,
        mut write: impl FnMut(usize, usize, T),
    ) {
        let (mut sums, mut row_buffer) = (vec![0.0; indexed_points.nrows()], Vec::new());
        for i in 0..points.nrows() {
            self.compute_values(row_slice(points, i, &mut row_buffer), index, indexed_points, &mut sums);
            sums.iter().enumerate().for_each(|(j, value)| write(i, j, T::from_f64(*value).saturate()));
        }
    }
}

impl<T: Real, P: Profile> KernelFunction<T> for SparseKernel<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn is_positive_definite(&self) -> bool {
        P::POSITIVE_DEFINITE
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        assert_shapes(x, z, &out);
        let is_z_indexed = z.nrows() <= x.nrows();
        let (indexed_points, other_points) = if is_z_indexed { (z, x) } else { (x, z) };
        self.for_each_value(
            &InvertedIndex::new(indexed_points, self.argument),
            indexed_points,
            other_points,
            |i, j, value| {
                out[if is_z_indexed { (i, j) } else { (j, i) }] = value;
            },
        );
    }

    fn speeds_up_blocks(&self) -> bool {
        true
    }

    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        let Self { text, argument, profile } = self;
        let kernel = Self { text: text.clone(), argument: *argument, profile: Arc::clone(profile) };
        Some(Box::new(PreparedSparsePoints { kernel, index: InvertedIndex::new(z, self.argument) }))
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let (profile, mut row_buffer) = (self.profile.function::<f64>(), Vec::new());
        for (i, out) in out.iter_mut().enumerate() {
            *out = profile(self.argument.self_argument(entries(row_slice(x, i, &mut row_buffer)).1)).saturate();
        }
    }
}

struct PreparedSparsePoints<P> {
    kernel: SparseKernel<P>,
    index: InvertedIndex,
}

impl<T: Real, P: Profile> PreparedPoints<T> for PreparedSparsePoints<P> {
    fn scratch_len(&self) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        self.index.bytes()
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], _scratch: &mut [T]) {
        self.kernel.for_each_value(&self.index, z, x, |i, j, value| out[i * z.nrows() + j] = value);
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) -> bool {
        assert_shapes(x, z, &out);
        self.kernel.for_each_value(&self.index, z, x, |i, j, value| out[(i, j)] = value);
        true
    }
}
