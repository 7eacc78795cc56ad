//! Ridge regression by preconditioned conjugate gradient, which does not form the matrix of the
//! system: exact kernel ridge regression ([`dual_problem`], which also has a Cholesky method), and
//! Nyström ridge regression ([`nystrom`]) at ranks whose Gram matrix does not fit in memory.

pub(crate) mod blocks;
pub(crate) mod centring;
pub(crate) mod cg;
pub(crate) mod dual_problem;
pub(crate) mod f64_rows;
pub(crate) mod low_rank;
pub(crate) mod nystrom;
pub(crate) mod sketch;
