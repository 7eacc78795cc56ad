//! Computes sums over features for all pairs of two sets of points, in registers.
//!
//! A *panel* consists of the pairs of some rows of `x`, which fill a few vectors, with a few rows
//! of `z`. The sums of a panel are accumulators that stay in registers during the loop over all
//! features. Directly after this loop they are converted to kernel values, while they are in the
//! first-level cache (1.5 KiB); no matrix of inner products is written to memory. A value depends
//! only on its pair of points, and not on the panel. Splitting the rows of `x` therefore does not
//! change the bits of a block.
//!
//! (Register tiling after Goto, van de Geijn, *Anatomy of High-Performance Matrix Multiplication*,
//! ACM TOMS 34, 2008; the features are not blocked, because there are few.)

use super::points::{AlignedVec, Frame, index_chunks, row_slice};
use super::terms::Term;
use crate::{Lanes, Real};
use faer::{MatMut, MatRef, prelude::*};
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// Maximum number of rows of `x` per tile (the rows packed at once). It is the height of a strip of
/// the Nyström map, and a multiple of every panel's height.
pub(super) const TILE_ROWS: usize = 288;
/// Number of rows of `z` per tile, a multiple of every panel's width.
const TILE_COLUMNS: usize = 120;
/// Packed rows of `z` are padded to a multiple of this number, a multiple of every panel's width.
const ROW_PADDING: usize = 24;
/// Width of the widest panel.
const MAX_WIDTH: usize = 8;

/// A column of a panel: a few vectors of numbers. If the processor has 32 registers, panels have
/// eight columns of three vectors; if it has 16 registers, they have six columns of two vectors.
/// Besides the sums and one column of `x`, two registers must remain for values of `z`. Four
/// columns of three vectors leave only one of 16: the compiler then spills a sum to memory, and the
/// loop runs at two thirds of the speed.
pub(crate) type PanelColumn<T, S, const VECTORS: usize> = [<T as Lanes>::Vector<S>; VECTORS];

/// Height of the tallest panel: three vectors of sixteen numbers.
const MAX_HEIGHT: usize = 48;

/// Reads a column of a panel; missing numbers are zero.
#[inline(always)]
pub(crate) fn read_column<T: Real, S: Simd, const VECTORS: usize>(simd: S, source: &[T]) -> PanelColumn<T, S, VECTORS> {
    if let Some(column) = T::vectors::<S>(source).first_chunk() {
        return *column;
    }
    let mut padded_column = [T::ZERO; MAX_HEIGHT];
    padded_column[..source.len()].copy_from_slice(source);
    T::vectors::<S>(&padded_column).first_chunk().copied().unwrap_or([T::splat(simd, T::ZERO); VECTORS])
}

/// Writes as many numbers of a panel column as fit into `destination`.
#[inline(always)]
pub(crate) fn write_column<T: Real, S: Simd, const VECTORS: usize>(
    column: &PanelColumn<T, S, VECTORS>,
    destination: &mut [T],
) {
    if let Some(to) = T::vectors_mut::<S>(destination).first_chunk_mut() {
        *to = *column;
        return;
    }
    let mut padded_column = [T::ZERO; MAX_HEIGHT];
    if let Some(all) = T::vectors_mut::<S>(&mut padded_column).first_chunk_mut() {
        *all = *column;
    }
    destination.copy_from_slice(&padded_column[..destination.len()]);
}

/// Numbers that are precomputed from a single point.
#[derive(Clone, Copy)]
pub(crate) struct PointStats<T> {
    /// The point's contribution to a sum over features.
    pub(crate) offset: T,
    /// The point's contribution to the magnitude of a sum's terms.
    pub(crate) size: T,
}

/// The precomputed numbers of some points; empty if the kernel does not use them.
#[derive(Default)]
pub(crate) struct PointStatsTable<T> {
    pub(crate) offsets: Vec<T>,
    pub(crate) sizes: Vec<T>,
    pub(crate) max_size: T,
}

impl<T: Real> PointStatsTable<T> {
    #[inline(always)]
    pub(super) fn offsets(&self, i: usize, count: usize) -> &[T] {
        if self.offsets.is_empty() { &[] } else { &self.offsets[i..][..count] }
    }

    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> PointStats<T> {
        let number = |numbers: &[T]| numbers.get(i).copied().unwrap_or(T::ZERO);
        PointStats { offset: number(&self.offsets), size: number(&self.sizes) }
    }
}

/// The step that converts sums over features to kernel values.
pub(crate) trait Epilogue<T: Real> {
    /// How many numbers are precomputed per point.
    const STATS_PER_POINT: usize = 0;
    /// Precomputes the numbers of single rows of x. The rows are in panels of `height` rows, as
    /// [`Frame::pack_panels`] writes them. May change the rows before the sums over pairs are
    /// computed, for example by a factor.
    fn panel_stats(&self, _panels: &mut [T], _height: usize, _d: usize, _stats: &mut PointStatsTable<T>) {}
    /// Precomputes the numbers of a single row of x, bit-identical to
    /// [`panel_stats`](Self::panel_stats); may change the row as well.
    fn point_stats(&self, _x: &mut [T]) -> PointStats<T> {
        PointStats { offset: T::ZERO, size: T::ZERO }
    }
    /// Precomputes the numbers of single rows of z with `d` features.
    fn row_stats(&self, _rows: &[T], _d: usize, _stats: &mut PointStatsTable<T>) {}
    /// Computes the kernel values of one point with others from the `sums` of the pairs; `max_size`
    /// is the largest size among the others. Returns true if some pair is suspect (inexact because
    /// of cancellation or overflow): [`recompute`](Self::recompute) then examines all pairs. Must
    /// be marked `#[inline(always)]`: it is compiled into the loops of every instruction set, with
    /// the panel height of that instruction set as a constant.
    fn values(&self, point: PointStats<T>, other_offsets: &[T], max_size: T, sums: &[T], values: &mut [T]) -> bool;
    /// Recomputes the value of a suspect pair; returns `None` if the pair is not suspect. Whether a
    /// pair is suspect must depend on this pair alone; otherwise splitting a block would change its
    /// bits.
    fn recompute(&self, _one: PointStats<T>, _other: PointStats<T>, _sum: T, _x: &[T], _z: &[T]) -> Option<T> {
        None
    }
    /// Recomputes the suspect values of one point with the points of `pairs`; `first` is the index
    /// of the first of these points in `stats`.
    #[cold]
    fn recompute_suspects(
        &self,
        point_stats: PointStats<T>,
        stats: &PointStatsTable<T>,
        first: usize,
        pairs: SuspectPairs<'_, T>,
        values: &mut [T],
    ) {
        let SuspectPairs { point, points: others, is_exchanged, sums } = pairs;
        let mut row_buffer = Vec::new();
        for (i, (value, &sum)) in values.iter_mut().zip(sums).enumerate() {
            let other = row_slice(others, i, &mut row_buffer);
            let (x, z) = if is_exchanged { (point, other) } else { (other, point) };
            *value = self.recompute(point_stats, stats.get(first + i), sum, x, z).unwrap_or(*value);
        }
    }
}

/// One point and other points, with their original values, and the sums of the pairs.
pub(crate) struct SuspectPairs<'a, T> {
    pub(super) point: &'a [T],
    pub(super) points: MatRef<'a, T>,
    /// True if the one point is a row of x and the others are rows of z.
    pub(super) is_exchanged: bool,
    pub(super) sums: &'a [T],
}

/// A block of values to compute: a row for each point of `x`, a column for each point of `z`.
pub(crate) struct ValueBlock<'a, T> {
    pub(crate) frame: &'a Frame<T>,
    pub(crate) x: MatRef<'a, T>,
    pub(crate) z: MatRef<'a, T>,
    pub(crate) out: MatMut<'a, T>,
}

impl<T: Real> ValueBlock<'_, T> {
    /// Computes `out[i, j]`, the value that `epilogue` derives from Σ_k M(x_ik, z_jk), after the
    /// points are shifted and scaled as `frame` defines.
    pub(crate) fn fill<M: Term, F: Epilogue<T>>(self, epilogue: &F) {
        let Self { frame, x, z, mut out } = self;
        let height = panel_height::<T>();
        let (mut x_packed, mut z_packed) = (AlignedVec::default(), AlignedVec::default());
        let (mut x_stats, mut z_stats) = (PointStatsTable::default(), PointStatsTable::default());
        let (mut sums, mut values, mut row_buffer) = (AlignedVec::default(), AlignedVec::default(), Vec::new());
        sums.resize_zeroed(MAX_WIDTH * height);
        values.resize_zeroed(height);
        for (i, rows) in index_chunks(x.nrows(), TILE_ROWS) {
            let x = x.subrows(i, rows);
            frame.pack_panels(x, height, &mut x_packed);
            epilogue.panel_stats(&mut x_packed, height, frame.feature_count(), &mut x_stats);
            for (j, columns) in index_chunks(z.nrows(), TILE_COLUMNS) {
                let z = z.subrows(j, columns);
                frame.pack_rows(z, columns.next_multiple_of(ROW_PADDING), &mut z_packed);
                epilogue.row_stats(&z_packed, frame.feature_count(), &mut z_stats);
                let (packed, stats, term) = ((&*x_packed, &*z_packed), (&x_stats, &z_stats), PhantomData::<M>);
                let (sums, values, row_buffer) = (&mut *sums, &mut *values, &mut row_buffer);
                let out = out.rb_mut().submatrix_mut(i, j, rows, columns);
                pulp::Arch::new().dispatch(TileFill {
                    x,
                    z,
                    packed,
                    stats,
                    epilogue,
                    out,
                    sums,
                    values,
                    column_buffer: row_buffer,
                    term,
                });
            }
        }
    }
}

pub(crate) fn panel_height<T: Real>() -> usize {
    pulp::Arch::new().dispatch(PanelHeight(PhantomData::<T>))
}

struct PanelHeight<T>(PhantomData<T>);

impl<T: Real> WithSimd for PanelHeight<T> {
    type Output = usize;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        height::<T, S>()
    }
}

/// Returns the number of rows of a panel. It is a constant at compile time, so the compiler unrolls
/// loops over a panel column.
#[inline(always)]
pub(crate) fn height<T: Real, S: Simd>() -> usize {
    let vectors_per_column = if S::REGISTER_COUNT >= 32 { 3 } else { 2 };
    vectors_per_column * size_of::<T::Vector<S>>() / size_of::<T>()
}

struct TileFill<'a, T, M, F> {
    x: MatRef<'a, T>,
    z: MatRef<'a, T>,
    /// Packed panels of rows of x, feature by feature, and packed rows of z.
    packed: (&'a [T], &'a [T]),
    stats: (&'a PointStatsTable<T>, &'a PointStatsTable<T>),
    epilogue: &'a F,
    out: MatMut<'a, T>,
    /// Sums of a panel, column by column.
    sums: &'a mut [T],
    /// Kernel values at the end of a column that is shorter than a panel.
    values: &'a mut [T],
    /// Scratch for columns that have to be copied.
    column_buffer: &'a mut Vec<T>,
    term: PhantomData<M>,
}

impl<T: Real, M: Term, F: Epilogue<T>> WithSimd for TileFill<'_, T, M, F> {
    type Output = ();

    /// The condition is a constant, so only one branch is compiled.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if const { S::REGISTER_COUNT >= 32 } { self.run::<S, 3, 8>(simd) } else { self.run::<S, 2, 6>(simd) }
    }
}

impl<T: Real, M: Term, F: Epilogue<T>> TileFill<'_, T, M, F> {
    #[inline(always)]
    fn run<S: Simd, const VECTORS: usize, const COLUMNS: usize>(mut self, simd: S) {
        let (d, columns) = (self.x.ncols().max(1), self.out.ncols());
        let (panels, _) = T::vectors::<S>(self.packed.0).as_chunks::<VECTORS>();
        for (j, z) in (0..columns).step_by(COLUMNS).zip(self.packed.1.chunks_exact(COLUMNS * d)) {
            let mut z_rows = [z; COLUMNS];
            for (c, row) in z_rows.iter_mut().enumerate() {
                *row = &z[c * d..][..d];
            }
            let width = COLUMNS.min(columns - j);
            let mut out = self.out.rb_mut().subcols_mut(j, width);
            // if the columns of the block are contiguous, the values are written to them directly
            let group =
                ColumnGroup { x: self.x, z: self.z, stats: self.stats, epilogue: self.epilogue, term: self.term, j };
            match contiguous_columns::<T, COLUMNS>(out.rb_mut()) {
                Some(mut to) => group.fill(simd, panels, &z_rows, self.sums, self.values, &mut to[..width]),
                None => {
                    let row_count = out.nrows();
                    self.column_buffer.resize(COLUMNS * row_count, T::ZERO);
                    let mut to = self.column_buffer.chunks_exact_mut(row_count);
                    let mut to: [&mut [T]; COLUMNS] = std::array::from_fn(|_| to.next().unwrap_or_default());
                    group.fill(simd, panels, &z_rows, self.sums, self.values, &mut to[..width]);
                    for (column, source) in out.col_iter_mut().zip(self.column_buffer.chunks_exact(row_count)) {
                        column.iter_mut().zip(source).for_each(|(to, value)| *to = *value);
                    }
                }
            }
        }
    }
}

/// Returns the columns of a block as slices, or `None` if their elements are strided.
fn contiguous_columns<T, const COLUMNS: usize>(out: MatMut<'_, T>) -> Option<[&mut [T]; COLUMNS]> {
    let mut columns = out.try_as_col_major_mut()?.col_iter_mut().map(faer::col::ColMut::as_slice_mut);
    Some(std::array::from_fn(|_| columns.next().unwrap_or_default()))
}

/// Some rows of z, starting at row j of the tile, with all rows of x.
struct ColumnGroup<'a, T, M, F> {
    x: MatRef<'a, T>,
    z: MatRef<'a, T>,
    stats: (&'a PointStatsTable<T>, &'a PointStatsTable<T>),
    epilogue: &'a F,
    term: PhantomData<M>,
    j: usize,
}

impl<T: Real, M: Term, F: Epilogue<T>> ColumnGroup<'_, T, M, F> {
    /// Fills the columns `to` of the block, panel by panel. `sums` holds the sums of a panel.
    /// `values` holds the kernel values at the end of a column if fewer rows than a panel remain.
    #[inline(always)]
    fn fill<S: Simd, const VECTORS: usize, const COLUMNS: usize>(
        &self,
        simd: S,
        panels: &[PanelColumn<T, S, VECTORS>],
        z_rows: &[&[T]; COLUMNS],
        sums: &mut [T],
        values: &mut [T],
        to: &mut [&mut [T]],
    ) {
        let (d, height, rows) = (self.x.ncols().max(1), height::<T, S>(), self.x.nrows());
        let zeros = [[T::splat(simd, T::ZERO); VECTORS]; COLUMNS];
        for (i, panel) in (0..rows).step_by(height).zip(panels.chunks_exact(d)) {
            let (vectors, _) = T::vectors_mut::<S>(sums).as_chunks_mut::<VECTORS>();
            if let Some(vectors) = vectors.first_chunk_mut::<COLUMNS>() {
                *vectors = accumulate::<T, S, M, VECTORS, COLUMNS, false>(simd, panel, z_rows, zeros);
            }
            for (c, (to, sums)) in to.iter_mut().zip(sums.chunks_exact(height)).enumerate() {
                match to.get_mut(i..i + height) {
                    Some(to) => self.finish_column(i, c, sums, to),
                    None => {
                        let values = &mut values[..height];
                        self.finish_column(i, c, sums, values);
                        to[i..].copy_from_slice(&values[..rows - i]);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn finish_column(&self, i: usize, c: usize, sums: &[T], values: &mut [T]) {
        let (x_stats, z_stats) = self.stats;
        let point_stats = z_stats.get(self.j + c);
        if self.epilogue.values(point_stats, x_stats.offsets(i, sums.len()), x_stats.max_size, sums, values) {
            let (row_count, mut row_buffer) = (sums.len().min(self.x.nrows() - i), Vec::new());
            let (others, one_point) = (self.x.subrows(i, row_count), row_slice(self.z, self.j + c, &mut row_buffer));
            let suspects = SuspectPairs { point: one_point, points: others, is_exchanged: false, sums };
            self.epilogue.recompute_suspects(point_stats, x_stats, i, suspects, &mut values[..row_count]);
        }
    }
}

/// Returns `sums` plus the sums of a panel of rows of x with `COLUMNS` rows of z. If `EXCHANGED`,
/// the panel holds rows of z, and `z_rows` are rows of x.
///
/// All loops except the loop over features have constant lengths, and no index needs a bounds
/// check. Otherwise the compiler would keep the sums in memory, and the loop would take twice as
/// long.
#[inline(always)]
pub(crate) fn accumulate<
    T: Real,
    S: Simd,
    M: Term,
    const VECTORS: usize,
    const COLUMNS: usize,
    const EXCHANGED: bool,
>(
    simd: S,
    panel: &[PanelColumn<T, S, VECTORS>],
    z_rows: &[&[T]; COLUMNS],
    mut sums: [PanelColumn<T, S, VECTORS>; COLUMNS],
) -> [PanelColumn<T, S, VECTORS>; COLUMNS] {
    for k in 0..panel.len() {
        for c in 0..COLUMNS {
            let z = T::splat(simd, z_rows[c][k]);
            for v in 0..VECTORS {
                let (x, z) = if EXCHANGED { (z, panel[k][v]) } else { (panel[k][v], z) };
                sums[c][v] = M::add::<T, S>(simd, sums[c][v], x, z);
            }
        }
    }
    sums
}
