//! Greedy pivoted Cholesky: the next landmark is the row that the earlier ones leave most of.
//!
//! Pivot s = argmax_i r_i with r_i = k(x_i, x_i) − ‖L⁻¹k_S(x_i)‖²: incomplete Cholesky with complete pivoting. The trace
//! error falls fast where the spectrum does; far outliers are taken first, whatever they matter.
//!
//! Pivots are found lazily. A round measures all residuals and carries out the rows with the largest of them; inside
//! this pool pivots are taken, one after the other, as long as the largest residual of the pool, as it is now, is at
//! least the largest outside, as it was. Residuals only fall, so each pivot is the one that a search over all rows
//! would have found; ties go to the earlier row.
//!
//! References: Fine, Scheinberg, "Efficient SVM training using low-rank kernel representations", JMLR 2, 2001; Bach,
//! Jordan, "Kernel independent component analysis", JMLR 3, 2002.

use super::held::{self, HeldColumns, LARGEST};
use super::{ChoiceSize, LandmarkSet, Landmarks, Scan, Scheme, growth::Growth, round::RowRule};
use crate::matrix::{POOL, Pool, largest};
use crate::{Real, Result, kernel::AnyKernel};
use std::sync::Arc;

/// Units of rounding of a residual, which is a difference of k(x, x) and a sum of squares. The floor of the certificate, the rounding of
/// its sum, is 32 of them at 1,000 landmarks and 45 at 2,000.
const ROUNDING: f64 = 64.0;

/// Greedy pivoted Cholesky.
///
/// Up to 2²⁶ numbers n·m: one pass, nm² flops, 8nm bytes. Beyond: a pass per round, each of n(s² + 2sd) flops at s
/// landmarks, no memory per row; the number of rounds depends on the rows, m at worst.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy {
    /// Stop once Σr ≤ tolerance · tr K. 0 takes as many landmarks as were asked for.
    pub tolerance: f64,
}

pub(super) const SCHEME: Scheme = Scheme {
    nested: true,
    seeded: false,
    bytes: |ChoiceSize { n, d, m, .. }| if held(n, m) { held::bytes(n, d, m) } else { 0 },
    ..Scheme::new(
        "greedy",
        "pivoted Cholesky: the row that the earlier landmarks leave most of",
        &Greedy { tolerance: 0.0 },
    )
};

impl<T: Real> Landmarks<T> for Greedy {
    fn select(&self, data: &Scan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, _: u64) -> Result<LandmarkSet<T>> {
        self.grow(data, kernel, m, held(data.count, m))
    }

    fn select_within(
        &self,
        tolerance: f64,
        data: &Scan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        _: u64,
    ) -> Result<LandmarkSet<T>> {
        Self { tolerance }.grow(data, kernel, m, held(data.count, m))
    }
}

/// Whether residuals are updated rather than computed anew.
fn held(n: u64, m: usize) -> bool {
    n.saturating_mul(m as u64) <= LARGEST
}

impl Greedy {
    fn grow<T: Real>(
        &self,
        data: &Scan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        held: bool,
    ) -> Result<LandmarkSet<T>> {
        let mut growth = Growth::new(kernel, data.source.shape().features, m)?;
        let mut columns = if held { Some(HeldColumns::read(&mut growth, data, m, false)?) } else { None };
        let (mut trace, mut capacity) = (None, POOL.0);
        while !growth.is_full() {
            let (sum, outside, mut pool) = most_left(&mut growth, columns.as_ref(), data, capacity)?;
            let whole = *trace.get_or_insert(sum);
            if sum <= self.tolerance * whole {
                break;
            }
            // below their rounding, residuals of the pass do not tell which row outside has more left: the pool is as good
            let outside = if outside > whole * rounding::<T>(data.count) { outside } else { 0.0 };
            let before = growth.len();
            while let Some((i, residual)) = pool.largest()
                && !growth.is_full()
                // the pool's first row is the largest of all, whatever rounding says of it
                && (residual >= outside || growth.len() == before)
            {
                growth.take(&mut pool, i);
            }
            if growth.len() == before {
                break;
            }
            capacity = (4 * (growth.len() - before)).clamp(POOL.0, POOL.1);
            if let Some(columns) = &mut columns {
                columns.extend(&mut growth, before, data.pass.workers);
            }
            growth.tell(data);
        }
        Ok(growth.chosen)
    }
}

/// The rounding of a residual that is computed in `T`, as a share of the trace of the kernel matrix of n rows.
fn rounding<T: Real>(n: u64) -> f64 {
    ROUNDING * T::EPSILON / n.max(1) as f64
}

/// What is left of all rows, a bound for what is left of each outside the pool, and the pool of those of which most is left; by a pass
/// where the rows are not held.
fn most_left<T: Real>(
    growth: &mut Growth<'_, T>,
    held: Option<&HeldColumns>,
    data: &Scan<'_, T>,
    capacity: usize,
) -> Result<(f64, f64, Pool)> {
    if let Some(columns) = held {
        let (sum, best) = largest(&columns.grown.residual, capacity);
        let outside = best.get(capacity - 1).map_or(0.0, |i| columns.grown.residual[*i]);
        return Ok((sum, outside, columns.pool(growth, &best)));
    }
    let mut residuals = growth.residuals(&RowRule::new(|_, residual| Some(residual)), capacity, data)?;
    let entries = residuals.best.sorted();
    let outside = entries.get(capacity - 1).map_or(0.0, |entry| entry.key);
    Ok((residuals.sum, outside, growth.pool(residuals.best.sample(&entries))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{defined_gaussian, pointwise};
    use kpass::key::{Purpose, Stream};
    use kpass::{MemoryRows, Pass, Workers};

    #[test]
    fn residuals_computed_anew_give_the_same_pivots() {
        let stream = Stream::new(7, Purpose::Data, 0);
        let x: Vec<f64> = (0..900 * 3).map(|i| 6.0 * stream.uniform(i)).collect();
        let source = MemoryRows::new(x, 3).unwrap();
        let workers = Workers::new(2);
        let data = Scan { source: &source, pass: Pass { lanes: 2, ..Pass::new(128, 300, &workers) }, count: 900 };
        let squared = |x: &[f64], z: &[f64]| (1.0 + x.iter().zip(z).map(|(x, z)| x * z).sum::<f64>()).powi(2);
        for kernel in [defined_gaussian(1.0), pointwise("polynomial".to_string(), squared)] {
            let held = Greedy::default().grow(&data, &kernel, 60, true).unwrap();
            let anew = Greedy::default().grow(&data, &kernel, 60, false).unwrap();
            assert_eq!(held.rows, anew.rows, "{kernel:?}");
            assert!(held.passes == 1 && anew.passes > 1 && anew.passes <= 61, "{} passes", anew.passes);
        }
    }

    #[test]
    fn below_the_rounding_of_residuals_a_pass_gives_many_pivots() {
        let stream = Stream::new(1, Purpose::Data, 0);
        let x: Vec<f32> = (0..2000 * 2).map(|i| stream.uniform(i) as f32).collect();
        let source = MemoryRows::new(x, 2).unwrap();
        let workers = Workers::new(1);
        let data = Scan { source: &source, pass: Pass::new(256, 1024, &workers), count: 2000 };
        let kernel = defined_gaussian(0.3);
        let found = Greedy::default().grow(&data, &kernel, 100, false).unwrap();
        assert_eq!(found.len(), 100);
        assert!(found.passes < 40, "{} passes", found.passes);
    }
}
