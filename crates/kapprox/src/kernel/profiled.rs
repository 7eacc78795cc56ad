//! Kernels that are a profile of one number of two points: of a distance, of an inner product, or of another sum over features.

use super::fixed::KernelColumns;
use super::gradient::{self, Weighted, weigh};
use super::panel::Block;
use super::points::{Frame, row};
use super::{AnyKernel, Kernel, Law, Spectrum, check_shapes};
use crate::Real;
use faer::prelude::*;
use faer::{MatMut, MatRef};
use std::fmt::Debug;
use std::sync::Arc;

/// The scalar function that makes a kernel of its [`Argument`].
///
/// This is all a new kernel has to supply: the engines bring the blocks. The argument is
/// * the squared distance in units of the length scale, (‖x−z‖₂/σ)², with [`distances::l2`](super::distances::l2);
/// * the distance in units of the length scale, ‖x−z‖₁/σ, with [`distances::l1`](super::distances::l1);
/// * the inner product x·z, with [`inner::product`](super::inner::product).
pub(crate) trait Profile: Debug + Send + Sync + 'static {
    const POSITIVE_DEFINITE: bool = true;
    /// The function with its constants converted to `T`. It is inlined into the loops of every instruction set: return
    /// a closure marked `#[inline(always)]` that calls nothing but [`Real`]'s arithmetic.
    fn function<T: Real>(&self) -> impl Function<T> + use<Self, T>;
    /// The derivative of the function by its argument; `None` where it is not known. At a cusp it is 0.
    fn derivative<T: Real>(&self) -> Option<impl Fn(T) -> T + Copy + use<Self, T>> {
        None::<fn(T) -> T>
    }
    /// The law of the kernel's frequencies, in units of one over the length scale; see [`Kernel::spectrum`].
    fn law(&self) -> Option<Law> {
        None
    }
}

/// A function of a number that loops and threads can hold.
pub(crate) trait Function<T>: Fn(T) -> T + Copy + Send + Sync + 'static {}

impl<T, F: Fn(T) -> T + Copy + Send + Sync + 'static> Function<T> for F {}

/// The number of two points that a profile is taken of.
pub(crate) trait Argument: Debug + Send + Sync + 'static {
    /// The shift and the units of points, for distances from the points `z`.
    fn frame<T: Real>(&self, z: MatRef<'_, T>) -> Frame<T> {
        Frame::identity(z.ncols())
    }
    /// Fills the block with `profile(argument)`.
    fn fill<T: Real>(&self, block: Block<'_, T>, profile: impl Fn(T) -> T + Copy);
    /// Fills the block with the arguments, as exact as a derivative needs it. Compiled once, and shared by all profiles.
    fn fill_arguments<T: Real>(&self, block: Block<'_, T>) {
        self.fill(block, itself);
    }
    fn columns<T: Real>(
        &self,
        frame: Frame<T>,
        profile: impl Function<T>,
        z: MatRef<'_, T>,
    ) -> Box<dyn KernelColumns<T>>;
    /// The derivative of the argument by a feature of x, from the values of the feature, but for a factor. At a jump it is the
    /// mean of both sides. Return a closure marked `#[inline(always)]`.
    fn slope<T: Real>(&self) -> impl Fn(T, T) -> T + Copy;
    /// A sum of slopes of feature k times that factor.
    fn in_units<T: Real>(&self, _k: usize, sum: T) -> T {
        sum
    }
    fn own<T: Real>(&self, _x: &[T]) -> f64 {
        0.0
    }
    /// The length scale of each feature, or one for all.
    fn lengths(&self) -> Vec<f64> {
        vec![1.0]
    }
}

#[inline(always)]
pub(super) fn itself<T>(argument: T) -> T {
    argument
}

pub(super) fn profiled<A: Argument, P: Profile>(text: String, argument: A, profile: P) -> Arc<dyn AnyKernel> {
    Arc::new(Profiled { text, argument, profile })
}

#[derive(Debug)]
struct Profiled<A, P> {
    text: String,
    argument: A,
    profile: P,
}

impl<T: Real, A: Argument, P: Profile> Kernel<T> for Profiled<A, P> {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn positive_definite(&self) -> bool {
        P::POSITIVE_DEFINITE
    }

    fn spectrum(&self) -> Option<Spectrum> {
        let amplitude = self.profile.function::<f64>()(0.0);
        Some(Spectrum { law: self.profile.law()?, lengths: self.argument.lengths(), amplitude })
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        self.argument.fill(Block { frame: &self.argument.frame(z), x, z, out }, self.profile.function());
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        Some(self.argument.columns(self.argument.frame(z), self.profile.function(), z))
    }

    fn differentiable(&self) -> bool {
        self.profile.derivative::<T>().is_some()
    }

    fn gradient(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, weights: MatRef<'_, T>, out: MatMut<'_, T>) -> bool {
        let pairs = Weighted::new(x, z, weights, &out);
        let Some(derivative) = self.profile.derivative() else { return false };
        let frame = self.argument.frame(z);
        let factors = |Weighted { x, z, weights }: Weighted<'_, T>, mut out: MatMut<'_, T>| {
            self.argument.fill_arguments(Block { frame: &frame, x, z, out: out.rb_mut() });
            weigh(derivative, weights, out);
        };
        gradient::add(pairs, out, &factors, self.argument.slope(), &|k, sum| self.argument.in_units(k, sum));
        true
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        let (profile, mut spare) = (self.profile.function::<f64>(), Vec::new());
        let (mut argument, mut value) = (0.0, profile(0.0).saturate());
        for (i, out) in out.iter_mut().enumerate() {
            let own = self.argument.own(row(x, i, &mut spare));
            // distances are 0 for all rows
            if own != argument {
                (argument, value) = (own, profile(own).saturate());
            }
            *out = value;
        }
    }
}
