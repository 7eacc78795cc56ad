//! Kernels, and the feature maps that approximate them.
//!
//! A [`KernelFunction`] sees two blocks of points. A [`FeatureMap`] turns rows into features `phi` with
//! `phi(x)·phi(x') ≈ k(x, x')`, row by row, so that whatever is learned on features never needs the n x n matrix.
//!
//! ```
//! use faer::{Mat, MatRef};
//! use kapprox::landmark::{Landmarks, RpCholesky, Scan};
//! use kapprox::{FeatureMap, NystromMap, Kernel};
//! use kpass::{MemoryRows, Pass, Workers};
//!
//! let x: Vec<f64> = (0..2000).map(|i| f64::from(i * 7919 % 1000) / 250.0).collect();
//! let (rows, workers) = (MemoryRows::new(x.clone(), 2)?, Workers::new(2));
//! let kernel = Kernel::parse("gaussian(sigma=1.5)")?.build()?;
//! let scan = Scan { source: &rows, pass: Pass::new(1024, 65_536, &workers), count: 1000 };
//! let map = NystromMap::<f64>::new(&kernel, RpCholesky.select(&scan, &kernel, 60, 0)?, &workers)?;
//! let mut phi = Mat::zeros(1000, map.rank());
//! map.apply(MatRef::from_row_major_slice(&x, 1000, 2), phi.as_mut(), &workers);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Kernels stand in [`kernel::registry()`], landmark schemes in [`landmark::registry()`], maps in [`map::registry()`]; a program adds
//! kernels and schemes of its own with [`kernel::register`] and [`landmark::register`]. A matrix without vectors is approximated by
//! [`matrix`].
//!
//! # Layouts
//! Points are row-major (`n x d`, a row is contiguous), as they come from storage. Kernel blocks and features are
//! column-major (`b x m`, a column is contiguous): the triangular solve and the Gram product both run fastest so.

/// A closure that is compiled into the loops of every instruction set.
macro_rules! inlined {
    (|$($name:tt $(: $of:ty)?),*| $body:expr) => {
        #[inline(always)]
        move |$($name $(: $of)?),*| $body
    };
}

pub mod decompose;
mod error;
pub mod gram;
pub mod kernel;
pub mod landmark;
mod lanes;
pub mod map;
pub mod matrix;
pub mod metric;
pub mod quality;
mod real;
mod rows;
mod substitution;
pub mod thin;

pub use error::{Error, Result};
pub use kernel::{AnyKernel, Kernel, KernelFunction};
pub use kpass::vectorised;
pub use landmark::Landmarks;
pub use lanes::{Lanes, instruction_set};
pub use map::{FeatureMap, FourierMap, MapSpec, NystromMap};
pub use real::{PrecisionPair, Real};
pub use rows::LandmarkSet;
pub use {faer, kpass};
