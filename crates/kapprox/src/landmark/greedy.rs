//! Greedy pivoted Cholesky: the next landmark is the row with the largest residual.
//!
//! This is incomplete Cholesky with complete pivoting. The next pivot is argmax_i r_i, where r_i =
//! k(x_i, x_i) − ‖L⁻¹k_S(x_i)‖² is the residual of row i, k_S(x_i) are its kernel values with the
//! landmarks S so far, and L Lᵀ = K_SS. The trace error decreases as fast as the spectrum of K. Far
//! outliers are chosen first, whether they matter or not.
//!
//! Pivots are found lazily, in rounds. A round computes all residuals and collects the rows with
//! the largest residuals in a pool. Pivots are taken from the pool until its largest current
//! residual is below a residual that a row outside the pool had at the start of the round. Since
//! residuals never increase, each pivot is the row that a search over all rows would find. If
//! residuals are equal, the earlier row is chosen.
//!
//! References: Fine, Scheinberg, "Efficient SVM training using low-rank kernel representations",
//! JMLR 2, 2001; Bach, Jordan, "Kernel independent component analysis", JMLR 3, 2002.

use super::candidate_rows::{self, CandidateRows, MAX_ENTRIES};
use super::{
    LandmarkRule, LandmarkSet, Scheme, SelectionSize, TableScan, growth::GrowingLandmarks, residual_pass::RowRule,
};
use crate::matrix::{CandidatePool, MAX_POOL_ROWS, MIN_POOL_ROWS, sum_and_largest};
use crate::{Real, Result, kernel::AnyKernel};
use std::sync::Arc;

/// Rounding error of a residual k(x, x) − ‖φ(x)‖², in units of the machine epsilon. For comparison,
/// the floor of the certificate (the rounding error of the sum of all residuals) is 32 units at
/// 1,000 landmarks and 45 units at 2,000.
const ROUNDING_UNITS: f64 = 64.0;

/// Greedy pivoted Cholesky.
///
/// If n·m is at most 2²⁶, it makes one pass, costs nm² flops, and stores 8nm bytes. Otherwise it
/// makes one pass per round and stores nothing per row. The pass of a round that starts with s
/// landmarks costs n(s² + 2sd) flops. The number of rounds depends on the rows and is at most m.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy {
    /// Relative trace error at which the selection stops: it stops once Σ_i r_i ≤ tolerance · tr K.
    /// If it is 0, the requested number of landmarks is selected.
    pub tolerance: f64,
}

pub(super) const SCHEME: Scheme = Scheme {
    is_nested: true,
    depends_on_seed: false,
    extra_bytes: |SelectionSize { n, d, m, .. }| if fits_in_memory(n, m) { candidate_rows::bytes(n, d, m) } else { 0 },
    ..Scheme::new("greedy", "pivoted Cholesky: the row with the largest residual", &Greedy { tolerance: 0.0 })
};

impl<T: Real> LandmarkRule<T> for Greedy {
    fn select(&self, scan: &TableScan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, _: u64) -> Result<LandmarkSet<T>> {
        self.grow(scan, kernel, m, fits_in_memory(scan.row_count, m))
    }

    fn select_within(
        &self,
        tolerance: f64,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        _: u64,
    ) -> Result<LandmarkSet<T>> {
        Self { tolerance }.grow(scan, kernel, m, fits_in_memory(scan.row_count, m))
    }
}

/// Returns whether residuals are updated in memory instead of recomputed by passes.
fn fits_in_memory(n: u64, m: usize) -> bool {
    n.saturating_mul(m as u64) <= MAX_ENTRIES
}

impl Greedy {
    fn grow<T: Real>(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        is_in_memory: bool,
    ) -> Result<LandmarkSet<T>> {
        let mut growth = GrowingLandmarks::new(kernel, scan.source.shape().input_count, m)?;
        let mut candidates = if is_in_memory { Some(CandidateRows::read(&mut growth, scan, m, false)?) } else { None };
        let (mut trace, mut capacity) = (None, MIN_POOL_ROWS);
        while !growth.is_full() {
            let (residual_sum, outside_bound, mut pool) =
                collect_pool(&mut growth, candidates.as_ref(), scan, capacity)?;
            let kernel_trace = *trace.get_or_insert(residual_sum);
            if residual_sum <= self.tolerance * kernel_trace {
                break;
            }
            // if the residuals outside the pool are below their rounding error, they cannot show
            // that a row outside is better
            let outside_bound = if outside_bound > kernel_trace * relative_rounding_error::<T>(scan.row_count) {
                outside_bound
            } else {
                0.0
            };
            let previous_count = growth.len();
            while let Some((i, residual)) = pool.largest_residual()
                && !growth.is_full()
                // the first row of the pool had the largest residual of all rows: accept it despite
                // rounding
                && (residual >= outside_bound || growth.len() == previous_count)
            {
                growth.accept(&mut pool, i);
            }
            if growth.len() == previous_count {
                break;
            }
            // the next pool has four times as many rows as this pool gave landmarks
            capacity = (4 * (growth.len() - previous_count)).clamp(MIN_POOL_ROWS, MAX_POOL_ROWS);
            if let Some(candidates) = &mut candidates {
                candidates.add_columns(&mut growth, previous_count, scan.pass.workers);
            }
            growth.report_progress(scan);
        }
        Ok(growth.landmarks)
    }
}

/// Returns the rounding error of a residual computed in `T`, as a fraction of the trace of the
/// kernel matrix of n rows.
fn relative_rounding_error<T: Real>(n: u64) -> f64 {
    ROUNDING_UNITS * T::EPSILON / n.max(1) as f64
}

/// Returns the sum of all residuals, a bound for each residual outside the pool, and the pool of
/// the rows with the largest residuals. Makes a pass if the rows are not in memory.
fn collect_pool<T: Real>(
    growth: &mut GrowingLandmarks<'_, T>,
    candidates: Option<&CandidateRows>,
    scan: &TableScan<'_, T>,
    capacity: usize,
) -> Result<(f64, f64, CandidatePool)> {
    if let Some(candidates) = candidates {
        let (residual_sum, best_positions) = sum_and_largest(&candidates.growing_factor.residuals, capacity);
        let outside_bound = best_positions.get(capacity - 1).map_or(0.0, |i| candidates.growing_factor.residuals[*i]);
        return Ok((residual_sum, outside_bound, candidates.build_pool(growth, &best_positions)));
    }
    let mut residuals = growth.compute_residuals(&RowRule::new(|_, residual| Some(residual)), capacity, scan)?;
    let entries = residuals.best_rows.sorted_entries();
    let outside_bound = entries.get(capacity - 1).map_or(0.0, |entry| entry.key);
    Ok((residuals.residual_sum, outside_bound, growth.build_pool(residuals.best_rows.sample(&entries))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{defined_gaussian, pointwise};
    use kpass::key::{Purpose, Stream};
    use kpass::{MemoryRows, Pass, Workers};

    #[test]
    fn recomputed_residuals_give_the_same_pivots() {
        let stream = Stream::new(7, Purpose::Data, 0);
        let x: Vec<f64> = (0..900 * 3).map(|i| 6.0 * stream.uniform(i)).collect();
        let source = MemoryRows::new(x, 3).unwrap();
        let workers = Workers::new(2);
        let data = TableScan {
            source: &source,
            pass: Pass { lane_count: 2, ..Pass::new(128, 300, &workers) },
            row_count: 900,
        };
        let squared = |x: &[f64], z: &[f64]| (1.0 + x.iter().zip(z).map(|(x, z)| x * z).sum::<f64>()).powi(2);
        for kernel in [defined_gaussian(1.0), pointwise("polynomial".to_string(), squared)] {
            let updated = Greedy::default().grow(&data, &kernel, 60, true).unwrap();
            let recomputed = Greedy::default().grow(&data, &kernel, 60, false).unwrap();
            assert_eq!(updated.row_numbers, recomputed.row_numbers, "{kernel:?}");
            assert!(
                updated.passes == 1 && recomputed.passes > 1 && recomputed.passes <= 61,
                "{} passes",
                recomputed.passes
            );
        }
    }

    #[test]
    fn below_the_rounding_of_residuals_a_pass_gives_many_pivots() {
        let stream = Stream::new(1, Purpose::Data, 0);
        let x: Vec<f32> = (0..2000 * 2).map(|i| stream.uniform(i) as f32).collect();
        let source = MemoryRows::new(x, 2).unwrap();
        let workers = Workers::new(1);
        let data = TableScan { source: &source, pass: Pass::new(256, 1024, &workers), row_count: 2000 };
        let kernel = defined_gaussian(0.3);
        let landmarks = Greedy::default().grow(&data, &kernel, 100, false).unwrap();
        assert_eq!(landmarks.len(), 100);
        assert!(landmarks.passes < 40, "{} passes", landmarks.passes);
    }
}
