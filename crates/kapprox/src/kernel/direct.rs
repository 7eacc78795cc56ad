//! Kernels of sums over features that have no product form.

use super::few;
use super::fixed::KernelColumns;
use super::panel::{Block, Finish, Own};
use super::points::Frame;
use super::profiled::{Argument, Function, Profile, profiled};
use super::terms::Term;
use crate::Real;
use faer::MatRef;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// The kernel `profile(Σ_k M(x_k, z_k))` of the values as they are, written `text`; `own` is M(x, x).
pub(crate) fn raw<M: Term, P: Profile>(
    text: String,
    _term: M,
    own: fn(f64) -> f64,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    profiled(text, Raw { term: PhantomData::<M>, own }, profile)
}

#[derive(Debug)]
struct Raw<M> {
    term: PhantomData<M>,
    own: fn(f64) -> f64,
}

impl<M: Term> Argument for Raw<M> {
    fn fill<T: Real>(&self, block: Block<'_, T>, profile: impl Fn(T) -> T + Copy) {
        block.fill::<M, _>(&Plain(profile));
    }

    fn columns<T: Real>(
        &self,
        frame: Frame<T>,
        profile: impl Function<T>,
        z: MatRef<'_, T>,
    ) -> Box<dyn KernelColumns<T>> {
        few::columns::<T, M, _>(frame, Plain(profile), z)
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        M::slope
    }

    fn own<T: Real>(&self, x: &[T]) -> f64 {
        x.iter().map(|value| (self.own)(value.to_f64())).sum()
    }
}

pub(crate) struct Plain<F>(pub(crate) F);

impl<T: Real, F: Fn(T) -> T + Copy> Finish<T> for Plain<F> {
    #[inline(always)]
    fn values(&self, _: Own<T>, _: &[T], _: T, sums: &[T], values: &mut [T]) -> bool {
        for (value, &sum) in values.iter_mut().zip(sums) {
            *value = (self.0)(sum).saturate();
        }
        false
    }
}
