//! Kernels, and the feature maps that approximate them.
//!
//! A [`KernelFunction`] evaluates a kernel on two blocks of points. A [`FeatureMap`] turns rows x
//! into features `phi(x)`, row by row, such that `phi(x)·phi(x') ≈ k(x, x')`. Learning on features
//! never needs the n x n kernel matrix of n rows.
//!
//! ```
//! use kapprox::{Kernel, Nystrom};
//!
//! let x: Vec<[f64; 2]> = (0..1000)
//!     .map(|i| [f64::from(i * 7919 % 1000), f64::from(i)].map(|v| v / 250.0))
//!     .collect();
//! let phi = Nystrom::new(Kernel::gaussian(1.5), 60).fit(&x)?.transform(&x)?; // 1000 x 60
//! # assert_eq!((phi.nrows(), phi.ncols()), (1000, 60));
//! # Ok::<(), kapprox::Error>(())
//! ```
//!
//! [`Nystrom`], [`RandomFourier`] and [`IncompleteCholesky`] take points in memory. For streamed
//! rows, use the parts of these types: a [`landmark`] scheme chooses the rows whose kernel
//! sections are the basis functions, and a [`map`] computes the features from these landmarks.
//!
//! [`kernel::registry()`] lists the kernels, [`landmark::registry()`] the landmark schemes and
//! [`map::registry()`] the maps; [`kernel::register`] and [`landmark::register`] add kernels and
//! schemes of the caller. [`matrix`] approximates a matrix that is given by its entries instead of
//! points.
//!
//! # Layouts
//! Points are row-major (`n x d`, a row is contiguous), as in storage. Kernel blocks and features
//! are column-major (`b x m`, a column is contiguous), because the triangular solve and the Gram
//! product both run fastest in this layout.

/// A closure that is inlined into the loops of every instruction set.
macro_rules! inlined {
    (|$($name:tt $(: $of:ty)?),*| $body:expr) => {
        #[inline(always)]
        move |$($name $(: $of)?),*| $body
    };
}

mod builder;
#[doc(hidden)]
pub mod decompose;
mod error;
#[doc(hidden)]
pub mod gram;
pub mod kernel;
pub mod landmark;
mod landmark_set;
mod lanes;
pub mod map;
pub mod matrix;
pub mod metric;
pub mod quality;
mod real;
mod substitution;
#[doc(hidden)]
pub mod thin;

pub use builder::{FittedMap, IncompleteCholesky, Nystrom, Points, RandomFourier};
pub use error::{Error, Result};
pub use kernel::{AnyKernel, Kernel, KernelFunction};
#[doc(hidden)]
pub use kpass::vectorised;
pub use landmark::LandmarkRule;
pub use landmark_set::LandmarkSet;
pub use lanes::{Lanes, instruction_set};
pub use map::{FeatureMap, FourierMap, MapSpec, NystromMap};
pub use real::{PrecisionPair, Real};
pub use {faer, kpass};
