//! Kernels of the inner product.

use super::few::{self, Own};
use super::fixed::KernelColumns;
use super::gradient::{self, Slope, Weighted, argument, weigh};
use super::panel::{self, Finish, Products};
use super::points::{Frame, row, squared_norm};
use super::{Kernel, Profile, Spectrum, check_shapes};
use crate::Real;
use crate::vectorised;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::sync::Arc;

/// A kernel of x·z.
#[derive(Debug)]
struct Inner<P> {
    text: String,
    profile: P,
    positive_definite: bool,
}

/// The kernel `profile(x·z)`, written `text`; positive definite.
pub(crate) fn product<P: Profile>(text: String, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Inner { text, profile, positive_definite: true })
}

/// The kernel `profile(x·z)`, written `text`; not positive definite.
pub(crate) fn indefinite<P: Profile>(text: String, profile: P) -> Arc<dyn super::AnyKernel> {
    Arc::new(Inner { text, profile, positive_definite: false })
}

impl<T: Real, P: Profile> Kernel<T> for Inner<P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn positive_definite(&self) -> bool {
        self.positive_definite
    }

    /// Of a constant.
    fn spectrum(&self) -> Option<Spectrum> {
        let amplitude = self.profile.function::<f64>()(0.0);
        Some(Spectrum { amplitude, ..Spectrum::new(self.profile.law()?, 1.0) })
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        panel::block::<T, Products, _>(&Frame::identity(x.ncols()), &mut Saturated(self.profile.function()), x, z, out);
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        Some(few::columns(Frame::identity(z.ncols()), Saturated(self.profile.function()), Products, z))
    }

    fn differentiable(&self) -> bool {
        self.profile.derivative::<T>().is_some()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let Some(derivative) = self.profile.derivative() else { return false };
        let factors = |pairs: Weighted<'_, T>, mut out: MatMut<'_, T>| {
            let (frame, finish) = (Frame::identity(pairs.x.ncols()), &mut Saturated(argument));
            panel::block::<T, Products, _>(&frame, finish, pairs.x, pairs.z, out.rb_mut());
            weigh(derivative, pairs.weights, out);
        };
        gradient::add(pairs, out, &factors, Products::slope, &|_, sum| sum);
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let profile = self.profile.function::<f64>();
        let mut spare = Vec::new();
        for (i, out) in out.iter_mut().enumerate() {
            let x = row(x, i, &mut spare);
            *out = vectorised(
                #[inline(always)]
                || profile(squared_norm(x)).saturate(),
            );
        }
    }
}

/// k(x, z) = `profile(x·z)`, kept finite, also where the product overflows.
struct Saturated<F>(F);

impl<T: Real, F: Fn(T) -> T + Copy> Finish<T> for Saturated<F> {
    #[inline(always)]
    fn column(&self, _: usize, _: usize, sums: &[T], values: &mut [T]) -> bool {
        let mut any = false;
        for (value, &sum) in values.iter_mut().zip(sums) {
            any |= overflowed(sum);
            *value = (self.0)(sum).saturate();
        }
        any
    }

    /// Computes values again from points scaled to at most 1.
    fn repair(&self, _: usize, _: usize, sums: &[T], x: MatRef<'_, T>, z: &[T], values: &mut [T]) {
        let mut spare = Vec::new();
        for (i, (value, _)) in values.iter_mut().zip(sums).enumerate().filter(|(_, (_, sum))| overflowed(**sum)) {
            let product = scaled_product(row(x, i, &mut spare), z);
            *value = vectorised(
                #[inline(always)]
                || (self.0)(product).saturate(),
            );
        }
    }

    fn row(&self, _: Own<T>, x: &[T], z: MatRef<'_, T>, values: &mut [T]) {
        let mut spare = Vec::new();
        for (j, sum) in values.iter_mut().enumerate().filter(|(_, sum)| overflowed(**sum)) {
            *sum = scaled_product(x, row(z, j, &mut spare));
        }
        vectorised(
            #[inline(always)]
            || {
                for value in values {
                    *value = (self.0)(*value).saturate();
                }
            },
        );
    }
}

/// True for a sum that is infinite, or NaN because infinities of both signs met.
#[inline(always)]
fn overflowed<T: Real>(sum: T) -> bool {
    let fits = sum.magnitude() <= T::LARGEST;
    !fits
}

/// x·z = (Σ (x/‖x‖∞)(z/‖z‖∞)) ‖x‖∞ ‖z‖∞ in `f64`: only the last product can overflow, and is kept finite.
fn scaled_product<T: Real>(x: &[T], z: &[T]) -> T {
    let largest = |v: &[T]| v.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.to_f64().abs()));
    let (x_largest, z_largest) = (largest(x), largest(z));
    let sum: f64 = x.iter().zip(z).map(|(x, z)| x.to_f64() / x_largest * (z.to_f64() / z_largest)).sum();
    T::from_f64((sum * x_largest * z_largest).saturate()).saturate()
}
