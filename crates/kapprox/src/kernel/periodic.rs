//! The periodic kernel, exp(−2 Σ sin²(π(x − z)/period) / σ²), with the same period in every
//! feature.
//!
//! scikit-learn's `ExpSineSquared` computes the sine of the Euclidean distance instead of a sum
//! over features. The two kernels agree for a single feature, but only the kernel of this module is
//! positive definite in all dimensions. It is a Gaussian kernel: each feature is mapped to a point
//! on a unit circle, and two points on the circle at the angle δ have the squared distance 4
//! sin²(δ/2) (MacKay, *Introduction to Gaussian Processes*, 1998, section 5).
//!
//! The frequencies of the kernel in δ are integers: exp(a (cos δ − 1)) = Σ_k exp(−a) I_k(a) cos kδ,
//! where k runs over all integers, I_k are the modified Bessel functions and a = 1/σ² (Abramowitz,
//! Stegun, 1964, 9.6.34). The weight exp(−a) I_k(a) is the probability that two independent Poisson
//! numbers of mean a/2 differ by k (Skellam 1946).

use super::embedded::{Embedding, embedded_kernel};
use super::family::{KernelFamily, KernelProperties, NumericParameter, ParameterRange};
use super::{FrequencyDistribution, Kernel, Separation, Spectrum, gaussian};
use crate::{Real, real::cosine_sine_of_turns, vectorised};
use rand_distr::{Distribution, Poisson};
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    parameters: &[
        NumericParameter::number(
            "period",
            1.0,
            ParameterRange::Positive,
            "it is a length that distances are divided by",
        ),
        NumericParameter::number("sigma", 1.0, ParameterRange::Positive, "it is a length on the unit circle"),
    ],
    separation: Some(Separation::Product),
    properties: KernelProperties { periodic: true, ..KernelProperties::TRANSLATION_INVARIANT },
    ..KernelFamily::new(
        "periodic",
        "exp(-2 sum sin^2(pi (x-z) / period) / sigma^2)",
        "periodic(period=3, sigma=1.5)",
        |text, values| {
            // 2 sin² is half of the squared distance on the unit circle, so this is a Gaussian
            // kernel
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
                // the remainder of the division by the period is rounded once, so large values keep
                // their phase
                let turns = (value / self.period).round_to_integer().mul_add(-self.period, value) / self.period;
                let (cosine, sine) = cosine_sine_of_turns(turns.saturate());
                *image = [T::from_f64(cosine), T::from_f64(sine)];
            }
        });
    }

    /// Writes the gradient with respect to x: since d(cos, sin) = (−sin, cos) 2π/period dx, it is
    /// the inner product of `image_gradient` with the image turned by a right angle, times
    /// 2π/period.
    fn pull_back<T: Real>(&self, _: &[T], image: &[T], image_gradient: &[T], gradient: &mut [T]) {
        let (images, _) = image.as_chunks::<2>();
        let (image_gradients, _) = image_gradient.as_chunks::<2>();
        let rate = std::f64::consts::TAU / self.period;
        for ((gradient, [cosine, sine]), [cosine_gradient, sine_gradient]) in
            gradient.iter_mut().zip(images).zip(image_gradients)
        {
            let tangent = cosine.to_f64() * sine_gradient.to_f64() - sine.to_f64() * cosine_gradient.to_f64();
            *gradient = T::from_f64(tangent * rate);
        }
    }

    /// Returns the spectrum of the periodic kernel, as a distribution of frequencies of x. The
    /// argument, the spectrum of the Gaussian kernel on the circles, is ignored, because it
    /// contains frequencies of the images instead of frequencies of x.
    fn spectrum(&self, _: Option<Spectrum>) -> Option<Spectrum> {
        let poisson = Poisson::new(0.5 / (self.sigma * self.sigma)).ok()?;
        let draw = move |rng: &mut dyn rand::Rng| poisson.sample(rng) - poisson.sample(rng);
        let distribution = FrequencyDistribution::Product { sampler: Arc::new(draw), quantile: None };
        Some(Spectrum::new(distribution, self.period / std::f64::consts::TAU))
    }
}
