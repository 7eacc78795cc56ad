//! Computes rows of a Gram matrix `ΦᵀΦ` (p x p, for features Φ of n rows, n x p) and adds them to
//! sums in `f64`.
//!
//! A strip of h rows of the matrix belongs to h features. These features are packed into panels,
//! 512 rows of Φ at a time. The panels stay in the second-level cache while they are multiplied
//! with the features of Φ, a few features at a time, from the first feature of Φ to the last
//! feature of the strip. Three properties follow: each feature is packed once per block of rows;
//! threads that compute different strips share no data; the part of the matrix above the diagonal
//! is not computed.
//!
//! (Register tiling and packing after Goto, van de Geijn, *Anatomy of High-Performance Matrix
//! Multiplication*, ACM TOMS 34, 2008.)

use crate::Real;
use crate::kernel::{AlignedVec, PanelColumn, Products, accumulate, fill_column, height, index_chunks};
use faer::{Mat, MatMut, MatRef};
use pulp::{Simd, WithSimd};

/// A multiple of every panel height. A panel has 48 rows of `f32` with AVX-512 and 16 with AVX2,
/// and half as many rows of `f64`.
const STRIP_UNIT: usize = 48;

/// Number of rows of Φ packed together: a panel of 48 features in `f32` is 96 KiB.
const PACKED_ROWS: usize = 512;

/// Number of products that are summed in sequence before their sum is added to the total. The
/// rounding error of a sum of n products then grows with 128 + n/128 instead of n.
const TERMS_PER_SUM: usize = 128;

/// Maximum number of features that are multiplied with the panels at a time.
const MAX_GROUP_WIDTH: usize = 8;

/// Returns the number of rows of a strip of a Gram matrix of p features, 48 to 192.
///
/// If p ≥ 480, there are at least ten strips, so that a few threads finish at about the same time.
pub fn strip_height(p: usize) -> usize {
    STRIP_UNIT * (p / (10 * STRIP_UNIT)).clamp(1, 4)
}

/// Buffers of [`add_rows`], reused across calls.
#[derive(Debug, Default)]
pub struct GramBuffers<T> {
    /// Features of the strip, in panels.
    panels: AlignedVec<T>,
    /// Copies of the features to multiply with the panels, if their columns are not contiguous.
    packed_features: AlignedVec<T>,
    /// Products of the features of the strip with every feature up to the last feature of the
    /// strip, one column per feature.
    products: AlignedVec<T>,
}

impl<T: Real> GramBuffers<T> {
    /// Returns the size of the buffers for p features, in bytes.
    pub fn bytes(p: usize) -> usize {
        let strip_rows = strip_height(p);
        size_of::<T>()
            * (strip_rows * PACKED_ROWS
                + MAX_GROUP_WIDTH * PACKED_ROWS
                + strip_rows * p.next_multiple_of(MAX_GROUP_WIDTH))
    }
}

/// Adds rows `first_row..first_row + h` of the lower triangle of `ΦᵀΦ` to `g` (h x p); entries
/// above the diagonal are unchanged.
///
/// Φ is n x p and is copied if neither its rows nor its columns are contiguous. Sums over the rows
/// of Φ are computed in `T` and then added to `g` in `f64`; therefore call this function for a few
/// thousand rows at a time. The bits of an entry do not depend on the strip that contains it. Costs
/// about 2·n·h·(`first_row` + h/2) flops; the h that [`strip_height`] returns is fastest.
///
/// ```
/// use kapprox::{faer::{Mat, mat}, gram};
/// let phi = mat![[1.0f32, 2.0], [3.0, 4.0]];
/// let mut g = Mat::<f64>::zeros(2, 2);
/// gram::add_rows(phi.as_ref(), 0, g.as_mut(), &mut gram::GramBuffers::default());
/// assert_eq!(g, mat![[10.0, 0.0], [14.0, 20.0]]);
/// ```
///
/// # Panics
/// If `g` does not have as many columns as Φ, or if `first_row + h` exceeds that number.
pub fn add_rows<T: Real>(phi: MatRef<'_, T>, first_row: usize, g: MatMut<'_, f64>, buffers: &mut GramBuffers<T>) {
    let (p, end) = (phi.ncols(), first_row + g.nrows());
    assert!(g.ncols() == p && end <= p, "rows {first_row}..{end} of {} columns, for {p} features", g.ncols());
    if phi.nrows() == 0 {
        return;
    }
    if phi.row_stride() == 1 || phi.col_stride() == 1 {
        pulp::Arch::new().dispatch(AddRows { phi, first_row, g, buffers });
    } else {
        add_rows(Mat::from_fn(phi.nrows(), p, |i, j| phi[(i, j)]).as_ref(), first_row, g, buffers);
    }
}

struct AddRows<'a, T: Real> {
    phi: MatRef<'a, T>,
    first_row: usize,
    g: MatMut<'a, f64>,
    buffers: &'a mut GramBuffers<T>,
}

impl<T: Real> WithSimd for AddRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (strip_rows, end) = (self.g.nrows().next_multiple_of(STRIP_UNIT), self.first_row + self.g.nrows());
        ensure_len(&mut self.buffers.panels, strip_rows * PACKED_ROWS);
        ensure_len(&mut self.buffers.packed_features, MAX_GROUP_WIDTH * PACKED_ROWS);
        ensure_len(&mut self.buffers.products, strip_rows * end.next_multiple_of(MAX_GROUP_WIDTH));
        for (k, depth) in index_chunks(self.phi.nrows(), PACKED_ROWS) {
            // a constant condition: only one of the two branches is compiled
            if const { S::REGISTER_COUNT >= 32 } {
                self.add_products::<S, 3, 8>(simd, k, depth);
            } else {
                self.add_products::<S, 2, 6>(simd, k, depth);
            }
        }
        let (first_row, products) = (self.first_row, &self.buffers.products);
        let mut column_buffer = Vec::new();
        for (j, (sums, products)) in self.g.col_iter_mut().zip(products.chunks_exact(strip_rows)).enumerate().take(end)
        {
            let skipped_rows = j.saturating_sub(first_row);
            let (_, sums) = sums.split_at_row_mut(skipped_rows);
            fill_column(sums, &mut column_buffer, |sums| {
                sums.iter_mut().zip(&products[skipped_rows..]).for_each(|(sum, product)| *sum += product.to_f64());
            });
        }
    }
}

impl<T: Real> AddRows<'_, T> {
    /// Adds the products over `depth` rows of Φ, from row `k` on, to the products of the preceding
    /// rows.
    #[inline(always)]
    fn add_products<S: Simd, const VECTORS: usize, const COLUMNS: usize>(&mut self, simd: S, k: usize, depth: usize) {
        let (first_row, row_count, height) = (self.first_row, self.g.nrows(), height::<T, S>());
        let strip_rows = row_count.next_multiple_of(STRIP_UNIT);
        let phi = self.phi.subrows(k, depth);
        let GramBuffers { panels, packed_features: group, products } = &mut *self.buffers;
        for (panel, (i, count)) in panels.chunks_exact_mut(depth * height).zip(index_chunks(row_count, height)) {
            pack(phi.subcols(first_row + i, count), height, panel);
        }
        for (j, count) in index_chunks(first_row + row_count, COLUMNS) {
            let columns = phi.subcols(j, count);
            if columns.row_stride() != 1 {
                pack(columns.transpose(), depth, group);
            }
            let mut features = [&group[..0]; COLUMNS];
            for (c, feature) in features.iter_mut().enumerate() {
                *feature = match columns.try_as_col_major() {
                    // columns past the last one are computed and not used
                    Some(columns) => columns.col(c.min(count - 1)).as_slice(),
                    None => &group[c * depth..][..depth],
                };
            }
            let products = &mut products[j * strip_rows..];
            let tiles = panels.chunks_exact(depth * height).zip((0..row_count).step_by(height));
            for (panel, i) in tiles.filter(|(_, i)| first_row + i + height > j) {
                let (panel, _) = T::vectors::<S>(panel).as_chunks::<VECTORS>();
                let sums = sums_of_products::<T, S, VECTORS, COLUMNS>(simd, panel, &features);
                for (c, sums) in sums.iter().enumerate().take(count) {
                    let (destination, _) =
                        T::vectors_mut::<S>(&mut products[c * strip_rows + i..][..height]).as_chunks_mut::<VECTORS>();
                    for v in 0..VECTORS {
                        destination[0][v] = if k == 0 { sums[v] } else { T::plus(simd, destination[0][v], sums[v]) };
                    }
                }
            }
        }
    }
}

/// Returns the sums of products of a panel with each row of `features`.
#[inline(always)]
fn sums_of_products<T: Real, S: Simd, const VECTORS: usize, const COLUMNS: usize>(
    simd: S,
    panel: &[PanelColumn<T, S, VECTORS>],
    features: &[&[T]; COLUMNS],
) -> [PanelColumn<T, S, VECTORS>; COLUMNS] {
    let zeros = [[T::splat(simd, T::ZERO); VECTORS]; COLUMNS];
    let mut sums = zeros;
    for (first_term, panel) in (0..).step_by(TERMS_PER_SUM).zip(panel.chunks(TERMS_PER_SUM)) {
        let mut feature_chunks = *features;
        for row_chunk in &mut feature_chunks {
            *row_chunk = &row_chunk[first_term..][..panel.len()];
        }
        let products = accumulate::<T, S, Products, VECTORS, COLUMNS, false>(simd, panel, &feature_chunks, zeros);
        for c in 0..COLUMNS {
            for v in 0..VECTORS {
                sums[c][v] = T::plus(simd, sums[c][v], products[c][v]);
            }
        }
    }
    sums
}

/// Sets `out[i width + c]` to element i of column c of `block`; elements past the last column are
/// unchanged.
#[inline(always)]
fn pack<T: Real>(block: MatRef<'_, T>, width: usize, out: &mut [T]) {
    if let Some(block) = block.try_as_row_major() {
        for (row, out) in block.row_iter().zip(out.chunks_exact_mut(width)) {
            out[..row.ncols()].copy_from_slice(row.as_slice());
        }
    } else if let Some(block) = block.try_as_col_major() {
        let column = |c: usize| block.col(c).as_slice();
        let grouped_columns = block.ncols() / 4 * 4;
        for c in (0..grouped_columns).step_by(4) {
            T::interleave_columns([column(c), column(c + 1), column(c + 2), column(c + 3)], width, &mut out[c..]);
        }
        for c in grouped_columns..block.ncols() {
            for (value, out) in column(c).iter().zip(out[c..].iter_mut().step_by(width)) {
                *out = *value;
            }
        }
    }
}

fn ensure_len<T: Real>(buffer: &mut AlignedVec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize_zeroed(len);
    }
}
