//! The crates together, against slow oracles that share no code with them.

mod certificate;
mod components;
mod curve;
mod discriminants;
mod exact;
mod kept;
mod kernel_ridge;
mod landmarks;
mod machines;
mod machines_chosen;
mod many_rows;
mod maps;
mod outside;
mod pivot_law;
mod pls;
mod quadratic;
mod quality;
mod rpcholesky;
mod solvers;
mod statistics;
mod surface;
mod threads;
mod tolerance;
mod tune;
mod weights;
mod wide;
