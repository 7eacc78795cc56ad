//! Four features that matter among many that do not, without a linear effect: what a kernel of all distances cannot see, and one
//! behind a learned metric can.

use super::{Generator, Recipe, Target};

/// Number of waves in a unit of length, times 2π.
const PACE: f64 = 1.5;

/// y = cos(1.5 (x0 + x1)) + cos(1.5 (x2 − x3)) + noise, every feature uniform in (−2, 2). No feature has a correlation with y.
#[derive(Debug)]
pub(crate) struct Hidden;

fn signal(x: &[f64]) -> f64 {
    (PACE * (x[0] + x[1])).cos() + (PACE * (x[2] - x[3])).cos()
}

impl Generator for Hidden {
    fn name(&self) -> &'static str {
        "hidden"
    }
    fn about(&self) -> &'static str {
        "regression: cos(1.5 (x0 + x1)) + cos(1.5 (x2 - x3)) + noise, and 28 features that do not matter; x uniform in (-2, 2)"
    }
    fn features(&self) -> usize {
        32
    }
    fn fewest_features(&self) -> Option<usize> {
        Some(4)
    }
    fn noise(&self) -> Option<f64> {
        Some(0.2)
    }
    fn target(&self) -> Target {
        Target::Number
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        for (column, x) in (0..).zip(x.iter_mut()) {
            *x = 4.0 * recipe.uniform(column, row) - 2.0;
        }
        signal(x) + recipe.noise * recipe.normal(0, row)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn the_target_is_the_formula_and_has_no_linear_effect() {
        let n = 20_000;
        let (x, y) = table(&Hidden, n, Some(0.0));
        let mean = y.iter().sum::<f64>() / n as f64;
        assert!(x.chunks_exact(32).zip(&y).all(|(x, y)| (signal(x) - y).abs() < 1e-12));
        for j in 0..32 {
            let covariance = x.chunks_exact(32).zip(&y).map(|(x, y)| x[j] * (y - mean)).sum::<f64>() / n as f64;
            assert!(covariance.abs() < 5.0 * (4.0 / 3.0 / n as f64).sqrt(), "x{j}: {covariance}");
        }
    }
}
