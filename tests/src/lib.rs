//! Slow, obvious, dense f64 reference code, written from the formulas.

pub mod dense;
pub mod fit;
pub mod kernels;
pub mod points;
pub mod source;
pub mod table;
