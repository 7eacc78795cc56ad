//! The Cholesky factor L of the landmarks' kernel matrix K_SS. Landmarks that depend on the others
//! are dropped.

use super::{column_slice, column_slice_mut, par};
use crate::{Real, Result, kernel::index_chunks, vectorised};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par, prelude::*};
use kpass::Workers;

/// Width of a block of columns. Updates within a block are vector operations; updates of a block by
/// earlier blocks are matrix products.
const FACTOR_BLOCK_COLUMNS: usize = 64;

/// Number of columns of the inverse factor that one thread computes at a time.
const INVERSE_COLUMNS: usize = 128;

/// A landmark z is dropped if its residual under the earlier landmarks is at most this fraction of
/// k(z, z), about 1e-12.
///
/// If a landmark depends exactly on the other landmarks, rounding leaves a residual of 10 to 1,000
/// ε, where ε is the machine epsilon. A feature that is such noise would increase the error.
/// (Measured on the 220 landmarks that span the cubic polynomials of nine variables: at 64 ε three
/// of 80 further landmarks were kept, at 4,096 ε none.) A nearly dependent landmark whose residual
/// is not rounding is worth keeping, because small differences between close landmarks approximate
/// outliers.
pub(crate) const PIVOT_FLOOR: f64 = 4096.0 * f64::EPSILON;

/// Largest [`amplification`] of a feature in a sound factor.
///
/// Entry (i, j) of the factored matrix differs from K_SS by about ε√(k_ii k_jj). Of a feature with
/// amplification a, a fraction of about ε a is therefore noise. Measured on normal, uniform and
/// integer rows in 1 to 5 dimensions: if the landmarks are in pivot order and every pivot is above
/// [`PIVOT_FLOOR`], ε a is below 0.01. In other orders, ‖phi(x)‖² begins to exceed k(x, x): the
/// excess is 1e-12 of the trace at ε a = 1, and 4e-3 at ε a = 8,000. A sixteenth of this limit
/// would drop two of the 220 landmarks that span the cubic polynomials of the protein rows.
pub(super) const MAX_AMPLIFICATION: f64 = 1.0 / f64::EPSILON;

/// A Cholesky factor: `K[kept_rows, kept_rows] = L Lᵀ`.
#[derive(Clone, Debug)]
pub struct Factor {
    /// L, r x r, lower triangular.
    pub lower: Mat<f64>,
    /// Kept rows of K, ascending.
    pub kept_rows: Vec<usize>,
}

/// Factors a positive semi-definite matrix, with the rows in the given order. Drops every row whose
/// residual under the earlier rows is at most `relative_floor` times its diagonal entry.
///
/// The algorithm is left-looking, works in place in `k` (m x m), and reads its lower triangle. It
/// keeps the order of the rows, so that the leading block of L is the factor of the leading
/// landmarks. *Cost*: m³/3 flops, and a copy of the r x r factor if rows are dropped.
///
/// # Errors
/// [`kpass::Error::Interrupted`] if the workers are cancelled, checked between two blocks of
/// columns.
pub fn factor(mut k: Mat<f64>, relative_floor: f64, workers: &Workers) -> Result<Factor> {
    let kept_rows = factor_in_place(&mut k, relative_floor, workers)?;
    let r = kept_rows.len();
    if r == k.nrows() {
        (1..r).for_each(|j| k.col_mut(j).subrows_mut(0, j).fill(0.0));
        return Ok(Factor { lower: k, kept_rows });
    }
    let lower = Mat::from_fn(r, r, |i, j| if i >= j { k[(kept_rows[i], j)] } else { 0.0 });
    Ok(Factor { lower, kept_rows })
}

/// Does the work of [`factor`], left-looking, in place in `k` (m x m, lower triangle read), and
/// returns the kept rows: their first columns are L, in its lower triangle.
pub(super) fn factor_in_place(k: &mut Mat<f64>, relative_floor: f64, workers: &Workers) -> Result<Vec<usize>> {
    let m = k.nrows();
    let mut kept_rows: Vec<usize> = Vec::with_capacity(m);
    let diag: Vec<f64> = (0..m).map(|j| k[(j, j)]).collect();
    for (start, width) in index_chunks(m, FACTOR_BLOCK_COLUMNS) {
        let (end, earlier_rank) = (start + width, kept_rows.len());
        workers.check()?;
        // the bits of narrow products depend on the number of threads
        let par = if width == FACTOR_BLOCK_COLUMNS { par(workers) } else { Par::Seq };
        workers.install(|| subtract_earlier(k, start, end, earlier_rank, par));
        for (j, diagonal) in diag.iter().enumerate().take(end).skip(start) {
            finish_column(k, j, earlier_rank, &mut kept_rows, relative_floor * diagonal);
        }
    }
    Ok(kept_rows)
}

/// Computes for each feature of `L⁻¹ k_S(x)` the factor by which it amplifies the rounding of
/// kernel values. For feature j it is Σ_i k_ii (L⁻¹)_ji², the sum over the landmarks i.
///
/// Feature j is a combination of kernel sections: the kernel section of landmark j minus its
/// projection onto the sections of the earlier landmarks, divided by the norm of this difference. A
/// small pivot alone does no harm. But the coefficients of the projection may be large, for example
/// if differences of close points approximate an outlier. Then the rounding error may exceed a
/// pivot that is far from small. Costs m³/3 flops and 8m(128 per thread + m/128) bytes.
///
/// # Errors
/// [`kpass::Error::Interrupted`] if the workers are cancelled.
pub fn amplification(lower: MatRef<'_, f64>, workers: &Workers) -> Result<Vec<f64>> {
    let r = lower.nrows();
    let first_columns: Vec<usize> = (0..r).step_by(INVERSE_COLUMNS).collect();
    let mut column_blocks: Vec<(usize, Vec<f64>)> =
        first_columns.iter().map(|first_column| (*first_column, vec![0.0; r - first_column])).collect();
    // a part is a block of columns of the inverse, from `first_column` on; above row `first_column`
    // they are zero, so the first parts take longest
    workers.for_each(column_blocks.iter_mut().collect(), |(first_column, part_sums)| {
        if workers.is_cancelled() {
            return;
        }
        let (first_column, height) = (*first_column, part_sums.len());
        let width = INVERSE_COLUMNS.min(height);
        let mut inverse = Mat::<f64>::zeros(height, width);
        (0..width).for_each(|c| inverse[(c, c)] = 1.0);
        let trailing_factor = lower.submatrix(first_column, first_column, height, height);
        solve_lower_triangular_in_place(trailing_factor, inverse.as_mut(), Par::Seq);
        for (c, column) in inverse.col_iter().enumerate() {
            let i = first_column + c;
            let diagonal: f64 = (0..=i).map(|k| lower[(i, k)] * lower[(i, k)]).sum();
            part_sums.iter_mut().zip(column.iter()).for_each(|(sum, value)| *sum += diagonal * value * value);
        }
    });
    workers.check()?;
    let mut amplifications = vec![0.0; r];
    for (first_column, part_sums) in &column_blocks {
        amplifications[*first_column..].iter_mut().zip(part_sums).for_each(|(sum, value)| *sum += value);
    }
    Ok(amplifications)
}

/// Subtracts A · (rows `start..end` of A)ᵀ from columns `start..end`, where A contains the earlier
/// columns of L.
fn subtract_earlier(k: &mut Mat<f64>, start: usize, end: usize, earlier_rank: usize, par: Par) {
    let m = k.nrows();
    if earlier_rank == 0 {
        return;
    }
    let (left, right) = k.as_mut().split_at_col_mut(start);
    let left = left.rb().subcols(0, earlier_rank).subrows(start, m - start);
    let right = right.subcols_mut(0, end - start).subrows_mut(start, m - start);
    matmul(right, Accum::Add, left, left.subrows(0, end - start).transpose(), -1.0, par);
}

/// Subtracts the earlier columns of this block from column j and scales it. Then stores it after
/// the kept columns, or drops it.
fn finish_column(k: &mut Mat<f64>, j: usize, earlier_rank: usize, kept_rows: &mut Vec<usize>, pivot_floor: f64) {
    let m = k.nrows();
    let rank = kept_rows.len();
    let (left, right) = k.as_mut().split_at_col_mut(j);
    let column = column_slice_mut(right.col_mut(0));
    for c in earlier_rank..rank {
        let earlier_column = &column_slice(left.rb().col(c))[j..m];
        let weight = earlier_column[0];
        for (value, l) in column[j..m].iter_mut().zip(earlier_column) {
            *value -= weight * l;
        }
    }
    let pivot = column[j];
    // NaN is rejected too: a matrix that is not finite keeps no landmark
    if pivot <= pivot_floor || !pivot.is_finite() || pivot <= 0.0 {
        return;
    }
    let root = pivot.sqrt();
    if rank == j {
        column[j..m].iter_mut().for_each(|value| *value /= root);
    } else {
        let destination = &mut column_slice_mut(left.col_mut(rank))[j..m];
        for (out, value) in destination.iter_mut().zip(&column[j..m]) {
            *out = value / root;
        }
    }
    kept_rows.push(j);
}

/// Subtracts the squares of the columns of `phi` (b x p, column-major) from `residuals`, in f64,
/// column after column. If `residuals` holds k(x_i, x_i), the results are the residuals of a
/// projection, r_i = k(x_i, x_i) − ‖phi(x_i)‖².
///
/// Costs 2bp flops.
pub(crate) fn subtract_squared_columns<T: Real>(phi: MatRef<'_, T>, residuals: &mut [f64]) {
    for j in 0..phi.ncols() {
        let column = column_slice(phi.col(j));
        vectorised!({
            for (r, value) in residuals.iter_mut().zip(column) {
                let value = value.to_f64();
                *r -= value * value;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kernel matrix of points on a line, in which each second point of `twins` repeats
    /// the first.
    fn gram(m: usize, twins: &[(usize, usize)]) -> Mat<f64> {
        let mut t: Vec<f64> = (0..m).map(|i| (i as f64 * 0.754_877_666).fract() * 40.0).collect();
        for (a, b) in twins {
            t[*b] = t[*a];
        }
        Mat::from_fn(m, m, |i, j| (-(t[i] - t[j]).abs()).exp())
    }

    #[test]
    fn reconstructs_and_keeps_order_without_twins_at_sizes_around_the_block() {
        let sizes = [1, 2, 31, 63, 64, 65, 127, 200].map(|m| (m, &[][..]));
        for (m, twins) in sizes.into_iter().chain([(150, &[(3, 10), (70, 71), (5, 149)][..])]) {
            let k = gram(m, twins);
            let Factor { lower, kept_rows: kept } = factor(k.clone(), PIVOT_FLOOR, &Workers::sequential()).unwrap();
            let expected: Vec<usize> = (0..m).filter(|i| twins.iter().all(|(_, twin)| twin != i)).collect();
            assert_eq!(kept, expected);
            let difference =
                &lower * lower.transpose() - Mat::from_fn(kept.len(), kept.len(), |i, j| k[(kept[i], kept[j])]);
            assert!(difference.norm_max() < 1e-13, "m = {m}: {}", difference.norm_max());
        }
    }

    #[test]
    fn a_leading_block_is_the_factor_of_the_leading_landmarks() {
        let k = gram(130, &[(1, 2)]);
        let full = factor(k.clone(), PIVOT_FLOOR, &Workers::sequential()).unwrap();
        let part = factor(k.submatrix(0, 0, 80, 80).to_owned(), PIVOT_FLOOR, &Workers::sequential()).unwrap();
        let r = part.kept_rows.len();
        let difference = &part.lower - full.lower.submatrix(0, 0, r, r);
        assert!(difference.norm_max() < 1e-14);
    }

    #[test]
    fn amplification_matches_its_definition_on_any_number_of_threads() {
        // computed in one part, and in several parts
        for m in [70, 300] {
            let k = gram(m, &[]) * faer::Scale(2.5);
            let lower = factor(k.clone(), PIVOT_FLOOR, &Workers::sequential()).unwrap().lower;
            let computed = amplification(lower.as_ref(), &Workers::sequential()).unwrap();
            assert_eq!(computed, amplification(lower.as_ref(), &Workers::new(3)).unwrap());
            let inverse = lower.partial_piv_lu().solve(Mat::<f64>::identity(m, m));
            for (j, computed) in computed.into_iter().enumerate() {
                let expected: f64 = (0..m).map(|i| k[(i, i)] * inverse[(j, i)].powi(2)).sum();
                assert!((computed / expected - 1.0).abs() < 1e-10, "feature {j}: {computed} {expected}");
            }
        }
    }

    #[test]
    fn a_matrix_without_finite_pivots_keeps_no_row() {
        assert!(factor(Mat::zeros(3, 3), 0.0, &Workers::sequential()).unwrap().kept_rows.is_empty());
        assert!(factor(Mat::full(3, 3, f64::NAN), 0.0, &Workers::sequential()).unwrap().kept_rows.is_empty());
    }

    #[test]
    fn cancelled_workers_interrupt_both() {
        let stop = kpass::CancelToken::new();
        let workers = Workers::new(2).with_cancel_token(stop.clone());
        let lower = factor(gram(300, &[]), PIVOT_FLOOR, &workers).unwrap().lower;
        stop.cancel();
        let interrupted = |error: crate::Error| matches!(error, crate::Error::Store(kpass::Error::Interrupted));
        assert!(interrupted(factor(gram(300, &[]), PIVOT_FLOOR, &workers).unwrap_err()));
        assert!(interrupted(amplification(lower.as_ref(), &workers).unwrap_err()));
    }
}
