//! Random Fourier features of points in memory.

use super::{FittedMap, Points, fitted_map::CheckedPoints};
use crate::map::{self, DataIndependentMapArgs, MapConstructor, random::Sampling};
use crate::{Kernel, Result};
use kpass::Workers;

/// Random Fourier features of a shift-invariant kernel: pairs of cosines and sines with random
/// frequencies.
///
/// With p features φ, E φ(x)·φ(z) = k(x − z), and the error of φ(x)·φ(z) is of order 1/√p. *Cost*
/// for n points of d columns: n p d flops and n p / 2 sines and cosines; 4 p d bytes.
///
/// ```
/// use kapprox::{Kernel, RandomFourier};
/// let x = [[0.5, 0.5], [1.0, 0.7]];
/// // 2 x 4000
/// let phi = RandomFourier::new(Kernel::gaussian(1.5), 4000).seed(7).fit(&x)?.transform(&x)?;
/// let product: f64 = (0..4000).map(|j| phi[(0, j)] * phi[(1, j)]).sum();
/// assert!((product - (-0.29f64 / 4.5).exp()).abs() < 0.01);
/// # Ok::<(), kapprox::Error>(())
/// ```
///
/// Reference: Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007.
#[derive(Clone, Debug)]
pub struct RandomFourier {
    kernel: Kernel,
    feature_count: usize,
    sampling: Sampling,
    seed: u64,
}

impl RandomFourier {
    /// Returns a map to `feature_count` features. `sigma=median` selects the median distance of the
    /// points.
    pub fn new(kernel: Kernel, feature_count: usize) -> Self {
        Self { kernel, feature_count, sampling: Sampling::Plain, seed: 0 }
    }

    /// Sets how the frequencies are drawn; independently by default.
    #[must_use]
    pub fn sampling(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// Sets the seed of the frequencies; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Draws the frequencies for points with the columns of `x`. The values of the points are used
    /// only by `sigma=median`.
    ///
    /// # Errors
    /// [`Error::NoRandomFeatures`](crate::Error::NoRandomFeatures) for a kernel without a spectral
    /// density, such as a polynomial. Another error occurs if the kernel rejects a point.
    pub fn fit<P: Points + ?Sized>(&self, x: &P) -> Result<FittedMap> {
        let x = CheckedPoints::new(x, &self.kernel)?;
        let kernel = self.kernel.resolve_median(x.matrix())?;
        let kernel_function = kernel.build()?;
        let spec = map::MapSpec::with_defaults(map::random::family(self.sampling));
        let MapConstructor::DataIndependent(build) = spec.constructor::<f64>() else {
            unreachable!("random features see no rows")
        };
        let map = build(&DataIndependentMapArgs {
            spec: &spec,
            kernel: &kernel,
            d: x.d,
            rank: self.feature_count,
            seed: self.seed,
        })?;
        Ok(FittedMap { kernel, kernel_function, map, workers: Workers::sequential() })
    }
}
