//! Feature maps and factors by a few calls: what to build, then the points.
//!
//! [`Nystrom`] and [`RandomFourier`] fit a map to points in memory and transform points; [`IncompleteCholesky`] factors a
//! matrix that is a function of two indices. Programs that stream rows use [`crate::landmark`] and [`crate::map`] directly.

mod fitted_map;
mod incomplete_cholesky;
mod nystrom;
mod points;
mod random_fourier;

pub use fitted_map::FittedMap;
pub use incomplete_cholesky::IncompleteCholesky;
pub use nystrom::Nystrom;
pub use points::Points;
pub use random_fourier::RandomFourier;
