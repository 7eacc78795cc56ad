//! Kernels of the inner product.

use super::few;
use super::fixed::KernelColumns;
use super::panel::{Block, Finish, Own};
use super::points::{Frame, squared_norm};
use super::profiled::{Argument, Function, Profile, profiled};
use super::terms::{Products, Term};
use crate::Real;
use crate::vectorised;
use faer::MatRef;
use std::sync::Arc;

/// The kernel `profile(x·z)`, written `text`.
pub(crate) fn product<P: Profile>(text: String, profile: P) -> Arc<dyn super::AnyKernel> {
    profiled(text, Inner, profile)
}

#[derive(Debug)]
struct Inner;

impl Argument for Inner {
    fn fill<T: Real>(&self, block: Block<'_, T>, profile: impl Fn(T) -> T + Copy) {
        block.fill::<Products, _>(&Saturated(profile));
    }

    fn columns<T: Real>(
        &self,
        frame: Frame<T>,
        profile: impl Function<T>,
        z: MatRef<'_, T>,
    ) -> Box<dyn KernelColumns<T>> {
        few::columns::<T, Products, _>(frame, Saturated(profile), z)
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        Products::slope
    }

    fn own<T: Real>(&self, x: &[T]) -> f64 {
        vectorised!(squared_norm(x))
    }
}

/// k(x, z) = `profile(x·z)`, kept finite, also where the product overflows.
struct Saturated<F>(F);

impl<T: Real, F: Fn(T) -> T + Copy> Finish<T> for Saturated<F> {
    #[inline(always)]
    fn values(&self, _: Own<T>, _: &[T], _: T, sums: &[T], values: &mut [T]) -> bool {
        let mut any = false;
        for (value, &sum) in values.iter_mut().zip(sums) {
            any |= overflowed(sum);
            *value = (self.0)(sum).saturate();
        }
        any
    }

    fn again(&self, _: Own<T>, _: Own<T>, sum: T, x: &[T], z: &[T]) -> Option<T> {
        overflowed(sum).then(|| {
            let product = scaled_product(x, z);
            vectorised!((self.0)(product).saturate())
        })
    }
}

/// True for a sum that is infinite, or NaN because infinities of both signs met.
#[inline(always)]
fn overflowed<T: Real>(sum: T) -> bool {
    let fits = sum.magnitude() <= T::LARGEST;
    !fits
}

/// The product from points scaled to at most 1, x·z = (Σ (x/‖x‖∞)(z/‖z‖∞)) ‖x‖∞ ‖z‖∞ in `f64`: only the last product can overflow, and is kept finite.
fn scaled_product<T: Real>(x: &[T], z: &[T]) -> T {
    let largest = |v: &[T]| v.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.to_f64().abs()));
    let (x_largest, z_largest) = (largest(x), largest(z));
    let sum: f64 = x.iter().zip(z).map(|(x, z)| x.to_f64() / x_largest * (z.to_f64() / z_largest)).sum();
    T::from_f64((sum * x_largest * z_largest).saturate()).saturate()
}
