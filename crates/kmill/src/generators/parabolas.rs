//! Two parabolas, one above the other: no line parts them, a function of degree two does.

use super::{Generator, Recipe, Target};

/// (t, t² + class), t uniform in (-2, 2), plus noise in both coordinates.
#[derive(Debug)]
pub(super) struct Parabolas;

impl Generator for Parabolas {
    fn name(&self) -> &'static str {
        "parabolas"
    }
    fn about(&self) -> &'static str {
        "two classes: the parabolas x1 = x0^2 and x1 = x0^2 + 1 for x0 in (-2, 2), with noise"
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
        let upper = f64::from(u8::from(recipe.uniform(0, row) < 0.5));
        let t = 4.0 * recipe.uniform(1, row) - 2.0;
        let point = [t, t * t + upper];
        for ((axis, x), at) in (0..).zip(x).zip(point) {
            *x = at + recipe.noise * recipe.normal(axis, row);
        }
        upper
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_the_class_is_the_height_above_the_parabola() {
        let (x, y) = table(&Parabolas, 1000, Some(0.0));
        assert!(x.chunks_exact(2).zip(&y).all(|(x, class)| (x[1] - x[0] * x[0] - class).abs() < 1e-12));
        assert!(x.chunks_exact(2).all(|x| x[0].abs() < 2.0));
        let upper = y.iter().sum::<f64>();
        assert!((420.0..580.0).contains(&upper), "{upper} of 1000 in class 1");
    }
}
