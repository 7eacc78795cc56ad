//! Linear algebra shared by several solvers. It depends on no solver and no pass over rows.

pub mod cholesky;
pub mod dot_products;
pub mod eigen;
pub mod kernel_matrix;
pub mod kernel_rows;
pub mod kernel_tiles;
pub mod lbfgs;
pub mod sparse_matrix;
pub mod strips;
