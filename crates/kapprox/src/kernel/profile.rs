//! The scalar functions that make kernels of a number of two points.

use super::Law;
use crate::Real;
use std::fmt::Debug;

/// The scalar function that makes a kernel of its [`Argument`](super::profiled::Argument).
///
/// This is all a new kernel has to supply: the engines bring the blocks. The argument is
/// * the squared distance in units of the length scale, (‖x−z‖₂/σ)², with [`distances::l2`](super::distances::l2);
/// * the distance in units of the length scale, ‖x−z‖₁/σ, with [`distances::l1`](super::distances::l1);
/// * the inner product x·z, with [`direct::product`](super::direct::product).
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
