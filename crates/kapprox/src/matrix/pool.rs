//! Candidates for pivots, and their residuals.

use faer::{Accum, Mat, Par, linalg::matmul::matmul};

/// Minimum number of rows of a pool. Between the minimum and the maximum, the number is four times
/// the number of pivots that the preceding round found. With s pivots so far, a pool of b rows
/// costs b² inner products of s numbers, so a large pool is worthwhile only if it yields many
/// pivots.
pub(crate) const MIN_POOL_ROWS: usize = 32;
/// Maximum number of rows of a pool.
pub(crate) const MAX_POOL_ROWS: usize = 512;

/// Candidates for landmarks, with their residual matrix under the landmarks so far, S = K_BB − Φ_B
/// Φ_Bᵀ. K_BB (b x b) is the kernel matrix of the candidates, and Φ_B contains their features.
pub(crate) struct CandidatePool {
    pub(crate) row_numbers: Vec<u64>,
    /// Points in f64, row-major; empty for a matrix that is given by its entries.
    pub(crate) x: Vec<f64>,
    /// Features under the landmarks at the start of the round, b x s.
    phi: Mat<f64>,
    /// S, b x b.
    schur_complement: Mat<f64>,
    /// For each row, the largest residual that may be rounding error.
    floors: Vec<f64>,
    /// Columns of the factor that the landmarks of this pool have added, b numbers each.
    eliminated_columns: Vec<Vec<f64>>,
}

impl CandidatePool {
    /// Returns a pool with K_BB = `candidate_kernel`. Residuals up to `floors` count as rounding
    /// errors.
    pub(crate) fn new(
        row_numbers: Vec<u64>,
        x: Vec<f64>,
        phi: Mat<f64>,
        candidate_kernel: Mat<f64>,
        floors: Vec<f64>,
    ) -> Self {
        let mut schur_complement = candidate_kernel;
        matmul(schur_complement.as_mut(), Accum::Add, phi.as_ref(), phi.transpose(), -1.0, Par::Seq);
        Self { row_numbers, x, phi, schur_complement, floors, eliminated_columns: Vec::new() }
    }

    /// Returns the new row of L if row i of the pool becomes a pivot now. It consists of phi_i, the
    /// entries of row i in the eliminated columns, and the square root of the residual.
    pub(crate) fn lower_row(&self, i: usize) -> impl Iterator<Item = f64> {
        let (phi, columns) = (self.phi.row(i), &self.eliminated_columns);
        phi.iter()
            .copied()
            .chain(columns.iter().map(move |column| column[i]))
            .chain([self.schur_complement[(i, i)].sqrt()])
    }

    pub(crate) fn len(&self) -> usize {
        self.row_numbers.len()
    }

    /// Returns the current residual of row i, or `None` if it is rounding error.
    pub(crate) fn residual(&self, i: usize) -> Option<f64> {
        let residual = self.schur_complement[(i, i)];
        (residual > self.floors[i]).then_some(residual)
    }

    /// Returns the row with the largest residual, and the residual, or `None` if all residuals are
    /// rounding errors. If residuals are equal, returns the earliest of these rows.
    pub(crate) fn largest_residual(&self) -> Option<(usize, f64)> {
        let candidates = (0..self.len()).filter_map(|i| Some((i, self.residual(i)?)));
        candidates.max_by(|(i, a), (j, b)| a.total_cmp(b).then(self.row_numbers[*j].cmp(&self.row_numbers[*i])))
    }

    /// Makes one step of the Cholesky factorisation, with row i as the pivot: S −= c cᵀ with c = S
    /// e_i / √S_ii.
    pub(crate) fn eliminate(&mut self, i: usize) {
        let pivot_root = self.schur_complement[(i, i)].sqrt();
        let column: Vec<f64> = self.schur_complement.col(i).iter().map(|value| value / pivot_root).collect();
        for (j, weight) in column.iter().enumerate() {
            let values = self.schur_complement.col_mut(j).iter_mut().zip(&column);
            values.for_each(|(value, c)| *value -= weight * c);
        }
        // the residual is exactly zero, because the row is a pivot
        self.schur_complement[(i, i)] = 0.0;
        self.eliminated_columns.push(column);
    }
}

/// Returns Σ max(r, 0), and the positions of the `capacity` largest positive residuals in
/// descending order. Equal residuals are in the order of their positions.
pub(crate) fn sum_and_largest(residuals: &[f64], capacity: usize) -> (f64, Vec<usize>) {
    let mut order: Vec<usize> = (0..residuals.len()).filter(|i| residuals[*i] > 0.0).collect();
    let sum = order.iter().map(|i| residuals[*i]).sum();
    let compare = |a: &usize, b: &usize| residuals[*b].total_cmp(&residuals[*a]).then(a.cmp(b));
    if order.len() > capacity {
        order.select_nth_unstable_by(capacity - 1, compare);
        order.truncate(capacity);
    }
    order.sort_unstable_by(compare);
    (sum, order)
}
