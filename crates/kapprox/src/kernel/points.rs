//! Copies tiles of points into the layout of the inner loops, centred and scaled, and computes
//! their squared norms.

use crate::{Real, vectorised};
use faer::{ColMut, MatRef, prelude::*};
use pulp::{Simd, WithSimd};
use std::ops::Deref;

/// Maximum number of rows whose mean is used as the centre.
const MAX_CENTRE_ROWS: usize = 256;

/// A vector of numbers that starts at the boundary of a cache line. SIMD vectors of 64 bytes that
/// start elsewhere touch two cache lines each: with the allocator's 16-byte alignment, the
/// Laplacian takes 1.4 times as long.
#[derive(Debug, Default)]
pub(crate) struct AlignedVec<T> {
    storage: Vec<T>,
    start: usize,
}

impl<T: Real> AlignedVec<T> {
    /// Bytes of a cache line and of the widest vector.
    const CACHE_LINE: usize = 64;

    pub(crate) fn resize_zeroed(&mut self, len: usize) -> &mut [T] {
        let padding = Self::CACHE_LINE / size_of::<T>();
        self.storage.clear();
        self.storage.resize(len + padding, T::ZERO);
        self.start = self.storage.as_ptr().align_offset(Self::CACHE_LINE).min(padding);
        self.storage.truncate(self.start + len);
        &mut self.storage[self.start..]
    }
}

impl<T> std::ops::DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.storage[self.start..]
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.storage[self.start..]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LengthScales {
    Shared(f64),
    PerFeature(Vec<f64>),
}

impl LengthScales {
    pub(crate) fn to_vec(&self) -> Vec<f64> {
        match self {
            Self::Shared(length) => vec![*length],
            Self::PerFeature(lengths) => lengths.clone(),
        }
    }

    pub(crate) fn per_feature(lengths: &[f64]) -> Self {
        Self::PerFeature(lengths.to_vec())
    }

    pub(crate) fn map(self, convert: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Shared(length) => Self::Shared(convert(length)),
            Self::PerFeature(lengths) => Self::PerFeature(lengths.into_iter().map(convert).collect()),
        }
    }

    pub(crate) fn length_scale(&self, k: usize) -> f64 {
        match self {
            Self::Shared(length) => *length,
            Self::PerFeature(lengths) => lengths[k],
        }
    }
}

/// The shift and the scales that are applied to points before distances are computed. The shift
/// does not change distances.
pub(crate) struct Frame<T> {
    centre: Vec<T>,
    pub(crate) scale: Vec<T>,
}

impl<T: Real> Frame<T> {
    /// Returns the frame that is centred at the mean of `z` and measures in units of
    /// `length_scales` times `unit`. The mean is taken over at most 256 evenly spaced rows, because
    /// any point within the cloud is good enough.
    ///
    /// The norms and inner products of centred points are of the size of the distances, so that
    /// distances which are not small are computed from them without cancellation.
    pub(crate) fn new(z: MatRef<'_, T>, length_scales: &LengthScales, unit: f64) -> Self {
        let stride = z.nrows().div_ceil(MAX_CENTRE_ROWS).max(1);
        let row_weight = 1.0 / z.nrows().div_ceil(stride).max(1) as f64;
        let mut mean = vec![0.0; z.ncols()];
        let mut row_buffer = Vec::new();
        vectorised!({
            for j in (0..z.nrows()).step_by(stride) {
                for (mean, &value) in mean.iter_mut().zip(row_slice(z, j, &mut row_buffer)) {
                    *mean = value.to_f64().mul_add(row_weight, *mean);
                }
            }
        });
        Self {
            centre: mean.into_iter().map(|m| T::from_f64(m).saturate()).collect(),
            scale: (0..z.ncols()).map(|k| finite_inverse(length_scales.length_scale(k) * unit)).collect(),
        }
    }

    /// Returns the frame that leaves points unchanged: a shift of 0 and units of 1.
    pub(crate) fn identity(d: usize) -> Self {
        Self { centre: vec![T::ZERO; d], scale: vec![T::ONE; d] }
    }

    /// Writes the rows of `points` in panels of `height` rows; within a panel, the values are
    /// ordered by feature. `out[(p d + k) height + i]` is the scaled feature k of row `p height +
    /// i`, or 0 if this row does not exist. Points without features get one feature that is 0.
    pub(crate) fn pack_panels(&self, points: MatRef<'_, T>, height: usize, out: &mut AlignedVec<T>) {
        let d = points.ncols();
        let panel_len = height * d.max(1);
        let out = out.resize_zeroed(points.nrows().div_ceil(height) * panel_len);
        let mut row_buffer = Vec::new();
        for i in 0..points.nrows() {
            let point = row_slice(points, i, &mut row_buffer);
            let panel = &mut out[i / height * panel_len..][..height * d];
            let features = point.iter().zip(&self.centre).zip(&self.scale);
            for (column, ((&value, &centre), &scale)) in panel.chunks_exact_mut(height).zip(features) {
                column[i % height] = to_frame(value, centre, scale);
            }
        }
    }

    /// Returns the number of features of a packed point: at least one.
    pub(crate) fn feature_count(&self) -> usize {
        self.centre.len().max(1)
    }

    /// Writes one point with the numbers that [`pack_panels`](Self::pack_panels) writes for it.
    pub(crate) fn pack_row(&self, point: &[T], out: &mut [T]) {
        out.fill(T::ZERO);
        for (((out, &value), &centre), &scale) in out.iter_mut().zip(point).zip(&self.centre).zip(&self.scale) {
            *out = to_frame(value, centre, scale);
        }
    }

    /// Writes rows of `points` as rows: `out[j d + k]` is the scaled feature k of row j, or 0 for
    /// missing rows up to `padded_rows`. Points without features get one feature that is 0.
    pub(crate) fn pack_rows(&self, points: MatRef<'_, T>, padded_rows: usize, out: &mut AlignedVec<T>) {
        let out = out.resize_zeroed(padded_rows * points.ncols().max(1));
        pulp::Arch::new().dispatch(PackRows { frame: self, points, out });
    }
}

/// Returns 1 / `length`, clamped to positive finite numbers: a result of zero or infinity would
/// make 0 · ∞ = NaN later.
pub(super) fn finite_inverse<T: Real>(length: f64) -> T {
    T::from_f64(1.0 / length).smaller(T::LARGEST).larger(T::MIN_POSITIVE)
}

/// Returns a feature in the frame, kept finite so that no difference is ∞ − ∞.
#[inline(always)]
fn to_frame<T: Real>(value: T, centre: T, scale: T) -> T {
    ((value - centre) * scale).saturate()
}

/// The loop of [`Frame::pack_rows`] with explicit vectors: the compiler's vectorised loop is slow
/// for short rows.
struct PackRows<'a, T> {
    frame: &'a Frame<T>,
    points: MatRef<'a, T>,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for PackRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (centre, scale) = (&self.frame.centre[..], &self.frame.scale[..]);
        let (centres, scales) = (T::vectors::<S>(centre), T::vectors::<S>(scale));
        let (lowest, highest) = (T::splat(simd, T::ZERO - T::LARGEST), T::splat(simd, T::LARGEST));
        let zero = T::splat(simd, T::ZERO);
        let vector_elements = size_of_val(centres) / size_of::<T>();
        let mut row_buffer = Vec::new();
        for (j, packed_row) in self.out.chunks_exact_mut(centre.len().max(1)).enumerate().take(self.points.nrows()) {
            let point = row_slice(self.points, j, &mut row_buffer);
            let vectors = T::vectors_mut::<S>(packed_row).iter_mut().zip(T::vectors::<S>(point));
            for ((copy, &value), (&centre, &scale)) in vectors.zip(centres.iter().zip(scales)) {
                let scaled = T::multiply_add(simd, T::minus(simd, value, centre), scale, zero);
                *copy = T::least(simd, T::greatest(simd, scaled, lowest), highest);
            }
            for k in vector_elements..centre.len() {
                packed_row[k] = (point[k] - centre[k]).mul_plus(scale[k], T::ZERO).saturate();
            }
        }
    }
}

/// Computes the squared norms of `row_count` packed rows. Uses 16 interleaved sums, whose error of
/// one or two roundings is far below the error of the inner products to which the norms are added.
pub(crate) fn squared_row_norms<T: Real>(packed: &[T], row_count: usize, squared_norms: &mut Vec<T>) {
    squared_norms.clear();
    squared_norms.resize(row_count, T::ZERO);
    let d = packed.len() / row_count.max(1);
    vectorised!({
        for (squared_norm, row) in squared_norms.iter_mut().zip(packed.chunks_exact(d.max(1))) {
            let mut sums = [T::ZERO; 16];
            let (chunks, remaining_values) = row.as_chunks::<16>();
            for chunk in chunks {
                for (sum, &value) in sums.iter_mut().zip(chunk) {
                    *sum = value.mul_plus(value, *sum);
                }
            }
            for (sum, &value) in sums.iter_mut().zip(remaining_values) {
                *sum = value.mul_plus(value, *sum);
            }
            *squared_norm = pairwise_sum(sums);
        }
    });
}

/// Computes for each row of packed panels (`height` rows of d features each) a sum over its
/// features, times `factor`. `add(sum, value)` returns the sum plus the term of a value. Sums in
/// `f64` and rounds the result once.
pub(super) fn sum_panels<T: Real>(
    packed: &[T],
    height: usize,
    d: usize,
    add: impl Fn(f64, f64) -> f64,
    factor: f64,
    out: &mut Vec<T>,
) {
    out.clear();
    let mut sums = vec![0.0; height];
    for panel in packed.chunks_exact(height * d.max(1)) {
        sums.fill(0.0);
        vectorised!({
            for column in panel.chunks_exact(height) {
                for (sum, &value) in sums.iter_mut().zip(column) {
                    *sum = add(*sum, value.to_f64());
                }
            }
        });
        out.extend(sums.iter().map(|&sum| T::from_f64(sum * factor)));
    }
}

/// Returns the sum of one row, bit-identical to the sum that [`sum_panels`] computes with the same
/// `add` and `factor`.
pub(super) fn sum_row<T: Real>(row: &[T], add: impl Fn(f64, f64) -> f64, factor: f64) -> T {
    vectorised!(T::from_f64(row.iter().fold(0.0, |sum, value| add(sum, value.to_f64())) * factor))
}

/// Computes −Σ x/2 and Σ |x|/2 of packed rows with d features each, in eight interleaved sums.
pub(crate) fn negative_half_sums<T: Real>(packed: &[T], d: usize, negative_halves: &mut Vec<T>, sizes: &mut Vec<T>) {
    negative_halves.clear();
    sizes.clear();
    vectorised!({
        for row in packed.chunks_exact(d.max(1)) {
            let (mut sums, mut magnitudes) = ([0.0f64; 8], [0.0f64; 8]);
            for values in row.chunks(8) {
                for ((sum, magnitude), &value) in sums.iter_mut().zip(&mut magnitudes).zip(values) {
                    *sum += value.to_f64();
                    *magnitude += value.to_f64().abs();
                }
            }
            negative_halves.push(T::from_f64(-pairwise_sum(sums) / 2.0));
            sizes.push(T::from_f64(pairwise_sum(magnitudes) / 2.0));
        }
    });
}

/// Returns Σ v², computed in `f64` and in eight interleaved sums. For `f32` values, the only
/// noticeable rounding is the conversion of a result to `f32`.
#[inline(always)]
pub(crate) fn squared_norm<T: Real>(values: &[T]) -> f64 {
    let mut sums = [0.0f64; 8];
    let (chunks, remaining_values) = values.as_chunks::<8>();
    for chunk in chunks {
        for i in 0..8 {
            let value = chunk[i].to_f64();
            sums[i] = value.mul_add(value, sums[i]);
        }
    }
    remaining_values.iter().fold(pairwise_sum(sums), |sum, value| value.to_f64().mul_add(value.to_f64(), sum))
}

/// Returns the sum that `add` accumulates from the differences (x − z) · scale of all features.
/// Nothing cancels; for equal points, all differences are exactly 0.
#[inline(always)]
pub(super) fn sum_of_differences<T: Real>(x: &[T], z: &[T], scale: &[T], add: impl Fn(T, T) -> T) -> T {
    let mut sums = [T::ZERO; 16];
    for ((x, z), scale) in x.chunks(16).zip(z.chunks(16)).zip(scale.chunks(16)) {
        for (((sum, &x), &z), &scale) in sums.iter_mut().zip(x).zip(z).zip(scale) {
            *sum = add(*sum, (x - z) * scale);
        }
    }
    pairwise_sum(sums)
}

/// Returns the sum of N numbers, where N is a power of two, added along a balanced tree.
#[inline(always)]
fn pairwise_sum<T: Copy + std::ops::Add<Output = T>, const N: usize>(mut sums: [T; N]) -> T {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] = sums[i] + sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Splits `n` items into pieces of `size`; yields the first index and the length of each piece.
pub(crate) fn index_chunks(n: usize, size: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..n).step_by(size).map(move |first| (first, size.min(n - first)))
}

/// Returns row i as a slice, copied into `buffer` if it is not contiguous.
#[inline(always)]
pub(crate) fn row_slice<'a, T: Real>(points: MatRef<'a, T>, i: usize, buffer: &'a mut Vec<T>) -> &'a [T] {
    match points.row(i).try_as_row_major() {
        Some(row) => row.as_slice(),
        None => {
            buffer.clear();
            buffer.extend((0..points.ncols()).map(|k| points[(i, k)]));
            buffer
        }
    }
}

/// Lets `write` fill a column of a block as a slice, through `buffer` if the column is not
/// contiguous.
#[inline(always)]
pub(crate) fn fill_column<T: Real>(mut column: ColMut<'_, T>, buffer: &mut Vec<T>, write: impl FnOnce(&mut [T])) {
    if column.row_stride() == 1 {
        if let Some(column) = column.try_as_col_major_mut() {
            write(column.as_slice_mut());
        }
        return;
    }
    buffer.clear();
    buffer.extend(column.rb().iter().copied());
    write(buffer);
    for (element, &value) in column.rb_mut().iter_mut().zip(buffer.iter()) {
        *element = value;
    }
}
