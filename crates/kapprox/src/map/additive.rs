//! Explicit features of additive kernels on histograms.
//!
//! The kernel is Σ_c k(x_c, z_c), a sum over the coordinates c, where k is homogeneous: k(ax, az) =
//! a k(x, z). Such a k(x, z) is √(xz) times a function of ln(z/x). Let κ be the Fourier transform
//! of this function. Sampling κ at 0, L, 2L, …, nL, the multiples of an interval L, gives 2n + 1
//! features for each coordinate x:
//!
//! ```text
//! √(x L κ(0)),   √(2 x L κ(jL)) cos(jL ln x),   √(2 x L κ(jL)) sin(jL ln x),   j = 1 … n
//! ```
//!
//! The map is not a projection, so it has no certificate. Values x must not be negative.
//!
//! Reference: Vedaldi, Zisserman, "Efficient additive kernels via explicit feature maps", IEEE
//! TPAMI 34, 2012.

use super::family::{DataIndependentMapArgs, MapConstructorPair, MapFamily, MapResult, MapShape};
use super::{FeatureMap, nystrom::strips};
pub use crate::kernel::Homogeneous;
use crate::kernel::{ExplicitForm, NumericParameter, ParameterRange};
use crate::{Error, Real};
use faer::{MatMut, MatRef};
use kpass::{Footprint, Workers};

impl Homogeneous {
    /// Returns κ(λ).
    fn spectral_density(self, lambda: f64) -> f64 {
        use std::f64::consts::PI;
        match self {
            Self::ChiSquared => (PI * lambda).cosh().recip(),
            Self::Intersection => 2.0 / (PI * (1.0 + 4.0 * lambda * lambda)),
        }
    }
}

pub(super) const FAMILY: MapFamily = MapFamily {
    name: "additive",
    summary: "explicit features of the additive chi-squared and intersection kernels, 2 * steps + 1 \
        per column",
    parameters: &[
        NumericParameter::number(
            "steps",
            2.0,
            ParameterRange::Integer { min: 0, max: 50 },
            "it is the number of frequencies in addition to 0",
        ),
        NumericParameter::number("interval", 0.4, ParameterRange::Positive, "it is the distance between frequencies"),
    ],
    is_nested: false,
    supports_sparse: false,
    build_passes: 0,
    shape: |spec, request| {
        let p = request.d * (2 * spec.value("steps") as usize + 1);
        MapShape { p, landmark_count: None, footprint: Footprint::default(), build_bytes: 0 }
    },
    constructor: MapConstructorPair::data_independent(build, build),
};

pub(super) fn build<T: Real>(args: &DataIndependentMapArgs<'_>) -> MapResult<T> {
    let Some((ExplicitForm::Additive(kernel), _)) = args.kernel.explicit_form() else {
        return Err(Error::NoRandomFeatures {
            why: format!("{} is not an additive homogeneous kernel", args.kernel),
            remedy: "use `kernel` 'additive_chi_squared()' or 'intersection()', or another `map`",
        });
    };
    let (steps, interval) = (args.spec.value("steps") as usize, args.spec.value("interval"));
    Ok(Box::new(Additive::new(kernel, args.d, steps, interval)))
}

/// Features of an additive homogeneous kernel: 2n + 1 features per coordinate.
///
/// Stores no arrays. A row of d values costs d logarithms, d(n + 1) square roots and d n pairs of
/// sine and cosine, in f64.
///
/// ```
/// use faer::{Mat, MatRef};
/// use kapprox::map::additive::{Additive, Homogeneous};
/// use kapprox::FeatureMap;
/// let map = Additive::new(Homogeneous::ChiSquared, 1, 3, 0.4);
/// let x = [0.5f64, 2.0];
/// let mut phi = Mat::zeros(2, FeatureMap::<f64>::dims(&map).1);
/// map.apply(MatRef::from_row_major_slice(&x, 2, 1), phi.as_mut(), &kpass::Workers::sequential());
/// let k: f64 = (0..7).map(|j| phi[(0, j)] * phi[(1, j)]).sum();
/// // a fraction of 0.029 of κ lies beyond the last frequency
/// assert!((k - 2.0 * 0.5 * 2.0 / 2.5).abs() < 0.03);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Additive {
    kernel: Homogeneous,
    d: usize,
    steps: usize,
    interval: f64,
}

impl Additive {
    /// Returns the features for rows of `d` values: κ is sampled at 0, L, …, nL for n = `steps` and
    /// L = `interval` > 0. Good intervals for n = 1, 2 and 3 are about 0.5, 0.4 and 0.3. If the
    /// ratios z/x of the values are larger, smaller intervals are better.
    pub fn new(kernel: Homogeneous, d: usize, steps: usize, interval: f64) -> Self {
        Self { kernel, d, steps, interval }
    }

    fn features_per_coordinate(&self) -> usize {
        2 * self.steps + 1
    }
}

impl<T: Real> FeatureMap<T> for Additive {
    fn dims(&self) -> (usize, usize) {
        (self.d, self.d * self.features_per_coordinate())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let from_f64 = T::from_f64;
        workers.for_each(strips(x, out), |(x, mut out)| {
            for c in 0..self.d {
                let first_feature = c * self.features_per_coordinate();
                for i in 0..x.nrows() {
                    // values that are not positive have no logarithm; their features are 0
                    let value = x[(i, c)].to_f64().max(0.0);
                    let log = value.max(f64::MIN_POSITIVE).ln();
                    let weight =
                        |j: usize| value * self.interval * self.kernel.spectral_density(j as f64 * self.interval);
                    out[(i, first_feature)] = from_f64(weight(0).sqrt());
                    for j in 1..=self.steps {
                        let (sine, cosine) = (j as f64 * self.interval * log).sin_cos();
                        let amplitude = (2.0 * weight(j)).sqrt();
                        out[(i, first_feature + 2 * j - 1)] = from_f64(amplitude * cosine);
                        out[(i, first_feature + 2 * j)] = from_f64(amplitude * sine);
                    }
                }
            }
        });
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
