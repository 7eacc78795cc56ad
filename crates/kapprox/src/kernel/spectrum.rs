//! Frequencies of shift-invariant kernels.
//!
//! A continuous kernel k(x − z) is positive definite if and only if it is the Fourier transform of
//! a finite measure (Bochner's theorem): k(x − z) = k(0) E cos ω·(x − z), where the frequency ω is
//! a random vector. Random draws of ω give random features.
//!
//! Reference: Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007.

use rand::{Rng, RngExt};
use std::{fmt, sync::Arc};

/// A function that draws a random number.
pub type Sampler = Arc<dyn Fn(&mut dyn Rng) -> f64 + Send + Sync>;

/// The distribution of the frequencies of a kernel.
#[derive(Clone, Debug)]
pub struct Spectrum {
    /// Distribution of frequencies for unit length scales.
    pub distribution: FrequencyDistribution,
    /// Length scale of each feature, or a single length scale for all features. Coordinate c of a
    /// frequency is divided by the length scale of feature c.
    pub length_scales: Vec<f64>,
    /// k(0), the value of the kernel at equal points.
    pub amplitude: f64,
}

/// A distribution of frequencies in d dimensions.
#[derive(Clone)]
#[non_exhaustive]
pub enum FrequencyDistribution {
    /// ω = s g, where g is standard normal in d dimensions and s ≥ 0 is random and independent of
    /// g. The kernels with such frequencies are functions of ‖x − z‖₂ that are scale mixtures of
    /// Gaussians.
    Radial(Sampler),
    /// Independent coordinates with the same distribution. The kernels with such frequencies are
    /// products over the features.
    Product {
        /// Sampler of a coordinate.
        sampler: Sampler,
        /// Quantile function of a coordinate, if known: quasi-random sequences need it.
        quantile: Option<fn(f64) -> f64>,
    },
    /// The distribution of a sum of kernels: a frequency of one of these distributions, which is
    /// chosen with probability proportional to its amplitude.
    Sum(Vec<Spectrum>),
    /// The distribution of a product of kernels: the sum of one independent frequency of each of
    /// these distributions.
    Convolution(Vec<Spectrum>),
}

impl FrequencyDistribution {
    /// Returns the radial distribution of ω = s g, where `scale` draws s.
    pub fn radial(scale: impl Fn(&mut dyn Rng) -> f64 + Send + Sync + 'static) -> Self {
        Self::Radial(Arc::new(scale))
    }

    /// Returns the distribution with independent coordinates. Each coordinate is `quantile(u)`,
    /// where u is uniform in (0, 1).
    pub fn product(quantile: fn(f64) -> f64) -> Self {
        let draw = move |rng: &mut dyn Rng| quantile(rng.sample::<f64, _>(rand::distr::Open01));
        Self::Product { sampler: Arc::new(draw), quantile: Some(quantile) }
    }
}

impl fmt::Debug for FrequencyDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Radial(_) => "Radial",
            Self::Product { .. } => "Product",
            Self::Sum(_) => "Sum",
            Self::Convolution(_) => "Convolution",
        })
    }
}

impl Spectrum {
    /// Returns a distribution with one length scale and k(0) = 1.
    pub fn new(distribution: FrequencyDistribution, length: f64) -> Self {
        Self { distribution, length_scales: vec![length], amplitude: 1.0 }
    }

    /// Returns the distribution of a sum of kernels.
    pub fn sum(spectra: Vec<Self>) -> Self {
        let amplitude = spectra.iter().map(|part| part.amplitude).sum();
        Self { amplitude, ..Self::new(FrequencyDistribution::Sum(spectra), 1.0) }
    }

    /// Returns the distribution of a product of kernels.
    pub fn product(spectra: Vec<Self>) -> Self {
        let amplitude = spectra.iter().map(|part| part.amplitude).product();
        Self { amplitude, ..Self::new(FrequencyDistribution::Convolution(spectra), 1.0) }
    }

    pub(crate) fn length_scale(&self, c: usize) -> f64 {
        self.length_scales[c.min(self.length_scales.len() - 1)]
    }
}
