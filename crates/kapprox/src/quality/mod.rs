//! The quality of an approximation: errors of K̂ = ΦΦᵀ compared with K, and the smallest error that
//! the spectrum of K allows.
//!
//! Let Φ (n x p) be the features of the n rows of a source, K (n x n) the kernel matrix of these
//! rows, and E = K − K̂. All sums are computed in f64:
//!
//! | measure | definition | up to [`EXACT_ROWS`] rows | beyond |
//! |---|---|---|---|
//! | [`ApproximationErrors::trace_error`] | tr E / tr K, projections only | exact | exact |
//! | [`ApproximationErrors::relative_frobenius_error`] | ‖E‖_F / ‖K‖_F | exact | interval |
//! | [`Approximation::spectral`] | ‖E‖₂ / ‖K‖₂ | block Krylov: lower bound, interval | bounds |
//! | [`SampleSpectrum`] | least error of any rank-k matrix | dense eigenvalues | of a sample |
//!
//! If the kernel is positive definite, a map on landmarks is a projection, and E has no negative
//! eigenvalue. All measures compare K in f64 with K̂ from features that the map computes in `T`, so
//! the rounding of features is part of the error. No n x n matrix is stored.
//!
//! ```
//! use kapprox::kernel::Kernel;
//! use kapprox::landmark::{LandmarkRule, RpCholesky, TableScan};
//! use kapprox::quality::{Approximation, Evidence};
//! use kapprox::NystromMap;
//! use kpass::{MemoryRows, Pass, Workers};
//!
//! let source = MemoryRows::new((0..600).map(|i| (i as f64).sin()).collect(), 2)?;
//! let workers = Workers::sequential();
//! let scan = TableScan { source: &source, pass: Pass::new(128, 256, &workers), row_count: 300 };
//! let kernel = Kernel::parse("gaussian(sigma=0.5)")?.build()?;
//! let map = NystromMap::new(&kernel, RpCholesky.select(&scan, &kernel, 20, 0)?, &workers)?;
//! let approximation = Approximation { scan, kernel: &kernel, map: &map };
//! let errors = &approximation.errors(&[map.rank()], 300, 0)?[0];
//! assert_eq!(errors.relative_frobenius_error.evidence, Evidence::Exact);
//! // ‖E‖_F ≤ tr E for a positive semi-definite E
//! assert!(errors.frobenius_norm.error.value <= errors.trace_error.unwrap() * errors.kernel_trace);
//! # Ok::<(), kapprox::Error>(())
//! ```

mod columns;
mod errors;
mod krylov;
mod measure;
mod sample_spectrum;
mod spectral;

#[doc(hidden)]
pub use columns::{ColumnReduction, ColumnScratch, ColumnSums};
pub use errors::{ApproximationErrors, NormPair};
pub use measure::{Evidence, Measure};
#[doc(hidden)]
pub use sample_spectrum::{SampleSpectrum, sample_spectrum};
pub use spectral::SpectralOptions;

use crate::map::{FeatureMap, independent::to_f64_vec};
use crate::{Real, Result, kernel::AnyKernel, landmark::uniform_sample, landmark_set::TableScan};
use faer::{Mat, MatRef};
use kpass::key::Purpose;
use std::sync::Arc;

/// Largest number of rows for which a measure over pairs of rows is computed from all pairs.
///
/// For n rows and p features, such a measure takes n² kernel evaluations and 2n²p flops. At 10,000
/// rows and 1,000 features, these are 10⁸ evaluations and 2·10¹¹ flops, which take some ten seconds
/// on two cores. The spectral norm takes ten times as many evaluations. With four times as many
/// rows, the measures would take minutes.
pub const EXACT_ROWS: usize = 10_000;

/// Probability that a confidence interval holds, unless a measure states another probability.
pub const CONFIDENCE: f64 = 0.95;

/// Number of columns of a block of K that is computed at once. A block of a strip of rows with this
/// many columns stays in the second-level cache.
const MEASURED_PANEL_COLUMNS: usize = 256;

/// An approximation to measure: rows, their kernel, and the map that approximates it.
#[derive(Clone, Copy, Debug)]
pub struct Approximation<'a, T: Real> {
    /// Rows.
    pub scan: TableScan<'a, T>,
    /// Approximated kernel.
    pub kernel: &'a Arc<dyn AnyKernel>,
    /// Map: phi(x)·phi(z) ≈ k(x, z).
    pub map: &'a dyn FeatureMap<T>,
}

/// Rows in memory, in f64, with their features.
#[derive(Debug)]
struct MeasuredRows {
    /// c x d, row-major.
    x: Vec<f64>,
    d: usize,
    /// c x p.
    phi: Mat<f64>,
}

impl MeasuredRows {
    fn points(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.x, self.phi.nrows(), self.d)
    }
}

impl<T: Real> Approximation<'_, T> {
    /// Draws c = `sample_size` rows uniformly without replacement, or all rows if there are fewer.
    /// Makes one pass and stores c(d + 2p) numbers.
    fn draw_measured_rows(&self, sample_size: usize, seed: u64) -> Result<MeasuredRows> {
        let sample = uniform_sample(&self.scan, sample_size, Purpose::Quality, seed)?;
        let mut phi = Mat::<T>::zeros(sample.len(), self.map.dims().1);
        if !sample.is_empty() {
            self.map.apply(sample.as_mat(), phi.as_mut(), self.scan.pass.workers);
        }
        let phi = Mat::from_fn(phi.nrows(), phi.ncols(), |i, j| kpass::Float::to_f64(phi[(i, j)]));
        Ok(MeasuredRows { x: to_f64_vec(&sample.x), d: sample.d, phi })
    }

    /// Returns true if K̂ ≼ K: the map is a projection, and the kernel matrices have no negative
    /// eigenvalue.
    fn is_projection(&self) -> bool {
        self.kernel.typed::<T>().is_positive_definite() && self.map.is_projection()
    }
}
