//! Linear algebra that several solvers share. It knows no solver and no pass over rows.

pub(crate) mod cholesky;
pub(crate) mod dots;
pub(crate) mod eigen;
pub(crate) mod kernel_matrix;
pub(crate) mod kernel_rows;
pub(crate) mod kernel_tiles;
pub(crate) mod lbfgs;
pub(crate) mod sparse_matrix;
pub(crate) mod strips;
