//! Kernels, and the feature maps that approximate them.
//!
//! A [`Kernel`] sees two blocks of points. A [`FeatureMap`] turns rows into features `phi` with
//! `phi(x)·phi(x') ≈ k(x, x')`, row by row, so that whatever is learned on features never needs the n x n matrix.
//!
//! # Layouts
//! Points are row-major (`n x d`, a row is contiguous), as they come from storage. Kernel blocks and features are
//! column-major (`b x m`, a column is contiguous): the triangular solve and the Gram product both run fastest so.

pub mod decompose;
mod error;
mod instructions;
pub mod kernel;
pub mod landmark;
mod lanes;
pub mod map;
pub mod quality;
mod real;
pub mod thin;
mod turns;

pub use error::{Error, Result};
pub use instructions::instruction_set;
pub use kernel::{AnyKernel, Kernel, Spec};
pub use kstore::vectorised;
pub use landmark::{LandmarkSet, Landmarks};
pub use lanes::Lanes;
pub use map::{FeatureMap, Fourier, MapSpec, Nystrom};
pub use real::Real;
pub use turns::Turns;
pub use {faer, kstore};
