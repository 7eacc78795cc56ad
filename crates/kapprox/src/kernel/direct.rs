//! Kernels of numbers that are combined feature by feature: sums of terms, and
//! [sweeps](super::sweep).

use super::panel::{Finish, Own};
use super::points::{Frame, Lengths, inverse};
use super::profiled::{Argument, Engine, Function, Profile, itself, profiled};
use super::terms::{Products, Term, overflowed};
use super::{entries::FromEntries, sweep::Features};
use crate::{Real, vectorised};
use faer::MatRef;
use std::{marker::PhantomData, sync::Arc};

/// Returns the kernel `profile(Σ_k M(x_k, z_k))` of the original values, written `text`.
pub(crate) fn raw<M: Term, P: Profile>(text: String, _term: M, profile: P) -> Arc<dyn super::AnyKernel> {
    profiled(text, Raw(PhantomData::<M>), profile)
}

/// Returns the kernel `profile(x·z)`, written `text`.
pub(crate) fn product<P: Profile>(text: String, profile: P) -> Arc<dyn super::AnyKernel> {
    raw(text, Products, profile)
}

#[derive(Debug)]
struct Raw<M>(PhantomData<M>);

impl<M: Term> Argument for Raw<M> {
    fn run<T: Real, E: Engine<T>>(&self, engine: E, profile: impl Function<T>, _: bool) -> E::Made {
        engine.sums::<M, _>(Plain(profile, PhantomData::<M>))
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        M::slope
    }

    fn own<T: Real>(&self, x: &[T]) -> f64 {
        M::own(x)
    }

    fn by_entries(&self) -> Option<FromEntries> {
        M::BY_ENTRIES
    }
}

/// k(x, z) = `profile(sum)`, kept finite even if the sum overflows.
pub(crate) struct Plain<F, M>(pub(crate) F, pub(crate) PhantomData<M>);

impl<T: Real, F: Fn(T) -> T + Copy, M: Term> Finish<T> for Plain<F, M> {
    #[inline(always)]
    fn values(&self, _: Own<T>, _: &[T], _: T, sums: &[T], values: &mut [T]) -> bool {
        let mut any = false;
        for (value, &sum) in values.iter_mut().zip(sums) {
            any |= M::OVERFLOWS && overflowed(sum);
            *value = (self.0)(sum).saturate();
        }
        any
    }

    fn again(&self, _: Own<T>, _: Own<T>, sum: T, x: &[T], z: &[T]) -> Option<T> {
        (M::OVERFLOWS && overflowed(sum)).then(|| {
            let sum = M::scaled(x, z);
            vectorised!((self.0)(sum).saturate())
        })
    }
}

/// Returns the kernel `profile(f)`, written `text`, with the number f that `features` computes from
/// (x − z) / `length`.
pub(crate) fn swept<F: Features, P: Profile>(
    text: String,
    length: f64,
    features: F,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    profiled(text, Swept { length, features: Arc::new(features) }, profile)
}

/// The number that `features` computes from the features' differences in units of `length`.
#[derive(Debug)]
struct Swept<F> {
    length: f64,
    features: Arc<F>,
}

/// The identity, for a product k = Π of factors; its derivative is with respect to the logarithm of
/// a factor.
#[derive(Debug)]
pub(crate) struct Factors;

impl Profile for Factors {
    fn function<T: Real>(&self) -> impl Fn(T) -> T + Copy + use<T> {
        itself
    }

    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<T>> {
        Some(itself)
    }
}

impl<F: Features> Argument for Swept<F> {
    fn frame<T: Real>(&self, z: MatRef<'_, T>) -> Frame<T> {
        Frame::new(z, &Lengths::Same(self.length), 1.0)
    }

    fn run<T: Real, E: Engine<T>>(&self, engine: E, profile: impl Function<T>, _: bool) -> E::Made {
        engine.sweep(&self.features, profile)
    }

    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy {
        let (slope, scale) = (self.features.slope(), inverse::<T>(self.length));
        inlined!(|x, z| slope((x - z) * scale))
    }

    fn in_units<T: Real>(&self, _: usize, sum: T) -> T {
        sum * inverse::<T>(self.length)
    }

    fn own<T: Real>(&self, x: &[T]) -> f64 {
        let next = self.features.next::<f64>();
        x.iter().fold(F::START, |value, _| next(value, 0.0))
    }
}
