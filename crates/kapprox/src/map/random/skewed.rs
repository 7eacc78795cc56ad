//! Random features of the skewed chi-squared kernel.
//!
//! Reference: Li, Ionescu, Sminchisescu, "Random Fourier approximations for skewed multiplicative histogram kernels",
//! DAGM 2010.

use super::{Fourier, Sampling};
use crate::kernel::skewed_chi_squared::logarithm;
use crate::kernel::{Law, Spectrum};
use crate::{Real, Result, map::FeatureMap};
use faer::{MatMut, MatRef, prelude::*};
use kstore::{Footprint, Workers};

/// Random features of the skewed chi-squared kernel Π_c 2√(x_c + s)√(z_c + s)/(x_c + z_c + 2s), for values above −s.
///
/// It is shift-invariant in ln(x + s), its frequencies have density 1/cosh πω. The maps `fourier` and `quasi` are these
/// features where the kernel is [`skewed_chi_squared`](crate::kernel::skewed_chi_squared).
#[derive(Debug)]
pub(crate) struct SkewedChi2<T> {
    skew: f64,
    waves: Fourier<T>,
}

impl<T: Real> SkewedChi2<T> {
    /// `p` features of rows of `d` values with skew s > 0.
    pub(super) fn new(skew: f64, d: usize, p: usize, sampling: Sampling, seed: u64) -> Result<Self> {
        let spectrum = Spectrum::new(Law::product(hyperbolic), 1.0);
        Ok(Self { skew, waves: Fourier::new(&spectrum, d, p, sampling, seed)? })
    }
}

/// The quantile of the density 1/cosh πω.
fn hyperbolic(u: f64) -> f64 {
    use std::f64::consts::{FRAC_PI_2, PI};
    (FRAC_PI_2 * u).tan().ln() / PI
}

impl<T: Real> FeatureMap<T> for SkewedChi2<T> {
    fn dims(&self) -> (usize, usize) {
        FeatureMap::<T>::dims(&self.waves)
    }

    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, workers: &Workers) {
        let log = |value: T| T::from_f64(logarithm(value.to_f64(), self.skew));
        let logs: Vec<T> = (0..x.nrows()).flat_map(|i| x.row(i).iter().map(|v| log(*v))).collect();
        self.waves.apply(MatRef::from_row_major_slice(&logs, x.nrows(), x.ncols()), out.rb_mut(), workers);
    }

    fn footprint(&self) -> Footprint {
        let own = Footprint { fixed: 0, per_row: FeatureMap::<T>::dims(&self.waves).0 * size_of::<T>() };
        FeatureMap::<T>::footprint(&self.waves) + own
    }
}
