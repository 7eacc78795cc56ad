//! A generator: rows along a line, the target 10 + 2 x0.

use kmill::generators::{Generator, Recipe, Target};

#[derive(Debug)]
struct Ramp;

pub(crate) static RAMP: &dyn Generator = &Ramp;

impl Generator for Ramp {
    fn name(&self) -> &'static str {
        "ramp"
    }
    fn about(&self) -> &'static str {
        "a straight line"
    }
    fn features(&self) -> usize {
        1
    }
    fn target(&self) -> Target {
        Target::Number
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        x[0] = row as f64 / recipe.rows as f64;
        10.0 + 2.0 * x[0]
    }
}
