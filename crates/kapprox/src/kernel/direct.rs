//! Kernels of sums over features that have no product form.

use super::few::{self, Own};
use super::fixed::KernelColumns;
use super::gradient::{self, Slope, Weighted, argument, weigh};
use super::panel::{self, Finish, Term};
use super::points::Frame;
use super::{Kernel, Profile, check_shapes};
use crate::{Real, vectorised};
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::fmt::Debug;
use std::sync::Arc;

/// A kernel of Σ_k M(x_k, z_k) of the values as they are.
#[derive(Debug)]
struct Raw<M, P> {
    text: String,
    profile: P,
    /// Σ_k M(x_k, x_k).
    own: fn(&[f64]) -> f64,
    term: M,
}

/// The kernel `profile(Σ_k M(x_k, z_k))`, written `text`; `own` is the sum of a point with itself.
pub(crate) fn raw<M: Term + Slope + Debug + Send + Sync + 'static, P: Profile>(
    text: String,
    term: M,
    own: fn(&[f64]) -> f64,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    Arc::new(Raw { text, profile, own, term })
}

impl<T: Real, M: Term + Slope + Debug + Send + Sync + 'static, P: Profile> Kernel<T> for Raw<M, P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        panel::block::<T, M, _>(&Frame::identity(x.ncols()), &mut Plain(self.profile.function()), x, z, out);
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        Some(few::columns(Frame::identity(z.ncols()), Plain(self.profile.function()), self.term, z))
    }

    fn differentiable(&self) -> bool {
        self.profile.derivative::<T>().is_some()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let Some(derivative) = self.profile.derivative() else { return false };
        let factors = |pairs: Weighted<'_, T>, mut out: MatMut<'_, T>| {
            let (frame, finish) = (Frame::identity(pairs.x.ncols()), &mut Plain(argument));
            panel::block::<T, M, _>(&frame, finish, pairs.x, pairs.z, out.rb_mut());
            weigh(derivative, pairs.weights, out);
        };
        gradient::add(pairs, out, &factors, M::slope, &|_, sum| sum);
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let profile = self.profile.function::<f64>();
        let mut wide = Vec::new();
        for (i, out) in out.iter_mut().enumerate() {
            wide.clear();
            wide.extend(x.row(i).iter().map(|value| value.to_f64()));
            *out = profile((self.own)(&wide)).saturate();
        }
    }
}

/// k(x, z) = `profile(sum)`.
pub(crate) struct Plain<F>(pub(crate) F);

impl<T: Real, F: Fn(T) -> T + Copy> Finish<T> for Plain<F> {
    #[inline(always)]
    fn column(&self, _: usize, _: usize, sums: &[T], values: &mut [T]) -> bool {
        for (value, &sum) in values.iter_mut().zip(sums) {
            *value = (self.0)(sum).saturate();
        }
        false
    }

    fn row(&self, _: Own<T>, _: &[T], _: MatRef<'_, T>, values: &mut [T]) {
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
