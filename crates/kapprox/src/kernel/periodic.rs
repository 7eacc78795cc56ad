//! The periodic kernel, exp(−2 Σ sin²(π(x − z)/period) / σ²), of period `period` in every feature.
//!
//! scikit-learn's `ExpSineSquared` takes the sine of the Euclidean distance; the two agree for a single feature, and only
//! the sum over features is positive definite in all dimensions: it is the Gaussian kernel of the points on circles of
//! radius ½, as 4 sin²(δ/2) is the squared chord of the angle δ (MacKay, *Introduction to Gaussian Processes*, 1998,
//! section 5).
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("periodic(period=24, sigma=1)").is_ok());
//! ```

use super::embedded::{Embedding, embedded};
use super::gaussian;
use super::registry::{Domain, Family, Parameter, Range, Value};
use std::f64::consts::TAU;

/// `periodic(period=1, sigma=1)`.
pub(super) const FAMILY: Family = Family {
    name: "periodic",
    formula: "exp(-2 sum sin^2(pi (x-z) / period) / sigma^2)",
    parameters: &[
        Parameter {
            name: "period",
            default: Value::Number(1.0),
            range: Range::Positive,
            reason: "it is a length that distances are divided by",
        },
        Parameter {
            name: "sigma",
            default: Value::Number(1.0),
            range: Range::Positive,
            reason: "it is a length on the unit circle",
        },
    ],
    metric: None,
    positive_definite: true,
    domain: Domain::Any,
    example: "periodic(period=3, sigma=1.5)",
    build: |text, values| {
        // 2 sin² is half of the squared chord on the unit circle: the Gaussian kernel there
        embedded(text, Circles { period: values[0] }, (gaussian::FAMILY.build)(String::new(), &values[1..]))
    },
    each: None,
};

/// (cos, sin) of 2πx / period, for every feature.
#[derive(Debug)]
struct Circles {
    period: f64,
}

impl Embedding for Circles {
    fn features(&self, d: usize) -> usize {
        2 * d
    }

    fn apply(&self, x: &[f64], image: &mut [f64]) {
        for (image, value) in image.chunks_exact_mut(2).zip(x) {
            // the remainder is exact: large values keep their phase
            let phase = (value % self.period) / self.period;
            let (sin, cos) = (TAU * phase).sin_cos();
            image.copy_from_slice(&[cos, sin]);
        }
    }
}
