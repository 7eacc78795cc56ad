//! Sums over features for a few rows with fixed points, in registers.
//!
//! The [panels](super::panel) with x and z exchanged: the fixed points are packed into vectors
//! once, so a row needs no other rows to fill a vector. Each value is computed by the same
//! operations in the same order as in a block.

use super::fixed::{FEW, KernelColumns};
use super::panel::{Finish, Own, Owns, Suspects, accumulate, height, panel_height, write};
use super::points::{Aligned, Frame, row};
use super::terms::Term;
use crate::{Real, vectorised};
use faer::MatRef;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// Rows whose sums are in registers at once; remaining rows are processed one by one.
const WIDE: usize = 4;
/// Sums of a row that are converted to values at once.
const AT_ONCE: usize = 128;

/// Fixed points in panels, and the numbers that `finish` precomputes for them.
struct Few<T, M, F> {
    frame: Frame<T>,
    finish: F,
    /// Points in the layout of [`Frame::pack_panels`].
    panels: Aligned<T>,
    owns: Owns<T>,
    term: PhantomData<M>,
}

/// Prepares the points `z` in `frame` for the kernel that `finish` derives from Σ_k M(x_k, z_k).
pub(crate) fn columns<T, M, F>(frame: Frame<T>, finish: F, z: MatRef<'_, T>) -> Box<dyn KernelColumns<T>>
where
    T: Real,
    M: Term,
    F: Finish<T> + Send + Sync + 'static,
{
    let (mut rows, mut panels, mut owns) = (Aligned::default(), Aligned::default(), Owns::default());
    // packed as rows first, as in a block: a point's own values are summed in the same order
    frame.pack_rows(z, z.nrows(), &mut rows);
    finish.rows(&rows, frame.width(), &mut owns);
    in_panels(&rows, frame.width(), panel_height::<T>(), &mut panels);
    Box::new(Few { frame, finish, panels, owns, term: PhantomData::<M> })
}

/// Copies rows of d numbers into panels of `height` rows, with the values of a column side by side;
/// missing rows are zero.
pub(crate) fn in_panels<T: Real>(rows: &[T], d: usize, height: usize, out: &mut Aligned<T>) {
    let out = out.zeros((rows.len() / d).next_multiple_of(height.max(1)) * d);
    for (panel, rows) in out.chunks_exact_mut(height.max(1) * d).zip(rows.chunks(height.max(1) * d)) {
        for (i, row) in rows.chunks_exact(d).enumerate() {
            row.iter().enumerate().for_each(|(k, value)| panel[k * height + i] = *value);
        }
    }
}

impl<T: Real, M: Term, F: Finish<T> + Send + Sync> KernelColumns<T> for Few<T, M, F> {
    fn scratch(&self) -> usize {
        FEW * self.frame.width()
    }

    fn bytes(&self) -> usize {
        size_of::<T>() * (self.panels.len() + self.panels.len() / self.frame.width() * F::OWN)
    }

    fn rows(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: &mut [T], scratch: &mut [T]) {
        let (m, d, mut spare) = (z.nrows(), self.frame.width(), Vec::new());
        let scaled = &mut scratch[..x.nrows() * d];
        let mut own = [Own { offset: T::ZERO, size: T::ZERO }; FEW];
        for (i, (own, scaled)) in own.iter_mut().zip(scaled.chunks_exact_mut(d)).enumerate() {
            self.frame.pack_row(row(x, i, &mut spare), scaled);
            *own = self.finish.own(scaled);
        }
        pulp::Arch::new().dispatch(FewSums { rows: scaled, panels: &self.panels, d, m, out, term: self.term });
        for (i, (own, values)) in own.iter().zip(out.chunks_exact_mut(m.max(1))).enumerate() {
            self.finish_row(*own, row(x, i, &mut spare), z, values);
        }
    }
}

impl<T: Real, M: Term, F: Finish<T>> Few<T, M, F> {
    /// Replaces the sums of row `x` with all points by kernel values.
    fn finish_row(&self, own: Own<T>, x: &[T], z: MatRef<'_, T>, values: &mut [T]) {
        let mut sums = [T::ZERO; AT_ONCE];
        for (first, values) in (0..).step_by(AT_ONCE).zip(values.chunks_mut(AT_ONCE)) {
            let (count, sums) = (values.len(), &mut sums[..values.len()]);
            sums.copy_from_slice(values);
            let (others, largest) = (self.owns.offsets(first, count), self.owns.largest);
            if vectorised!(self.finish.values(own, others, largest, sums, values)) {
                let suspects = Suspects { one: x, others: z.subrows(first, count), exchanged: true, sums };
                self.finish.repair(own, &self.owns, first, suspects, values);
            }
        }
    }
}

/// The sums of rows with all points, `out[i m + j]`, as a vectorised computation.
struct FewSums<'a, T, M> {
    rows: &'a [T],
    panels: &'a [T],
    d: usize,
    m: usize,
    out: &'a mut [T],
    term: PhantomData<M>,
}

impl<T: Real, M: Term> WithSimd for FewSums<'_, T, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // a constant condition: only one branch is compiled
        if const { S::REGISTER_COUNT >= 32 } { self.run::<S, 3>(simd) } else { self.run::<S, 2>(simd) }
    }
}

impl<T: Real, M: Term> FewSums<'_, T, M> {
    #[inline(always)]
    fn run<S: Simd, const TALL: usize>(&mut self, simd: S) {
        let rows = self.rows.len() / self.d;
        let together = rows / WIDE * WIDE;
        // loops, because closures would be compiled for the baseline instruction set
        for i in (0..together).step_by(WIDE) {
            self.group::<S, TALL, WIDE>(simd, i);
        }
        for i in together..rows {
            self.group::<S, TALL, 1>(simd, i);
        }
    }

    /// Computes the sums of rows `first..first + COUNT`.
    #[inline(always)]
    fn group<S: Simd, const TALL: usize, const COUNT: usize>(&mut self, simd: S, first: usize) {
        let (d, m, height) = (self.d, self.m, height::<T, S>());
        let group = &self.rows[first * d..][..COUNT * d];
        let mut rows = [group; COUNT];
        for (c, row) in rows.iter_mut().enumerate() {
            *row = &group[c * d..][..d];
        }
        let out = &mut self.out[first * m..][..COUNT * m];
        let (panels, _) = T::vectors::<S>(self.panels).as_chunks();
        let zeros = [[T::splat(simd, T::ZERO); TALL]; COUNT];
        for (j, panel) in (0..m).step_by(height).zip(panels.chunks_exact(d)) {
            let sums = accumulate::<T, S, M, TALL, COUNT, true>(simd, panel, &rows, zeros);
            for (c, sums) in sums.iter().enumerate() {
                let to = &mut out[c * m + j..][..height.min(m - j)];
                write::<T, S, TALL>(sums, to);
            }
        }
    }
}
