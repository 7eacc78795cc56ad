//! Two circles about one centre.

use super::{Generator, Recipe, Target};
use std::f64::consts::PI;

/// Class 0: (cos t, sin t); class 1: half of that; t uniform in (0, 2π), plus noise in both coordinates.
#[derive(Debug)]
pub(super) struct Circle;

impl Generator for Circle {
    fn name(&self) -> &'static str {
        "circle"
    }
    fn about(&self) -> &'static str {
        "two classes: a circle of radius 1/2 inside one of radius 1, with noise"
    }
    fn features(&self) -> usize {
        2
    }
    fn noise(&self) -> Option<f64> {
        Some(0.05)
    }
    fn target(&self) -> Target {
        Target::Class
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        let inner = recipe.uniform(0, row) < 0.5;
        let (t, radius) = (2.0 * PI * recipe.uniform(1, row), if inner { 0.5 } else { 1.0 });
        let point = [radius * t.cos(), radius * t.sin()];
        for ((axis, x), at) in (0..).zip(x).zip(point) {
            *x = at + recipe.noise * recipe.normal(axis, row);
        }
        f64::from(u8::from(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_the_radius_is_that_of_the_class() {
        let (x, y) = table(&Circle, 1000, Some(0.0));
        assert!(x.chunks_exact(2).zip(&y).all(|(x, class)| (x[0].hypot(x[1]) - 1.0 / (1.0 + class)).abs() < 1e-12));
        let inner = y.iter().sum::<f64>();
        assert!((420.0..580.0).contains(&inner), "{inner} of 1000 in class 1");
    }
}
