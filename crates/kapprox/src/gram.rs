//! Rows of a Gram matrix `ΦᵀΦ`, added to sums in `f64`.
//!
//! A strip of rows of the matrix belongs to as many features. They are packed as panels, 512 rows of Φ at a time, and stay in a
//! second-level cache while the features before them pass, a few at a time. So each feature is packed once for a block of rows, threads that
//! compute different strips share nothing, and what is above the diagonal is not computed.
//!
//! (Register tiling and packing after Goto, van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, ACM TOMS 34, 2008.)

use crate::Real;
use crate::kernel::{Aligned, Products, Tall, accumulate, fill_column, height, pieces};
use faer::{Mat, MatMut, MatRef};
use pulp::{Simd, WithSimd};

/// A multiple of the heights of all panels: 48 rows of `f32` with AVX-512, 16 with AVX2, half of them in `f64`.
const ROWS: usize = 48;

/// Rows of Φ that are packed together: a panel of 48 features in `f32` is 96 KiB.
const DEPTH: usize = 512;

/// Products that are summed one after the other, before their sum is added to the others: rounding then grows with 128 + n/128 of n products.
const TERMS: usize = 128;

/// Most features that pass together.
const WIDEST: usize = 8;

/// Rows of a strip of a Gram matrix of p features: ten strips or more, which a few threads end together, of up to 192 rows.
pub fn strip_height(p: usize) -> usize {
    ROWS * (p / (10 * ROWS)).clamp(1, 4)
}

/// Buffers of [`add_rows`], kept over calls.
#[derive(Debug, Default)]
pub struct Panels<T> {
    /// Features of the strip, in panels.
    panels: Aligned<T>,
    /// The features that pass, where they are not in memory one after the other.
    passing: Aligned<T>,
    /// Products of the features of the strip with those before: a column for each of those.
    products: Aligned<T>,
}

impl<T: Real> Panels<T> {
    /// Bytes of the buffers for p features.
    pub fn bytes(p: usize) -> usize {
        let strip = strip_height(p);
        size_of::<T>() * (strip * DEPTH + WIDEST * DEPTH + strip * p.next_multiple_of(WIDEST))
    }
}

/// Adds to `g` (h x p) rows `first..first + h` of the lower triangle of `ΦᵀΦ`; entries above its diagonal stay. Φ is n x p; it is copied where
/// neither its rows nor its columns are contiguous.
///
/// Sums over the rows of Φ are in `T`, and are added in `f64`: call it for a few thousand rows at a time. An entry has the same bits in
/// whatever strip it is. About 2·n·h·(`first` + h/2) flops; h of [`strip_height`] is fastest.
///
/// ```
/// use kapprox::{faer::{Mat, mat}, gram};
/// let phi = mat![[1.0f32, 2.0], [3.0, 4.0]];
/// let mut g = Mat::<f64>::zeros(2, 2);
/// gram::add_rows(phi.as_ref(), 0, g.as_mut(), &mut gram::Panels::default());
/// assert_eq!(g, mat![[10.0, 0.0], [14.0, 20.0]]);
/// ```
///
/// # Panics
/// Where `g` has another number of columns than Φ, or rows that it has not.
pub fn add_rows<T: Real>(phi: MatRef<'_, T>, first: usize, g: MatMut<'_, f64>, buffers: &mut Panels<T>) {
    let (p, end) = (phi.ncols(), first + g.nrows());
    assert!(g.ncols() == p && end <= p, "rows {first}..{end} of {} columns, for {p} features", g.ncols());
    if phi.nrows() == 0 {
        return;
    }
    if phi.row_stride() == 1 || phi.col_stride() == 1 {
        pulp::Arch::new().dispatch(AddRows { phi, first, g, buffers });
    } else {
        add_rows(Mat::from_fn(phi.nrows(), p, |i, j| phi[(i, j)]).as_ref(), first, g, buffers);
    }
}

struct AddRows<'a, T: Real> {
    phi: MatRef<'a, T>,
    first: usize,
    g: MatMut<'a, f64>,
    buffers: &'a mut Panels<T>,
}

impl<T: Real> WithSimd for AddRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (strip, end) = (self.g.nrows().next_multiple_of(ROWS), self.first + self.g.nrows());
        room(&mut self.buffers.panels, strip * DEPTH);
        room(&mut self.buffers.passing, WIDEST * DEPTH);
        room(&mut self.buffers.products, strip * end.next_multiple_of(WIDEST));
        for (k, depth) in pieces(self.phi.nrows(), DEPTH) {
            // a constant condition: only one of the two is compiled
            if const { S::REGISTER_COUNT >= 32 } {
                self.products::<S, 3, 8>(simd, k, depth);
            } else {
                self.products::<S, 2, 6>(simd, k, depth);
            }
        }
        let (first, products) = (self.first, &self.buffers.products);
        let mut spare = Vec::new();
        for (j, (sums, products)) in self.g.col_iter_mut().zip(products.chunks_exact(strip)).enumerate().take(end) {
            let above = j.saturating_sub(first);
            let (_, sums) = sums.split_at_row_mut(above);
            fill_column(sums, &mut spare, |sums| {
                sums.iter_mut().zip(&products[above..]).for_each(|(sum, product)| *sum += product.to_f64());
            });
        }
    }
}

impl<T: Real> AddRows<'_, T> {
    /// Products over `depth` rows of Φ, from row `k` on; added to those of the rows before.
    #[inline(always)]
    fn products<S: Simd, const TALL: usize, const WIDE: usize>(&mut self, simd: S, k: usize, depth: usize) {
        let (first, rows, height) = (self.first, self.g.nrows(), height::<T, S>());
        let strip = rows.next_multiple_of(ROWS);
        let phi = self.phi.subrows(k, depth);
        let Panels { panels, passing, products } = &mut *self.buffers;
        for (panel, (i, count)) in panels.chunks_exact_mut(depth * height).zip(pieces(rows, height)) {
            pack(phi.subcols(first + i, count), height, panel);
        }
        for (j, count) in pieces(first + rows, WIDE) {
            let columns = phi.subcols(j, count);
            if columns.row_stride() != 1 {
                pack(columns.transpose(), depth, passing);
            }
            let mut features = [&passing[..0]; WIDE];
            for (c, feature) in features.iter_mut().enumerate() {
                *feature = match columns.try_as_col_major() {
                    // what is beside the last column is computed, and not used
                    Some(columns) => columns.col(c.min(count - 1)).as_slice(),
                    None => &passing[c * depth..][..depth],
                };
            }
            let products = &mut products[j * strip..];
            let tiles = panels.chunks_exact(depth * height).zip((0..rows).step_by(height));
            for (panel, i) in tiles.filter(|(_, i)| first + i + height > j) {
                let (panel, _) = T::vectors::<S>(panel).as_chunks::<TALL>();
                let sums = sums_of_products::<T, S, TALL, WIDE>(simd, panel, &features);
                for (c, sums) in sums.iter().enumerate().take(count) {
                    let (to, _) = T::vectors_mut::<S>(&mut products[c * strip + i..][..height]).as_chunks_mut::<TALL>();
                    for v in 0..TALL {
                        to[0][v] = if k == 0 { sums[v] } else { T::plus(simd, to[0][v], sums[v]) };
                    }
                }
            }
        }
    }
}

/// The sums of products of a panel with some `rows`.
#[inline(always)]
fn sums_of_products<T: Real, S: Simd, const TALL: usize, const WIDE: usize>(
    simd: S,
    panel: &[Tall<T, S, TALL>],
    rows: &[&[T]; WIDE],
) -> [Tall<T, S, TALL>; WIDE] {
    let zeros = [[T::splat(simd, T::ZERO); TALL]; WIDE];
    let mut sums = zeros;
    for (first, panel) in (0..).step_by(TERMS).zip(panel.chunks(TERMS)) {
        let mut parts = *rows;
        for part in &mut parts {
            *part = &part[first..][..panel.len()];
        }
        let products = accumulate::<T, S, Products, TALL, WIDE, false>(simd, panel, &parts, zeros);
        for c in 0..WIDE {
            for v in 0..TALL {
                sums[c][v] = T::plus(simd, sums[c][v], products[c][v]);
            }
        }
    }
    sums
}

/// `out[i width + c]` = number i of column c of `block`; places beside the last column keep what they have.
#[inline(always)]
fn pack<T: Real>(block: MatRef<'_, T>, width: usize, out: &mut [T]) {
    if let Some(block) = block.try_as_row_major() {
        for (row, out) in block.row_iter().zip(out.chunks_exact_mut(width)) {
            out[..row.ncols()].copy_from_slice(row.as_slice());
        }
    } else if let Some(block) = block.try_as_col_major() {
        let column = |c: usize| block.col(c).as_slice();
        let fours = block.ncols() / 4 * 4;
        for c in (0..fours).step_by(4) {
            T::transpose([column(c), column(c + 1), column(c + 2), column(c + 3)], width, &mut out[c..]);
        }
        for c in fours..block.ncols() {
            for (value, out) in column(c).iter().zip(out[c..].iter_mut().step_by(width)) {
                *out = *value;
            }
        }
    }
}

/// Makes room for so many numbers, whatever they are.
fn room<T: Real>(numbers: &mut Aligned<T>, len: usize) {
    if numbers.len() < len {
        numbers.zeros(len);
    }
}
