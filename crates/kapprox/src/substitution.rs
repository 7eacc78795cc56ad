//! Forward substitution for many rows at once: `phi = k L⁻ᵀ`, the features of kernel values.
//!
//! Rows are in panels of a few vectors, features in groups of a few. The sums of products, which
//! stay in registers, subtract all earlier features from a group; then the small triangle of the
//! group is solved, also in registers. The computed features are copied to panels, so that the sums
//! read them in order.
//!
//! [`DEPTH`] features at a time are computed and then subtracted from all later ones, so that their
//! panels stay in a second-level cache, whatever the rank. The features of a row depend on this row
//! alone: they are bit-identical in a block of any height.
//!
//! (Register tiling after Goto, van de Geijn, *Anatomy of High-Performance Matrix Multiplication*,
//! ACM TOMS 34, 2008; the solve within the tile as in Goto, van de Geijn, *High-performance
//! implementation of the level-3 BLAS*, ACM TOMS 35, 2008.)

use crate::Real;
use crate::kernel::{Aligned, Products, Tall, accumulate, fill_column, height, read, write};
use faer::{MatMut, MatRef, prelude::*};
use kpass::Pool;
use pulp::{Simd, WithSimd};

/// Number of features in a panel, a multiple of [`TOGETHER`]: a panel of 48 rows in `f32` is 95
/// KiB.
const DEPTH: usize = 504;

/// Bytes of panels that are processed together: a part of a second-level cache, and a whole strip
/// of the Nyström map.
const PANELS: usize = 288 * DEPTH * size_of::<f32>();

/// Number of rows of the factor stored together, a multiple of the width of every group.
const TOGETHER: usize = 24;

/// A lower triangular factor L, r x r, prepared for forward substitution.
///
/// Stores r²/2 + 13r numbers, and up to 567 KiB of panels per thread.
#[derive(Debug)]
pub(crate) struct Lower<T> {
    order: usize,
    /// Rows of −L up to the end of the diagonal's group, one after the other. Zeros fill the last
    /// group.
    rows: Vec<T>,
    /// 1 / L_jj.
    inverses: Vec<T>,
    panels: Pool<Aligned<T>>,
}

impl<T: Real> Lower<T> {
    pub(crate) fn of(lower: MatRef<'_, f64>) -> Self {
        let order = lower.nrows();
        let padded = order.next_multiple_of(TOGETHER);
        let mut rows = Vec::with_capacity(start(padded));
        for i in 0..padded {
            let entries = if i < order { i + 1 } else { 0 };
            rows.extend((0..entries).map(|k| T::from_f64(-lower[(i, k)]).saturate()));
            rows.resize(start(i) + length(i), T::ZERO);
        }
        let mut inverses: Vec<T> = (0..order).map(|i| T::from_f64(1.0 / lower[(i, i)]).saturate()).collect();
        inverses.resize(padded, T::ZERO);
        Self { order, rows, inverses, panels: Pool::default() }
    }

    /// Returns the bytes of a factor of order r.
    pub(crate) const fn bytes(r: usize) -> usize {
        let padded = r.next_multiple_of(TOGETHER);
        (start(padded) + padded) * size_of::<T>()
    }

    /// Replaces each row k of `x` (b x r) by L⁻¹k. b·r² flops.
    pub(crate) fn solve(&self, x: MatMut<'_, T>) {
        self.panels.with(Aligned::default, |panels| {
            pulp::Arch::new().dispatch(Substitution { lower: self, x, panels, spare: Vec::new() });
        });
    }

    /// Returns row i of −L, up to the end of its group.
    fn row(&self, i: usize) -> &[T] {
        &self.rows[start(i)..][..length(i)]
    }
}

/// Returns the number of stored entries of row i.
const fn length(i: usize) -> usize {
    (i / TOGETHER + 1) * TOGETHER
}

/// Returns the offset of row i; the groups before it have 24·24, 24·48, … numbers.
const fn start(i: usize) -> usize {
    let group = i / TOGETHER;
    TOGETHER * TOGETHER * group * (group + 1) / 2 + i % TOGETHER * length(i)
}

struct Substitution<'a, T: Real> {
    lower: &'a Lower<T>,
    x: MatMut<'a, T>,
    /// Computed features, in panels.
    panels: &'a mut Aligned<T>,
    /// Buffer for columns that are not contiguous.
    spare: Vec<T>,
}

impl<T: Real> WithSimd for Substitution<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // a constant condition: only one of the two is compiled
        if const { S::REGISTER_COUNT >= 32 } { self.run::<S, 3, 8>(simd) } else { self.run::<S, 2, 6>(simd) }
    }
}

impl<T: Real> Substitution<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const TALL: usize, const WIDE: usize>(mut self, simd: S) {
        let (height, rows, order) = (height::<T, S>(), self.x.nrows(), self.lower.order);
        let depth = DEPTH.min(self.lower.inverses.len());
        let together = (PANELS / (DEPTH * size_of::<T>() * height)).max(1).min(rows.div_ceil(height));
        let room = together * depth * height;
        if self.panels.len() < room {
            self.panels.zeros(room);
        }
        // loops, because closures would be compiled for the baseline instruction set
        for first in (0..rows).step_by((together * height).max(1)) {
            let count = rows.min(first + together * height) - first;
            for from in (0..order).step_by(DEPTH) {
                for j in (from..order).step_by(WIDE) {
                    self.group::<S, TALL, WIDE>(simd, first, count, from, depth, j);
                }
            }
        }
    }

    /// Subtracts features `from..from + depth` from the group of features that starts at j, in
    /// `rows` rows from `first` on. If the group is among these features, also solves for it.
    #[inline(always)]
    fn group<S: Simd, const TALL: usize, const WIDE: usize>(
        &mut self,
        simd: S,
        first: usize,
        rows: usize,
        from: usize,
        depth: usize,
        j: usize,
    ) {
        let (height, known, width) = (height::<T, S>(), depth.min(j - from), WIDE.min(self.lower.order - j));
        let mut factor = [&self.lower.rows[..0]; WIDE];
        for (c, row) in factor.iter_mut().enumerate() {
            *row = &self.lower.row(j + c)[from..][..known];
        }
        for (i, panel) in (0..rows).step_by(height).zip(self.panels.chunks_exact_mut(depth * height)) {
            let mut x = self.x.rb_mut().submatrix_mut(first + i, j, height.min(rows - i), width);
            let mut tile = [[T::splat(simd, T::ZERO); TALL]; WIDE];
            for (column, tile) in x.rb_mut().col_iter_mut().zip(&mut tile) {
                fill_column(
                    column,
                    &mut self.spare,
                    #[inline(always)]
                    |x| *tile = read::<T, S, TALL>(simd, x),
                );
            }
            let (panel, _) = T::vectors_mut::<S>(panel).as_chunks_mut::<TALL>();
            let (found, rest) = panel.split_at_mut(known);
            // start from the kernel values, not from 0: the remainder shrinks with each feature,
            // and so does its rounding
            tile = accumulate::<T, S, Products, TALL, WIDE, false>(simd, found, &factor, tile);
            if known < depth {
                self.lower.triangle::<S, TALL, WIDE>(simd, j, &mut tile);
                rest[..WIDE].copy_from_slice(&tile);
            }
            for (column, tile) in x.col_iter_mut().zip(&tile) {
                fill_column(
                    column,
                    &mut self.spare,
                    #[inline(always)]
                    |x| write::<T, S, TALL>(tile, x),
                );
            }
        }
    }
}

impl<T: Real> Lower<T> {
    /// Solves for the group of features that starts at j, after all earlier features were
    /// subtracted.
    #[inline(always)]
    fn triangle<S: Simd, const TALL: usize, const WIDE: usize>(
        &self,
        simd: S,
        j: usize,
        tile: &mut [Tall<T, S, TALL>; WIDE],
    ) {
        let zero = T::splat(simd, T::ZERO);
        for c in 0..WIDE {
            let inverse = T::splat(simd, self.inverses[j + c]);
            for value in &mut tile[c] {
                *value = T::multiply_add(simd, *value, inverse, zero);
            }
            let found = tile[c];
            for (e, later) in tile.iter_mut().enumerate().skip(c + 1) {
                let factor = T::splat(simd, self.row(j + e)[j + c]);
                for (value, found) in later.iter_mut().zip(found) {
                    *value = T::multiply_add(simd, found, factor, *value);
                }
            }
        }
    }
}
