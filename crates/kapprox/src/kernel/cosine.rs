//! The cosine kernel, x·z / (‖x‖ ‖z‖); 0 if either point is 0.
//!
//! It is scikit-learn's `cosine_similarity`. It is positive definite, because it is the linear
//! kernel of the points x / ‖x‖ on the unit sphere.

use super::embedded::{Embedding, embedded_kernel};
use super::family::{KernelFamily, KernelProperties};
use super::transform::{KernelTransform, transformed_kernel};
use super::{AnyKernel, direct::inner_product_kernel, linear::Linear};
use crate::Real;
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    properties: KernelProperties::BOUNDED,
    ..KernelFamily::new("cosine", "x.z / (|x| |z|)", "cosine()", |text, _| {
        embedded_kernel(text, Sphere, inner_product_kernel("linear()".into(), Linear))
    })
};

/// The map x ↦ x / ‖x‖, and 0 ↦ 0.
#[derive(Debug)]
struct Sphere;

impl Embedding for Sphere {
    fn sparse_image_kernel(&self, text: String, kernel: Arc<dyn AnyKernel>) -> Option<Arc<dyn AnyKernel>> {
        Some(transformed_kernel(text, KernelTransform::Normalised, kernel))
    }

    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        // scaled, so that squares neither overflow nor vanish
        let largest = max_norm(x);
        if largest == 0.0 {
            return image.fill(T::ZERO);
        }
        let norm = scaled_norm(x, largest);
        for (image, value) in image.iter_mut().zip(x) {
            *image = T::from_f64(value.to_f64() / largest / norm);
        }
    }

    /// Writes the component of `image_gradient` orthogonal to the image, divided by ‖x‖.
    fn pull_back<T: Real>(&self, x: &[T], image: &[T], image_gradient: &[T], gradient: &mut [T]) {
        let largest = max_norm(x);
        if largest == 0.0 {
            return gradient.fill(T::ZERO);
        }
        let norm = scaled_norm(x, largest);
        let projection: f64 =
            image.iter().zip(image_gradient).map(|(image, derivative)| image.to_f64() * derivative.to_f64()).sum();
        for ((gradient, image), derivative) in gradient.iter_mut().zip(image).zip(image_gradient) {
            *gradient = T::from_f64((derivative.to_f64() - projection * image.to_f64()) / largest / norm);
        }
    }
}

/// Returns ‖x‖∞.
fn max_norm<T: Real>(x: &[T]) -> f64 {
    x.iter().fold(0.0, |largest, value| largest.max(value.to_f64().abs()))
}

/// Returns ‖x / largest‖.
fn scaled_norm<T: Real>(x: &[T], largest: f64) -> f64 {
    x.iter().map(|value| (value.to_f64() / largest).powi(2)).sum::<f64>().sqrt()
}
