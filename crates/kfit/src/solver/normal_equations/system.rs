//! The regularised normal equations of a training set, assembled once and factored for every
//! lambda.

use crate::linalg::strips::for_each_strip;
use crate::model::Intercept;
use crate::{Error, FoldGram, GramState, Result, linalg::cholesky};
use faer::linalg::triangular_solve as triangular;
use faer::{Mat, MatMut, MatRef, Par};
use kapprox::decompose::symmetric_eigen;
use kapprox::map::column_slice_mut;
use kstore::Workers;

/// Number of columns that one thread assembles at a time.
const STRIP_COLUMNS: usize = 16;

/// Eigenvalues below this multiple of the relative error of A times its trace count as 0.
const EIGENVALUE_FLOOR: f64 = 4.0;

/// Number of columns of an inverse that one thread computes at a time.
const INVERSE_COLUMNS: usize = 64;

/// Number of right sides that one thread substitutes at a time. faer would split the sum of a
/// single right side by the number of threads. Our split is constant, and every part runs on one
/// thread, so results do not depend on the number of threads.
const RIGHT_SIDES: usize = 8;

/// The system (A + lambda·n·I) w = r with A = ΦᵀΦ, centred if the intercept is free. Its order q is
/// the number p of features, or p + 1 if the intercept is penalised.
///
/// The lower triangle of A is stored packed, and copied into the q x q work matrix for every
/// lambda: 8·q² bytes of traffic against q³/3 flops. The upper triangle of the work matrix cannot
/// store A, because faer's factorisation writes above the diagonal of its blocks.
#[derive(Debug)]
pub struct RidgeSystem {
    p: usize,
    t: usize,
    intercept: Intercept,
    target_centre: Vec<f64>,
    pub(crate) total_weight: f64,
    /// Columns of the lower triangle, from the diagonal down.
    packed_columns: Vec<Vec<f64>>,
    work_matrix: Mat<f64>,
    right_sides: Mat<f64>,
    mean_phi: Vec<f64>,
    mean_y: Vec<f64>,
}

pub(crate) struct RankSolutions {
    /// Coefficients, p x (ranks·t), rank after rank; rows beyond the rank are zero.
    pub(crate) weights: Mat<f64>,
    /// Intercepts for the shifted targets, ranks·t.
    pub(crate) intercepts: Vec<f64>,
    /// Number of leading ranks that could be solved.
    pub(crate) solved_rank_count: usize,
    /// (largest / smallest pivot)² of the factor: a lower bound on the condition number.
    pub(crate) condition_bound: f64,
}

impl RidgeSystem {
    /// Allocates the storage for p features and t targets that were shifted by constants.
    pub fn new(p: usize, target_centre: &[f64], intercept: Intercept) -> Self {
        let (t, q) = (target_centre.len(), p + intercept.constant_feature_count());
        Self {
            p,
            t,
            intercept,
            target_centre: target_centre.to_vec(),
            total_weight: 0.0,
            packed_columns: (0..q).map(|c| vec![0.0; q - c]).collect(),
            work_matrix: Mat::zeros(q, q),
            right_sides: Mat::zeros(q, t),
            mean_phi: vec![0.0; p],
            mean_y: vec![0.0; t],
        }
    }

    /// Returns the bytes of the storage, of a factorisation, and of the coefficients at
    /// `rank_count` ranks for one lambda.
    pub(crate) fn bytes(p: usize, t: usize, rank_count: usize, intercept: Intercept) -> usize {
        let q = p + intercept.constant_feature_count();
        8 * (q * q + q * (q + 1) / 2 + 2 * q * t + 3 * q + p + 2 * p * rank_count * t)
    }

    /// Returns the bytes to compute an inverse by strips of columns on the given number of threads.
    pub(crate) fn inverse_bytes(p: usize, threads: usize) -> usize {
        8 * p * (2 * INVERSE_COLUMNS * threads + p.div_ceil(INVERSE_COLUMNS) + 1)
    }

    /// Assembles the system of all folds. If a fold is held out, assembles the system of the other
    /// folds: it sums these folds instead of subtracting the held-out fold, because a difference
    /// would lose digits.
    pub(crate) fn assemble(
        &mut self,
        state: &GramState,
        held_out_fold: Option<usize>,
        workers: &Workers,
    ) -> Result<()> {
        let folds: Vec<&FoldGram> = state
            .folds()
            .iter()
            .enumerate()
            .filter(|(g, _)| state.fold_rule().is_training(held_out_fold, *g))
            .map(|(_, fold)| fold)
            .collect();
        let (rows, weight) =
            folds.iter().fold((0, 0.0), |(rows, weight), fold| (rows + fold.row_count, weight + fold.weight_sum));
        if rows < 2 {
            return Err(Error::TooFewRows { rows });
        }
        if weight <= 0.0 {
            return Err(Error::ZeroWeights);
        }
        self.total_weight = weight;
        let phi_sums = sum_over_folds(&folds, self.p, |fold| &fold.s);
        let target_sums = sum_over_folds(&folds, self.t, |fold| &fold.sy);
        let target_products = sum_over_folds(&folds, self.p * self.t, |fold| &fold.b);
        self.mean_phi = phi_sums.iter().map(|s| s / self.total_weight).collect();
        self.mean_y = target_sums.iter().map(|sy| sy / self.total_weight).collect();
        self.assemble_matrix(&folds, &phi_sums, workers);
        self.assemble_right_sides(&phi_sums, &target_sums, &target_products);
        Ok(())
    }

    fn assemble_matrix(&mut self, folds: &[&FoldGram], phi_sums: &[f64], workers: &Workers) {
        let (p, constant_count, total_weight) = (self.p, self.intercept.constant_feature_count(), self.total_weight);
        let has_free_intercept = self.intercept == Intercept::Free;
        for_each_strip(workers, &mut self.packed_columns, STRIP_COLUMNS, |strip, columns| {
            for (c, column) in columns.iter_mut().enumerate() {
                let c = strip * STRIP_COLUMNS + c;
                if c < constant_count {
                    column[0] = total_weight;
                    column[1..].copy_from_slice(phi_sums);
                    continue;
                }
                let j = c - constant_count;
                column.fill(0.0);
                for fold in folds {
                    column.iter_mut().zip(&fold.g[j * p + j..(j + 1) * p]).for_each(|(a, g)| *a += g);
                }
                if has_free_intercept {
                    let mean = phi_sums[j] / total_weight;
                    column.iter_mut().zip(&phi_sums[j..]).for_each(|(a, s)| *a -= s * mean);
                }
            }
        });
    }

    /// Assembles Φᵀy. If the intercept is free, centres Φᵀy. If the intercept is penalised or
    /// absent, the result must refer to the original targets, not to the targets from which the
    /// caller subtracted constants, so this function adds the constants back.
    fn assemble_right_sides(&mut self, phi_sums: &[f64], target_sums: &[f64], target_products: &[f64]) {
        let constant_count = self.intercept.constant_feature_count();
        for j in 0..self.t {
            if constant_count == 1 {
                self.right_sides[(0, j)] = target_sums[j] + self.total_weight * self.target_centre[j];
            }
            let target_shift = if self.intercept == Intercept::Free { -self.mean_y[j] } else { self.target_centre[j] };
            for i in 0..self.p {
                self.right_sides[(constant_count + i, j)] =
                    target_products[j * self.p + i] + phi_sums[i] * target_shift;
            }
        }
    }

    /// Computes the coefficients at `lambda` for `ranks` (ascending, at most p).
    ///
    /// One factorisation serves all ranks: with nested features the factor of a leading block is
    /// the leading block of the factor, so all ranks share the forward substitution. If the matrix
    /// is not positive definite to working precision, drops the largest rank and tries the next
    /// one. *Cost*: q³/3 + Σ r²·t flops, where the sum is over the ranks r.
    pub(crate) fn solve(&mut self, lambda: f64, ranks: &[usize], workers: &Workers) -> RankSolutions {
        let mut solved_rank_count = ranks.len();
        while solved_rank_count > 0 && !self.factor_leading_block(lambda, ranks[solved_rank_count - 1], workers) {
            solved_rank_count -= 1;
        }
        let mut solution = RankSolutions {
            weights: Mat::zeros(self.p, ranks.len() * self.t),
            intercepts: vec![0.0; ranks.len() * self.t],
            solved_rank_count,
            condition_bound: f64::INFINITY,
        };
        if solved_rank_count > 0 {
            self.substitute(&ranks[..solved_rank_count], &mut solution, workers);
        }
        solution
    }

    /// For the leading `rank` features, computes the coefficients of smallest norm that minimise
    /// the squared error. Also returns the number of directions that these coefficients combine.
    /// The directions are the eigenvectors of A whose eigenvalues exceed the rounding errors of A,
    /// if the entries of A have the relative error `epsilon`. Takes 9q³ flops, and two q x q
    /// matrices.
    ///
    /// # Errors
    /// [`Error::NoVariance`] if no eigenvalue exceeds rounding; numbers that are not finite.
    pub(crate) fn min_norm(&self, rank: usize, epsilon: f64) -> Result<(RankSolutions, usize)> {
        let order = rank + self.intercept.constant_feature_count();
        let entry = |i: usize, j: usize| self.packed_columns[i.min(j)][i.max(j) - i.min(j)];
        let a = Mat::from_fn(order, order, entry);
        let trace: f64 = (0..order).map(|j| a[(j, j)]).sum();
        let (values, vectors) = symmetric_eigen(a.as_ref())?;
        // entry A_ij has the error ε√(A_ii A_jj), so all errors together change an eigenvalue by at
        // most ε tr A
        let min_eigenvalue = EIGENVALUE_FLOOR * epsilon * trace;
        let significant_indices: Vec<usize> =
            (0..order).filter(|j| values[*j] > min_eigenvalue && values[*j] > 0.0).collect();
        let (Some(smallest_index), Some(largest_index)) = (significant_indices.first(), significant_indices.last())
        else {
            return Err(Error::NoVariance);
        };
        let right = self.right_sides.subrows(0, order);
        let coordinate = |k: usize, t: usize| -> f64 {
            (0..order).map(|i| vectors[(i, significant_indices[k])] * right[(i, t)]).sum::<f64>()
                / values[significant_indices[k]]
        };
        let coordinates = Mat::from_fn(significant_indices.len(), self.t, coordinate);
        let w = Mat::from_fn(order, self.t, |i, t| {
            (0..significant_indices.len()).map(|k| vectors[(i, significant_indices[k])] * coordinates[(k, t)]).sum()
        });
        let mut solution = RankSolutions {
            weights: Mat::zeros(self.p, self.t),
            intercepts: vec![0.0; self.t],
            solved_rank_count: 1,
            condition_bound: values[*largest_index] / values[*smallest_index],
        };
        self.store_coefficients(w.as_ref(), 0, &mut solution);
        Ok((solution, significant_indices.len()))
    }

    /// Factors the leading block of A + lambda·n·I that belongs to the first `rank` features.
    /// Returns false if the block is not positive definite.
    fn factor_leading_block(&mut self, lambda: f64, rank: usize, workers: &Workers) -> bool {
        let order = rank + self.intercept.constant_feature_count();
        let (packed, mu) = (&self.packed_columns, lambda * self.total_weight);
        let mut columns = leading_columns(&mut self.work_matrix, order);
        for_each_strip(workers, &mut columns, STRIP_COLUMNS, |strip, columns| {
            for (c, column) in columns.iter_mut().enumerate() {
                let c = strip * STRIP_COLUMNS + c;
                column[c..order].copy_from_slice(&packed[c][..order - c]);
                column[c] += mu;
            }
        });
        drop(columns);
        cholesky::factor_parallel(self.work_matrix.as_mut().submatrix_mut(0, 0, order, order), workers)
    }

    /// Computes the squared norms of the rows of L⁻¹, where L is the factor of the last `solve`,
    /// with `rank` features. The sum of the first r norms is the trace of (A_r + lambda·n·I)⁻¹,
    /// where A_r is the block of A for rank r. Takes q³/3 flops.
    pub(crate) fn squared_inverse_row_norms(&self, rank: usize, workers: &Workers) -> Vec<f64> {
        let order = rank + self.intercept.constant_feature_count();
        let factor = self.work_matrix.as_ref().submatrix(0, 0, order, order);
        let block_count = order.div_ceil(INVERSE_COLUMNS);
        let mut block_sums = vec![0.0; block_count * order];
        // the longest columns come first
        for_each_strip(workers, &mut block_sums, order, |block, block_norms| {
            if workers.is_cancelled() {
                return;
            }
            let first_column = block * INVERSE_COLUMNS;
            let (row_count, column_count) = (order - first_column, INVERSE_COLUMNS.min(order - first_column));
            let mut columns = Mat::<f64>::zeros(row_count, column_count);
            (0..column_count).for_each(|j| columns[(j, j)] = 1.0);
            let trailing_factor = factor.submatrix(first_column, first_column, row_count, row_count);
            triangular::solve_lower_triangular_in_place(trailing_factor, columns.as_mut(), Par::Seq);
            for column in columns.col_iter() {
                block_norms[first_column..].iter_mut().zip(column.iter()).for_each(|(sum, v)| *sum += v * v);
            }
        });
        (0..order).map(|i| (0..block_count).map(|block| block_sums[block * order + i]).sum()).collect()
    }

    /// Computes W (rank x q) and c (q) from the factor of the last `solve`. If φ are the features
    /// of a row and h is the leverage of the row, ‖Wᵀφ + c‖² is h − 1/n for a free intercept, and
    /// otherwise h. Takes q³/3 flops.
    pub(crate) fn whitener(&self, rank: usize, workers: &Workers) -> (Mat<f64>, Vec<f64>) {
        let constant_count = self.intercept.constant_feature_count();
        let order = rank + constant_count;
        let factor = self.work_matrix.as_ref().submatrix(0, 0, order, order);
        let mut inverse = vec![0.0; order * order];
        for_each_strip(workers, &mut inverse, order * INVERSE_COLUMNS, |block, columns| {
            if workers.is_cancelled() {
                return;
            }
            let (first_column, column_count) = (block * INVERSE_COLUMNS, columns.len() / order);
            let mut columns = MatMut::from_column_major_slice_mut(columns, order, column_count);
            (0..column_count).for_each(|j| columns[(first_column + j, j)] = 1.0);
            let trailing_factor =
                factor.submatrix(first_column, first_column, order - first_column, order - first_column);
            triangular::solve_lower_triangular_in_place(
                trailing_factor,
                columns.subrows_mut(first_column, order - first_column),
                Par::Seq,
            );
        });
        let inverse = MatRef::from_column_major_slice(&inverse, order, order);
        let intercepts = (0..order).map(|i| match self.intercept {
            Intercept::Free => -(0..rank).map(|j| inverse[(i, j)] * self.mean_phi[j]).sum::<f64>(),
            Intercept::Penalised => inverse[(i, 0)],
            Intercept::None => 0.0,
        });
        (inverse.subcols(constant_count, rank).transpose().to_owned(), intercepts.collect())
    }

    /// Returns the degrees of freedom of the fit at each rank for which the last `solve` at
    /// `lambda` succeeded. They are the trace of the matrix that maps targets to fitted values.
    ///
    /// With μ = lambda·n this trace is tr A(A + μI)⁻¹ = q − μ tr (A + μI)⁻¹, plus 1 for a free
    /// intercept.
    pub(crate) fn degrees_of_freedom(&self, lambda: f64, ranks: &[usize], workers: &Workers) -> Vec<f64> {
        let Some(largest_rank) = ranks.last() else { return Vec::new() };
        let free_intercept_count = f64::from(u8::from(self.intercept == Intercept::Free));
        let squared_row_norms = self.squared_inverse_row_norms(*largest_rank, workers);
        let at_rank = |rank: &usize| {
            let order = rank + self.intercept.constant_feature_count();
            order as f64 - lambda * self.total_weight * squared_row_norms[..order].iter().sum::<f64>()
                + free_intercept_count
        };
        ranks.iter().map(at_rank).collect()
    }

    /// Returns the effective dimension of the leading `rank` features after a `solve` at `lambda`:
    /// tr G(G + μI)⁻¹ with μ = lambda·n, where G is the Gram matrix of the features, centred if the
    /// intercept is free. A penalised intercept is one of the features. It equals the degrees of
    /// freedom without a free intercept. Takes q³/3 flops.
    pub(crate) fn effective_dimension(&self, lambda: f64, rank: usize, workers: &Workers) -> f64 {
        let free_intercept_count = f64::from(u8::from(self.intercept == Intercept::Free));
        let degrees_of_freedom = self.degrees_of_freedom(lambda, &[rank], workers)[0];
        // rounding can make the trace of a system without signal slightly negative
        (degrees_of_freedom - free_intercept_count).max(0.0)
    }

    /// Computes the leverages `out[i]` = h_ii of b rows from the factor of the last `solve`. The
    /// leverage h_ii is the weight of a row's own target in its fitted value. `phi` contains the
    /// features of the rows in f64, b x rank, and is overwritten. Takes b·q² flops.
    pub(crate) fn leverages(&self, mut phi: Mat<f64>, out: &mut [f64]) {
        let (rank, constant_count) = (phi.ncols(), self.intercept.constant_feature_count());
        let order = rank + constant_count;
        let factor = self.work_matrix.as_ref().submatrix(0, 0, order, order);
        let has_free_intercept = self.intercept == Intercept::Free;
        if has_free_intercept {
            for (column, mean) in phi.col_iter_mut().zip(&self.mean_phi) {
                column.iter_mut().for_each(|v| *v -= mean);
            }
        }
        if constant_count == 1 {
            phi = Mat::from_fn(phi.nrows(), order, |i, j| if j == 0 { 1.0 } else { phi[(i, j - 1)] });
        }
        triangular::solve_lower_triangular_in_place(factor, phi.as_mut().transpose_mut(), Par::Seq);
        out.fill(if has_free_intercept { 1.0 / self.total_weight } else { 0.0 });
        for column in phi.col_iter() {
            out.iter_mut().zip(column.iter()).for_each(|(h, v)| *h += v * v);
        }
    }

    fn substitute(&self, ranks: &[usize], solution: &mut RankSolutions, workers: &Workers) {
        let constant_count = self.intercept.constant_feature_count();
        let order = constant_count + ranks[ranks.len() - 1];
        let factor = self.work_matrix.as_ref().submatrix(0, 0, order, order);
        let mut right: Vec<f64> = Vec::with_capacity(order * self.t);
        (0..self.t).for_each(|j| right.extend_from_slice(&self.right_sides.col_as_slice(j)[..order]));
        // for a strip of right sides: makes one forward substitution, then one back substitution
        // for every rank
        for_each_strip(workers, &mut right, order * RIGHT_SIDES, |_, strip| {
            let column_count = strip.len() / order;
            let strip = MatMut::from_column_major_slice_mut(strip, order, column_count);
            triangular::solve_lower_triangular_in_place(factor, strip, Par::Seq);
        });
        for (k, rank) in ranks.iter().enumerate() {
            let rank_order = constant_count + rank;
            let leading_factor = factor.submatrix(0, 0, rank_order, rank_order);
            let mut w: Vec<f64> = right.chunks_exact(order).flat_map(|z| z[..rank_order].iter().copied()).collect();
            for_each_strip(workers, &mut w, rank_order * RIGHT_SIDES, |_, strip| {
                let column_count = strip.len() / rank_order;
                let strip = MatMut::from_column_major_slice_mut(strip, rank_order, column_count);
                triangular::solve_upper_triangular_in_place(leading_factor.transpose(), strip, Par::Seq);
            });
            self.store_coefficients(MatRef::from_column_major_slice(&w, rank_order, self.t), k * self.t, solution);
        }
        let pivots = || (0..order).map(|i| factor[(i, i)]);
        let ratio = pivots().fold(0.0, f64::max) / pivots().fold(f64::INFINITY, f64::min);
        solution.condition_bound = ratio * ratio;
    }

    /// Splits q coefficients into p weights and the intercept for the shifted targets.
    fn store_coefficients(&self, w: MatRef<'_, f64>, first_column: usize, solution: &mut RankSolutions) {
        let constant_count = self.intercept.constant_feature_count();
        let rank = w.nrows() - constant_count;
        for j in 0..self.t {
            let mut mean_product = 0.0;
            for i in 0..rank {
                solution.weights[(i, first_column + j)] = w[(constant_count + i, j)];
                mean_product += self.mean_phi[i] * w[(constant_count + i, j)];
            }
            solution.intercepts[first_column + j] = match self.intercept {
                Intercept::Free => self.mean_y[j] - mean_product,
                Intercept::Penalised => w[(0, j)] - self.target_centre[j],
                Intercept::None => -self.target_centre[j],
            };
        }
    }
}

/// Sums over folds, in their order, the numbers that `part` returns for a fold.
fn sum_over_folds<'a>(folds: &[&'a FoldGram], length: usize, part: impl Fn(&'a FoldGram) -> &'a [f64]) -> Vec<f64> {
    let mut sum = vec![0.0; length];
    for fold in folds {
        sum.iter_mut().zip(part(fold)).for_each(|(sum, part)| *sum += part);
    }
    sum
}

/// Returns the leading columns of a matrix, to distribute them to threads.
fn leading_columns(matrix: &mut Mat<f64>, count: usize) -> Vec<&mut [f64]> {
    let columns = matrix.as_mut().col_iter_mut().take(count);
    columns.map(column_slice_mut).collect()
}
