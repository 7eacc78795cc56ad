//! Two interleaved half circles.

use super::{Generator, Recipe, Target};
use std::f64::consts::PI;

/// Class 0: (cos t, sin t); class 1: (1 − cos t, ½ − sin t); t uniform in (0, π), plus noise in both coordinates.
#[derive(Debug)]
pub(super) struct Moons;

impl Generator for Moons {
    fn name(&self) -> &'static str {
        "moons"
    }
    fn about(&self) -> &'static str {
        "two classes: interleaved half circles of radius 1, with noise"
    }
    fn features(&self) -> usize {
        2
    }
    fn noise(&self) -> Option<f64> {
        Some(0.1)
    }
    fn target(&self) -> Target {
        Target::Class
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        let lower = recipe.uniform(0, row) < 0.5;
        let t = PI * recipe.uniform(1, row);
        let point = if lower { [1.0 - t.cos(), 0.5 - t.sin()] } else { [t.cos(), t.sin()] };
        for ((axis, x), at) in (0..).zip(x).zip(point) {
            *x = at + recipe.noise * recipe.normal(axis, row);
        }
        f64::from(u8::from(lower))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_points_lie_on_their_half_circle() {
        let (x, y) = table(&Moons, 1000, Some(0.0));
        let mut ones = 0;
        for (x, class) in x.chunks_exact(2).zip(y) {
            let (centre, side) = if class == 0.0 { ([0.0, 0.0], 1.0) } else { ([1.0, 0.5], -1.0) };
            let radius = (x[0] - centre[0]).hypot(x[1] - centre[1]);
            assert!((radius - 1.0).abs() < 1e-12 && side * (x[1] - centre[1]) >= 0.0);
            ones += i32::from(class == 1.0);
        }
        assert!((420..580).contains(&ones), "{ones} of 1000 in class 1");
    }
}
