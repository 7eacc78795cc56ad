//! A sheet in the shape of the letter S, in three dimensions.

use super::{Generator, Recipe, Target};
use std::f64::consts::PI;

/// (sin t, 2v, sign(t)(cos t − 1)) with t = 3π (u − ½), u and v uniform in (0, 1), plus noise in all coordinates; the target is t, the
/// place along the S.
#[derive(Debug)]
pub(super) struct SCurve;

impl Generator for SCurve {
    fn name(&self) -> &'static str {
        "scurve"
    }
    fn about(&self) -> &'static str {
        "a sheet bent to an S in three dimensions, scikit-learn's S curve; the target is the place along the S"
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
        let t = 3.0 * PI * (recipe.uniform(0, row) - 0.5);
        let point = [t.sin(), 2.0 * recipe.uniform(1, row), t.signum() * (t.cos() - 1.0)];
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
    fn without_noise_points_lie_on_two_circles() {
        let (x, t) = table(&SCurve, 1000, Some(0.0));
        for (x, t) in x.chunks_exact(3).zip(t) {
            // the halves of the S are arcs of radius 1 about (0, ±1)
            assert!((x[0].hypot(x[2] + t.signum()) - 1.0).abs() < 1e-12 && (0.0..2.0).contains(&x[1]));
            assert!((x[0] - t.sin()).abs() < 1e-12 && t.abs() < 1.5 * PI);
        }
    }
}
