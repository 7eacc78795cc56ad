//! The cosine kernel, x·z / (‖x‖ ‖z‖); 0 where a point is 0.
//!
//! scikit-learn's `cosine_similarity`. Positive definite: the linear kernel of points on the unit sphere.
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("cosine()").is_ok());
//! ```

use super::embedded::{Embedding, embedded};
use super::inner::product;
use super::linear::Linear;
use super::registry::{Domain, Family};
use crate::Real;

/// The family of kernels `cosine()`.
pub(super) const FAMILY: Family = Family {
    name: "cosine",
    formula: "x.z / (|x| |z|)",
    parameters: &[],
    metric: None,
    positive_definite: true,
    domain: Domain::Any,
    example: "cosine()",
    build: |text, _| embedded(text, Sphere, product("linear()".into(), Linear)),
    each: None,
};

/// x / ‖x‖, and 0 for 0.
#[derive(Debug)]
struct Sphere;

impl Embedding for Sphere {
    fn features(&self, d: usize) -> usize {
        d
    }

    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        // scaled, so that squares neither overflow nor vanish
        let largest = x.iter().fold(0.0f64, |largest, value| largest.max(value.to_f64().abs()));
        if largest == 0.0 {
            return image.fill(T::ZERO);
        }
        let norm = x.iter().map(|value| (value.to_f64() / largest).powi(2)).sum::<f64>().sqrt();
        for (image, value) in image.iter_mut().zip(x) {
            *image = T::from_f64(value.to_f64() / largest / norm);
        }
    }
}
