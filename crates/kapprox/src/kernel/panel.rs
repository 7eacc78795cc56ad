//! Sums over features for all pairs of two sets of points, in registers.
//!
//! A *panel* is the pairs of a few vectors of `x` rows with a few `z` rows: its sums are accumulators that stay in
//! registers while all features pass, one after the other. The sums of a few columns of a tile, 9 KiB in `f32`, wait in
//! the first-level cache until they are made into kernel values. So a product never goes to memory, and a value depends on
//! its pair alone, whatever panel the pair is in: the bits of a block are those of its parts, however rows of `x` are cut.
//!
//! (Register tiling after Goto, van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, ACM TOMS 34, 2008; as
//! the number of features is small, there is no blocking over them.)

use super::points::{Aligned, Frame, fill_column, row};
use crate::Real;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// Most rows of `x` per tile: a whole strip of the Nyström map, and a multiple of every panel's height.
const TILE_ROWS: usize = 288;
/// Rows of `z` per tile, a multiple of every panel's width.
const TILE_COLUMNS: usize = 128;
/// The widest panel; packed rows of `z` are padded to a multiple.
const WIDEST: usize = 8;
/// Vectors per panel column.
const TALL: usize = 3;

/// One feature's contribution to a sum.
pub(crate) trait Term: Copy {
    /// `sum` with the contribution of the feature whose values are `x` and `z`. Must be marked `#[inline(always)]`.
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S>;
}

/// Σ x z.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Products;

impl Term for Products {
    #[inline(always)]
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        T::multiply_add(simd, x, z, sum)
    }
}

/// Σ (x − z)².
#[derive(Debug, Clone, Copy)]
pub(crate) struct Squares;

impl Term for Squares {
    #[inline(always)]
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        let difference = T::minus(simd, x, z);
        T::multiply_add(simd, difference, difference, sum)
    }
}

/// Σ |x − z|.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Magnitudes;

impl Term for Magnitudes {
    #[inline(always)]
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        T::plus(simd, sum, T::absolute(simd, T::minus(simd, x, z)))
    }
}

/// Σ (x − z)² / (x + z), where 0/0 is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChiSquares;

impl Term for ChiSquares {
    #[inline(always)]
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        let difference = T::minus(simd, x, z);
        let total = T::greatest(simd, T::plus(simd, x, z), T::splat(simd, T::SMALLEST));
        // the quotient is at most 1: nothing overflows
        T::multiply_add(simd, difference, T::quotient(simd, difference, total), sum)
    }
}

/// Σ 2 x z / (x + z), where 0/0 is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HarmonicMeans;

impl Term for HarmonicMeans {
    #[inline(always)]
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        let total = T::greatest(simd, T::plus(simd, x, z), T::splat(simd, T::SMALLEST));
        T::multiply_add(simd, T::plus(simd, x, x), T::quotient(simd, z, total), sum)
    }
}

/// Σ min(x, z).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Minima;

impl Term for Minima {
    #[inline(always)]
    fn add<T: Real, S: Simd>(simd: S, sum: T::Vector<S>, x: T::Vector<S>, z: T::Vector<S>) -> T::Vector<S> {
        T::plus(simd, sum, T::least(simd, x, z))
    }
}

/// The points of a tile as the loops want them.
#[derive(Debug)]
pub(crate) struct Packed<T> {
    /// Panels of `height` rows of x, each feature by feature: `x[(p·d + k)·height + i]`.
    pub(crate) x: Aligned<T>,
    /// Rows of z: `z[j·d + k]`.
    pub(crate) z: Aligned<T>,
    /// Rows of x per panel.
    pub(crate) height: usize,
}

/// What becomes of sums.
pub(crate) trait Finish<T: Real> {
    /// Prepares for the rows of `x` in `packed` (again for every tile of rows).
    fn rows(&mut self, _packed: &mut Packed<T>) {}
    /// Prepares for the rows of `z` in `packed` (again for every tile).
    fn columns(&mut self, _packed: &Packed<T>) {}
    /// Kernel values of the rows of `x` in the tile with row j of `z`, from their sums. True where some pair is suspect:
    /// [`repair`](Self::repair) will look at the column. Must be marked `#[inline(always)]`: it is compiled into the loops
    /// of every instruction set.
    fn column(&self, j: usize, sums: &[T], values: &mut [T]) -> bool;
    /// Computes the suspect pairs of a column anew: `x` are the rows of the tile, `z` is row j. Which pairs those are must
    /// depend on each pair alone, or the bits of a block would depend on how it is cut.
    fn repair(&self, _j: usize, _sums: &[T], _x: MatRef<'_, T>, _z: &[T], _values: &mut [T]) {}
}

/// `out[i, j]` = what `finish` makes of Σ_k M(x_ik, z_jk), of the points in `frame`.
pub(crate) fn block<T: Real, M: Term, F: Finish<T>>(
    frame: &Frame<T>,
    finish: &mut F,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    mut out: MatMut<'_, T>,
) {
    let height = pulp::Arch::new().dispatch(Height(PhantomData::<T>));
    let mut packed = Packed { x: Aligned::new(), z: Aligned::new(), height };
    let (mut sums, mut spare) = (Aligned::new(), Vec::new());
    for i in (0..x.nrows()).step_by(TILE_ROWS) {
        let rows = TILE_ROWS.min(x.nrows() - i);
        let x = x.subrows(i, rows);
        frame.pack_panels(x, height, &mut packed.x);
        finish.rows(&mut packed);
        sums.zeros(WIDEST * rows.next_multiple_of(height));
        for j in (0..z.nrows()).step_by(TILE_COLUMNS) {
            let columns = TILE_COLUMNS.min(z.nrows() - j);
            let z = z.subrows(j, columns);
            frame.pack_rows(z, columns.next_multiple_of(WIDEST), &mut packed.z);
            finish.columns(&packed);
            let (packed, finish, term) = (&packed, &*finish, PhantomData::<M>);
            let (sums, spare) = (&mut sums, &mut spare);
            let out = out.rb_mut().submatrix_mut(i, j, rows, columns);
            pulp::Arch::new().dispatch(Sweep { x, z, packed, finish, out, sums, spare, term });
        }
    }
}

/// Asks for the number of rows of a panel on this machine.
struct Height<T>(PhantomData<T>);

impl<T: Real> WithSimd for Height<T> {
    type Output = usize;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        TALL * size_of::<T::Vector<S>>() / size_of::<T>()
    }
}

/// A tile, a few columns at a time.
struct Sweep<'a, T, M, F> {
    x: MatRef<'a, T>,
    z: MatRef<'a, T>,
    packed: &'a Packed<T>,
    finish: &'a F,
    out: MatMut<'a, T>,
    /// Columns of sums, as tall as all panels together.
    sums: &'a mut [T],
    spare: &'a mut Vec<T>,
    term: PhantomData<M>,
}

impl<T: Real, M: Term, F: Finish<T>> WithSimd for Sweep<'_, T, M, F> {
    type Output = ();

    /// As many columns as leave registers for the rows of x and one number of z.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 { self.run::<S, 8>(simd) } else { self.run::<S, 4>(simd) }
    }
}

impl<T: Real, M: Term, F: Finish<T>> Sweep<'_, T, M, F> {
    #[inline(always)]
    fn run<S: Simd, const WIDE: usize>(mut self, simd: S) {
        let (d, rows, columns) = (self.x.ncols().max(1), self.out.nrows(), self.out.ncols());
        let tall = rows.next_multiple_of(self.packed.height);
        for (j, z) in (0..columns).step_by(WIDE).zip(self.packed.z.chunks_exact(WIDE * d)) {
            panels::<T, S, M, WIDE>(simd, &self.packed.x, z, d, self.sums, tall);
            for (j, sums) in (j..columns.min(j + WIDE)).zip(self.sums.chunks_exact(tall)) {
                let (sums, column) = (&sums[..rows], self.out.rb_mut().col_mut(j));
                fill_column(
                    column,
                    self.spare,
                    #[inline(always)]
                    |values| {
                        if self.finish.column(j, sums, values) {
                            let mut spare = Vec::new();
                            self.finish.repair(j, sums, self.x, row(self.z, j, &mut spare), values);
                        }
                    },
                );
            }
        }
    }
}

/// The sums of all rows of x with `WIDE` rows of z, into columns of `tall` numbers.
#[inline(always)]
fn panels<T: Real, S: Simd, M: Term, const WIDE: usize>(
    simd: S,
    x: &[T],
    z: &[T],
    d: usize,
    columns: &mut [T],
    tall: usize,
) {
    let mut z_rows = [z; WIDE];
    for (c, row) in z_rows.iter_mut().enumerate() {
        *row = &z[c * d..(c + 1) * d];
    }
    let columns = T::vectors_mut::<S>(columns);
    let tall = tall * size_of::<T>() / size_of::<T::Vector<S>>();
    let (panels, _) = T::vectors::<S>(x).as_chunks::<TALL>();
    for (p, panel) in panels.chunks_exact(d).enumerate() {
        let mut sums = [[T::splat(simd, T::ZERO); TALL]; WIDE];
        for (k, x) in panel.iter().enumerate() {
            for c in 0..WIDE {
                let z = T::splat(simd, z_rows[c][k]);
                for v in 0..TALL {
                    sums[c][v] = M::add::<T, S>(simd, sums[c][v], x[v], z);
                }
            }
        }
        for (c, sums) in sums.iter().enumerate() {
            columns[c * tall + p * TALL..][..TALL].copy_from_slice(sums);
        }
    }
}
