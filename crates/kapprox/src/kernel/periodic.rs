//! The periodic kernel, exp(−2 Σ sin²(π(x − z)/period) / σ²), of period `period` in every feature.
//!
//! scikit-learn's `ExpSineSquared` takes the sine of the Euclidean distance. The two agree for a
//! single feature, but only the sum over features is positive definite in all dimensions: it is the
//! Gaussian kernel of the points on unit circles, because 4 sin²(δ/2) is the squared chord of the
//! angle δ (MacKay, *Introduction to Gaussian Processes*, 1998, section 5).
//!
//! Its frequencies are integers: exp(a (cos δ − 1)) = Σ_k exp(−a) I_k(a) cos kδ with the modified
//! Bessel functions I_k and a = 1/σ² (Abramowitz, Stegun, 1964, 9.6.34), and exp(−a) I_k(a) is the
//! probability that two independent Poisson numbers of mean a/2 differ by k (Skellam 1946).

use super::embedded::{Embedding, embedded_kernel};
use super::family::{KernelFamily, KernelParameter, KernelProperties, ParameterRange};
use super::{FrequencyDistribution, Kernel, Spectrum, gaussian};
use crate::{Real, real::cosine_sine, vectorised};
use rand_distr::{Distribution, Poisson};
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        KernelParameter::number(
            "period",
            1.0,
            ParameterRange::Positive,
            "it is a length that distances are divided by",
        ),
        KernelParameter::number("sigma", 1.0, ParameterRange::Positive, "it is a length on the unit circle"),
    ],
    properties: KernelProperties { periodic: true, ..KernelProperties::TRANSLATION_INVARIANT },
    ..KernelFamily::new(
        "periodic",
        "exp(-2 sum sin^2(pi (x-z) / period) / sigma^2)",
        "periodic(period=3, sigma=1.5)",
        |text, values| {
            // 2 sin² is half of the squared chord on the unit circle: the Gaussian kernel there
            embedded_kernel(
                text,
                Circles { period: values[0], sigma: values[1] },
                (gaussian::FAMILY.build)(String::new(), &values[1..]),
            )
        },
    )
};

impl Kernel {
    /// Returns the kernel exp(−2 Σ sin²(π (x − z) / period) / sigma²).
    pub fn periodic(period: f64, sigma: f64) -> Self {
        Self::from_family(&FAMILY, [period.into(), sigma.into()])
    }
}

/// (cos, sin) of 2πx / period, for every feature.
#[derive(Debug)]
struct Circles {
    period: f64,
    sigma: f64,
}

impl Embedding for Circles {
    fn image_len(&self, d: usize) -> usize {
        2 * d
    }

    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        vectorised!({
            let (images, _) = image.as_chunks_mut::<2>();
            for (image, value) in images.iter_mut().zip(x) {
                let value = value.to_f64();
                // the remainder is rounded once: large values keep their phase
                let turns = (value / self.period).whole().mul_add(-self.period, value) / self.period;
                let (cosine, sine) = cosine_sine(turns.saturate());
                *image = [T::from_f64(cosine), T::from_f64(sine)];
            }
        });
    }

    /// Writes the inner product of `by_image` with the image turned by a right angle:
    /// d(cos, sin) = (−sin, cos) 2π/period dx.
    fn pull_back<T: Real>(&self, _: &[T], image: &[T], by_image: &[T], gradient: &mut [T]) {
        let (images, _) = image.as_chunks::<2>();
        let (by_images, _) = by_image.as_chunks::<2>();
        let rate = std::f64::consts::TAU / self.period;
        for ((gradient, [cosine, sine]), [by_cosine, by_sine]) in gradient.iter_mut().zip(images).zip(by_images) {
            let tangent = cosine.to_f64() * by_sine.to_f64() - sine.to_f64() * by_cosine.to_f64();
            *gradient = T::from_f64(tangent * rate);
        }
    }

    /// Returns the spectrum of the periodic kernel itself: the spectrum of the Gaussian on the
    /// circles is not a distribution of frequencies of x.
    fn spectrum(&self, _: Option<Spectrum>) -> Option<Spectrum> {
        let count = Poisson::new(0.5 / (self.sigma * self.sigma)).ok()?;
        let draw = move |rng: &mut dyn rand::Rng| count.sample(rng) - count.sample(rng);
        let law = FrequencyDistribution::Product { draw: Arc::new(draw), quantile: None };
        Some(Spectrum::new(law, self.period / std::f64::consts::TAU))
    }
}
