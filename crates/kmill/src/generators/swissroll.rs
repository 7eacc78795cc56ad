//! A sheet that is rolled up in three dimensions.

use super::{Generator, Recipe, Target};
use std::f64::consts::PI;

/// (t cos t, 21 v, t sin t) with t = 3π/2 (1 + 2u), u and v uniform in (0, 1), plus noise in all coordinates; the target is t, the
/// place along the roll.
#[derive(Debug)]
pub(super) struct SwissRoll;

impl Generator for SwissRoll {
    fn name(&self) -> &'static str {
        "swissroll"
    }
    fn about(&self) -> &'static str {
        "a sheet rolled up in three dimensions, scikit-learn's Swiss roll; the target is the place along the roll"
    }
    fn features(&self) -> usize {
        3
    }
    fn noise(&self) -> Option<f64> {
        Some(0.0)
    }
    fn target(&self) -> Target {
        Target::Number
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        let t = 1.5 * PI * (1.0 + 2.0 * recipe.uniform(0, row));
        let point = [t * t.cos(), 21.0 * recipe.uniform(1, row), t * t.sin()];
        for ((axis, x), at) in (0..).zip(x).zip(point) {
            *x = at + recipe.noise * recipe.normal(axis, row);
        }
        t
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_the_target_is_the_distance_from_the_axis() {
        let (x, t) = table(&SwissRoll, 1000, Some(0.0));
        for (x, t) in x.chunks_exact(3).zip(t) {
            assert!((x[0].hypot(x[2]) - t).abs() < 1e-12 && (0.0..21.0).contains(&x[1]));
            assert!((x[0] - t * t.cos()).abs() < 1e-12 && (1.5 * PI..4.5 * PI).contains(&t));
        }
    }
}
