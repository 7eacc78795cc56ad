//! Friedman's first benchmark function: a smooth regression surface with an interaction and useless features.
//!
//! J. H. Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19 (1991), section 4.3.

use super::{Generator, Recipe, Target};
use std::f64::consts::PI;

/// y = 10 sin(π x0 x1) + 20 (x2 − ½)² + 10 x3 + 5 x4 + noise, every feature uniform in (0, 1).
#[derive(Debug)]
pub(crate) struct Friedman1;

impl Generator for Friedman1 {
    fn name(&self) -> &'static str {
        "friedman1"
    }
    fn about(&self) -> &'static str {
        "regression: 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise, x uniform in (0, 1)"
    }
    fn features(&self) -> usize {
        10
    }
    fn fewest_features(&self) -> Option<usize> {
        Some(5)
    }
    fn noise(&self) -> Option<f64> {
        Some(1.0)
    }
    fn target(&self) -> Target {
        Target::Number
    }
    fn row(&self, recipe: &Recipe, row: u64, x: &mut [f64]) -> f64 {
        for (column, x) in (0..).zip(x.iter_mut()) {
            *x = recipe.uniform(column, row);
        }
        let signal = 10.0 * (PI * x[0] * x[1]).sin() + 20.0 * (x[2] - 0.5).powi(2) + 10.0 * x[3] + 5.0 * x[4];
        signal + recipe.noise * recipe.normal(0, row)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn without_noise_the_target_is_the_formula() {
        let (x, y) = table(&Friedman1, 200, Some(0.0));
        for (x, y) in x.chunks_exact(10).zip(y) {
            let formula = 10.0 * (PI * x[0] * x[1]).sin() + 20.0 * (x[2] - 0.5).powi(2) + 10.0 * x[3] + 5.0 * x[4];
            assert!((formula - y).abs() < 1e-12 && x.iter().all(|v| (0.0..1.0).contains(v)));
        }
    }

    #[test]
    fn noise_has_the_deviation_that_was_asked() {
        let ((_, noisy), (_, clean)) = (table(&Friedman1, 20_000, Some(2.0)), table(&Friedman1, 20_000, Some(0.0)));
        let variance = noisy.iter().zip(&clean).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 20_000.0;
        assert!((variance - 4.0).abs() < 5.0 * 4.0 * (2.0f64 / 20_000.0).sqrt(), "{variance}");
    }
}
