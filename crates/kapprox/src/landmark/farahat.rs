//! Farahat's greedy selection: the next landmark is the row whose column of the residual matrix
//! explains most of this matrix.
//!
//! Let E = K − K̂ be the residual matrix (n x n) of the landmarks so far. The criterion of row i is
//! ‖E e_i‖² / E_ii, where e_i is the unit vector of row i. If row i becomes a landmark, tr E, the
//! squared Frobenius norm of E^½, decreases by this number. Greedy pivoting considers E_ii alone,
//! and therefore prefers outliers, whose columns of E are zero outside the diagonal. The columns of
//! E are never formed. A sketch S = E Ω with c columns estimates their norms. Ω (n x c) assigns
//! each row to one of c random groups, with a random sign. The squared norm ‖S_i‖² of row i of S is
//! an unbiased estimate of ‖E e_i‖². A landmark adds a column ω to the factor F of K̂ = F Fᵀ, and
//! ω(ωᵀΩ) is subtracted from S.
//!
//! Reference: Farahat, Ghodsi, Kamel, "A novel greedy algorithm for Nyström approximation", AISTATS
//! 2011, sections 4 (criterion, recursion) and 5 (random partitions). The paper has no signs; they
//! make the estimate unbiased.

use super::candidate_rows::{self, CandidateRows};
use super::{LandmarkRule, LandmarkSet, Scheme, SelectionSize, TableScan, growth::GrowingLandmarks};
use crate::kernel::{AnyKernel, index_chunks};
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
    is_nested: true,
    extra_bytes: |SelectionSize { n, d, m, .. }| candidate_rows::bytes(n, d, m + 2 * SKETCH_COLUMNS),
    ..Scheme::new("farahat", "the row whose column explains most of the residual matrix", &Farahat)
};

/// Number of groups c of the sketch. The relative error of an estimated squared norm is √(2/c),
/// about 12 %, which is accurate enough for a greedy choice.
const SKETCH_COLUMNS: usize = 128;

/// Number of columns of K that are computed at a time for the sketch, chosen: in strips of
/// [`STRIP_ROWS`] rows they take 2.4 MB.
const SKETCH_PANEL_COLUMNS: usize = 1024;

impl<T: Real> LandmarkRule<T> for Farahat {
    fn select(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        let workers = scan.pass.workers;
        let mut growth = GrowingLandmarks::new(kernel, scan.source.shape().input_count, m)?;
        let mut candidates = CandidateRows::read(&mut growth, scan, m, false)?;
        let floors: Vec<f64> =
            candidates.growing_factor.residuals.iter().map(|residual| PIVOT_FLOOR * residual).collect();
        let count_sketch = CountSketch::new(&candidates.row_numbers, &Stream::new(seed, Purpose::Proposals, 0));
        let mut sketch = count_sketch.sketch_kernel(&candidates, &growth, workers);
        growth.landmarks.evaluations += (candidates.len() as u64).pow(2);
        while !growth.is_full() {
            let squared_norms = sketch.squared_norms(workers);
            let criterion = |i: usize| squared_norms[i] / candidates.growing_factor.residuals[i];
            let remaining_rows = (0..candidates.len()).filter(|i| candidates.growing_factor.residuals[*i] > floors[*i]);
            let Some(best_row) = remaining_rows.max_by(|i, j| criterion(*i).total_cmp(&criterion(*j)).then(j.cmp(i)))
            else {
                break;
            };
            let previous_count = growth.len();
            let mut pool = candidates.build_pool(&mut growth, &[best_row]);
            if pool.residual(0).is_none() {
                // the landmarks span this row up to rounding: exclude it from now on
                candidates.growing_factor.residuals[best_row] = 0.0;
                continue;
            }
            growth.accept(&mut pool, 0);
            candidates.add_columns(&mut growth, previous_count, workers);
            candidates.growing_factor.residuals[best_row] = 0.0;
            sketch.deflate(candidates.factor_columns(growth.len()).subcols(previous_count, 1), &count_sketch, workers);
            growth.report_progress(scan);
        }
        Ok(growth.landmarks)
    }
}

/// Ω, stored as the group and the sign of each row.
struct CountSketch {
    buckets: Vec<usize>,
    signs: Vec<f64>,
}

/// S = E Ω, n x c, row-major: its transpose, c x n, is stored column-major.
struct ResidualSketch(Mat<f64>);

impl CountSketch {
    fn new(row_numbers: &[u64], stream: &Stream) -> Self {
        let word = |row: &u64| stream.word(*row);
        let buckets = row_numbers.iter().map(|row| (word(row) >> 1) as usize % SKETCH_COLUMNS).collect();
        let signs = row_numbers.iter().map(|row| if word(row) & 1 == 1 { 1.0 } else { -1.0 }).collect();
        Self { buckets, signs }
    }

    /// Computes K Ω one panel of columns at a time: 2n²d flops and one exponential per entry of K.
    fn sketch_kernel<T: Real>(
        &self,
        candidates: &CandidateRows,
        growth: &GrowingLandmarks<'_, T>,
        workers: &Workers,
    ) -> ResidualSketch {
        let (n, x) = (candidates.len(), candidates.points());
        let mut sketch = Mat::zeros(SKETCH_COLUMNS, n);
        workers.for_each(strips(x, sketch.as_mut().transpose_mut()), |(x_strip, mut sketch_strip)| {
            let mut k = Mat::zeros(x_strip.nrows(), SKETCH_PANEL_COLUMNS.min(n));
            for (first_column, column_count) in index_chunks(n, SKETCH_PANEL_COLUMNS) {
                let mut k = k.as_mut().subcols_mut(0, column_count);
                growth.kernel_f64.block(x_strip, x.subrows(first_column, column_count), k.as_mut());
                for j in 0..column_count {
                    let (bucket, sign) = (self.buckets[first_column + j], self.signs[first_column + j]);
                    for (i, value) in k.as_ref().col(j).iter().enumerate() {
                        sketch_strip[(i, bucket)] += sign * value;
                    }
                }
            }
        });
        ResidualSketch(sketch)
    }
}

impl ResidualSketch {
    fn squared_norms(&self, workers: &Workers) -> Vec<f64> {
        let mut squared_norms = vec![0.0; self.0.ncols()];
        let norm_strips = squared_norms.chunks_mut(STRIP_ROWS).enumerate().collect();
        workers.for_each(norm_strips, |(strip_index, squared_norms): (usize, &mut [f64])| {
            for (i, squared_norm) in squared_norms.iter_mut().enumerate() {
                *squared_norm = self.0.col(strip_index * STRIP_ROWS + i).squared_norm_l2();
            }
        });
        squared_norms
    }

    /// S −= ω (ωᵀ Ω).
    fn deflate(&mut self, omega: MatRef<'_, f64>, count_sketch: &CountSketch, workers: &Workers) {
        let mut bucket_sums = Mat::<f64>::zeros(SKETCH_COLUMNS, 1);
        for (i, value) in omega.col(0).iter().enumerate() {
            bucket_sums[(count_sketch.buckets[i], 0)] += count_sketch.signs[i] * value;
        }
        workers.for_each(strips(omega, self.0.as_mut().transpose_mut()), |(omega, strip)| {
            matmul(strip.transpose_mut(), Accum::Add, bucket_sums.as_ref(), omega.transpose(), -1.0, Par::Seq);
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
        let data = TableScan { source: &source, pass: Pass::new(64, 128, &workers), row_count: n as u64 };
        let kernel = defined_gaussian(1.0);
        let mut growth = GrowingLandmarks::new(&kernel, 2, 4).unwrap();
        let mut columns = CandidateRows::read(&mut growth, &data, 4, false).unwrap();
        let (rows, points) = (columns.row_numbers.clone(), columns.points().to_owned());
        let square = |i: usize, j: usize| (0..2).map(|c| (points[(i, c)] - points[(j, c)]).powi(2)).sum::<f64>();
        let mut e = Mat::from_fn(n, n, |i, j| (-square(i, j) / 2.0).exp());
        let groups: Vec<CountSketch> =
            (0..300).map(|seed| CountSketch::new(&rows, &Stream::new(seed, Purpose::Proposals, 0))).collect();
        let mut sketches: Vec<ResidualSketch> =
            groups.iter().map(|g| g.sketch_kernel(&columns, &growth, &workers)).collect();
        assert_unbiased(&e, &sketches, &workers);
        let mut pool = columns.build_pool(&mut growth, &[37]);
        growth.accept(&mut pool, 0);
        columns.add_columns(&mut growth, 0, &workers);
        let (column, pivot) = (e.col(37).to_owned(), e[(37, 37)]);
        e -= &column * column.transpose() / pivot;
        for (sketch, groups) in sketches.iter_mut().zip(&groups) {
            sketch.deflate(columns.factor_columns(1), groups, &workers);
        }
        assert_unbiased(&e, &sketches, &workers);
    }

    fn assert_unbiased(e: &Mat<f64>, sketches: &[ResidualSketch], workers: &Workers) {
        let (n, runs) = (e.nrows(), sketches.len() as f64);
        let norms: Vec<Vec<f64>> = sketches.iter().map(|sketch| sketch.squared_norms(workers)).collect();
        let mut worst = 0.0f64;
        for i in 0..n {
            let mean = norms.iter().map(|norms| norms[i]).sum::<f64>() / runs;
            let variance = norms.iter().map(|norms| (norms[i] - mean).powi(2)).sum::<f64>() / (runs - 1.0);
            let error = (mean - e.col(i).squared_norm_l2()).abs();
            worst = worst.max(error / ((variance / runs).sqrt() + 1e-9));
        }
        // the largest of 160 deviations, which are correlated because all rows share the groups
        assert!(worst < 4.5, "{worst} standard errors");
    }
}
