//! The crates together, against slow oracles that share no code with them.

mod certificate;
mod curve;
mod exact;
mod kept;
mod kernel_ridge;
mod landmarks;
mod machines;
mod maps;
mod outside;
mod pivot_law;
mod quality;
mod rpcholesky;
mod solvers;
mod statistics;
mod surface;
mod threads;
mod tune;
mod wide;
