//! Points in the domain of a kernel, and kernel blocks.

use faer::{Mat, MatRef};
use kapprox::Real;
use kapprox::kernel::{AnyKernel, Domain, Kernel, registry};
use std::sync::Arc;

pub(crate) fn build(text: &str) -> Arc<dyn AnyKernel> {
    Kernel::parse(text).unwrap().build().unwrap()
}

/// Returns n x d numbers in [−1, 1) + offset, representable in `T`.
pub(crate) fn points<T: Real>(n: usize, d: usize, seed: u64, offset: f64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n * d).map(|_| T::from_f64(next() + offset)).collect()
}

/// Maps `points` into the domain of the kernel; about half become 0 if 0 is the edge of the domain.
pub(crate) fn suited<T: Real>(text: &str, points: &[T]) -> Vec<T> {
    let family = registry()
        .into_iter()
        .filter(|family| text.contains(&format!("{}(", family.name)))
        .max_by_key(|f| f.name.len());
    let value = |value: f64| match family.unwrap().domain {
        _ if text.contains("delta") => (1.2 * value).round(),
        Domain::Any => value,
        Domain::NonNegative if value.abs() > 2.0 => value.abs(),
        Domain::NonNegative => value.max(0.0),
        Domain::Binary => f64::from(u8::from(value > 0.0)),
    };
    points.iter().map(|point| T::from_f64(value(point.to_f64()))).collect()
}

pub(crate) fn view<T>(points: &[T], d: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(points, points.len() / d, d)
}

pub(crate) fn wide<T: Real>(points: &[T]) -> Vec<f64> {
    points.iter().map(|x| x.to_f64()).collect()
}

pub(crate) fn block<T: Real>(kernel: &Arc<dyn AnyKernel>, x: MatRef<'_, T>, z: MatRef<'_, T>) -> Mat<T> {
    let mut out = Mat::from_fn(x.nrows(), z.nrows(), |_, _| T::from_f64(f64::NAN));
    kernel.typed::<T>().block(x, z, out.as_mut());
    out
}
