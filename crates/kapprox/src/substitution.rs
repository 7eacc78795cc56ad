//! Forward substitution for many rows at once. It computes features `phi = k L⁻ᵀ` (b x r) from
//! kernel values `k` (b x r) and the lower triangular factor L (r x r).
//!
//! Rows are processed in panels, whose height is a few vectors, and features in groups of a few.
//! For each panel and group, the contributions of all earlier features are subtracted from the
//! kernel values, in registers. Then the small triangle of the group is solved, also in registers.
//! The computed features are copied to packed panels, so that later groups read them in memory
//! order.
//!
//! Features are computed in sets of [`PANEL_FEATURES`], and the contributions of a set are
//! subtracted from all later features before the next set is computed. The panels of a set
//! therefore stay in a second-level cache at every rank. The features of a row depend on this row
//! alone: they are bit-identical in a block of any height.
//!
//! (Register tiling after Goto, van de Geijn, *Anatomy of High-Performance Matrix Multiplication*,
//! ACM TOMS 34, 2008; the solve within the tile as in Goto, van de Geijn, *High-performance
//! implementation of the level-3 BLAS*, ACM TOMS 35, 2008.)

use crate::Real;
use crate::kernel::{AlignedVec, PanelColumn, Products, accumulate, fill_column, height, read_column, write_column};
use faer::{MatMut, MatRef, prelude::*};
use kpass::BufferPool;
use pulp::{Simd, WithSimd};

/// Number of features in a panel, a multiple of [`GROUP_ROWS`]. A panel of 48 rows in `f32` takes
/// 95 KiB.
const PANEL_FEATURES: usize = 504;

/// Bytes of the panels that are processed together: they take a part of a second-level cache, and
/// hold a whole strip of the Nyström map.
const PANEL_BYTES: usize = 288 * PANEL_FEATURES * size_of::<f32>();

/// Number of rows of the factor stored together, a multiple of the width of every group.
const GROUP_ROWS: usize = 24;

/// A lower triangular factor L, r x r, prepared for forward substitution.
///
/// Stores r²/2 + 13r numbers, and up to 567 KiB of panels per thread.
#[derive(Debug)]
pub(crate) struct LowerFactor<T> {
    order: usize,
    /// Rows of −L, one after the other. Each row ends with the group that contains its diagonal
    /// entry; zeros fill this group.
    negated_rows: Vec<T>,
    /// 1 / L_jj.
    inverse_diagonal: Vec<T>,
    panels: BufferPool<AlignedVec<T>>,
}

impl<T: Real> LowerFactor<T> {
    pub(crate) fn new(lower: MatRef<'_, f64>) -> Self {
        let order = lower.nrows();
        let padded_order = order.next_multiple_of(GROUP_ROWS);
        let mut negated_rows = Vec::with_capacity(row_offset(padded_order));
        for i in 0..padded_order {
            let entry_count = if i < order { i + 1 } else { 0 };
            negated_rows.extend((0..entry_count).map(|k| T::from_f64(-lower[(i, k)]).saturate()));
            negated_rows.resize(row_offset(i) + padded_row_len(i), T::ZERO);
        }
        let mut inverse_diagonal: Vec<T> = (0..order).map(|i| T::from_f64(1.0 / lower[(i, i)]).saturate()).collect();
        inverse_diagonal.resize(padded_order, T::ZERO);
        Self { order, negated_rows, inverse_diagonal, panels: BufferPool::default() }
    }

    /// Returns the bytes of a factor of order r.
    pub(crate) const fn bytes(r: usize) -> usize {
        let padded_order = r.next_multiple_of(GROUP_ROWS);
        (row_offset(padded_order) + padded_order) * size_of::<T>()
    }

    /// Replaces each row k of `x` (b x r) by L⁻¹k. Costs b·r² flops.
    pub(crate) fn solve(&self, x: MatMut<'_, T>) {
        self.panels.with_buffer(AlignedVec::default, |panels| {
            pulp::Arch::new().dispatch(Substitution { lower: self, x, panels, column_buffer: Vec::new() });
        });
    }

    /// Returns row i of −L, up to the end of its group.
    fn row(&self, i: usize) -> &[T] {
        &self.negated_rows[row_offset(i)..][..padded_row_len(i)]
    }
}

/// Returns the number of stored entries of row i.
const fn padded_row_len(i: usize) -> usize {
    (i / GROUP_ROWS + 1) * GROUP_ROWS
}

/// Returns the offset of row i; the groups before it have 24·24, 24·48, … numbers.
const fn row_offset(i: usize) -> usize {
    let group = i / GROUP_ROWS;
    GROUP_ROWS * GROUP_ROWS * group * (group + 1) / 2 + i % GROUP_ROWS * padded_row_len(i)
}

struct Substitution<'a, T: Real> {
    lower: &'a LowerFactor<T>,
    x: MatMut<'a, T>,
    /// Computed features, in panels.
    panels: &'a mut AlignedVec<T>,
    /// Buffer for columns that are not contiguous.
    column_buffer: Vec<T>,
}

impl<T: Real> WithSimd for Substitution<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // a constant condition: only one of the two branches is compiled
        if const { S::REGISTER_COUNT >= 32 } {
            self.solve_panels::<S, 3, 8>(simd)
        } else {
            self.solve_panels::<S, 2, 6>(simd)
        }
    }
}

impl<T: Real> Substitution<'_, T> {
    #[inline(always)]
    fn solve_panels<S: Simd, const VECTORS: usize, const COLUMNS: usize>(mut self, simd: S) {
        let (height, row_count, order) = (height::<T, S>(), self.x.nrows(), self.lower.order);
        let depth = PANEL_FEATURES.min(self.lower.inverse_diagonal.len());
        let panel_count =
            (PANEL_BYTES / (PANEL_FEATURES * size_of::<T>() * height)).max(1).min(row_count.div_ceil(height));
        let buffer_len = panel_count * depth * height;
        if self.panels.len() < buffer_len {
            self.panels.resize_zeroed(buffer_len);
        }
        // loops, because closures would be compiled for the baseline instruction set
        for first_row in (0..row_count).step_by((panel_count * height).max(1)) {
            let count = row_count.min(first_row + panel_count * height) - first_row;
            for first_feature in (0..order).step_by(PANEL_FEATURES) {
                for j in (first_feature..order).step_by(COLUMNS) {
                    self.solve_group::<S, VECTORS, COLUMNS>(simd, first_row, count, first_feature, depth, j);
                }
            }
        }
    }

    /// Subtracts the contributions of features `first_feature..first_feature + depth` from the
    /// group of features that starts at j, in `row_count` rows from `first_row` on. If this range
    /// contains the group itself, also solves for it.
    #[inline(always)]
    fn solve_group<S: Simd, const VECTORS: usize, const COLUMNS: usize>(
        &mut self,
        simd: S,
        first_row: usize,
        row_count: usize,
        first_feature: usize,
        depth: usize,
        j: usize,
    ) {
        let (height, solved_count, width) =
            (height::<T, S>(), depth.min(j - first_feature), COLUMNS.min(self.lower.order - j));
        let mut factor_rows = [&self.lower.negated_rows[..0]; COLUMNS];
        for (c, row) in factor_rows.iter_mut().enumerate() {
            *row = &self.lower.row(j + c)[first_feature..][..solved_count];
        }
        for (i, panel) in (0..row_count).step_by(height).zip(self.panels.chunks_exact_mut(depth * height)) {
            let mut x = self.x.rb_mut().submatrix_mut(first_row + i, j, height.min(row_count - i), width);
            let mut tile = [[T::splat(simd, T::ZERO); VECTORS]; COLUMNS];
            for (column, tile) in x.rb_mut().col_iter_mut().zip(&mut tile) {
                fill_column(
                    column,
                    &mut self.column_buffer,
                    #[inline(always)]
                    |x| *tile = read_column::<T, S, VECTORS>(simd, x),
                );
            }
            let (panel, _) = T::vectors_mut::<S>(panel).as_chunks_mut::<VECTORS>();
            let (solved, unsolved) = panel.split_at_mut(solved_count);
            // start from the kernel values and not from 0: the remainder, and with it its rounding
            // error, decreases with each subtracted feature
            tile = accumulate::<T, S, Products, VECTORS, COLUMNS, false>(simd, solved, &factor_rows, tile);
            if solved_count < depth {
                self.lower.solve_triangle::<S, VECTORS, COLUMNS>(simd, j, &mut tile);
                unsolved[..COLUMNS].copy_from_slice(&tile);
            }
            for (column, tile) in x.col_iter_mut().zip(&tile) {
                fill_column(
                    column,
                    &mut self.column_buffer,
                    #[inline(always)]
                    |x| write_column::<T, S, VECTORS>(tile, x),
                );
            }
        }
    }
}

impl<T: Real> LowerFactor<T> {
    /// Solves for the group of features that starts at j, after the contributions of all earlier
    /// features were subtracted.
    #[inline(always)]
    fn solve_triangle<S: Simd, const VECTORS: usize, const COLUMNS: usize>(
        &self,
        simd: S,
        j: usize,
        tile: &mut [PanelColumn<T, S, VECTORS>; COLUMNS],
    ) {
        let zero = T::splat(simd, T::ZERO);
        for c in 0..COLUMNS {
            let inverse = T::splat(simd, self.inverse_diagonal[j + c]);
            for value in &mut tile[c] {
                *value = T::multiply_add(simd, *value, inverse, zero);
            }
            let solved = tile[c];
            for (e, later_feature) in tile.iter_mut().enumerate().skip(c + 1) {
                let factor_entry = T::splat(simd, self.row(j + e)[j + c]);
                for (value, solved) in later_feature.iter_mut().zip(solved) {
                    *value = T::multiply_add(simd, solved, factor_entry, *value);
                }
            }
        }
    }
}
