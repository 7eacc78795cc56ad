//! Computes sums over features for pairs of a few rows and fixed points, in registers.
//!
//! This is the scheme of the [panels](super::panel) with the roles of x and z exchanged: the fixed
//! points, not the rows, are packed into vectors, and only once. A single row therefore keeps all
//! lanes of a vector busy. Each value is computed by the same operations in the same order as in a
//! block.

use super::fixed_kernel::{MAX_FEW_ROWS, PreparedPoints};
use super::panel::{
    Epilogue, PointStats, PointStatsTable, SuspectPairs, accumulate, height, panel_height, write_column,
};
use super::points::{AlignedVec, Frame, row_slice};
use super::terms::Term;
use crate::{Real, vectorised};
use faer::MatRef;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// Number of rows whose sums are in registers at the same time. If the number of rows is not a
/// multiple of it, the remaining rows are processed one by one.
const ROW_GROUP: usize = 4;
/// Number of sums of a row that are converted to kernel values at once.
const SUMS_AT_ONCE: usize = 128;

/// Fixed points in panels, and the numbers that `epilogue` precomputes for them.
struct FixedPanels<T, M, F> {
    frame: Frame<T>,
    epilogue: F,
    /// Points in the layout of [`Frame::pack_panels`].
    panels: AlignedVec<T>,
    stats: PointStatsTable<T>,
    term: PhantomData<M>,
}

/// Prepares the points `z` in `frame` for the kernel that `epilogue` derives from Σ_k M(x_k, z_k).
pub(crate) fn prepare_points<T, M, F>(frame: Frame<T>, epilogue: F, z: MatRef<'_, T>) -> Box<dyn PreparedPoints<T>>
where
    T: Real,
    M: Term,
    F: Epilogue<T> + Send + Sync + 'static,
{
    let (mut rows, mut panels, mut stats) = (AlignedVec::default(), AlignedVec::default(), PointStatsTable::default());
    // packed as rows first, so that the numbers of single points are summed in the order of a block
    frame.pack_rows(z, z.nrows(), &mut rows);
    epilogue.row_stats(&rows, frame.feature_count(), &mut stats);
    rows_to_panels(&rows, frame.feature_count(), panel_height::<T>(), &mut panels);
    Box::new(FixedPanels { frame, epilogue, panels, stats, term: PhantomData::<M> })
}

/// Copies rows of d numbers into panels of `height` rows, with the values of a column side by side;
/// missing rows are zero.
pub(crate) fn rows_to_panels<T: Real>(rows: &[T], d: usize, height: usize, out: &mut AlignedVec<T>) {
    let out = out.resize_zeroed((rows.len() / d).next_multiple_of(height.max(1)) * d);
    for (panel, rows) in out.chunks_exact_mut(height.max(1) * d).zip(rows.chunks(height.max(1) * d)) {
        for (i, row) in rows.chunks_exact(d).enumerate() {
            row.iter().enumerate().for_each(|(k, value)| panel[k * height + i] = *value);
        }
    }
}

impl<T: Real, M: Term, F: Epilogue<T> + Send + Sync> PreparedPoints<T> for FixedPanels<T, M, F> {
    fn scratch_len(&self) -> usize {
        MAX_FEW_ROWS * self.frame.feature_count()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * (self.panels.len() + self.panels.len() / self.frame.feature_count() * F::STATS_PER_POINT)
    }

    fn compute_rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (m, d, mut row_buffer) = (z.nrows(), self.frame.feature_count(), Vec::new());
        let scaled_rows = &mut scratch[..x.nrows() * d];
        let mut stats = [PointStats { offset: T::ZERO, size: T::ZERO }; MAX_FEW_ROWS];
        for (i, (stats, scaled)) in stats.iter_mut().zip(scaled_rows.chunks_exact_mut(d)).enumerate() {
            self.frame.pack_row(row_slice(x, i, &mut row_buffer), scaled);
            *stats = self.epilogue.point_stats(scaled);
        }
        pulp::Arch::new().dispatch(FewRowSums { rows: scaled_rows, panels: &self.panels, d, m, out, term: self.term });
        for (i, (stats, values)) in stats.iter().zip(out.chunks_exact_mut(m.max(1))).enumerate() {
            self.finish_row(*stats, row_slice(x, i, &mut row_buffer), z, values);
        }
    }
}

impl<T: Real, M: Term, F: Epilogue<T>> FixedPanels<T, M, F> {
    /// Replaces the sums of row `x` with all points by kernel values.
    fn finish_row(&self, stats: PointStats<T>, x: &[T], z: MatRef<'_, T>, values: &mut [T]) {
        let mut sums = [T::ZERO; SUMS_AT_ONCE];
        for (first, values) in (0..).step_by(SUMS_AT_ONCE).zip(values.chunks_mut(SUMS_AT_ONCE)) {
            let (count, sums) = (values.len(), &mut sums[..values.len()]);
            sums.copy_from_slice(values);
            let (offsets, max_size) = (self.stats.offsets(first, count), self.stats.max_size);
            if vectorised!(self.epilogue.values(stats, offsets, max_size, sums, values)) {
                let suspects = SuspectPairs { point: x, points: z.subrows(first, count), is_exchanged: true, sums };
                self.epilogue.recompute_suspects(stats, &self.stats, first, suspects, values);
            }
        }
    }
}

/// The sums of rows with all points, `out[i m + j]`, as a vectorised computation.
struct FewRowSums<'a, T, M> {
    rows: &'a [T],
    panels: &'a [T],
    d: usize,
    m: usize,
    out: &'a mut [T],
    term: PhantomData<M>,
}

impl<T: Real, M: Term> WithSimd for FewRowSums<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // a constant condition: only one branch is compiled
        if const { S::REGISTER_COUNT >= 32 } { self.run::<S, 3>(simd) } else { self.run::<S, 2>(simd) }
    }
}

impl<T: Real, M: Term> FewRowSums<'_, T, M> {
    #[inline(always)]
    fn run<S: Simd, const VECTORS: usize>(&mut self, simd: S) {
        let row_count = self.rows.len() / self.d;
        let grouped_rows = row_count / ROW_GROUP * ROW_GROUP;
        // loops, because closures would be compiled for the baseline instruction set
        for i in (0..grouped_rows).step_by(ROW_GROUP) {
            self.sum_group::<S, VECTORS, ROW_GROUP>(simd, i);
        }
        for i in grouped_rows..row_count {
            self.sum_group::<S, VECTORS, 1>(simd, i);
        }
    }

    /// Computes the sums of rows `first..first + COUNT`.
    #[inline(always)]
    fn sum_group<S: Simd, const VECTORS: usize, const COUNT: usize>(&mut self, simd: S, first: usize) {
        let (d, m, height) = (self.d, self.m, height::<T, S>());
        let group = &self.rows[first * d..][..COUNT * d];
        let mut rows = [group; COUNT];
        for (c, row) in rows.iter_mut().enumerate() {
            *row = &group[c * d..][..d];
        }
        let out = &mut self.out[first * m..][..COUNT * m];
        let (panels, _) = T::vectors::<S>(self.panels).as_chunks();
        let zeros = [[T::splat(simd, T::ZERO); VECTORS]; COUNT];
        for (j, panel) in (0..m).step_by(height).zip(panels.chunks_exact(d)) {
            let sums = accumulate::<T, S, M, VECTORS, COUNT, true>(simd, panel, &rows, zeros);
            for (c, sums) in sums.iter().enumerate() {
                let destination = &mut out[c * m + j..][..height.min(m - j)];
                write_column::<T, S, VECTORS>(sums, destination);
            }
        }
    }
}
