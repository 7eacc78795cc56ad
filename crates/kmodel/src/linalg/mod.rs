//! Linear algebra that several solvers share. It knows no solver and no pass over rows.

pub mod cholesky;
pub mod dots;
pub mod eigen;
pub mod kernel_matrix;
pub mod kernel_rows;
pub mod kernel_tiles;
pub mod lbfgs;
pub mod recursion;
pub mod sparse_matrix;
pub mod strips;
