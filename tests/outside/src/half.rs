//! A landmark scheme: half of the landmarks by residual, half uniformly at random.

use kapprox::landmark::{LandmarkRule, LandmarkSet, RpCholesky, Scheme, TableScan, Uniform};
use kapprox::{AnyKernel, Real, Result};
use std::sync::Arc;

#[derive(Debug)]
struct Half;

pub(crate) static SCHEME: Scheme = Scheme::new("half", "half by residual, half by chance", &Half);

impl<T: Real> LandmarkRule<T> for Half {
    fn select(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        let uniform_half = Uniform.select(scan, kernel, m - m / 2, seed)?;
        Ok(RpCholesky.select(scan, kernel, m / 2, seed)?.concat(uniform_half))
    }
}
