//! Ridge regression without forming the system: preconditioned conjugate gradient, for exact kernel
//! ridge regression ([`exact`]) and for Nyström ridge regression at ranks whose Gram matrix does
//! not fit ([`nystrom`]).

pub(crate) mod blocks;
pub(crate) mod centring;
pub(crate) mod cg;
pub(crate) mod dual_problem;
pub(crate) mod f64_rows;
pub(crate) mod low_rank;
pub(crate) mod nystrom;
pub(crate) mod packed;
pub(crate) mod sketch;
