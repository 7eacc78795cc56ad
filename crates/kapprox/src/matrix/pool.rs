//! Rows that may become pivots, and what the pivots leave of them.

use faer::{Accum, Mat, Par, linalg::matmul::matmul};

/// Rows of a pool, least and most. Between them four times as many as the round before found pivots in its pool: a pool
/// of b rows costs b² products of s numbers, so that large ones must earn it.
pub(crate) const POOL: (usize, usize) = (32, 512);

/// Rows that may become landmarks, with their residual matrix under the landmarks: S = K_BB − Φ_B Φ_Bᵀ.
pub(crate) struct Pool {
    pub(crate) rows: Vec<u64>,
    /// Features in f64, row-major; none of the rows of a matrix without vectors.
    pub(crate) x: Vec<f64>,
    /// Features under the landmarks at the start of the round, b x s.
    phi: Mat<f64>,
    /// S, b x b.
    schur: Mat<f64>,
    /// For each row, the largest residual that may be mere rounding.
    floors: Vec<f64>,
    /// Columns of the factor that this pool's landmarks have added, b numbers each.
    eliminated: Vec<Vec<f64>>,
}

impl Pool {
    /// `kernel` is K_BB, of rows of which `floors` are rounding.
    pub(crate) fn new(rows: Vec<u64>, x: Vec<f64>, phi: Mat<f64>, kernel: Mat<f64>, floors: Vec<f64>) -> Self {
        let mut schur = kernel;
        matmul(schur.as_mut(), Accum::Add, phi.as_ref(), phi.transpose(), -1.0, Par::Seq);
        Self { rows, x, phi, schur, floors, eliminated: Vec::new() }
    }

    /// The row of L that row i of the pool has, were it taken now: phi_i, its eliminated columns, root of its residual.
    pub(crate) fn lower_row(&self, i: usize) -> impl Iterator<Item = f64> {
        let (phi, columns) = (self.phi.row(i), &self.eliminated);
        phi.iter().copied().chain(columns.iter().map(move |column| column[i])).chain([self.schur[(i, i)].sqrt()])
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The residual of row i now; `None` where it is mere rounding.
    pub(crate) fn residual(&self, i: usize) -> Option<f64> {
        let residual = self.schur[(i, i)];
        (residual > self.floors[i]).then_some(residual)
    }

    /// The row with the largest residual and the residual, the earliest row where several are equal; `None` where
    /// nothing but rounding is left.
    pub(crate) fn largest(&self) -> Option<(usize, f64)> {
        let left = (0..self.len()).filter_map(|i| Some((i, self.residual(i)?)));
        left.max_by(|(i, a), (j, b)| a.total_cmp(b).then(self.rows[*j].cmp(&self.rows[*i])))
    }

    /// One step of Cholesky: S −= c cᵀ with c = S e_i / √S_ii.
    pub(crate) fn eliminate(&mut self, i: usize) {
        let root = self.schur[(i, i)].sqrt();
        let column: Vec<f64> = self.schur.col(i).iter().map(|value| value / root).collect();
        for (j, weight) in column.iter().enumerate() {
            let values = self.schur.col_mut(j).iter_mut().zip(&column);
            values.for_each(|(value, c)| *value -= weight * c);
        }
        // exactly nothing: the row is spanned by itself
        self.schur[(i, i)] = 0.0;
        self.eliminated.push(column);
    }
}

/// Σ max(r, 0), and the places of the `capacity` largest positive residuals, largest first, ties in order.
pub(crate) fn largest(residual: &[f64], capacity: usize) -> (f64, Vec<usize>) {
    let mut order: Vec<usize> = (0..residual.len()).filter(|i| residual[*i] > 0.0).collect();
    let sum = order.iter().map(|i| residual[*i]).sum();
    let better = |a: &usize, b: &usize| residual[*b].total_cmp(&residual[*a]).then(a.cmp(b));
    if order.len() > capacity {
        order.select_nth_unstable_by(capacity - 1, better);
        order.truncate(capacity);
    }
    order.sort_unstable_by(better);
    (sum, order)
}
