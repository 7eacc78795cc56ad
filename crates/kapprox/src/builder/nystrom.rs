//! The Nyström approximation of points in memory.

use super::{FittedMap, Points, fitted_map::CheckedPoints};
use crate::landmark::{self, TableScan};
use crate::{Error, Kernel, NystromMap, Result};
use kpass::{Pass, Workers};

/// The Nyström approximation: features that span the kernel sections of `rank` landmarks, which
/// are chosen among the points.
///
/// K ≈ K_nm K_mm⁻¹ K_mn, where K_nm holds the kernel values of the n points with the m landmarks,
/// and K_mm the kernel values of the landmarks with one another. *Cost* for points of d columns: n
/// m (d + m) flops for the map, plus the cost of the landmark scheme; 8 n d + 8 m² bytes.
///
/// ```
/// use kapprox::{Kernel, Nystrom};
/// let x: Vec<[f64; 2]> =
///     (0..500).map(|i| [f64::from(i % 25) / 10.0, f64::from(i / 25) / 10.0]).collect();
/// let map = Nystrom::new(Kernel::gaussian(1.5), 60).landmarks("rpcholesky").fit(&x)?;
/// let phi = map.transform(&[[0.5, 0.5], [1.0, 0.7]])?; // 2 x 60
/// let product: f64 = (0..60).map(|j| phi[(0, j)] * phi[(1, j)]).sum();
/// assert!((product - (-0.29f64 / 4.5).exp()).abs() < 1e-4);
/// assert!(map.trace_error(&x)?.unwrap() < 1e-4);
/// # Ok::<(), kapprox::Error>(())
/// ```
///
/// Reference: Williams, Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2000.
#[derive(Clone, Debug)]
pub struct Nystrom {
    kernel: Kernel,
    rank: usize,
    scheme_name: String,
    seed: u64,
    threads: usize,
}

impl Nystrom {
    /// Returns an approximation of `kernel` by `rank` landmarks. `sigma=median` selects the median
    /// distance of the points.
    pub fn new(kernel: Kernel, rank: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { kernel, rank, scheme_name: landmark::default_scheme().name.to_string(), seed: 0, threads }
    }

    /// Sets the landmark scheme by its name in [`landmark::registry`]; `rpcholesky` by default.
    #[must_use]
    pub fn landmarks(self, scheme: &str) -> Self {
        Self { scheme_name: scheme.to_string(), ..self }
    }

    /// Sets the seed of the choice of landmarks; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the number of threads; one per core by default. The features are bit-identical for any
    /// number of threads.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Chooses the landmarks among the points and factors their kernel matrix.
    ///
    /// # Errors
    /// [`Error::UnknownScheme`] for an unknown landmark scheme. Other errors occur if the kernel
    /// rejects a point, if the scheme needs targets, or if the kernel is not positive definite or
    /// has an invalid parameter.
    pub fn fit<P: Points + ?Sized>(&self, x: &P) -> Result<FittedMap> {
        let scheme = landmark::by_name(&self.scheme_name).ok_or_else(|| Error::UnknownScheme {
            name: self.scheme_name.clone(),
            known: landmark::registry().into_iter().map(|scheme| scheme.name).collect::<Vec<_>>().join(", "),
        })?;
        if scheme.needs_targets {
            return Err(Error::NoTargets { scheme: scheme.name });
        }
        let x = CheckedPoints::new(x, &self.kernel)?;
        let kernel = self.kernel.resolve_median(x.matrix())?;
        let (kernel_function, workers) = (kernel.build()?, Workers::new(self.threads.max(1)));
        let n = x.matrix().nrows();
        let source = x.into_rows()?;
        let scan = TableScan { source: &source, pass: Pass::new(1024, 65_536, &workers), row_count: n as u64 };
        let landmarks = scheme.typed::<f64>().select(&scan, &kernel_function, self.rank.min(n), self.seed)?;
        let map = Box::new(NystromMap::new(&kernel_function, landmarks, &workers)?);
        Ok(FittedMap { kernel, kernel_function, map, workers })
    }
}
