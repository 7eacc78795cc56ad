//! Generators with numeric targets: smooth functions of features in a cube, and the position
//! along a curved surface in three dimensions, with noise in all coordinates.

use super::{Generator, TableSpec, Target};
use std::f64::consts::PI;

/// y = 10 sin(π x0 x1) + 20 (x2 − ½)² + 10 x3 + 5 x4 + noise, with every feature uniform in (0, 1).
/// The first two features interact, and the features after x4 are irrelevant.
///
/// J. H. Friedman, "Multivariate adaptive regression splines", Annals of Statistics 19 (1991),
/// section 4.3.
pub(crate) static FRIEDMAN1: Generator = Generator::undescribed("friedman1", 10, Target::Number, |spec, row, x| {
    spec.fill_uniform(row, x);
    let y = 10.0 * (PI * x[0] * x[1]).sin() + 20.0 * (x[2] - 0.5).powi(2) + 10.0 * x[3] + 5.0 * x[4];
    y + spec.noise * spec.normal(0, row)
})
.with_min_features(5)
.noise(1.0)
.about("regression: 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise, x uniform in (0, 1)");

/// y = cos(1.5 (x0 + x1)) + cos(1.5 (x2 − x3)) + noise, with every feature uniform in (−2, 2). No
/// feature is correlated with y. A kernel of the distance in all features predicts y badly; a
/// kernel with a learned metric predicts it well.
pub(super) static HIDDEN: Generator = Generator::undescribed("hidden", 32, Target::Number, |spec, row, x| {
    spec.fill_uniform(row, x);
    x.iter_mut().for_each(|x| *x = 4.0 * *x - 2.0);
    let y = (1.5 * (x[0] + x[1])).cos() + (1.5 * (x[2] - x[3])).cos();
    y + spec.noise * spec.normal(0, row)
})
.with_min_features(4)
.noise(0.2)
.about(
    "regression: cos(1.5 (x0 + x1)) + cos(1.5 (x2 - x3)) + noise, and 28 irrelevant features; \
    x uniform in (-2, 2)",
);

/// (t cos t, 21 v, t sin t) with t = 3π/2 (1 + 2u), u and v uniform in (0, 1); the target is t.
pub(super) static SWISSROLL: Generator = Generator::undescribed("swissroll", 3, Target::Number, |spec, row, x| {
    let t = 1.5 * PI * (1.0 + 2.0 * spec.uniform(0, row));
    spec.add_noise(&[t * t.cos(), 21.0 * spec.uniform(1, row), t * t.sin()], row, x);
    t
})
.noise(0.0)
.about(
    "scikit-learn's Swiss roll, a plane rolled up in three dimensions; the target is the \
    position along the roll",
);

/// (sin t, 2v, sign(t)(cos t − 1)) with t = 3π (u − ½), u and v uniform in (0, 1); the target is t.
pub(super) static SCURVE: Generator = Generator::undescribed("scurve", 3, Target::Number, |spec, row, x| {
    let t = 3.0 * PI * (spec.uniform(0, row) - 0.5);
    spec.add_noise(&[t.sin(), 2.0 * spec.uniform(1, row), t.signum() * (t.cos() - 1.0)], row, x);
    t
})
.noise(0.0)
.about(
    "scikit-learn's S curve, a plane bent to an S in three dimensions; the target is the \
    position along the S",
);

impl TableSpec {
    /// Writes features that are uniform in (0, 1).
    fn fill_uniform(&self, row: u64, x: &mut [f64]) {
        (0..).zip(x).for_each(|(column, x)| *x = self.uniform(column, row));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn noise_has_the_deviation_that_was_asked() {
        let ((_, noisy), (_, clean)) = (table(&FRIEDMAN1, 20_000, Some(2.0)), table(&FRIEDMAN1, 20_000, Some(0.0)));
        let variance = noisy.iter().zip(&clean).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 20_000.0;
        assert!((variance - 4.0).abs() < 5.0 * 4.0 * (2.0f64 / 20_000.0).sqrt(), "{variance}");
    }

    #[test]
    fn the_hidden_features_have_no_linear_effect() {
        let n = 20_000;
        let (x, y) = table(&HIDDEN, n, Some(0.0));
        let mean = y.iter().sum::<f64>() / n as f64;
        for j in 0..32 {
            let covariance = x.chunks_exact(32).zip(&y).map(|(x, y)| x[j] * (y - mean)).sum::<f64>() / n as f64;
            assert!(covariance.abs() < 5.0 * (4.0 / 3.0 / n as f64).sqrt(), "x{j}: {covariance}");
        }
    }

    #[test]
    fn without_noise_the_target_is_the_place_along_the_sheet() {
        let (x, t) = table(&SWISSROLL, 1000, Some(0.0));
        for (x, t) in x.chunks_exact(3).zip(t) {
            assert!((x[0].hypot(x[2]) - t).abs() < 1e-12 && (1.5 * PI..4.5 * PI).contains(&t));
        }
        let (x, t) = table(&SCURVE, 1000, Some(0.0));
        for (x, t) in x.chunks_exact(3).zip(t) {
            // the halves of the S are arcs of radius 1 about (0, ±1)
            assert!((x[0].hypot(x[2] + t.signum()) - 1.0).abs() < 1e-12 && (0.0..2.0).contains(&x[1]));
            assert!((x[0] - t.sin()).abs() < 1e-12 && t.abs() < 1.5 * PI);
        }
    }
}
