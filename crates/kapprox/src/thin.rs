//! Matrix products in which one factor has many rows and the other has only a few columns.
//!
//! A general product packs both of its factors. If there are only a few columns, for example one
//! per class, packing costs more than the product itself. Here only the few columns are packed, and
//! the many rows are read in place. [`multiply`] keeps the sums of a few rows, for up to three
//! vectors of columns, in registers during a loop over the features. [`add_transposed_product`]
//! keeps the sums of a few features in registers during a loop over the rows. If there are at most
//! three columns, they would fill only a small part of a vector; then [`multiply`] computes dot
//! products of a few rows at a time, with vectors of features. (`benches/benches/thin.rs` compares
//! both.)
//!
//! Register tiling after Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
//! ACM TOMS 34, 2008.

use crate::{Real, kernel::AlignedVec};
use pulp::{Simd, WithSimd};

/// Number of vectors of columns whose sums are in registers at a time, in [`multiply`].
const MAX_VECTORS: usize = 3;
/// Largest number of columns, or of columns that remain after full vectors of columns, for which
/// [`multiply`] computes dot products.
const MAX_DOT_COLUMNS: usize = 3;
/// Largest number of vectors of features whose sums are in registers at a time, in
/// [`add_transposed_product`]. It is used for one or two columns; for more columns, the number is
/// two. With this number, rows are read in long pieces, and enough independent sums are computed at
/// once.
const MAX_FEATURE_VECTORS: usize = 8;

/// Computes `out` (b x c, row-major) = `x` (b x p, row-major) · `w` (p x c, row-major). Costs 2bpc
/// flops.
///
/// Each row of the result is bit-identical to the result of a call with this row alone.
///
/// ```
/// let (x, w) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0]);
/// let mut out = [0.0; 2];
/// kapprox::thin::multiply(&x, &w, 2, &mut out);
/// assert_eq!(out, [21.0, 43.0]);
/// ```
///
/// # Panics
/// If the lengths do not match.
pub fn multiply<T: Real>(x: &[T], w: &[T], p: usize, out: &mut [T]) {
    if p > 0 && !w.is_empty() {
        let c = w.len() / p;
        assert!(w.len() == p * c && x.len() * c == out.len() * p, "{} x {p}, {p} x {c}, {}", x.len(), out.len());
        pulp::Arch::new().dispatch(Multiply { x, w, p, c, out });
    }
}

/// Adds to `sums` (width x c, row-major) columns `first_feature..first_feature + width` of `x` (b x
/// p, row-major), transposed, times `right` (b x c, row-major). Costs 2b·width·c flops.
///
/// Products and their sums over the b rows are computed in `T`, and then added to `sums` in f64.
/// Therefore pass only a few hundred rows per call.
///
/// ```
/// let (x, right) = ([1.0f32, 2.0, 3.0, 4.0], [1.0, 10.0]);
/// let mut sums = [0.5];
/// // the second feature of both rows
/// kapprox::thin::add_transposed_product(&x, 2, 1, &right, &mut sums);
/// assert_eq!(sums, [42.5]);
/// ```
///
/// # Panics
/// If the lengths do not match.
pub fn add_transposed_product<T: Real>(x: &[T], p: usize, first_feature: usize, right: &[T], sums: &mut [f64]) {
    let b = x.len().checked_div(p).unwrap_or(0);
    if let Some(c) = right.len().checked_div(b).filter(|c| *c > 0) {
        let lengths_match = x.len() == b * p
            && right.len() == b * c
            && sums.len().is_multiple_of(c)
            && first_feature + sums.len() / c <= p;
        assert!(lengths_match, "{b} x {p} from {first_feature}, {}, {}", right.len(), sums.len());
        pulp::Arch::new().dispatch(AddTransposed { x, p, first_feature, right, c, sums });
    }
}

/// Adds to `sums` columns `first_feature..first_feature + sums.len()` of some rows of `x`
/// (row-major, p columns): the sum over `entries` of the row times the value of the entry. Costs 2
/// flops per number read.
///
/// Rounds like [`add_transposed_product`] with a column of `right` that holds these values and
/// zeros.
///
/// ```
/// let x = [1.0f32, 2.0, 3.0, 4.0];
/// let mut sums = [0.5];
/// // the second feature of the second row
/// kapprox::thin::add_rows(&x, 2, 1, &[(1, 10.0)], &mut sums);
/// assert_eq!(sums, [40.5]);
/// ```
///
/// # Panics
/// If a row is missing, or if `first + sums.len()` exceeds p.
pub fn add_rows<T: Real>(x: &[T], p: usize, first_feature: usize, entries: &[(u32, T)], sums: &mut [f64]) {
    assert!(first_feature + sums.len() <= p, "{first_feature} + {} of {p} columns", sums.len());
    if !entries.is_empty() {
        pulp::Arch::new().dispatch(AddRows { x, p, first_feature, entries, sums });
    }
}

#[inline(always)]
const fn lane_count<T: Real, S: Simd>() -> usize {
    size_of::<T::Vector<S>>() / size_of::<T>()
}

/// Copies columns of `source` (rows x c) from `first_column` on to `destination`, padded with zeros
/// to `width` columns.
fn pack<T: Real>(source: &[T], c: usize, first_column: usize, width: usize, destination: &mut AlignedVec<T>) {
    let column_count = width.min(c - first_column);
    let to = destination.resize_zeroed(source.len() / c * width);
    for (to, from) in to.chunks_exact_mut(width).zip(source.chunks_exact(c)) {
        to[..column_count].copy_from_slice(&from[first_column..first_column + column_count]);
    }
}

struct Multiply<'a, T> {
    x: &'a [T],
    w: &'a [T],
    p: usize,
    c: usize,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // a constant condition: only one of the two branches is compiled
        if const { S::REGISTER_COUNT >= 32 } {
            self.multiply_rows::<S, 8>(simd)
        } else {
            self.multiply_rows::<S, 4>(simd)
        }
    }
}

impl<T: Real> Multiply<'_, T> {
    /// Computes the product with the sums of `ROWS` rows in registers.
    #[inline(always)]
    fn multiply_rows<S: Simd, const ROWS: usize>(self, simd: S) {
        let (Self { x, w, p, c, out }, lanes) = (self, lane_count::<T, S>());
        let mut packed = AlignedVec::default();
        let mut first_column = 0;
        while first_column < c {
            let remaining = c - first_column;
            if remaining <= MAX_DOT_COLUMNS {
                let columns = packed.resize_zeroed(p * remaining);
                for (k, w) in w.chunks_exact(c).enumerate() {
                    for (j, w) in w[first_column..].iter().enumerate() {
                        columns[j * p + k] = *w;
                    }
                }
                let dots = DotProducts { x, p, w: columns, c, first_column };
                return match remaining {
                    1 => dots.run::<S, ROWS, 1>(simd, out),
                    2 => dots.run::<S, ROWS, 2>(simd, out),
                    _ => dots.run::<S, ROWS, MAX_DOT_COLUMNS>(simd, out),
                };
            }
            // after full vectors, the last few columns are computed as dot products, because a
            // vector of them would be mostly empty
            let full_vectors = if remaining % lanes <= MAX_DOT_COLUMNS { remaining / lanes } else { 0 };
            let vector_count = if full_vectors > 0 { full_vectors } else { remaining.div_ceil(lanes) }.min(MAX_VECTORS);
            pack(w, c, first_column, vector_count * lanes, &mut packed);
            let group = ColumnGroup { x, p, c, first_column };
            match vector_count {
                1 => group.run::<S, ROWS, 1>(simd, &packed, out),
                2 => group.run::<S, ROWS, 2>(simd, &packed, out),
                _ => group.run::<S, ROWS, MAX_VECTORS>(simd, &packed, out),
            }
            first_column += vector_count * lanes;
        }
    }
}

/// A product with very few columns, as dot products.
struct DotProducts<'a, T> {
    x: &'a [T],
    p: usize,
    /// Columns, one after the other.
    w: &'a [T],
    /// Number of columns of the result, and the first of these columns.
    c: usize,
    first_column: usize,
}

impl<T: Real> DotProducts<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const COLUMNS: usize>(&self, simd: S, out: &mut [T]) {
        let full_rows = self.x.len() / (ROWS * self.p) * ROWS;
        let (x, x_rest) = self.x.split_at(full_rows * self.p);
        let (out, out_rest) = out.split_at_mut(full_rows * self.c);
        for (x, out) in x.chunks_exact(ROWS * self.p).zip(out.chunks_exact_mut(ROWS * self.c)) {
            self.compute_rows::<S, ROWS, COLUMNS>(simd, x, out);
        }
        for (x, out) in x_rest.chunks_exact(self.p).zip(out_rest.chunks_exact_mut(self.c)) {
            self.compute_rows::<S, 1, COLUMNS>(simd, x, out);
        }
    }

    #[inline(always)]
    fn compute_rows<S: Simd, const ROWS: usize, const COLUMNS: usize>(&self, simd: S, x: &[T], out: &mut [T]) {
        let (p, lanes) = (self.p, lane_count::<T, S>());
        let (vector_count, vectorised_len) = (p / lanes, p / lanes * lanes);
        let mut rows = [T::vectors::<S>(&x[..0]); ROWS];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = &T::vectors::<S>(&x[r * p..][..vectorised_len])[..vector_count];
        }
        let mut columns = [T::vectors::<S>(&x[..0]); COLUMNS];
        for (c, column) in columns.iter_mut().enumerate() {
            *column = &T::vectors::<S>(&self.w[c * p..][..vectorised_len])[..vector_count];
        }
        let mut sums = [[T::splat(simd, T::ZERO); COLUMNS]; ROWS];
        for k in 0..vector_count {
            for r in 0..ROWS {
                for c in 0..COLUMNS {
                    sums[r][c] = T::multiply_add(simd, rows[r][k], columns[c][k], sums[r][c]);
                }
            }
        }
        let mut values = [T::ZERO; MAX_LANES];
        for r in 0..ROWS {
            for c in 0..COLUMNS {
                T::vectors_mut::<S>(&mut values)[..1].copy_from_slice(&sums[r][c..c + 1]);
                let rest =
                    x[r * p + vectorised_len..(r + 1) * p].iter().zip(&self.w[c * p + vectorised_len..(c + 1) * p]);
                let rest = rest.fold(T::ZERO, |sum, (x, w)| sum + *x * *w);
                out[r * self.c + self.first_column + c] = values[..lanes].iter().fold(rest, |sum, value| sum + *value);
            }
        }
    }
}

struct ColumnGroup<'a, T> {
    x: &'a [T],
    p: usize,
    c: usize,
    first_column: usize,
}

impl<T: Real> ColumnGroup<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const VECTORS: usize>(&self, simd: S, packed: &[T], out: &mut [T]) {
        let (w, _) = T::vectors::<S>(packed).as_chunks::<VECTORS>();
        let full_rows = self.x.len() / (ROWS * self.p) * ROWS;
        let (x, x_rest) = self.x.split_at(full_rows * self.p);
        let (out, out_rest) = out.split_at_mut(full_rows * self.c);
        for (x, out) in x.chunks_exact(ROWS * self.p).zip(out.chunks_exact_mut(ROWS * self.c)) {
            self.compute_rows::<S, ROWS, VECTORS>(simd, x, w, out);
        }
        for (x, out) in x_rest.chunks_exact(self.p).zip(out_rest.chunks_exact_mut(self.c)) {
            self.compute_rows::<S, 1, VECTORS>(simd, x, w, out);
        }
    }

    /// Computes the sums of a few rows. No index in the loop over features needs a bounds check,
    /// because with a check the compiler would keep the sums in memory.
    #[inline(always)]
    fn compute_rows<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &self,
        simd: S,
        x: &[T],
        w: &[[T::Vector<S>; VECTORS]],
        out: &mut [T],
    ) {
        let mut rows = [x; ROWS];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = &x[r * self.p..][..w.len()];
        }
        let mut sums = [[T::splat(simd, T::ZERO); VECTORS]; ROWS];
        for k in 0..w.len() {
            for r in 0..ROWS {
                let value = T::splat(simd, rows[r][k]);
                for v in 0..VECTORS {
                    sums[r][v] = T::multiply_add(simd, value, w[k][v], sums[r][v]);
                }
            }
        }
        let (lanes, mut row) = (lane_count::<T, S>(), [T::ZERO; MAX_VECTORS * MAX_LANES]);
        for (sums, out) in sums.iter().zip(out.chunks_exact_mut(self.c)) {
            T::vectors_mut::<S>(&mut row)[..VECTORS].copy_from_slice(sums);
            let column_count = (VECTORS * lanes).min(self.c - self.first_column);
            out[self.first_column..][..column_count].copy_from_slice(&row[..column_count]);
        }
    }
}

/// Number of elements of the widest vector.
const MAX_LANES: usize = 16;

struct AddTransposed<'a, T> {
    x: &'a [T],
    p: usize,
    first_feature: usize,
    right: &'a [T],
    c: usize,
    sums: &'a mut [f64],
}

impl<T: Real> WithSimd for AddTransposed<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let max_columns = if S::REGISTER_COUNT >= 32 { 10 } else { 5 };
        // if all groups have about the same width, the fewest vector lanes are unused
        let width = self.c.div_ceil(self.c.div_ceil(max_columns));
        let mut packed = AlignedVec::default();
        let mut this = self;
        for first_column in (0..this.c).step_by(width) {
            // direct calls: calls through a pointer would be compiled for the baseline
            // instruction set
            if const { S::REGISTER_COUNT >= 32 } {
                match width {
                    1 => this.run::<S, 1, MAX_FEATURE_VECTORS>(simd, first_column, width, &mut packed),
                    2 => this.run::<S, 2, MAX_FEATURE_VECTORS>(simd, first_column, width, &mut packed),
                    3..=5 => this.run::<S, 5, 2>(simd, first_column, width, &mut packed),
                    _ => this.run::<S, 10, 2>(simd, first_column, width, &mut packed),
                }
            } else {
                match width {
                    1 => this.run::<S, 1, 4>(simd, first_column, width, &mut packed),
                    2 => this.run::<S, 2, 4>(simd, first_column, width, &mut packed),
                    _ => this.run::<S, 5, 2>(simd, first_column, width, &mut packed),
                }
            }
        }
    }
}

impl<T: Real> AddTransposed<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const COLUMNS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        first_column: usize,
        width: usize,
        packed: &mut AlignedVec<T>,
    ) {
        let (c, features_per_chunk) = (self.c, VECTORS * lane_count::<T, S>());
        let column_count = width.min(c - first_column);
        // `COLUMNS` may exceed the width of the group: the products of the additional columns are
        // computed but not used
        pack(self.right, c, first_column, COLUMNS, packed);
        let (right, _) = packed.as_chunks::<COLUMNS>();
        for (chunk, sums) in self.sums.chunks_mut(features_per_chunk * c).enumerate() {
            let x = &self.x[self.first_feature + chunk * features_per_chunk..];
            let products = summed_products::<T, S, COLUMNS, VECTORS>(simd, x, self.p, right);
            let mut values = [T::ZERO; MAX_FEATURE_VECTORS * MAX_LANES];
            for (j, product) in products.iter().enumerate().take(column_count) {
                T::vectors_mut::<S>(&mut values)[..VECTORS].copy_from_slice(product);
                for (sums, value) in sums.chunks_exact_mut(c).zip(&values) {
                    sums[first_column + j] += value.to_f64();
                }
            }
        }
    }
}

/// Returns the products of the first few vectors of features of every row of `x`, whose rows begin
/// `p` elements apart, with every column of `right`, summed over the rows.
///
/// A row with fewer features is read on into the next row, and the caller ignores these products:
/// a padded copy of such rows would cost a buffer of 256 KiB per call. Only the rows at the end of
/// `x` are copied, because nothing follows them.
#[inline(always)]
fn summed_products<T: Real, S: Simd, const COLUMNS: usize, const VECTORS: usize>(
    simd: S,
    x: &[T],
    p: usize,
    right: &[[T; COLUMNS]],
) -> [[T::Vector<S>; VECTORS]; COLUMNS] {
    let features = VECTORS * lane_count::<T, S>();
    let mut sums = [[T::splat(simd, T::ZERO); VECTORS]; COLUMNS];
    let complete_rows = x.len().checked_sub(features).map_or(0, |last| last / p + 1).min(right.len());
    let (right, right_end) = right.split_at(complete_rows);
    add_products(simd, x, p, right, &mut sums);
    if !right_end.is_empty() {
        let mut padded_end = [T::ZERO; 2 * MAX_FEATURE_VECTORS * MAX_LANES];
        let last_rows = &x[complete_rows * p..];
        padded_end[..last_rows.len()].copy_from_slice(last_rows);
        add_products(simd, &padded_end, p, right_end, &mut sums);
    }
    sums
}

/// Adds the products of rows that begin `p` elements apart, all with a full number of vectors.
#[inline(always)]
fn add_products<T: Real, S: Simd, const COLUMNS: usize, const VECTORS: usize>(
    simd: S,
    x: &[T],
    p: usize,
    right: &[[T; COLUMNS]],
    sums: &mut [[T::Vector<S>; VECTORS]; COLUMNS],
) {
    let features = VECTORS * lane_count::<T, S>();
    let mut totals = *sums;
    for (row, right) in x.windows(features).step_by(p).zip(right) {
        let Some(vectors) = T::vectors::<S>(row).first_chunk::<VECTORS>() else { break };
        for c in 0..COLUMNS {
            let value = T::splat(simd, right[c]);
            for v in 0..VECTORS {
                totals[c][v] = T::multiply_add(simd, value, vectors[v], totals[c][v]);
            }
        }
    }
    *sums = totals;
}

struct AddRows<'a, T> {
    x: &'a [T],
    p: usize,
    first_feature: usize,
    entries: &'a [(u32, T)],
    sums: &'a mut [f64],
}

impl<T: Real> WithSimd for AddRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let features = MAX_FEATURE_VECTORS * lane_count::<T, S>();
        for (chunk, sums) in self.sums.chunks_mut(features).enumerate() {
            let mut totals = [T::splat(simd, T::ZERO); MAX_FEATURE_VECTORS];
            for (row, value) in self.entries {
                let rest = &self.x[*row as usize * self.p + self.first_feature + chunk * features..];
                let mut end = [T::ZERO; MAX_FEATURE_VECTORS * MAX_LANES];
                // a row with fewer features is read on into the next row, as in `products`
                let vectors = match T::vectors::<S>(rest).first_chunk::<MAX_FEATURE_VECTORS>() {
                    Some(vectors) => vectors,
                    None => {
                        end[..rest.len()].copy_from_slice(rest);
                        let Some(vectors) = T::vectors::<S>(&end).first_chunk() else { break };
                        vectors
                    }
                };
                let value = T::splat(simd, *value);
                for v in 0..MAX_FEATURE_VECTORS {
                    totals[v] = T::multiply_add(simd, value, vectors[v], totals[v]);
                }
            }
            let mut values = [T::ZERO; MAX_FEATURE_VECTORS * MAX_LANES];
            T::vectors_mut::<S>(&mut values)[..MAX_FEATURE_VECTORS].copy_from_slice(&totals);
            sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value.to_f64());
        }
    }
}
