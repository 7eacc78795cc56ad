//! Farahat's greedy selection: the next landmark is the row whose column of the residual matrix
//! explains most of this matrix.
//!
//! Let E = K − K̂ be the residual matrix (n x n) of the landmarks so far. The criterion of row i is
//! ‖E e_i‖² / E_ii, where e_i is the unit vector of row i. It is the decrease of tr E, the squared
//! Frobenius norm of E^½, if row i becomes a landmark. Greedy pivoting considers E_ii alone. It
//! therefore prefers outliers, whose columns of E are zero outside the diagonal. The columns of E
//! are never formed. Their norms are estimated from a sketch S = E Ω with c columns. Ω (n x c)
//! assigns each row to one of c random groups, with a random sign. The squared norm ‖S_i‖² of row i
//! of S is an unbiased estimate of ‖E e_i‖². A landmark adds a column ω to the factor F of K̂ = F
//! Fᵀ, and ω(ωᵀΩ) is subtracted from S.
//!
//! Reference: Farahat, Ghodsi, Kamel, "A novel greedy algorithm for Nyström approximation", AISTATS
//! 2011, sections 4 (criterion, recursion) and 5 (random partitions). The paper has no signs; they
//! make the estimate unbiased.

use super::in_memory::{self, InMemoryColumns};
use super::{LandmarkRule, LandmarkSet, Scheme, SelectionSize, TableScan, growth::GrowingLandmarks};
use crate::kernel::{AnyKernel, pieces};
use crate::map::factor::PIVOT_FLOOR;
use crate::map::nystrom::{STRIP_ROWS, strips};
use crate::{Real, Result};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kpass::Workers;
use kpass::key::{Purpose, Stream};
use std::sync::Arc;

/// Greedy selection by the columns of the residual matrix.
///
/// Makes one pass. Costs n² kernel evaluations for the sketch, then n(m² + 3mc) flops for m
/// landmarks. Stores n(m + 2c) numbers in f64, so it suits candidate rows that fit in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Farahat;

pub(super) const SCHEME: Scheme = Scheme {
    nested: true,
    bytes: |SelectionSize { n, d, m, .. }| in_memory::bytes(n, d, m + 2 * SKETCH_COLUMNS),
    ..Scheme::new("farahat", "the row whose column explains most of the residual matrix", &Farahat)
};

/// Number of groups c of the sketch. The relative error of an estimated squared norm is √(2/c),
/// about 12 %, which is accurate enough for a greedy choice.
const SKETCH_COLUMNS: usize = 128;

/// Number of columns of K formed at a time for the sketch.
const PANEL_COLUMNS: usize = 1024;

impl<T: Real> LandmarkRule<T> for Farahat {
    fn select(
        &self,
        data: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        let workers = data.pass.workers;
        let mut growth = GrowingLandmarks::new(kernel, data.source.shape().inputs, m)?;
        let mut columns = InMemoryColumns::read(&mut growth, data, m, false)?;
        let floors: Vec<f64> = columns.growing_factor.residual.iter().map(|residual| PIVOT_FLOOR * residual).collect();
        let groups = Groups::new(&columns.rows, &Stream::new(seed, Purpose::Proposals, 0));
        let mut sketch = groups.sketch(&columns, &growth, workers);
        growth.landmarks.evaluations += (columns.len() as u64).pow(2);
        while !growth.is_full() {
            let scores = sketch.norms(workers);
            let criterion = |i: usize| scores[i] / columns.growing_factor.residual[i];
            let remaining = (0..columns.len()).filter(|i| columns.growing_factor.residual[*i] > floors[*i]);
            let Some(best) = remaining.max_by(|i, j| criterion(*i).total_cmp(&criterion(*j)).then(j.cmp(i))) else {
                break;
            };
            let before = growth.len();
            let mut pool = columns.pool(&mut growth, &[best]);
            if pool.residual(0).is_none() {
                // the landmarks span this row up to rounding: exclude it from now on
                columns.growing_factor.residual[best] = 0.0;
                continue;
            }
            growth.accept(&mut pool, 0);
            columns.extend(&mut growth, before, workers);
            columns.growing_factor.residual[best] = 0.0;
            sketch.deflate(columns.factor(growth.len()).subcols(before, 1), &groups, workers);
            growth.report(data);
        }
        Ok(growth.landmarks)
    }
}

/// Ω, stored as the group and the sign of each row.
struct Groups {
    group: Vec<usize>,
    sign: Vec<f64>,
}

/// S = E Ω, n x c, row-major: its transpose, c x n, is stored column-major.
struct Sketch(Mat<f64>);

impl Groups {
    fn new(rows: &[u64], keys: &Stream) -> Self {
        let word = |row: &u64| keys.word(*row);
        let group = rows.iter().map(|row| (word(row) >> 1) as usize % SKETCH_COLUMNS).collect();
        let sign = rows.iter().map(|row| if word(row) & 1 == 1 { 1.0 } else { -1.0 }).collect();
        Self { group, sign }
    }

    /// Computes K Ω one panel of columns at a time: 2n²d flops and one exponential per entry of K.
    fn sketch<T: Real>(
        &self,
        columns: &InMemoryColumns,
        growth: &GrowingLandmarks<'_, T>,
        workers: &Workers,
    ) -> Sketch {
        let (n, x) = (columns.len(), columns.points());
        let mut sketch = Mat::zeros(SKETCH_COLUMNS, n);
        workers.for_each(strips(x, sketch.as_mut().transpose_mut()), |(rows, mut strip)| {
            let mut k = Mat::zeros(rows.nrows(), PANEL_COLUMNS.min(n));
            for (first, width) in pieces(n, PANEL_COLUMNS) {
                let mut k = k.as_mut().subcols_mut(0, width);
                growth.kernel_f64.block(rows, x.subrows(first, width), k.as_mut());
                for c in 0..width {
                    let (group, sign) = (self.group[first + c], self.sign[first + c]);
                    for (i, value) in k.as_ref().col(c).iter().enumerate() {
                        strip[(i, group)] += sign * value;
                    }
                }
            }
        });
        Sketch(sketch)
    }
}

impl Sketch {
    fn norms(&self, workers: &Workers) -> Vec<f64> {
        let mut norms = vec![0.0; self.0.ncols()];
        let parts = norms.chunks_mut(STRIP_ROWS).enumerate().collect();
        workers.for_each(parts, |(strip, norms): (usize, &mut [f64])| {
            for (i, norm) in norms.iter_mut().enumerate() {
                *norm = self.0.col(strip * STRIP_ROWS + i).squared_norm_l2();
            }
        });
        norms
    }

    /// S −= ω (ωᵀ Ω).
    fn deflate(&mut self, omega: MatRef<'_, f64>, groups: &Groups, workers: &Workers) {
        let mut sums = Mat::<f64>::zeros(SKETCH_COLUMNS, 1);
        for (i, value) in omega.col(0).iter().enumerate() {
            sums[(groups.group[i], 0)] += groups.sign[i] * value;
        }
        workers.for_each(strips(omega, self.0.as_mut().transpose_mut()), |(omega, strip)| {
            matmul(strip.transpose_mut(), Accum::Add, sums.as_ref(), omega.transpose(), -1.0, Par::Seq);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::defined_gaussian;
    use kpass::{MemoryRows, Pass};

    /// The mean of ‖S_i‖² over random groups and signs is ‖E e_i‖², both before and after a
    /// landmark is chosen.
    #[test]
    fn the_sketch_estimates_the_columns_of_the_residual_without_bias() {
        let n = 160;
        let x: Vec<f64> = (0..2 * n).map(|i| ((i * i) as f64 * 0.37).sin() * 2.0).collect();
        let source = MemoryRows::new(x, 2).unwrap();
        let workers = Workers::sequential();
        let data = TableScan { source: &source, pass: Pass::new(64, 128, &workers), count: n as u64 };
        let kernel = defined_gaussian(1.0);
        let mut growth = GrowingLandmarks::new(&kernel, 2, 4).unwrap();
        let mut columns = InMemoryColumns::read(&mut growth, &data, 4, false).unwrap();
        let (rows, points) = (columns.rows.clone(), columns.points().to_owned());
        let square = |i: usize, j: usize| (0..2).map(|c| (points[(i, c)] - points[(j, c)]).powi(2)).sum::<f64>();
        let mut e = Mat::from_fn(n, n, |i, j| (-square(i, j) / 2.0).exp());
        let groups: Vec<Groups> =
            (0..300).map(|seed| Groups::new(&rows, &Stream::new(seed, Purpose::Proposals, 0))).collect();
        let mut sketches: Vec<Sketch> = groups.iter().map(|g| g.sketch(&columns, &growth, &workers)).collect();
        assert_unbiased(&e, &sketches, &workers);
        let mut pool = columns.pool(&mut growth, &[37]);
        growth.accept(&mut pool, 0);
        columns.extend(&mut growth, 0, &workers);
        let (column, pivot) = (e.col(37).to_owned(), e[(37, 37)]);
        e -= &column * column.transpose() / pivot;
        for (sketch, groups) in sketches.iter_mut().zip(&groups) {
            sketch.deflate(columns.factor(1), groups, &workers);
        }
        assert_unbiased(&e, &sketches, &workers);
    }

    fn assert_unbiased(e: &Mat<f64>, sketches: &[Sketch], workers: &Workers) {
        let (n, runs) = (e.nrows(), sketches.len() as f64);
        let norms: Vec<Vec<f64>> = sketches.iter().map(|sketch| sketch.norms(workers)).collect();
        let mut worst = 0.0f64;
        for i in 0..n {
            let mean = norms.iter().map(|norms| norms[i]).sum::<f64>() / runs;
            let variance = norms.iter().map(|norms| (norms[i] - mean).powi(2)).sum::<f64>() / (runs - 1.0);
            let error = (mean - e.col(i).squared_norm_l2()).abs();
            worst = worst.max(error / ((variance / runs).sqrt() + 1e-9));
        }
        // 160 rows that share their groups
        assert!(worst < 4.5, "{worst} standard errors");
    }
}
