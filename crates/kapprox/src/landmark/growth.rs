//! Landmarks chosen one after the other, and the Cholesky factor that grows with them.
//!
//! ```text
//! residuals of all rows ─▶ a pool of promising rows ─▶ landmarks, their factor ─▶ residuals …
//!      (residual_pass.rs)          (here, in f64)
//! ```
//!
//! Any rule may propose rows for the pool. Whether a row is accepted is decided in f64, from the
//! Schur complement of the pool (its residual matrix), because f64 distinguishes a small residual
//! from rounding error.

use super::residual_pass::{ResidualPass, Residuals, RowRule};
use super::{LandmarkSet, RowSample, TableScan};
use crate::kernel::{AnyKernel, KernelFunction};
use crate::map::{factor::PIVOT_FLOOR, independent::to_f64_vec, nystrom::NystromMap};
use crate::{Real, Result, matrix::CandidatePool};
use faer::{Mat, MatRef, Par, linalg::triangular_solve::solve_lower_triangular_in_place};
use kpass::Workers;
use std::sync::Arc;

pub(super) struct GrowingLandmarks<'a, T: Real> {
    kernel: &'a Arc<dyn AnyKernel>,
    pub(super) kernel_f64: Arc<dyn KernelFunction<f64>>,
    pub(super) landmarks: LandmarkSet<T>,
    /// The landmarks in f64, row-major.
    pub(super) points_f64: Vec<f64>,
    /// An m x m matrix. With s landmarks so far, its leading s x s block is L.
    lower: Mat<f64>,
}

impl<'a, T: Real> GrowingLandmarks<'a, T> {
    /// Returns an empty selection with capacity for `m` landmarks. The kernel must be positive
    /// definite, because the diagonal of the factor holds square roots of residuals.
    pub(super) fn new(kernel: &'a Arc<dyn AnyKernel>, d: usize, m: usize) -> Result<Self> {
        let landmarks = LandmarkSet { points: Vec::new(), row_numbers: Vec::new(), d, passes: 0, evaluations: 0 };
        let kernel_f64 = kernel.typed::<f64>();
        crate::kernel::require_positive_definite(&*kernel_f64, "pivoted Cholesky")?;
        Ok(Self { kernel, kernel_f64, landmarks, points_f64: Vec::new(), lower: Mat::zeros(m, m) })
    }

    pub(super) fn len(&self) -> usize {
        self.landmarks.len()
    }

    pub(super) fn report_progress(&self, scan: &TableScan<'_, T>) {
        scan.pass.observer.report_selection(self.len(), self.landmarks.passes, self.landmarks.evaluations);
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == self.lower.nrows()
    }

    pub(super) fn truncate(&mut self, s: usize) {
        self.landmarks.row_numbers.truncate(s);
        self.landmarks.points.truncate(s * self.landmarks.d);
        self.points_f64.truncate(s * self.landmarks.d);
    }

    pub(super) fn lower(&self) -> MatRef<'_, f64> {
        self.lower.submatrix(0, 0, self.len(), self.len())
    }

    /// Computes in one pass the residuals of all rows under the landmarks so far, and keeps the
    /// `capacity` rows with the best keys.
    pub(super) fn compute_residuals(
        &mut self,
        rule: &RowRule<impl Fn(u64, f64) -> Option<f64> + Sync>,
        capacity: usize,
        scan: &TableScan<'_, T>,
    ) -> Result<Residuals<T>> {
        let (map, name) = (self.build_map(scan.pass.workers)?, format!("residuals of {} landmarks", self.len()));
        let residuals = ResidualPass::run(self.kernel, map, rule, capacity, &name, scan)?;
        self.landmarks.passes += 1;
        self.landmarks.evaluations += residuals.row_count * (self.len() as u64 + 1);
        Ok(residuals)
    }

    fn build_map(&self, workers: &Workers) -> Result<Option<NystromMap<T>>> {
        let build = || NystromMap::from_factor(self.kernel, self.landmarks.clone(), self.lower().to_owned(), workers);
        (self.len() > 0).then(build).transpose()
    }

    /// Returns a pool of b rows, which may repeat, with their residual matrix under the s landmarks
    /// so far. Costs 2bsd + bs² flops.
    pub(super) fn build_pool(&mut self, RowSample { row_numbers, x, d, .. }: RowSample<T>) -> CandidatePool {
        let (b, s, x) = (row_numbers.len(), self.len(), to_f64_vec(&x));
        let mut phi = Mat::zeros(b, s);
        if s > 0 {
            let z = MatRef::from_row_major_slice(&self.points_f64, s, d);
            self.kernel_f64.block(MatRef::from_row_major_slice(&x, b, d), z, phi.as_mut());
            solve_lower_triangular_in_place(self.lower(), phi.as_mut().transpose_mut(), Par::Seq);
        }
        self.landmarks.evaluations += (b * s) as u64;
        self.build_pool_from_features(row_numbers, x, phi)
    }

    /// Returns a pool of rows with known features `phi` under the landmarks so far.
    pub(super) fn build_pool_from_features(
        &mut self,
        row_numbers: Vec<u64>,
        x: Vec<f64>,
        phi: Mat<f64>,
    ) -> CandidatePool {
        let b = row_numbers.len();
        let points = MatRef::from_row_major_slice(&x, b, self.landmarks.d);
        let mut candidate_kernel = Mat::<f64>::zeros(b, b);
        self.kernel_f64.block(points, points, candidate_kernel.as_mut());
        self.landmarks.evaluations += (b * b) as u64;
        let floors = (0..b).map(|i| PIVOT_FLOOR * candidate_kernel[(i, i)]).collect();
        CandidatePool::new(row_numbers, x, phi, candidate_kernel, floors)
    }

    /// Makes row i of the pool a landmark. The new row of L consists of three parts: the features
    /// phi_i, the entries of row i in the columns that were eliminated in this pool, and the square
    /// root of the residual.
    pub(super) fn accept(&mut self, pool: &mut CandidatePool, i: usize) {
        let (s, d) = (self.len(), self.landmarks.d);
        for (j, value) in pool.lower_row(i).enumerate() {
            self.lower[(s, j)] = value;
        }
        let x = &pool.x[i * d..(i + 1) * d];
        self.points_f64.extend_from_slice(x);
        self.landmarks.points.extend(x.iter().map(|v| T::from_f64(*v)));
        self.landmarks.row_numbers.push(pool.row_numbers[i]);
        pool.eliminate(i);
    }
}
