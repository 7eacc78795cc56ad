//! A data generator: rows along a line with the target 10 + 2 x0.

use kmill::generators::{Generator, Target};

pub(crate) static RAMP: &Generator = &Generator::new("ramp", "a straight line", 1, Target::Number, |spec, row, x| {
    x[0] = row as f64 / spec.rows as f64;
    10.0 + 2.0 * x[0]
});
