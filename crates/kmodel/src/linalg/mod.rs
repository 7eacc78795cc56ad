//! Linear algebra that several solvers share. It depends neither on solvers nor on passes over
//! rows.

pub mod cholesky;
pub mod dot_products;
pub mod eigen;
pub mod kernel_matrix;
pub mod kernel_rows;
pub mod kernel_tiles;
pub mod lbfgs;
pub mod packed;
pub mod sparse_matrix;
pub mod strips;
