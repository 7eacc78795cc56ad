//! Feature maps and factorisations in a few calls.
//!
//! [`Nystrom`] and [`RandomFourier`] fit a map to points in memory, and the map transforms any
//! points; [`IncompleteCholesky`] factors a matrix given as a function of two indices. Programs
//! that stream rows use [`crate::landmark`] and [`crate::map`] directly.

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
