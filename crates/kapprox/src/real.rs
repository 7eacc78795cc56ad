//! The element type of kernel blocks.

/// `f32` or `f64` with the arithmetic that kernels need, written so that loops over it vectorise.
///
/// `exp` is a polynomial, not the library's: it is inlined into the loop and vectorised with it.
pub trait Real: kstore::Real + faer::traits::RealField {}

impl Real for f32 {}
impl Real for f64 {}
