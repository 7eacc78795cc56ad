//! The crates together, against slow oracles that share no code with them.

mod certificate;
mod exact;
mod kernel_ridge;
mod landmarks;
mod maps;
mod outside;
mod pivot_law;
mod quality;
mod rpcholesky;
mod solvers;
mod surface;
mod threads;
mod wide;
