//! Kernels of sums over features that have no product form: distances by differences.

use super::panel::{self, Finish, Magnitudes, Term};
use super::points::{Frame, Lengths};
use super::{Kernel, Profile, check_shapes};
use crate::Real;
use crate::map::random::Spectrum;
use faer::{MatMut, MatRef};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// A kernel of Σ_k M(x_k, z_k), a distance of differences in units of `length`.
#[derive(Debug)]
struct Direct<M, P> {
    text: String,
    lengths: Lengths,
    profile: P,
    term: PhantomData<M>,
}

/// The kernel `profile(‖x − z‖₁ / length)`, written `text`.
pub(crate) fn l1<P: Profile>(text: String, length: f64, profile: P) -> Arc<dyn super::AnyKernel> {
    let term = PhantomData::<Magnitudes>;
    Arc::new(Direct { text, lengths: Lengths::Same(length), profile, term })
}

impl<T: Real, M: Term + Debug + Send + Sync, P: Profile> Kernel<T> for Direct<M, P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn spectrum(&self) -> Option<Spectrum> {
        Some(Spectrum { law: self.profile.law()?, lengths: self.lengths.to_vec(), amplitude: 1.0 })
    }

    /// Centring costs a rounding of each coordinate and nothing of its own: equal points stay equal.
    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        panel::block::<T, M, _>(&Frame::new(z, &self.lengths), &mut Plain(self.profile.function()), x, z, out);
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(self.profile.function::<f64>()(0.0));
    }
}

/// A kernel of Σ_k M(x_k, z_k) of the values as they are.
#[derive(Debug)]
struct Raw<M, P> {
    text: String,
    profile: P,
    /// Σ_k M(x_k, x_k).
    own: fn(&[f64]) -> f64,
    term: PhantomData<M>,
}

/// The kernel `profile(Σ_k M(x_k, z_k))`, written `text`; `own` is the sum of a point with itself.
pub(crate) fn raw<M: Term + Debug + Send + Sync + 'static, P: Profile>(
    text: String,
    _term: M,
    own: fn(&[f64]) -> f64,
    profile: P,
) -> Arc<dyn super::AnyKernel> {
    Arc::new(Raw { text, profile, own, term: PhantomData::<M> })
}

impl<T: Real, M: Term + Debug + Send + Sync, P: Profile> Kernel<T> for Raw<M, P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        panel::block::<T, M, _>(&Frame::identity(x.ncols()), &mut Plain(self.profile.function()), x, z, out);
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
}
